"""A day of 500 deployments and of 300 orgs with instances, with bad input, as one fixed list of records.

Nothing of Obol is imported and every choice comes from a seed, so that the same records come out for ever.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED = "mixed day"
START_MS = 1_767_571_200_000  # 2026-01-05T00:00:00Z
MINUTES = 25 * 60  # I8 needs over 24 h
PARTITIONS = 4
DEPLOYMENTS = 570  # 500 and more of which are created
COMPANIES = [f"co-{n:03}" for n in range(100)]
RENTERS = COMPANIES[:40] + [f"lab-{n:03}" for n in range(370)]  # 300 and more of which get an instance
CROWDED = 156
"""The renter that asks for two instances more than I5 allows."""
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

ACCOUNTS, COMMANDS, REQUESTS = "croesus.accounts", "user.commands", "inference.requests"
PROGRESS, REPORTS, BEATS = "execlet.progress", "host.reports", "execlet.heartbeats"
PRICES, CLOCK, OPERATORS = "croesus.prices", "obol.clock", "operator.commands"


class Input(NamedTuple):
    """A record that arrives at `arrives_ms`, with the timestamp `at_ms`; `partition` None: its org's."""

    arrives_ms: int
    topic: str
    value: bytes | None
    at_ms: int
    key: bytes | None = None
    partition: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


class Minute(NamedTuple):
    """The records that arrive within a minute: first the misplaced ones, then all others."""

    misplaced: list[Input]
    placed: list[Input]


# Deployments: what `create_deployment` asks for, then a script. A number is a pause in minutes; `r1:word` a callback
# of the first replica; `r1~20` 20 minutes of its heartbeats, beginning here; the other words are below.
H100 = {"gpu_type": "h100", "gpu_count": 1}
LIVES: list[tuple[dict[str, Any], str]] = [
    (H100, "create 1 r1:pull 2 r1:serve 1 r1:up r1~42 40 stop 1 r1:up r1~3 stop"),
    ({**H100, "gpu_count": 2, "min_replicas": 2}, "create 1 r1:up r2:pull r1~30 2 r2:up r2~30 25 stop stop"),
    ({**H100, "serving": "serverless"}, "create 1 r1:pull 1 r1:up r1~25 20 request 5 r1:crash 2 r2:up r2~9 9 stop"),
    (
        {**H100, "idle_timeout_s": 600},
        "create 1 r1:up r1~20 5 request 6 request 14 r1~2 8 request 2 r2:up r2~9 40 stop",
    ),
    (H100, "create 1 r1:up r1~15 15 r1:crash r1:up 2 r2:pull 1 r2:serve 1 r2:up r2~20 20 r2:vm 2 r3:pull 3 stop"),
    (H100, "create 1 r1:pull 1 r1:fail 1 request stop r1:up"),
    ({**H100, "min_replicas": 2}, "create 1 r1:pull r2:up r2~30 1 r1:fail 3 r3:serve 1 r3:fail 5 r4:up r4~20 20 stop"),
    (H100, "create 1 r1:serve 2 r1:fail 3 stop request"),
    ({"gpu_type": "b200", "gpu_count": 8}, "create 1 r1:pull stop"),
    (
        {"gpu_type": "b200", "gpu_count": 8, "serving": "serverless"},
        "create 1 r1:up r1~20 20 r1:restart 1 r1:vm 9 stop",
    ),
    (H100, "create 1 r1:up r1~10 10 r1:restart 1 r1:restart r1:serve 1 r1:up r1~10 10 r1:restart 2 r1:fail 2 stop"),
    ({"gpu_type": "a100", "gpu_count": 4}, "create 1 r1:up r1~150 150 stop"),
    ({"gpu_type": "l40", "gpu_count": 1}, "create 1 r1:up r1~80 80 stop"),
    (
        {**H100, "min_replicas": 0},
        "create 1 r1:up r1~9 9 r1:vm 9 request 1 r2:pull 1 r2:up r2~9 9 r2:crash 5 request 9 stop",
    ),
    (
        H100,
        "create 1 r1:sick r1:mumble r1:pull r1:pull 1 r1:up r1:pull r1~3 12 r1~3 10 r1:up 1 r1~1 5 r1:crash 60 stop",
    ),
    (H100, "create 1 r1:up r1~20 20 r1:crash-10 3 r2:up-20 r2~9 9 r2:restart-4 1 r2:up-6 r2~5 5 r2:fail-2 1 stop"),
    ({**H100, "idle_timeout_s": 300, "min_replicas": 3}, "create 1 r1:up r2:up r3:pull r1~9 r2~9 9 request 5 stop"),
    (H100, "create 200 stop"),
    # Signs of life for more than an hour after its end (R6), healthy only by the boolean (R2).
    (
        {**H100, "labels": {"team": "nlp", "app/of": "søk"}},
        "create 1 r1:ill r1:well r1~120 20 r1:restart 1 r1:well 20 stop 5 r1:up 20 r1:mumble 20 r1:ill",
    ),
    ({**H100, "labels": {}}, "create 1 r1:up r1~30 12 r1:crash-7 20 stop r1~10"),
    (
        {**H100, "serving": None, "min_replicas": None, "idle_timeout_s": None},
        "create create again 1 r1:up r1~7 9 stop",
    ),
]
HEALTHY = {"well": True, "ill": False}
CALLBACKS: dict[str, tuple[str, str | None]] = {
    "pull": ("STARTING", "Pulling image registry/model:7"),
    "serve": ("STARTING", "Model server is loading"),
    "mumble": ("STARTING", "one moment"),
    "up": ("RUNNING", "Container is Healthy"),
    "sick": ("RUNNING", "container is not healthy"),
    "well": ("RUNNING", "still unhealthy?"),
    "ill": ("RUNNING", "healthy"),
    "restart": ("RESTARTING", None),
    "fail": ("FAILED", "exit 1"),
    "crash": ("SYSTEM_FAILURE", None),
    "vm": ("VM_CRASH", "gone"),
}

