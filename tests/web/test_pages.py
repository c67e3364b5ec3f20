"""The pages in a real browser, over a live worker and a real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.web.live import DAY, HOSTILE, until

if TYPE_CHECKING:
    from tests.web.browser import Browser
    from tests.web.live import Live

pytestmark = [pytest.mark.web, pytest.mark.kafka, pytest.mark.redis]

PAGES = {
    "/": "Fleet",
    "/orgs": "Orgs",
    "/orgs/acme": "acme",
    "/orgs/bolt": "bolt",
    "/orgs/bolt/usage": "Usage by day",
    "/orgs/bolt/windows/search-r1.w1": "search-r1.w1",
    f"/orgs/bolt/explain/search-r1:{DAY}T09:04:00.000Z": f"{DAY} 09:04:00",
    "/orgs/bolt/deployments?label=team=nlp": "Deployments",
    "/orgs/bolt/deployments/search": "search",
    "/orgs/acme/deployments": "Deployments",
    "/orgs/acme/deployments/chat-large": "chat-large",
    "/orgs/acme/replicas/chat-r1": "chat-r1",
    "/orgs/acme/replicas/chat-large-r3": "chat-large-r3",
    "/orgs/acme/instances?include_destroyed=true": "Instances",
    "/orgs/acme/instances/trainer": "trainer",
    "/orgs/acme/instances/notebook": "notebook",
    "/orgs/acme/windows/chat-r1.w1": "chat-r1.w1",
    f"/orgs/acme/explain/chat-r1:{DAY}T12:31:00.000Z": f"{DAY} 12:31:00",
    f"/orgs/acme/explain/chat-r1:{DAY}T12:40:00.000Z": f"{DAY} 12:40:00",
    "/tables/": "Tables",
    "/tables/replicas/": "replicas",
    "/tables/replicas/acme/chat-r1": "acme/chat-r1",
    "/prices": "Prices",
    "/search?q=chat": "Search",
    "/orgs/acme/replicas/none": "Not Found",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_loads_says_nothing_on_the_console_and_is_accessible(
    live: Live, browser: Browser, axe_source: str, path: str, theme: str
) -> None:
    browser.theme(theme)
    browser.open(live.url + path)
    assert browser.texts("h1")[0].startswith(PAGES[path])
    said = [line for line in browser.console() if "404 (Not Found)" not in line]
    assert said == []
    assert browser.faults(axe_source) == []


def test_the_themes_differ(live: Live, browser: Browser) -> None:
    grounds = {}
    for theme in ("light", "dark"):
        browser.theme(theme)
        browser.open(live.url)
        grounds[theme] = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert grounds == {"light": "rgb(247, 247, 245)", "dark": "rgb(19, 21, 23)"}


def test_a_page_is_whole_without_javascript(live: Live, browser: Browser) -> None:
    browser.without_scripts(off=True)
    try:
        browser.open(f"{live.url}/orgs/acme/replicas/chat-r1")
        assert "failed" in browser.texts("h1")[0]
        assert browser.texts("#s-billed dd") == ["31 min 30 s"]
    finally:
        browser.without_scripts(off=False)


def test_the_picture_says_what_the_json_says(live: Live, browser: Browser) -> None:
    """B8: running 12:00 to 13:30; billed to 12:31:30, the rest forgiven."""
    browser.open(f"{live.url}/orgs/acme/replicas/chat-r1")
    drawn = browser.attributes("svg .stretch", "data-kind", "data-from", "data-to")
    assert drawn == [
        ("pending", f"{DAY}T11:59:00.000Z", f"{DAY}T12:00:00.000Z"),
        ("running", f"{DAY}T12:00:00.000Z", f"{DAY}T13:30:00.000Z"),
        ("billed", f"{DAY}T12:00:00.000Z", f"{DAY}T12:31:30.000Z"),
        ("forgiven", f"{DAY}T12:31:30.000Z", f"{DAY}T13:30:00.000Z"),
    ]
    widths = [float(width.rstrip("%")) for _, width in browser.attributes("svg .stretch", "x", "width")]
    # 91 minutes in all.
    assert widths == pytest.approx([100 / 91, 100 * 90 / 91, 100 * 31.5 / 91, 100 * 58.5 / 91], abs=0.01)
    window = live.get("/orgs/acme/windows/chat-r1.w1").json
    assert (window["billed_ms"], window["forgiven_ms"]) == (1_890_000, 3_510_000)
    browser.run("document.getElementById('life-words').open = true")
    rows = browser.texts("#life-words tbody tr")
    assert any(row.startswith("Billing · dedicated: forgiven") and row.endswith("58 min 30 s") for row in rows)


def test_a_raw_row_is_one_click_from_its_page_and_says_what_is_kept(live: Live, browser: Browser) -> None:
    browser.open(f"{live.url}/orgs/acme/windows/chat-r1.w1")
    browser.run("[...document.links].find(link => link.textContent === 'Raw row').click()")
    until(lambda: browser.texts("h1") == ["acme/chat-r1.w1"], "the raw row", 20)
    fields = dict(zip(browser.texts(".facts dt"), browser.texts(".facts dd"), strict=True))
    row = live.get("/tables/windows/acme/chat-r1.w1").json["row"]
    assert (fields["billed_ms"], fields["meter"]) == (str(row["billed_ms"]), "dedicated")
    assert fields.keys() == row.keys()


def test_the_states_of_an_instance_are_drawn_from_its_changes(live: Live, browser: Browser) -> None:
    browser.open(f"{live.url}/orgs/acme/instances/trainer")
    kinds = [kind for (kind,) in browser.attributes("svg g:first-of-type .stretch", "data-kind")]
    assert kinds == ["creating", "running", "stopping", "stopped", "starting", "running"]


def test_a_badge_changes_without_a_reload_and_focus_stays(live: Live, browser: Browser) -> None:
    live.add(
        "14:01",
        "user.commands",
        "acme",
        type="create_deployment",
        deployment_id="fresh",
        model="m",
        gpu_type="h100",
        gpu_count=1,
    )
    live.settle()
    browser.open(f"{live.url}/orgs/acme/replicas/fresh-r1")
    assert browser.texts("h1 .badge") == ["pending"]
    pulses = browser.run("return getComputedStyle(document.querySelector('h1 .badge .dot')).animationName")
    assert pulses == "pulse"
    browser.run("window.sameOne = true; document.querySelector('summary').focus()")
    live.add("14:02", "execlet.progress", "acme", replica_id="fresh-r1", status="RUNNING", message="healthy")
    live.settle()
    until(lambda: browser.texts("h1 .badge") == ["running"], "the badge to say running", 20)
    assert browser.run("return window.sameOne") is True
    assert browser.run("return document.activeElement.tagName") == "SUMMARY"


def test_hostile_strings_are_shown_and_do_nothing(live: Live, browser: Browser) -> None:
    for number in range(len(HOSTILE)):
        for path in (f"/orgs/hostile/deployments/d{number}", f"/orgs/hostile/instances/i{number}"):
            browser.open(live.url + path)
            assert browser.console() == []
            assert browser.run("return window.pwned === undefined && document.cookie === ''") is True
    for path in ("/orgs/hostile", "/orgs/hostile/deployments", "/orgs/hostile/instances", "/prices", "/"):
        browser.open(live.url + path)
        assert browser.console() == []
        assert browser.run("return window.pwned === undefined") is True
        # What reorders, hides or ends text is named, never sent.
        assert not set(live.get(path, Accept="text/html").text) & set("\u202e\u2066\u200b\x00\x1b\r")
    browser.open(f"{live.url}/orgs/hostile/deployments")
    shown = browser.texts("main td.text")
    assert HOSTILE[0] in shown
    assert HOSTILE[1] in shown
    assert "aU+202EbU+2066cU+200Bd" in shown


def test_hostile_strings_keep_to_their_line_in_the_log(live: Live) -> None:
    logged = live.workers[0].log.read_bytes()
    assert b"\x00" not in logged
    assert b"Set-Cookie: pwned=1\n" not in logged
    assert "\u202e".encode() not in logged
    assert b"\x1b[31mred" not in logged


def test_hostile_strings_are_plain_ascii_in_json(live: Live) -> None:
    for number, text in enumerate(HOSTILE):
        got = live.get(f"/orgs/hostile/deployments/d{number}")
        assert got.text.isascii()
        assert got.json["model"] == text


def test_a_filter_and_a_search_lead_there_by_keyboard(live: Live, browser: Browser) -> None:
    browser.open(f"{live.url}/orgs/acme/deployments?status=created&q=chat-l")
    assert browser.texts("main tbody th") == ["chat-large"]
    browser.run("document.getElementById('find').value = 'chat-r1'; document.querySelector('.find').requestSubmit()")
    until(lambda: browser.texts("h1") == ["Search"], "the search page", 10)
    assert browser.texts("main tbody th")[0] == "chat-r1"


def cells(browser: Browser, rows: str) -> list[list[str]]:
    """The texts of the cells of table rows."""
    script = (
        "return [...document.querySelectorAll(arguments[0])].map(row => [...row.cells].map(cell => cell.innerText))"
    )
    found: list[list[str]] = browser.run(script, rows)
    return found


def test_usage_by_day_is_drawn_with_its_numbers_beside_it(live: Live, browser: Browser) -> None:
    """Running 09:00:30 to 09:10 at 60 an hour: 9.5 minutes cost 9.5; a minute of it was credited."""
    browser.open(f"{live.url}/orgs/bolt/usage")
    assert cells(browser, "main tbody tr") == [
        [DAY, "dedicated inference running", "dedicated.a100.1x", "9 min 30 s", "1 min", "9.5", "1"]
    ]
    titles = browser.run("return [...document.querySelectorAll('figure svg rect title')].map(one => one.textContent)")
    assert titles == [f"{DAY} dedicated.a100.1x: 9.5", f"{DAY} dedicated.a100.1x: 1 credited"]
    above, below = browser.run(
        "return [...document.querySelectorAll('figure svg[role=img] > rect')].map(one => one.getBoundingClientRect())"
    )
    assert above["bottom"] == pytest.approx(below["top"], abs=1)
    assert above["height"] / below["height"] == pytest.approx(9.5, rel=0.1)
    browser.open(f"{live.url}/orgs/bolt")
    assert cells(browser, "#list-u ~ .figure tbody tr") == [[DAY, "9.5", "1", "8.5"]]


def test_the_fleets_last_hours_are_those_of_the_json(live: Live, browser: Browser) -> None:
    figures = ("events", "dedicated_replicas")

    def hours() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = live.get("/").json["hours"]
        return found

    def is_as_in_json() -> bool:
        browser.open(live.url)
        shown = [row[1:] for row in cells(browser, "#hours ~ .figure tbody tr")]
        return shown == [[f"{hour[name]:,}" for name in figures] for hour in reversed(hours())]

    # Both are from the read model, which may be half a second old.
    until(is_as_in_json, "the numbers of the JSON on the page", 20)
    known = {hour["hour"]: tuple(hour[name] for name in figures) for hour in hours()}
    # search ran from 09:00:30 until 09:10; acme's trainer 09:04 to 10:10, with its disk from 10:13.
    assert known[f"{DAY}T09:00:00.000Z"] == (10 + 56, 0)
    assert known[f"{DAY}T10:00:00.000Z"] == (10 + 47, 0)
    # At 13:00 chat is running, though without heartbeats, and two of chat-large are running from then on.
    assert known[f"{DAY}T12:00:00.000Z"][1] == 3
    bars = browser.run(
        "return [...document.querySelectorAll('#hours ~ .figure .bar title')].map(one => one.textContent)"
    )
    assert bars == [f"{hour['hour'][11:16]}: {hour[name]:,}" for name in figures for hour in hours() if hour[name]]


def test_notices_are_listed_with_their_times(live: Live, browser: Browser) -> None:
    browser.open(f"{live.url}/orgs/bolt")
    assert browser.texts("#list-n ~ ul li") == [
        f"{DAY} 09:15:00: balance empty",
        f"{DAY} 09:06:00: runway low, below 1 h",
        f"{DAY} 09:01:00: runway low, below 1 d",
    ]


def test_a_credit_is_on_the_page_of_its_window_and_of_its_charge(live: Live, browser: Browser) -> None:
    browser.open(f"{live.url}/orgs/bolt/windows/search-r1.w1")
    facts = dict(zip(browser.texts(".facts dt"), browser.texts(".facts dd"), strict=True))
    assert (facts["Credited"], facts["Net"]) == ("1 min", "8 min 30 s")
    browser.open(f"{live.url}/orgs/bolt/explain/search-r1:{DAY}T09:04:00.000Z")
    facts = dict(zip(browser.texts(".facts dt"), browser.texts(".facts dd"), strict=True))
    assert facts["Credited"] == f"{DAY} 09:04:30 to {DAY} 09:05:00"


def test_a_replica_that_ended_but_sends_heartbeats_is_on_the_fleet_page(live: Live, browser: Browser) -> None:
    browser.open(live.url)
    rows = cells(browser, "#zombies ~ .scroll tbody tr")
    assert ["bolt", "search-r1", f"{DAY} 09:20:00", f"{DAY} 09:25:00"] in rows


def test_a_list_is_filtered_by_label(live: Live, browser: Browser) -> None:
    browser.open(f"{live.url}/orgs/bolt/deployments")
    assert browser.texts("main tbody th") == ["rank", "search"] or browser.texts("main tbody th") == ["search", "rank"]
    browser.run(
        "const form = document.querySelector('.filters');form.elements.label.value = 'team=nlp'; form.requestSubmit()"
    )
    until(lambda: browser.texts("main tbody th") == ["search"], "the list of one team", 20)
    assert browser.run("return document.querySelector('.filters').elements.label.value") == "team=nlp"
    assert browser.texts("main tbody td .action") == ["env=prod", "team=nlp"]
