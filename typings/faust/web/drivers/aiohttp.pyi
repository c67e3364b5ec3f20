from typing import ClassVar

from aiohttp.web import Application
from faust.app.base import App

class Web:
    default_blueprints: ClassVar[tuple[tuple[str, str], ...]]
    production_blueprints: ClassVar[tuple[tuple[str, str], ...]]
    debug_blueprints: ClassVar[tuple[tuple[str, str], ...]]
    optional_blueprints: ClassVar[tuple[tuple[str, str, str], ...]]
    web_app: Application

    def __init__(self, app: App) -> None: ...
