from pathlib import Path

from yarl import URL

class Settings:
    broker: list[URL]
    canonical_url: URL
    datadir: Path
    stream_buffer_maxsize: int
    web_bind: str
    web_enabled: bool
    web_port: int
