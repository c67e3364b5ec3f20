"""Wire models of the record values, one module per topic (wire contract)."""