# Instances: a script of commands, reports and pauses.
_ON, _OFF = "deploy 3 workload_up", "destroy 1 teardown_finished"
RENTALS = [
    f"{_ON} 40 stop 2 stop_confirmed 30 start 2 workload_up 20 destroy 3 teardown_finished",
    "deploy 2 launch_failed 70 teardown_finished",
    "deploy 2 launch_not_reached 30 start stop destroy 3 destroy teardown_finished workload_up",
    "deploy 2 workload_lost 5 workload_up 9 found_running 9 destroy 9 teardown_finished",
    "deploy 2 workload_failed 70 teardown_finished",
    "deploy 1 workload_completed 5 found_held 9 start 2 start_refused 9 destroy 1 teardown_finished",
    f"deploy 1 workload_failed 5 found_held 9 start 2 start_unreachable 5 start 1 gpus_unavailable 5 {_OFF}",
    "deploy 1 workload_up 5 stop 1 stop_confirmed 9 start 2 workload_lost 9 destroy 9 destroy 1 teardown_finished",
    "deploy 1 workload_gone 5 found_held 9 start 35 start 2 workload_up 9 destroy 1 teardown_finished",
    f"{_ON} 9 stop 40 stop_confirmed 9 destroy 6 teardown_finished",
    f"{_ON} 9 stop 40 stop 5 stop_confirmed 9 workload_up 2 workload_gone 65 teardown_finished",
    f"{_ON} 9 stop 40 workload_failed 9 destroy 1 teardown_finished",
    f"{_ON} 9 stop 33 workload_lost 90 workload_gone 65 teardown_finished",
    f"{_ON} 9 stop 2 workload_completed 9 start 2 workload_gone 70 teardown_finished",
    f"{_ON} 9 stop 2 workload_gone 9 found_held 9 destroy 2 teardown_finished",
    f"{_ON} 9 stop 2 workload_lost 9 found_running 9 workload_completed 70 teardown_finished",
    f"{_ON} 9 workload_failed 70 teardown_finished",
    f"{_ON} 9 workload_lost 80 destroy 15 teardown_finished",
    f"{_ON} 9 workload_gone 20 found_running 9 stop 1 stop_confirmed-3 9 start-3 1 workload_up-2 {_OFF}",
    f"{_ON} 9 workload_completed 9 workload_completed workload_failed 9 workload_gone 50 teardown_finished",
    f"{_ON} deploy 50 workload_up found_running stop_confirmed 9 destroy 30 teardown_finished destroy",
    "deploy 30 destroy 1 workload_up launch_failed 2 teardown_finished 9 workload_up",
    f"{_ON} 9 stop 1 stop_confirmed 9 start 2 workload_failed 9 workload_up 9 destroy 1 teardown_finished",
    f"{_ON} 9 stop 1 stop_confirmed 9 start 2 workload_completed 9 destroy 1 teardown_finished",
    "wild",
]
WILD = [
    *("workload_up", "launch_failed", "launch_not_reached", "stop_confirmed", "start_refused", "start_unreachable"),
    *("gpus_unavailable", "workload_failed", "workload_lost", "workload_completed", "workload_gone", "found_running"),
    *("found_held", "teardown_finished", "start", "stop", "destroy", "start", "stop", "workload_up", "stop_confirmed"),
]
RENTED = [("rtx4090", 1, 40), ("rtx4090", 2, 100), ("a6000", 1, 7), ("rtx4090", 1, 1)]

