"""Wire models: what crosses a topic, one module per topic, after the wire contract."""
