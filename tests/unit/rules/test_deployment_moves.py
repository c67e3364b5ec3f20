"""P1 to P7, B22: every state of a deployment x every event. Results, changes and orders by hand."""

import pytest

from tests.world.world import Sent, World

PRICE = "11:00 price dedicated.h100.1x 2.50"
CREATE = "12:00 create d1 min=2 idle=3600"

# The records that lead to each state.
PLACES = {
    "unknown": [],
    "created": [CREATE, "12:01 healthy d1-r1"],
    "created, no replica left": [CREATE, "12:01 vm_crash d1-r1", "12:01 vm_crash d1-r2"],
    "paused": [CREATE, "13:00 tick"],
    "failed": [CREATE, "12:01 vm_crash d1-r1", "12:01 failed d1-r2"],
    "stopped": [CREATE, "12:01 stop d1"],
}

EVENTS = {
    "create": ["13:01 create d1"],
    "stop": ["13:01 stop d1"],
    "request": ["13:01 request d1"],
    "tick": ["13:01 tick"],
    "tick, suspended": ["13:01 suspend", "13:02 tick"],
    "request, suspended": ["13:01 suspend", "13:02 request d1"],
    "create, suspended": ["13:01 suspend", "13:02 create d1"],
    "stop, suspended": ["13:01 suspend", "13:02 stop d1"],
}

# state: event: the outputs: a result, the deployment's changes, new and aborted replicas, counts and dead letters.
# The created ones have been idle since 12:01 at the latest, so the ticks at 13:01 and later find them idle (P6).
EXPECTED: dict[str, dict[str, list[str]]] = {
    "unknown": {
        "create": ["accepted", "-> created deployed", "+d1-r1"],
        "stop": ["NOT_FOUND"],
        "request": ["dead unknown_deployment"],
        "tick": [],
        "tick, suspended": [],
        "request, suspended": ["dead unknown_deployment"],
        "create, suspended": ["ORG_SUSPENDED"],
        "stop, suspended": ["NOT_FOUND"],
    },
    "created": {
        "create": ["ALREADY_EXISTS"],
        "stop": ["accepted", "created -> stopped user", "x d1-r1", "x d1-r2"],
        "request": [],
        "tick": ["created -> paused idle", "x d1-r1", "x d1-r2"],
        "tick, suspended": ["created -> stopped org_suspended", "x d1-r1", "x d1-r2"],
        "request, suspended": [],
        "create, suspended": ["ORG_SUSPENDED"],
        "stop, suspended": ["accepted", "created -> stopped user", "x d1-r1", "x d1-r2"],
    },
    "created, no replica left": {
        "create": ["ALREADY_EXISTS"],
        "stop": ["accepted", "created -> stopped user"],
        "request": ["+d1-r3", "+d1-r4"],
        "tick": ["created -> paused idle"],
        "tick, suspended": ["created -> stopped org_suspended"],
        "request, suspended": ["ignored org_suspended"],
        "create, suspended": ["ORG_SUSPENDED"],
        "stop, suspended": ["accepted", "created -> stopped user"],
    },
    "paused": {
        "create": ["ALREADY_EXISTS"],
        "stop": ["accepted", "paused -> stopped user"],
        "request": ["paused -> created request", "+d1-r3", "+d1-r4"],
        "tick": [],
        "tick, suspended": [],
        "request, suspended": ["ignored org_suspended"],
        "create, suspended": ["ORG_SUSPENDED"],
        "stop, suspended": ["accepted", "paused -> stopped user"],
    },
    "failed": {
        "create": ["ALREADY_EXISTS"],
        "stop": ["ILLEGAL_TRANSITION"],
        "request": ["ignored terminal"],
        "tick": [],
        "tick, suspended": [],
        "request, suspended": ["ignored terminal"],
        "create, suspended": ["ORG_SUSPENDED"],
        "stop, suspended": ["ILLEGAL_TRANSITION"],
    },
    "stopped": {
        "create": ["ALREADY_EXISTS"],
        "stop": ["ILLEGAL_TRANSITION"],
        "request": ["ignored terminal"],
        "tick": [],
        "tick, suspended": [],
        "request, suspended": ["ignored terminal"],
        "create, suspended": ["ORG_SUSPENDED"],
        "stop, suspended": ["ILLEGAL_TRANSITION"],
    },
}

CASES = [(place, event) for place, row in EXPECTED.items() for event in row]


def described(world: World, sent: list[Sent]) -> list[str]:
    words = []
    for topic, _, _, value, _ in sent:
        if topic == "command.results":
            words.append(value.get("code") or value["outcome"])
        elif topic == "dead.letters":
            words.append(f"dead {value['reason']}")
        elif topic == "lifecycle.changes" and value["kind"] == "deployment":
            words.append(f"{value.get('from', '')} -> {value['to']} {value['reason']}".strip())
        elif topic == "execlet.orders":
            words.append(f"{'+' if value['order'] == 'submit_job' else 'x '}{value['replica_id']}")
    return words + [f"{kind} {detail}" for (kind, detail), number in world.counts.items() if number]


@pytest.mark.parametrize(("place", "event"), CASES)
def test_every_state_meets_every_event(place: str, event: str) -> None:
    world = World()
    world.do(PRICE, *PLACES[place])
    sent = world.do(*EVENTS[event])
    assert sorted(described(world, sent)) == sorted(EXPECTED[place][event])


def test_the_table_is_complete() -> None:
    assert set(EXPECTED) == set(PLACES)
    assert all(set(row) == set(EVENTS) for row in EXPECTED.values())


REFUSALS = [
    # place, command, what the message must name: the entity, its state, what was asked, what is allowed
    ("unknown", "13:01 stop d1", ["deployment d1", "not known", "stop_deployment", "created or paused"]),
    ("created", "13:01 create d1", ["deployment d1", "created", "create_deployment", "never used"]),
    ("paused", "13:01 create d1", ["deployment d1", "paused", "create_deployment", "never used"]),
    ("failed", "13:01 stop d1", ["deployment d1", "failed", "stop_deployment", "created or paused"]),
    ("stopped", "13:01 stop d1", ["deployment d1", "stopped", "stop_deployment", "created or paused"]),
    ("unknown", "13:01 create d1 gpu=a100 count=4", ["deployment d1", "create_deployment", "dedicated.a100.4x"]),
]


@pytest.mark.parametrize(("place", "command", "names"), REFUSALS)
def test_a_refusal_names_the_entity_its_state_what_was_asked_and_what_is_allowed(
    place: str, command: str, names: list[str]
) -> None:
    world = World()
    world.do(PRICE, *PLACES[place])
    (result,) = world.do(command)
    assert result.value["outcome"] == "rejected"
    assert [name for name in names if name not in result.value["message"]] == []


def test_the_rejection_of_a_suspended_org_names_the_suspension() -> None:
    world = World()
    (result,) = world.do(PRICE, "12:00 suspend", "12:01 create d1")
    for name in ("org acme", "suspended", "create_deployment", "d1", "reinstate"):
        assert name in result.value["message"]