PRICE_LIST: list[tuple[int, str, str | None]] = [
    (0, "dedicated.h100.1x", "300"),
    (0, "dedicated.h100.2x", "580.25"),
    (0, "dedicated.a100.4x", "700"),
    (10 * 60, "dedicated.a100.4x", None),
    (12 * 60 + 30, "dedicated.a100.4x", "710"),
    (6 * 60, "dedicated.l40.1x", "0"),
    (0, "instance.rtx4090.1x", "90"),
    (0, "instance.rtx4090.2x", "170.000000000000000001"),
    (0, "instance.a6000.1x", "70"),
    (8 * 60, "instance.a6000.1x", None),
    (9 * 60 + 30, "instance.a6000.1x", "75"),
    (0, "disk", "0.02"),
    (15 * 60, "disk", None),
    (15 * 60 + 40, "disk", "0.03"),
    (18 * 60, "disk", "0.025"),
]


def day() -> list[Minute]:
    """The day, minute by minute, each in the order in which its records arrive."""
    inputs = [*_prices(), *_noisy(_deployments()), *_noisy(_rentals()), *_noisy(_accounts())]
    inputs += [*_noisy(_operators()), *_refuse(), *_ticks()]
    minutes = [Minute([], []) for _ in range(MINUTES)]
    rng = Random(f"{SEED} misplaced")
    for record in sorted(inputs, key=lambda record: record.arrives_ms):
        minute = (record.arrives_ms - START_MS) // MINUTE_MS
        if minute >= MINUTES:
            continue
        by_org = record.partition is None and record.topic != PRICES
        if by_org and rng.random() < 0.004:
            headers = (("trace", b"\x00\xff"), ("obol-rerouted", b"forged")) if rng.random() < 0.5 else ()
            minutes[minute].misplaced.append(record._replace(partition=rng.randrange(PARTITIONS), headers=headers))
        else:
            minutes[minute].placed.append(record)
    return minutes


class Teller:
    """Makes the records of one entity, event ids counted."""

    def __init__(self, name: str, org: str, at_ms: int) -> None:
        self.name = name
        self.org = org
        self.at_ms = at_ms
        self.rng = Random(f"{SEED} {name}")
        self.made = 0

    def wait(self, minutes: float) -> None:
        """Let about `minutes` pass."""
        self.at_ms += int(minutes * MINUTE_MS) + self.rng.randrange(MINUTE_MS)

    def say(self, topic: str, body: dict[str, Any], back_minutes: int = 0) -> Input:
        """Return a record that arrives now, with a timestamp `back_minutes` ago."""
        self.made += 1
        self.at_ms += self.rng.randrange(1, 900)
        if topic in {COMMANDS, OPERATORS}:
            body = {"command_id": f"{self.name}.{self.made}", **body}
        elif topic not in {BEATS, REQUESTS}:
            body = {"event_id": f"{self.name}.{self.made}", **body}
        value = _json({**body, "org_id": self.org, "unheard_of": [self.made]})
        return Input(self.at_ms, topic, value, self.at_ms - back_minutes * MINUTE_MS, self.org.encode())


