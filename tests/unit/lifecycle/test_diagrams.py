"""The pages of the lifecycles have the transitions of the tables."""

import re

import pytest

from streams.lifecycle import deployment, instance, replica
from tools.console import ROOT
from tools.docs.diagrams import diagram_pages

PAGES = diagram_pages()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_generated_from_its_table(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == PAGES[path], f"{path} is stale: run `make docs`"


def test_there_is_no_page_without_a_lifecycle() -> None:
    assert {f"docs/diagrams/{path.name}" for path in (ROOT / "docs/diagrams").iterdir()} == set(PAGES)


@pytest.mark.parametrize(
    ("page", "states"),
    [
        ("deployment", set(deployment.DeploymentStatus)),
        ("instance", {*instance.InstanceState, "running_stop_pending"}),
        ("replica", set(replica.ReplicaStatus)),
    ],
)
def test_every_state_is_in_its_diagram_and_can_be_reached(page: str, states: set[str]) -> None:
    arrows = re.findall(r"^    (\S+) --> ([^\s:]+)", PAGES[f"docs/diagrams/{page}.md"], re.MULTILINE)
    reached = {"[*]"}
    while more := {to for from_, to in arrows if from_ in reached} - reached:
        reached |= more
    assert reached - {"[*]"} == {str(state) for state in states}
