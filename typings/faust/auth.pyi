from ssl import SSLContext

class Credentials: ...

class SASLCredentials(Credentials):
    def __init__(
        self,
        *,
        username: str | None = ...,
        password: str | None = ...,
        ssl_context: SSLContext | None = ...,
        mechanism: str | None = ...,
    ) -> None: ...

class SSLCredentials(Credentials):
    def __init__(self, context: SSLContext | None = ...) -> None: ...