def _deployments() -> Iterator[Input]:
    for n in range(DEPLOYMENTS):
        wanted, script = LIVES[n % len(LIVES)]
        name, org = f"{COMPANIES[n % len(COMPANIES)]}-d{n}", COMPANIES[n % len(COMPANIES)]
        teller = Teller(name, org, START_MS + Random(f"{SEED} start {n}").randrange(MINUTE_MS, 22 * HOUR_MS))
        for word in script.split():
            yield from _deployment_word(teller, wanted, word)


def _deployment_word(teller: Teller, wanted: dict[str, Any], word: str) -> Iterator[Input]:
    replica, beats, minutes = word.partition("~")
    if word.isdigit():
        teller.wait(int(word))
    elif word == "create":
        body = {"type": "create_deployment", "deployment_id": teller.name, "model": 'ørsted/模型 "7b"', **wanted}
        yield teller.say(COMMANDS, body)
    elif word == "again":
        # The id of the create, for something else (C1).
        body = {"type": "stop_deployment", "deployment_id": teller.name, "command_id": f"{teller.name}.1"}
        yield teller.say(COMMANDS, body)
    elif word == "stop":
        yield teller.say(COMMANDS, {"type": "stop_deployment", "deployment_id": teller.name})
    elif word == "request":
        count = {} if teller.rng.random() < 0.5 else {"count": teller.rng.randrange(1, 50)}
        yield teller.say(REQUESTS, {"deployment_id": teller.name, **count})
    elif beats:
        first, after_ms = teller.at_ms, 0
        while after_ms < int(minutes) * MINUTE_MS:
            after_ms += teller.rng.randrange(40_000, 80_000)
            value = _json({"replica_id": f"{teller.name}-{replica}", "org_id": teller.org})
            yield Input(first + after_ms, BEATS, value, first + after_ms, teller.org.encode())
    else:
        replica, _, rest = word.partition(":")
        told, _, back = rest.partition("-")
        status, message = CALLBACKS[told]
        body = {"replica_id": f"{teller.name}-{replica}", "status": status, "message": message}
        if told in HEALTHY:
            body["healthy"] = HEALTHY[told]
        yield teller.say(PROGRESS, body, int(back or 0))


def _rentals() -> Iterator[Input]:
    made = 0
    for n, org in enumerate(RENTERS):
        for _ in range(27 if n == CROWDED else 1 + n % 3):
            start_ms = 20_000 if n % 20 == 2 else Random(f"{SEED} rent {made}").randrange(6 * MINUTE_MS, 22 * HOUR_MS)
            if n == CROWDED:
                start_ms = 3 * HOUR_MS + made * 1_000
            teller = Teller(f"{org}-i{made}", org, START_MS + start_ms)
            script = RENTALS[0] if n == CROWDED else RENTALS[made % len(RENTALS)]
            if n % 20 == 2:  # an org in debt: what it has is stopped, or in error, for a day (I8)
                script = f"{_ON} 20 stop_confirmed" if made % 2 else f"{_ON} 5 workload_lost"
            gpu_type, gpu_count, disk_gb = RENTED[made % len(RENTED)]
            wanted = {"gpu_type": gpu_type, "gpu_count": gpu_count, "disk_gb": disk_gb}
            if made % 5 == 1:
                wanted["labels"] = {"team": "mat", "": "no key"} if made % 50 == 1 else {"team": "mat", "app": f"{n}"}
            if made % 4 == 1:
                wanted["gpus_releasable"] = False
            words = script.split()
            if script == "wild":
                words = ["deploy"]
                for _ in range(40):
                    words += [str(teller.rng.randrange(12)), WILD[teller.rng.randrange(len(WILD))]]
                words += ["destroy", "15", "teardown_finished"]
            for word in words:
                yield from _rental_word(teller, wanted, word)
            made += 1


