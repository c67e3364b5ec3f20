"""The sizes of a run."""

from dataclasses import dataclass
from typing import Final

PARTITIONS: Final = 4
REPLICAS_PER_DEPLOYMENT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of a run. `replicas`: a multiple of 100; `rounds`: heartbeats of each replica in the first part.

    `stock_s`: how long the stock agent is measured. It would need many minutes for all heartbeats, at a constant rate.
    `idle_s`: how long an idle worker is measured. `one_org`: all replicas are of one org.
    """

    name: str
    replicas: int
    rounds: int
    ticks: int
    requests: int
    page_loads: int
    stock_s: float
    idle_s: float
    one_org: bool = False

    @property
    def heartbeats(self) -> int:
        """Heartbeats of the first part."""
        return self.replicas * self.rounds


QUICK: Final = Sizes(
    name="quick", replicas=20_000, rounds=25, ticks=3, requests=200_000, page_loads=10, stock_s=8.0, idle_s=15.0
)
DEFAULT: Final = Sizes(
    name="default", replicas=100_000, rounds=20, ticks=5, requests=1_000_000, page_loads=30, stock_s=20.0, idle_s=60.0
)
FULL: Final = Sizes(
    name="full", replicas=1_000_000, rounds=3, ticks=3, requests=1_000_000, page_loads=30, stock_s=30.0, idle_s=60.0
)
