"""The views on Faust's web server."""

from faust.web.drivers.aiohttp import Web

from streams.readmodel import ReadModel
from streams.settings import Settings
from streams.web.lookup import KafkaLookup
from streams.web.pages import Pages
from streams.web.site import Scrape, Site
from streams.web.source import Source
from streams.web.summary import Summaries


class WebServer(Web):
    """Faust's web server without Faust's own views: they show tables and routing to anyone, and would have `/`."""

    default_blueprints = ()
    production_blueprints = ()
    debug_blueprints = ()
    optional_blueprints = ()


def follow(source: Source, settings: Settings, summaries: Summaries) -> ReadModel | None:
    """The read model of this worker's partitions, where `REDIS_URL` asks for it: to be run, and told of commits."""
    if settings.redis_url is None:
        return None
    return ReadModel(settings.redis_url.get_secret_value(), settings.namespace, source.partitions, source.shards, summaries.own)


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
    Site(
        source,
        summaries=summaries,
        render=Pages(),
        token=None if settings.http_token is None else settings.http_token.get_secret_value(),
        lookup=KafkaLookup(settings.kafka_client_options(), settings.namespace),
        scrape=scrape,
        read_model=read_model,
    ).mount(web.web_app)