def _rental_word(teller: Teller, wanted: dict[str, Any], word: str) -> Iterator[Input]:
    told, _, back = word.partition("-")
    if word.isdigit():
        teller.wait(int(word))
        return
    body: dict[str, Any] = {"instance_id": teller.name}
    if told == "deploy":
        template = {"mode": ("ssh", "jupyter", "args")[teller.made % 3], "image": "cuda:12"}
        body |= {"type": "deploy_instance", "offer_id": "offer 7", "template": template, **wanted}
    elif told in {"start", "stop", "destroy"}:
        body |= {"type": f"{told}_instance"}
    else:
        body |= {"report": told}
        if told == "launch_not_reached":
            body |= {"report": "launch_failed", "reached_host": False}
        if teller.rng.random() < 0.3:
            body |= {"message": "the host says: “nein”"}
    yield teller.say(REPORTS if "report" in body else COMMANDS, body, int(back or 0))


def _accounts() -> Iterator[Input]:
    for n, org in enumerate(RENTERS + COMPANIES[40:]):
        teller = Teller(f"{org}-acc", org, START_MS + 1_000)
        balances, every_minutes = _balances(n)
        for at, balance in enumerate(balances):
            sequence = {} if n % 7 == 0 else {"sequence": at * 10}
            if n % 11 == 1 and at > 2:  # Croesus was restored from a backup, and counts from the start
                sequence = {"sequence": at, "epoch": 1}
            yield teller.say(ACCOUNTS, {"type": "balance_updated", "balance": balance, **sequence})
            if n % 9 == 0 and at:
                old = at * 10 - teller.rng.randrange(9, 25)
                yield teller.say(ACCOUNTS, {"type": "balance_updated", "balance": "-77", "sequence": old})
            teller.wait(every_minutes)
        if n % 10 == 5:
            teller.at_ms = START_MS + teller.rng.randrange(1, 6) * HOUR_MS
            for suspended in (True, True, False, False, True, False) * 6:
                yield teller.say(ACCOUNTS, {"type": "org_suspended" if suspended else "org_reinstated"})
                teller.wait(teller.rng.randrange(5, 60))


def _operators() -> Iterator[Input]:
    """Credits for windows of all kinds: some unknown, some twice, some of time that was never billed."""
    teller = Teller("operator", "", START_MS + HOUR_MS)
    made = sum(27 if n == CROWDED else 1 + n % 3 for n in range(len(RENTERS)))
    owners = [RENTERS[n] for n in range(len(RENTERS)) for _ in range(27 if n == CROWDED else 1 + n % 3)]
    for _ in range(1_200):
        teller.wait(0.2)
        if teller.rng.random() < 0.6:
            n = teller.rng.randrange(DEPLOYMENTS)
            teller.org = COMPANIES[n % len(COMPANIES)]
            window = f"{teller.org}-d{n}-r{teller.rng.randrange(1, 3)}.w{teller.rng.randrange(1, 3)}"
        else:
            n = teller.rng.randrange(made)
            teller.org = owners[n]
            window = f"{teller.org}-i{n}.{teller.rng.choice(['gpu', 'disk'])}.w{teller.rng.randrange(1, 3)}"
        start_ms = teller.at_ms - teller.rng.randrange(4 * HOUR_MS)
        end_ms = start_ms + teller.rng.randrange(-MINUTE_MS, 3 * HOUR_MS)
        note = {"note": "the host served “nothing”"} if teller.rng.random() < 0.5 else {}
        body = {"type": "credit_window", "window_id": window, "from": _time(start_ms), "until": _time(end_ms)}
        yield teller.say(OPERATORS, {**body, **note})


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds")


def _balances(n: int) -> tuple[list[str], int]:
    """The balances of an org, and the minutes between them."""
    plenty = (["100000"], 0)
    return {
        0: (["100000", *(["0", "5000", "-1.5", "900.25", "-40", "12000"] * 4)], 50),  # runs dry, and is topped up
        1: (["1000", *(["0.01", "-0", "0.000000000000000001", "-0.01", "200", "0", "500"] * 4)], 30),
        2: (["100000", *(["-35", "-36.5", "-35"] * 5)], 20),  # in debt enough to lose its instances after a day (I8)
        12: (["100000", *(["-34.99"] * 5)], 20),  # not in debt enough
        3: ([], 0),  # none received
        4: (["95.5", "180", "60", "250"], 240),  # too little for much
    }.get(n % 20 if n % 10 == 2 else n % 10, plenty)


