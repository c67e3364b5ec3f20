"""The topics: what there is, where a record belongs, how bytes become models, and how missing ones are made."""
