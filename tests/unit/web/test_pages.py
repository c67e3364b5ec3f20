"""Every page in every condition, and the words on it."""

from __future__ import annotations

import logging
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from streams.web.lookup import Found
from streams.web.pages import Pages, clock, duration, number, shown
from tests.support.rows import damage
from tests.unit.web.support import FakeCluster, at, serving, utc
from tests.unit.web.test_explain import KnownRecords
from tests.unit.web.test_json import dead_node

PAGE = {"Accept": "text/html"}
VOID = {"meta", "link", "img", "input", "br", "progress"}


class Reader(HTMLParser):
    """Checks that tags nest, and gathers what a page says."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.inline: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.inline += [name for name in given if name == "style" or name.startswith("on")]
        self.ids += [given["id"] or ""] if "id" in given else []
        self.links += [given["href"] or ""] if tag == "a" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def busy() -> FakeCluster:
    """Everything a page may have to show."""
    world = dead_node()
    world.price("11:00", "instance.a100.2x", "500")
    world.price("11:00", "disk", "0.5")
    world.price("12:00", "disk", None)
    world.price("12:01", "disk", "0.6")
    for number_ in range(30):
        world.deploy("13:31", "acme", f"more-{number_:02}", idle_timeout_s=600)
    world.balance("13:31", "acme", "50000")
    for instance in ("one", "two", "three"):
        world.rent("13:31", "acme", instance)
    world.report("13:32", "acme", "one", "launch_failed", message="<b>\u202e\r\n")
    world.report("13:32", "acme", "two", "workload_up")
    world.command("13:33", "acme", type="destroy_instance", instance_id="three")
    world.report("13:34", "acme", "three", "teardown_finished")
    world.balance("13:35", "acme", "-40.25")
    world.healthy("13:35", "acme", "more-00-r1")
    world.tick("13:40")
    world.deploy("13:41", "calm", "quiet", serving="serverless")
    world.all[0].counters["dead", "invalid"] = 3
    return world


async def test_every_page_is_well_formed_has_no_inline_script_and_its_links_lead_somewhere() -> None:
    async with serving(busy(), 2, render=Pages()) as workers:
        seen: set[str] = set()
        todo = [
            "/",
            f"/orgs/acme/explain/chat-r1:{utc('12:40')}",
            "/orgs/acme/instances?include_destroyed=true&limit=1",
        ]
        while todo:
            path = todo.pop()
            seen.add(path)
            got = await workers[len(seen) % 2].get(path, **PAGE)
            assert got.status == 200, (path, got.text)
            assert got.headers["Content-Type"].startswith("text/html")
            page = Reader(got.text)
            assert page.inline == [], path
            assert len(page.ids) == len(set(page.ids)), path
            todo += [link for link in page.links if link.startswith("/") and link not in seen and link not in todo]
        assert "/orgs/acme/windows/chat-r1.w1" in seen
        assert "/orgs/acme/replicas/more-00-r1" in seen
        assert any("cursor=" in path for path in seen)
        assert "/orgs/calm/deployments/quiet" in seen


async def test_the_fleet_page_shows_restore_progress_while_it_has_no_totals() -> None:
    world = FakeCluster(partitions=2)
    world.tick("12:00")
    world.all[1].ready = False
    world.all[1].restored_rows, world.all[1].restore_total = 40_000, 100_000
    async with serving(world, render=Pages()) as (worker,):
        got = await worker.get("/", **PAGE)
        assert got.status == 503
        assert got.headers["Retry-After"] == "1"
        assert "40,000 of 100,000" in got.text
        assert "Replicas running" not in got.text
        assert "data-live-anyway" in got.text
        Reader(got.text)


async def test_an_unexplained_millisecond_is_an_alert_on_the_fleet_page() -> None:
    world = dead_node()
    async with serving(world, render=Pages()) as (worker,):
        assert 'role="alert"' not in (await worker.get("/", **PAGE)).text
        damage(world.shard_of("acme").store.orgs["acme"].windows["chat-r1.w1"], billed_ms=1)
        page = (await worker.get("/", **PAGE)).text
        assert 'role="alert"' in page
        assert 'href="/orgs/acme"' in page


async def test_the_response_to_a_failed_view_has_no_details(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_template: str, context: dict[str, Any]) -> str:
        if "status" in context["it"]:
            return "a fault"
        raise RuntimeError("secret")

    async with serving(dead_node(), render=broken) as (worker,):
        with caplog.at_level(logging.CRITICAL, "streams.web.base"):
            got = await worker.get("/orgs/acme", **PAGE)
        assert (got.status, got.text) == (500, "a fault")
        assert "default-src 'none'" in got.headers["Content-Security-Policy"]


async def test_static_files_are_there_and_nothing_else_is() -> None:
    async with serving(FakeCluster(), render=Pages()) as (worker,):
        for name, kind in {"obol.css": "text/css", "obol.js": "text/javascript", "obol.svg": "image/svg+xml"}.items():
            got = await worker.get(f"/static/{name}")
            assert got.status == 200
            assert got.headers["Content-Type"].startswith(kind)
        for name in ("site.py", "..%2fsite.py", "none"):
            assert (await worker.get(f"/static/{name}")).status == 404


async def test_orgs_and_search_without_a_read_model_ask_every_worker() -> None:
    world = FakeCluster(partitions=5)
    world.price("11:00", "dedicated.h100.1x", "360")
    for number_ in range(9):
        world.deploy("12:00", f"org{number_}", "chat" if number_ % 2 else f"solo{number_}")
        world.healthy("12:00", f"org{number_}", "chat-r1" if number_ % 2 else f"solo{number_}-r1")
    async with serving(world, 3) as workers:
        for worker in workers:
            listed: list[str] = []
            path: str | None = "/orgs?limit=4"
            while path:
                got = (await worker.get(path)).json
                listed += [item["org_id"] for item in got["items"]]
                path = got["next"] and f"/orgs?limit=4&cursor={got['next']}"
            assert listed == [f"org{number_}" for number_ in range(9)]
            found = (await worker.get("/search?q=chat-r1")).json
            assert [(item["org_id"], item["state"]) for item in found["items"]] == [
                (f"org{number_}", "running") for number_ in (1, 3, 5, 7)
            ]
            window = (await worker.get("/search?q=solo4-r1.w1")).json["items"]
            assert [item["path"] for item in window] == ["/orgs/org4/windows/solo4-r1.w1"]
            assert (await worker.get("/search?q=%3Cscript%3E")).json["items"] == []
        del world.owners[4]
        for worker in workers:
            assert (await worker.get("/orgs")).status == 503
            assert (await worker.get("/search?q=chat")).status == 503


class KnownChanges(KnownRecords):
    """Stands in for `lifecycle.changes`, and counts how often it is asked."""

    def __init__(self, found: list[Found]) -> None:
        super().__init__({}, {})
        self.found = found
        self.asked = 0

    async def changes(self, partition: int, entity: str, org_id: str, made: int, since_ms: int) -> list[Found]:  # noqa: ARG002
        self.asked += 1
        return self.found


def change(number_: int, to: str, clock_: str) -> Found:
    value = f'{{"event_id":"replica:chat-r1:{number_}","to":"{to}","reason":"x","at":"{utc(clock_)}"}}'
    return Found("lifecycle.changes", 0, number_, at(clock_), value.encode())


def drawn(page: str) -> list[str]:
    return re.findall(r'data-kind="(\w+)"', page)


async def test_states_are_drawn_from_all_changes_or_else_from_the_windows() -> None:
    """Its three changes: pending, running, failed. With one of them missing, what it was before it ran is not known."""
    known = [change(1, "pending", "11:59"), change(2, "running", "12:00"), change(3, "failed", "13:30")]
    records = KnownChanges(known[:2])
    async with serving(dead_node(), render=Pages(), lookup=records) as (worker,):
        page = (await worker.get("/orgs/acme/replicas/chat-r1", **PAGE)).text
        assert drawn(page) == ["starting", "running", "billed", "forgiven"]
    records = KnownChanges(known)
    async with serving(dead_node(), render=Pages(), lookup=records) as (worker,):
        for _ in range(3):
            page = (await worker.get("/orgs/acme/replicas/chat-r1", **PAGE)).text
            assert drawn(page) == ["pending", "running", "billed", "forgiven"]
        assert records.asked == 1
        await worker.get("/orgs/acme/replicas/chat-r1")
        assert records.asked == 1


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 s"),
        (1, "0.001 s"),
        (60_000, "1 min"),
        (1_890_000, "31 min 30 s"),
        (90_061_500, "1 d 1 h 1 min 1.500 s"),
        (-2_000, "−2 s"),
    ],
)
def test_durations_are_exact_in_words(ms: int, text: str) -> None:
    assert re.sub("<[^>]*>", "", str(duration(ms))) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (1_234_567, "1,234,567"),
        ("-1234.50", "−1,234.50"),
        ("0.000000000000000001", "0.000000000000000001"),
    ],
)
def test_numbers_and_money_lose_nothing(value: int | str | None, text: str) -> None:
    assert number(value) == text


def test_times_show_milliseconds_only_where_there_are_some() -> None:
    assert "12:30:00<" in str(clock(utc("12:30")))
    assert "12:30:00.250<" in str(clock(utc("12:30:00.250")))


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("plain", "<bdi>plain</bdi>"),
        ("<i>", "<bdi>&lt;i&gt;</bdi>"),
        ("a\u202eb", '<bdi>a<span class="odd">U+202E</span>b</bdi>'),
        (
            "\x00\r\n",
            '<bdi><span class="odd">U+0000</span><span class="odd">U+000D</span><span class="odd">U+000A</span></bdi>',
        ),
        ("日本語 naïve", "<bdi>日本語 naïve</bdi>"),
    ],
)
def test_what_can_not_be_seen_is_named(text: str, markup: str) -> None:
    assert str(shown(text)) == markup
