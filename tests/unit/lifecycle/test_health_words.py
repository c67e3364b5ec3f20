"""Whether a text counts as healthy (R2). Each expectation follows from a sentence of the rule."""

import pytest

from streams.lifecycle.replica import Signal, read_signal

HEALTHY = [
    # The word "healthy", any case.
    "healthy",
    "HEALTHY",
    "Healthy.",
    "All containers are healthy",
    "all containers healthy, accepting requests",
    "(healthy)",
    "line one\nhealthy\n",
    # A quote at the edge of a word is not part of it.
    "'healthy'",
    "the state is ’healthy’",
    '"healthy"',
    "\u2018healthy’",
    # A denial counts among the three words before it ...
    "not one of these four is healthy",
    "no more than two are healthy",
    "never mind the logs, healthy",
    # ... in the same sentence: `.` `,` `;` `:` `!` `?` and a line break end one.
    "It was not. Healthy",
    "whether or not, healthy",
    "it is not; healthy now",
    "is it ready: no: healthy",
    "no! healthy",
    "was it not? healthy",
    "not\n  healthy",
    "not\r\nhealthy",
    # Quotes alone are not words: they don't count among the three, and are no denial.
    "'' '' healthy",
    # Words that only look like a denial.
    "nothing is healthy",
    "note: healthy",
    "knot healthy",
    "notnotnt healthy",
    "isnt healthy",
    "un healthy",
    "sub-healthy",
    "un--healthy",
    "cannot-do list is empty and healthy",
    # A value that is true, yes, ok or 1; or none.
    "healthy: true",
    "healthy=1",
    "Healthy = YES",
    "healthy: ok.",
    "healthy: true, ready: no",
    "healthy:true;ready:false",
    "(healthy: true)",
    '{"healthy": true}',
    '{"healthy": "true"}',
    "{'healthy': 'yes'}",
    "healthy: \u2018true’",
    "healthy:",
    "healthy = ",
    "healthy: , starting",
    "healthy: !",
    "status=healthy",
    "status: healthy",
    "healthy: true.",
    "healthy: yes!",
    "healthy: ok?",
    # Other words that contain it.
    "healthy, not healthyish",
]

DENIED = [
    "unhealthy",
    "UNHEALTHY",
    "was unhealthy, is healthy now",
    "healthy, then unhealthy",
    "'unhealthy'",
    "un-healthy",
    "Un-Healthy",
    "non-healthy",
    "the container is NON-healthy",
    "not healthy",
    "NOT HEALTHY",
    "the container is Not Healthy yet",
    "not healthy before, healthy now",
    "healthy, but the sidecar is not healthy",
    "not yet healthy",
    "not all are healthy",
    "not 'quite' healthy",
    "not ' ' ' healthy",
    "no container is healthy",
    "never been healthy",
    "cannot become healthy",
    "cannot be called healthy",
    "isn't healthy",
    "isn’t healthy",
    "won't be healthy",
    "DOESN'T LOOK HEALTHY",
    "couldn't get it healthy",
    "'not' healthy",
    "not-healthy",
    "healthy: false",
    "healthy: no",
    "healthy=0",
    "healthy = False.",
    "healthy:false",
    "Healthy : FALSE!",
    "healthy: not yet",
    "healthy: 3 of 4",
    '{"healthy": false}',
    '{"healthy":"no"}',
    "{'healthy': 'unknown'}",
    "(healthy=false)",
    "[healthy: n/a]",
    "healthy: \u2018false’",
    "ready: true, healthy: false",
]

SILENT = ["", "up", "health", "healthyish", "healthy_", "healthy2", "healthy's", "all good", "nonhealthy", "health y"]


@pytest.mark.parametrize("message", HEALTHY)
def test_a_healthy_text(message: str) -> None:
    assert read_signal("RUNNING", message) is Signal.HEALTHY


@pytest.mark.parametrize("message", DENIED)
def test_a_denied_text(message: str) -> None:
    assert read_signal("RUNNING", message) is None


@pytest.mark.parametrize("message", SILENT)
def test_a_text_without_healthy(message: str) -> None:
    assert read_signal("RUNNING", message) is None


@pytest.mark.parametrize("message", ["", "healthy", "unhealthy", "not healthy", "healthy: false"])
def test_a_boolean_decides_instead_of_the_text(message: str) -> None:
    assert read_signal("RUNNING", message, healthy=True) is Signal.HEALTHY
    assert read_signal("RUNNING", message, healthy=False) is None


@pytest.mark.parametrize("healthy", [True, False, None])
@pytest.mark.parametrize(
    ("status", "message", "signal"),
    [
        ("STARTING", "healthy", None),
        ("STARTING", "Pulling image, not healthy", Signal.PULLING_IMAGE),
        ("RESTARTING", "unhealthy", Signal.RESTARTING),
        ("FAILED", "healthy", Signal.FAILED),
        ("SYSTEM_FAILURE", "healthy", Signal.SYSTEM_FAILURE),
        ("VM_CRASH", "healthy", Signal.VM_CRASH),
    ],
)
def test_all_this_is_for_running_only(
    status: str, message: str, signal: Signal | None, *, healthy: bool | None
) -> None:
    assert read_signal(status, message, healthy=healthy) is signal
