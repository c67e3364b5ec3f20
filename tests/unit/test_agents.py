"""The agents as Faust has them, and how the app names topics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streams import agents, worker
from streams.app import app, make_app
from streams.engine.shard import INPUTS
from streams.settings import Settings
from topics.catalogue import USAGE


def test_every_inbound_topic_has_one_agent_that_is_named_after_it_and_says_what_it_does() -> None:
    assert {agent.channel.get_topic_name() for agent in app.agents.values()} == set(INPUTS)
    assert len(app.agents) == len(INPUTS)
    for name, agent in app.agents.items():
        function = agent.channel.get_topic_name().replace(".", "_")
        assert name == f"streams.agents.{function}"
        assert getattr(agents, function) is agent
        assert agent.help.startswith("Read ")


@pytest.mark.parametrize("function", [topic.replace(".", "_") for topic in INPUTS])
async def test_an_agent_feeds_the_engine_with_each_fetch_in_order(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed: list[Any] = []
    monkeypatch.setattr(app.engine, "feed", fed.append)

    class Stream:
        def noack(self) -> Stream:
            return self

        async def events(self) -> Any:
            for message in ("first", "second"):
                yield SimpleNamespace(message=message)

    await getattr(agents, function).fun(Stream())
    assert fed == ["first", "second"]


async def test_an_agent_that_fails_ends_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    monkeypatch.setattr(worker, "end_with", lambda what, error: ended.append(f"{what}: {error!r}"))
    consumer: Any = worker.WorkerConsumer.__new__(worker.WorkerConsumer)
    monkeypatch.setattr(app, "_consumer", consumer)
    await app._on_agent_error(app.agents["streams.agents.obol_clock"], ValueError("a fault"))
    assert ended == ["an agent failed: ValueError('a fault')"]


def test_variables_that_are_meant_for_others_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"BROKER_URL": "kafka://elsewhere:1", "WEB_PORT": "1", "TOPIC_PARTITIONS": "1"}.items():
        monkeypatch.setenv(name, value)
    conf: Any = make_app(Settings.from_env({"OBOL_PARTITIONS": "5"})).conf
    assert [str(url) for url in conf.broker] == ["kafka://127.0.0.1:9092"]
    assert (conf.web_port, conf.topic_partitions) == (6066, 5)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("user.commands", "blue.user.commands"),
        ("croesus.prices", "blue.croesus.prices"),
        (USAGE.name, f"blue.{USAGE.name}"),
        ("blue.obol-orgs-changelog", "blue.obol-orgs-changelog"),
        ("somebody.elses", "somebody.elses"),
    ],
)
def test_topics_of_the_contract_are_named_without_the_namespace(asked: str, name: str) -> None:

    blue = make_app(Settings.from_env({"OBOL_NAMESPACE": "blue"}))
    assert blue.topic(asked).get_topic_name() == name
