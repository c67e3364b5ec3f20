"""Documents made from the code: AsyncAPI, JSON Schemas, OpenAPI, the list of metrics. `make docs` writes them."""
