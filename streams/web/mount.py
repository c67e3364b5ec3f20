"""The views on Faust's web server."""

import logging
from typing import Any, Final

from aiohttp.http_exceptions import HttpProcessingError
from faust.web.drivers.aiohttp import Web

from streams.readmodel import ReadModel
from streams.settings import Settings
from streams.web.forward import is_confidential
from streams.web.lookup import KafkaLookup
from streams.web.pages import Pages
from streams.web.site import Scrape, Site
from streams.web.source import Source
from streams.web.summary import Summaries

log = logging.getLogger(__name__)


def _bad_request_is_no_error(record: logging.LogRecord) -> bool:
    """Log a request that is not HTTP in one line at level info: any client can send one, and it is no fault of ours."""
    if record.exc_info and isinstance(record.exc_info[1], HttpProcessingError):
        record.msg, record.args = "%s: %a", (record.getMessage(), str(record.exc_info[1])[:200])
        record.exc_info, record.levelno, record.levelname = None, logging.INFO, "INFO"
    return True


HTTP_LOG: Final = logging.getLogger("streams.web.http")
HTTP_LOG.addFilter(_bad_request_is_no_error)

IDLE_TIMEOUT_S: Final = 30.0
"""A connection is closed when it has not sent a whole request header by then."""

WEB_APPLICATION_OPTIONS: Final[dict[str, Any]] = {
    "handler_args": {"keepalive_timeout": IDLE_TIMEOUT_S, "logger": HTTP_LOG}
}
"""Faust's setting `web_application_options`, for aiohttp's server."""


class WebServer(Web):
    """Faust's web server without Faust's own views: they show tables and routing to anyone, and would have `/`."""

    default_blueprints = ()
    production_blueprints = ()
    debug_blueprints = ()
    optional_blueprints = ()


def follow(source: Source, settings: Settings, summaries: Summaries) -> ReadModel | None:
    """Return the read model of this worker's partitions, where `REDIS_URL` is set; its caller starts it."""
    if settings.redis_url is None:
        return None
    url = settings.redis_url.get_secret_value()
    return ReadModel(url, settings.namespace, source.partitions, source.shards, summaries.own)


def mount(
    web: WebServer,
    source: Source,
    settings: Settings,
    summaries: Summaries,
    *,
    scrape: Scrape | None = None,
    read_model: ReadModel | None = None,
) -> None:
    """Put every view on `web`, which has not started yet."""
    if settings.http_token is not None and not settings.http_forward_insecure:
        _warn_of_clear_text(settings.advertised_url)
    site = Site(
        source,
        summaries=summaries,
        render=Pages(),
        token=None if settings.http_token is None else settings.http_token.get_secret_value(),
        lookup=KafkaLookup(settings.kafka_client_options(), settings.namespace),
        scrape=scrape,
        read_model=read_model,
    )
    site.forwarder.insecure = settings.http_forward_insecure
    site.mount(web.web_app)


def _warn_of_clear_text(url: str) -> None:
    if not is_confidential(url):
        log.warning(
            "other workers don't forward requests to %s, as the token would be sent in clear text; set "
            "OBOL_ADVERTISED_URL to an https address, or OBOL_HTTP_FORWARD_INSECURE=1 on all workers where the "
            "network is trusted",
            url,
        )