def _noisy(records: Iterator[Input]) -> Iterator[Input]:
    """Duplicate some records, delay some, and give some no key or a wrong one."""
    rng = Random(f"{SEED} noise")
    for record in records:
        arrives_ms, key = record.arrives_ms, record.key
        if rng.random() < 0.02:
            arrives_ms += rng.randrange(12 * MINUTE_MS)
        if rng.random() < 0.02:
            key = None if rng.random() < 0.5 else b"\xff\x00"
        yield record._replace(arrives_ms=arrives_ms, key=key)
        if rng.random() < 0.03:
            delay_ms = rng.randrange(90 * MINUTE_MS)
            at_ms = record.at_ms + (delay_ms if rng.random() < 0.5 else 0)
            yield record._replace(arrives_ms=arrives_ms + delay_ms, at_ms=at_ms)


def _prices() -> Iterator[Input]:
    for minute, profile, price in PRICE_LIST:
        at_ms = START_MS + minute * MINUTE_MS
        value = None if price is None else _json({"profile": profile, "price": price, "currency": "JPY"})
        yield Input(at_ms, PRICES, value, at_ms, profile.encode())
    at_ms = START_MS + 5 * HOUR_MS
    for key, value in [
        (b"disk", _json({"profile": "disk", "price": "9", "currency": "EUR"})),
        (b"disk", _json({"profile": "dedicated.h100.1x", "price": "9", "currency": "JPY"})),
        (b"disk", _json({"profile": "disk", "price": "-9", "currency": "JPY"})),
        (b"disk", _json({"profile": "disk", "price": 9, "currency": "JPY"})),
        (b"disk", b"{"),
        (None, _json({"profile": "disk", "price": "9", "currency": "JPY"})),
        (b"unheard.of", None),
    ]:
        yield Input(at_ms, PRICES, value, at_ms, key)


def _ticks() -> Iterator[Input]:
    """Yield a tick per minute and partition; some are late, missing, duplicated, or two seconds past the minute."""
    rng = Random(f"{SEED} ticks")
    for minute in range(1, MINUTES):
        if 700 <= minute < 715 or 1_000 <= minute < 1_090:  # no worker was up
            continue
        late_s = 2 if rng.random() < 0.3 else 0
        for partition in range(PARTITIONS):
            at_ms = START_MS + minute * MINUTE_MS + late_s * 1_000
            chance = rng.random()
            if chance < 0.01:
                continue
            tick: dict[str, Any] = {"type": "tick"}
            if minute % 2:  # written by a worker; now and then the clocks disagree
                tick["at"] = at_ms + (300_001 if 0.5 < chance < 0.51 else 250)
            yield Input(at_ms, CLOCK, _json(tick), at_ms, None, partition)
            if chance < 0.02:
                yield Input(at_ms + 30_000, CLOCK, b'{"type":"tick","more":1}', at_ms, None, partition)
            if 0.02 < chance < 0.025:
                yield Input(at_ms + 30_000, CLOCK, b'{"type":"tock"}', at_ms, None, partition)


def _refuse() -> Iterator[Input]:
    """Bad input: each kind every two hours or so, on each topic that has orgs."""
    rng = Random(f"{SEED} refuse")
    for topic in (ACCOUNTS, COMMANDS, OPERATORS, REQUESTS, PROGRESS, REPORTS, BEATS):
        for number, value in enumerate(_bad_values(topic) * 12):
            at_ms = START_MS + rng.randrange(MINUTE_MS, MINUTES * MINUTE_MS)
            key = None if rng.random() < 0.5 else b"k" * rng.randrange(200)
            yield Input(at_ms, topic, value, at_ms, key, _home_unknown(value, rng))
            if number % 12 == 0:  # good, but for a time that is none
                good = _good(topic, f"bad-time-{number}")
                yield Input(at_ms, topic, good, -1 if number % 24 else 253_402_300_800_000, key)


