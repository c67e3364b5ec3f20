"""The views on Faust's web server."""

from typing import Any

from faust.web.base import BlueprintManager

from streams.readmodel import ReadModel
from streams.settings import Settings
from streams.web.lookup import KafkaLookup
from streams.web.pages import Pages
from streams.web.site import Scrape, Site
from streams.web.source import Source
from streams.web.summary import Summaries


def follow(source: Source, settings: Settings, summaries: Summaries) -> ReadModel | None:
    """The read model of this worker's partitions, where `REDIS_URL` asks for it: to be run, and told of commits."""
    if settings.redis_url is None:
        return None
    return ReadModel(settings.redis_url, settings.namespace, source.partitions, source.shards, summaries.own)


def mount(
    web: Any,
    source: Source,
    settings: Settings,
    summaries: Summaries,
    *,
    scrape: Scrape | None = None,
    read_model: ReadModel | None = None,
) -> None:
    """Put every view on `web` (a `faust.web.drivers.aiohttp.Web` that has not started), and Faust's own off it.

    Theirs would show tables and the routing to anyone, and stand in the way of `/`.
    """
    web.blueprints = BlueprintManager()
    Site(
        source,
        summaries=summaries,
        render=Pages(),
        token=settings.http_token,
        lookup=KafkaLookup(settings.kafka_client_options(), settings.namespace),
        scrape=scrape,
        read_model=read_model,
    ).mount(web.web_app)
