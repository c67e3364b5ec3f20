"""Generators of documents: AsyncAPI, OpenAPI, JSON Schemas, diagrams, metrics and dashboard. Run by `make docs`."""