def _bad_values(topic: str) -> list[bytes | None]:
    good = json.loads(_good(topic, "refuse"))
    without = [{name: value for name, value in good.items() if name != left_out} for left_out in good]
    nulls = [{**good, name: None} for name in good]
    values: list[Any] = [True, 7, 1.5, "", "no id!", "x" * 600, [], {}]
    wrong = [{**good, name: value} for name in good for value in values]
    deep = b'{"org_id":"co-001","deep":' + b"[" * 32 + b"]" * 32 + b"}"
    large = {**good, "padding": "y" * 65_536}
    return [
        *(None, b"", b"{", b"[]", b"7", b"null", b'"text"', b"\xff\xfe", b'{"org_id":NaN}', b'{"org_id":"\\ud800"}'),
        *(deep, b"{}", _json(large), _json(good)),
        *map(_json, without + nulls + wrong),
        *(_json(unknown) for unknown in _unknown(topic)),
    ]


def _unknown(topic: str) -> list[dict[str, Any]]:
    """Yield records with unknown ids and ids of other orgs, and with the bounds of fields."""
    one = {"event_id": "unknown.1"}
    match topic:
        case "execlet.progress" | "execlet.heartbeats":
            return [
                {**one, "org_id": org, "replica_id": replica, "status": "RUNNING", "message": "healthy" * 700}
                for org, replica in [("co-001", "nobody-r1"), ("co-002", "co-001-d1-r1"), ("stranger", "a-r1")]
            ]
        case "host.reports":
            return [
                {**one, "org_id": org, "instance_id": instance, "report": "workload_up"}
                for org, instance in [("lab-001", "nobody"), ("lab-002", "co-001-i1"), ("stranger", "a")]
            ]
        case "inference.requests":
            return [
                {"org_id": org, "deployment_id": deployment, "count": 2**63 - 1}
                for org, deployment in [("co-001", "nobody"), ("co-002", "co-001-d1"), ("stranger", "a")]
            ]
        case "user.commands":
            kinds = ["stop_deployment", "start_instance", "stop_instance", "destroy_instance", "reboot"]
            return [
                {"command_id": kind, "type": kind, "org_id": org, "deployment_id": "nobody", "instance_id": "nobody"}
                for kind in kinds
                for org in ("co-001", "stranger")
            ]
        case _:
            return [
                {**one, "org_id": "co-041", "type": "balance_updated", "balance": "-" + "9" * 18, "sequence": -(2**63)}
            ]


def _good(topic: str, name: str) -> bytes:
    org = {"org_id": "co-003"}
    bodies: dict[str, dict[str, Any]] = {
        ACCOUNTS: {"event_id": name, "type": "balance_updated", "balance": "100000", "sequence": 1},
        COMMANDS: {
            "command_id": name,
            "type": "deploy_instance",
            "instance_id": f"refused-{name}",
            "offer_id": "o",
            "gpu_type": "rtx4090",
            "gpu_count": 1,
            "disk_gb": 1,
            "template": {"mode": "ssh", "image": "i"},
        },
        OPERATORS: {
            "command_id": name,
            "type": "credit_window",
            "window_id": "co-003-d3-r1.w1",
            "from": "2026-01-05T01:00:00Z",
            "until": "2026-01-05T12:30:00.5+09:00",
            "note": "n",
        },
        REQUESTS: {"deployment_id": "co-003-d3", "count": 1},
        PROGRESS: {"event_id": name, "replica_id": "co-003-d3-r1", "status": "STARTING", "message": "Pulling image"},
        REPORTS: {"event_id": name, "instance_id": "nobody", "report": "launch_failed", "reached_host": True},
        BEATS: {"replica_id": "co-003-d3-r1"},
    }
    return _json({**org, **bodies[topic]})


def _home_unknown(value: bytes | None, rng: Random) -> int | None:
    """Return a partition for a record without an org; None if it has one."""
    try:
        json.loads(value or b"")["org_id"].encode()
    except (AttributeError, KeyError, TypeError, ValueError):
        return rng.randrange(PARTITIONS)
    return None


def _json(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass")
