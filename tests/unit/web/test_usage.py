"""Usage by day (U1), the pictures of days and hours, notices, credits, labels and zombies, as JSON and on pages."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from schemas.operator import CreditWindow
from streams.rules.rows import DayUsage
from streams.web.pages import Pages
from streams.web.usage import Span, picture
from tests.unit.web.support import FakeCluster, serving, utc

if TYPE_CHECKING:
    from tests.unit.web.support import Serving

PAGE = {"Accept": "text/html"}


def minutes_of_two_profiles() -> FakeCluster:
    """Six minutes of a replica at 360 an hour and five of a disk of 100 GB at 0.6; half a minute credited."""
    world = FakeCluster(partitions=1)
    world.price("09:00", "dedicated.h100.1x", "360")
    world.price("09:00", "instance.a100.2x", "600")
    world.price("09:00", "disk", "0.6")
    world.balance("09:00", "acme", "100000")
    world.deploy("09:59", "acme", "chat", labels={"team": "nlp", "env": "prod"})
    world.deploy("09:59", "acme", "draft", min_replicas=0)
    world.healthy("10:00", "acme", "chat-r1")
    world.rent("09:50", "acme", "vm", labels={"team": "nlp"})
    world.report("10:00", "acme", "vm", "workload_up")
    world.command("10:00", "acme", type="stop_instance", instance_id="vm")
    world.report("10:01", "acme", "vm", "stop_confirmed")
    for minute in range(1, 7):
        world.heartbeat(f"10:0{minute}", "acme", "chat-r1")
        world.tick(f"10:0{minute}")
    command = CreditWindow(
        type="credit_window",
        command_id="k",
        org_id="acme",
        window_id="chat-r1.w1",
        from_=utc("10:02:15"),
        until=utc("10:02:45"),
    )
    world.apply("10:06:30", "operator.commands", "acme", command)
    return world


def numbers(page: str, heading: str) -> list[list[str]]:
    """The cells of the table that follows a heading, row by row, without markup."""
    table = page[page.index(heading) :].partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    return [[re.sub("<[^>]*>", "", cell).strip() for cell in re.findall(r"<t[dh].*?</t[dh]>", row)] for row in rows]


async def get(worker: Serving, path: str) -> Any:
    got = await worker.get(path)
    assert got.status == 200, got.text
    return got.json


async def test_days_have_exact_sums_of_billed_and_credited_time_and_money() -> None:
    async with serving(minutes_of_two_profiles()) as (worker,):
        got = await get(worker, "/orgs/acme/usage")
        assert got["items"] == [
            {
                "day": "2026-11-29",
                "type": "dedicated_inference_running",
                "profile": "dedicated.h100.1x",
                "billed_unit_ms": 360_000,
                "credited_unit_ms": 30_000,
                "cost": "36",
                "credited_cost": "3",
            },
            {
                "day": "2026-11-29",
                "type": "instance_disk_stopped",
                "profile": "disk",
                "billed_unit_ms": 30_000_000,
                "credited_unit_ms": 0,
                # 100 GB for 5 minutes at 0.6 a GB and hour.
                "cost": "5",
                "credited_cost": "0",
            },
        ]
        # November 29, so the last 30 days are those from October 31 on.
        assert (got["from"], got["until"], got["next"]) == ("2026-10-31", "2026-11-30", None)
        # 36 + 5 - 3; then from 10:06:30 to the month's end, 37 h 53.5 min, 360 an hour for it and 60 for the disk.
        assert (got["month"], got["to_date"]) == ("2026-11", "38")
        assert got["at_end"] == "15952.5"


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("from=2026-11-29&until=2026-11-30", 2),
        ("from=2026-11-29", 2),
        ("until=2026-11-29", 0),
        ("from=2026-11-30&until=2026-12-05", 0),
        ("from=0001-01-01&until=9999-12-31", 2),
    ],
)
async def test_from_is_inclusive_and_until_exclusive(query: str, days: int) -> None:
    async with serving(minutes_of_two_profiles(), render=Pages()) as (worker,):
        assert len((await get(worker, f"/orgs/acme/usage?{query}"))["items"]) == days
        page = await worker.get(f"/orgs/acme/usage?{query}", **PAGE)
        assert page.status == 200
        assert page.text.count("<rect x=") == (3 if days else 0)


@pytest.mark.parametrize(
    "query",
    [
        "from=2026-11-30&until=2026-11-30",
        "from=2026-11-30&until=2026-11-29",
        "from=2026-13-01",
        "from=2026-02-30",
        "from=20261129",
        "from=2026-11-29T00:00:00Z",
        "from=٢٠٢٦-11-29",
        "until=0000-01-01",
        "limit=0",
    ],
)
async def test_other_days_are_a_problem(query: str) -> None:
    async with serving(minutes_of_two_profiles()) as (worker,):
        got = await worker.get(f"/orgs/acme/usage?{query}")
        assert (got.status, got.headers["Content-Type"].partition(";")[0]) == (400, "application/problem+json")


async def test_pages_of_a_list_keep_the_days_asked_for() -> None:
    async with serving(minutes_of_two_profiles(), render=Pages()) as (worker,):
        path = "/orgs/acme/usage?from=2026-11-29&until=2026-11-30&limit=1"
        first = await get(worker, path)
        second = await get(worker, f"{path}&cursor={first['next']}")
        assert [one["profile"] for one in first["items"] + second["items"]] == ["dedicated.h100.1x", "disk"]
        assert second["next"] is None
        page = (await worker.get(path, **PAGE)).text
        assert f"from=2026-11-29&amp;until=2026-11-30&amp;limit=1&amp;cursor={first['next']}" in page


async def test_the_pages_show_the_numbers_beside_the_picture() -> None:
    async with serving(minutes_of_two_profiles(), render=Pages()) as (worker,):
        usage = (await worker.get("/orgs/acme/usage", **PAGE)).text
        assert numbers(usage, "Usage by day") == [
            ["2026-11-29", "dedicated inference running", "dedicated.h100.1x", "6 min", "30 s", "36", "3"],
            ["2026-11-29", "instance disk stopped", "disk", "8 h 20 min", "0 s", "5", "0"],
        ]
        org = (await worker.get("/orgs/acme", **PAGE)).text
        assert numbers(org, "Usage, last 30 days") == [["2026-11-29", "41", "3", "38"]]
        for page in (usage, org):
            titles = re.findall(r"<rect x=.*?<title>(.*?)</title>", page)
            assert titles == [
                "2026-11-29 dedicated.h100.1x: 36",
                "2026-11-29 dedicated.h100.1x: 3 credited",
                "2026-11-29 disk: 5",
            ]
            # A pattern for each profile, so that they differ without colour.
            patterns = re.findall(r'fill="url\(#(p\d)\)" stroke="currentColor"><title>', page)
            assert patterns == ["p0", "p0", "p1"]


def day(name: str, profile: str, cost: int, credited: int = 0) -> DayUsage:
    unit = 10**18 * 3_600_000
    return DayUsage("acme", name, "t", profile, cost=str(cost * unit), credited_cost=str(credited * unit))


def test_bars_are_to_scale_costs_above_the_line_and_credits_below() -> None:
    # At most 60 + 20 on a day above the line and 20 below it: of 100 pixels, the line is at 80.
    rows = [day("2026-11-01", "a", 60), day("2026-11-01", "b", 20), day("2026-11-03", "a", 40, 20)]
    drawn = picture(rows, Span("2026-11-01", "2026-11-04"), bar_width=10, height=100)
    assert (drawn.width, drawn.line, drawn.legend) == (30, 80, ["a", "b"])
    assert [(bar.x, bar.y, bar.height, bar.pattern) for bar in drawn.bars] == [
        (0, 20, 60, 0),
        (0, 0, 20, 1),
        (20, 40, 40, 0),
        (20, 80, 20, 0),
    ]
    assert [one[:] for one in drawn.days] == [("2026-11-01", "80", "0", "80"), ("2026-11-03", "40", "20", "20")]


def test_a_picture_of_very_many_days_is_that_of_the_days_with_usage() -> None:
    rows = [day("2026-11-01", "a", 1), day("2026-11-03", "a", 1)]
    assert picture(rows, Span("0001-01-01", "9999-12-31"), bar_width=10).width == 30
    assert picture([], Span("0001-01-01", "9999-12-31"), bar_width=10).bars == []
    # Up to 100 days are drawn as they were asked for.
    assert date(2026, 11, 1).toordinal() - date(2026, 7, 24).toordinal() == 100
    assert picture(rows[:1], Span("2026-07-25", "2026-11-02"), bar_width=10).width == 1_000


async def test_the_fleets_hours_are_drawn_with_the_numbers_beside_them() -> None:
    async with serving(minutes_of_two_profiles(), render=Pages()) as (worker,):
        page = (await worker.get("/", **PAGE)).text
        rows = numbers(page, "Last 24 hours")
        # 6 events of the replica, 5 of the disk; the instance's GPU ran for no time. The newest hour is the first.
        assert len(rows) == 24
        assert rows[0] == ["29 Nov 10:00:00", "11", "1"]
        # It was running from 10:00:00 on, which is the end of the hour before.
        assert rows[1] == ["29 Nov 09:00:00", "0", "1"]
        assert {tuple(row[1:]) for row in rows[2:]} == {("0", "0")}
        assert re.findall(r'<rect class="bar".*?<title>(.*?)</title>', page) == ["10:00: 11", "09:00: 1", "10:00: 1"]
        assert "Usage events per hour, at most 11" in page
        assert "Dedicated replicas running, at most 1" in page


async def test_what_a_window_was_credited_and_its_net_are_on_its_page() -> None:
    async with serving(minutes_of_two_profiles(), render=Pages()) as (worker,):
        page = (await worker.get("/orgs/acme/windows/chat-r1.w1", **PAGE)).text
        facts = dict(re.findall(r"<dt>(\w+)</dt><dd><span[^>]*>(.*?)</span>", page))
        assert (facts["Credited"], facts["Net"]) == ("30 s", "5 min 30 s")
        windows = numbers((await worker.get("/orgs/acme/replicas/chat-r1", **PAGE)).text, 'id="windows"')
        assert windows[0][4:9] == ["6 min 30 s", "6 min", "30 s", "30 s", "0 s"]
        # Without credits, there is no column for them.
        windows = numbers((await worker.get("/orgs/acme/instances/vm", **PAGE)).text, 'id="windows"')
        assert windows[1][4:8] == ["5 min 30 s", "5 min", "30 s", "0 s"]
        explained = (await worker.get(f"/orgs/acme/explain/chat-r1:{utc('10:02')}", **PAGE)).text
        assert re.search(r"<dt>Credited</dt><dd>.*10:02:15.* to .*10:02:45", explained)


@pytest.mark.parametrize(
    ("query", "deployments", "instances"),
    [
        ("label=team=nlp", ["chat"], ["vm"]),
        ("label=team", ["chat"], ["vm"]),
        ("label=env=prod", ["chat"], []),
        ("label=team=", [], []),
        ("label=team=NLP", [], []),
        ("label=", ["chat", "draft"], ["vm"]),
        ("label=team=nlp&q=x", [], []),
        ("label=team=nlp&status=paused", [], None),
    ],
)
async def test_lists_are_filtered_by_label(query: str, deployments: list[str], instances: list[str] | None) -> None:
    async with serving(minutes_of_two_profiles(), render=Pages()) as (worker,):
        got = await get(worker, f"/orgs/acme/deployments?{query}")
        assert [one["deployment_id"] for one in got["items"]] == deployments
        page = (await worker.get(f"/orgs/acme/deployments?{query}", **PAGE)).text
        assert re.findall(r'<th scope="row"><a href="/orgs/acme/deployments/(\w+)"', page) == deployments
        if instances is not None:
            got = await get(worker, f"/orgs/acme/instances?{query}")
            assert [one["instance_id"] for one in got["items"]] == instances


async def test_a_label_without_a_key_is_a_problem() -> None:
    async with serving(minutes_of_two_profiles()) as (worker,):
        assert (await worker.get("/orgs/acme/deployments?label==nlp")).status == 400


async def test_a_page_keeps_its_label_filter_and_shows_labels() -> None:
    world = minutes_of_two_profiles()
    world.deploy("10:07", "acme", "more", labels={"team": "nlp"})
    async with serving(world, render=Pages()) as (worker,):
        page = (await worker.get("/orgs/acme/deployments?label=team=nlp&limit=1", **PAGE)).text
        assert '<input name="label" value="team=nlp"' in page
        assert "label=team%3Dnlp" in page.partition('rel="next"')[2]
        for path in ("/orgs/acme/deployments/chat", "/orgs/acme/deployments"):
            assert "team=<bdi>nlp</bdi>" in (await worker.get(path, **PAGE)).text
        assert "team=<bdi>nlp</bdi>" in (await worker.get("/orgs/acme/instances/vm", **PAGE)).text


async def test_notices_are_listed_newest_first_with_their_times() -> None:
    world = minutes_of_two_profiles()
    world.balance("10:07", "acme", "200")
    world.tick("10:08")
    world.balance("10:08:30", "acme", "-1")
    world.tick("10:09")
    async with serving(world, render=Pages()) as (worker,):
        got = await get(worker, "/orgs/acme")
        assert got["notices"] == [
            {"kind": "runway_low", "threshold_s": 3_600, "at": utc("10:08")},
            {"kind": "balance_empty", "threshold_s": None, "at": utc("10:09")},
        ]
        page = (await worker.get("/orgs/acme", **PAGE)).text
        listed = page[page.index("Notices sent") :].partition("</ul>")[0]
        assert [re.sub("<[^>]*>", "", one) for one in re.findall(r"<li>(.*?)</li>", listed)] == [
            "2026-11-29 10:09:00: balance empty",
            "2026-11-29 10:08:00: runway low, below 1 h",
        ]


async def test_a_replica_that_ended_and_still_sends_heartbeats_is_on_the_fleet_page() -> None:
    world = minutes_of_two_profiles()
    world.progress("10:07", "acme", "chat-r1", "VM_CRASH")
    world.tick("10:08")
    world.heartbeat("10:08:30", "acme", "chat-r1")
    world.heartbeat("10:09:30", "acme", "chat-r1")
    async with serving(world, render=Pages()) as (worker,):
        got = await get(worker, "/")
        assert (got["zombies"], got["still_heard"]) == (
            1,
            [
                {
                    "org_id": "acme",
                    "kind": "replica",
                    "id": "chat-r1",
                    "since": utc("10:08:30"),
                    "last": utc("10:09:30"),
                }
            ],
        )
        page = (await worker.get("/", **PAGE)).text
        rows = numbers(page, "Still sending signs of life")
        assert rows == [["acme", "chat-r1", "2026-11-29 10:08:30", "2026-11-29 10:09:30"]]
