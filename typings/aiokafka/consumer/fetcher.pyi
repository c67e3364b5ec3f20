from asyncio import Future

class Fetcher:
    def _create_fetch_waiter(self) -> Future[None]: ...
