from ssl import SSLContext

def create_ssl_context(
    *,
    cafile: str | None = ...,
    certfile: str | None = ...,
    keyfile: str | None = ...,
    password: str | None = ...,
) -> SSLContext: ...
