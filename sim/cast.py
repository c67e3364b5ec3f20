"""The orgs of the demo: what each does in its two hours, so that each shows one thing. Times are in minutes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

from schemas.commands import Template
from schemas.orders import ExecletOrder, HostOrder
from sim import hosts, lives, users
from sim.agenda import Life
from sim.croesus import Croesus
from sim.records import (
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    Record,
    create_deployment,
    deploy_instance,
    destroy_instance,
    request,
    start_instance,
    stop_instance,
)
from sim.stage import Cue

HOURS: Final = 2
SPAN_MS: Final = HOURS * HOUR_MS

DEAD_NODE: Final = ("aurora", "chat")
DEAD_REPLICA: Final = "chat-r2"
PAUSE: Final = ("borealis", "search")
RESTART: Final = ("cascade", "coder")
FATAL_IMAGE: Final = ("drift", "vision")
CRASH_LOOP: Final = ("ember", "agent")
IDLE: Final = ("fjord", "night")
UNPRICED: Final = ("glacier", "giant")
SUSPENDED: Final = ("harbor", "desk")
REINSTATED: Final = "desk-again"
RUN_DRY: Final = ("isle", "studio")
DEAF_STOP: Final = ("jade", "mill")
MIXED_HOST: Final = "karst"
SERVERLESS: Final = ("lagoon", "burst")

PRICES: Final = {**users.PRICES, "instance.h100.1x": "240"}
UNPRICED_PROFILE: Final = "dedicated.b200.8x"
UNPRICED_PRICE: Final = "7310.4"
OPENING: Final = "250000"

_OPENINGS: Final = {"isle": "250"}
_STARS: Final = (
    *(
        org
        for org, _ in (
            DEAD_NODE,
            PAUSE,
            RESTART,
            FATAL_IMAGE,
            CRASH_LOOP,
            IDLE,
            UNPRICED,
            SUSPENDED,
            RUN_DRY,
            DEAF_STOP,
        )
    ),
    MIXED_HOST,
    SERVERLESS[0],
)

_REPLICAS: Final[dict[tuple[str, str], lives.Temper]] = {
    ("aurora", DEAD_REPLICA): lives.Temper(silent_after_s=1_800, ending="vm_crash", end_after_s=5_400),
    ("borealis", "search-r1"): lives.Temper(silent_after_s=1_500, silent_for_s=1_330),
    ("cascade", "coder-r1"): lives.Temper(restart_after_s=2_405, restart_takes_s=190),
    ("drift", "vision-r2"): lives.Temper(pull_s=38, ending="image"),
}
_DEPLOYMENTS: Final[dict[tuple[str, str], lives.Temper]] = {
    FATAL_IMAGE: lives.Temper(pull_s=25, ending="image"),
    CRASH_LOOP: lives.Temper(pull_s=12, init_s=8, ending="crash", end_after_s=260),
}
_INSTANCES: Final[dict[tuple[str, str], hosts.Temper]] = {
    DEAF_STOP: hosts.Temper(launch_s=70, deaf_stops=10),
    ("karst", "train"): hosts.Temper(ending="workload_completed", end_after_s=1_860),
    ("karst", "typo"): hosts.Temper(launch="fails", launch_s=20),
    ("karst", "far"): hosts.Temper(launch="never_reaches_host", launch_s=45),
    ("karst", "dev"): hosts.Temper(resumes=("start_refused",)),
    ("karst", "render"): hosts.Temper(ending="workload_lost", end_after_s=2_400, found_after_s=600),
}


@dataclass(frozen=True, slots=True)
class Cast:
    """A seeded cast from `start_ms` (a whole minute) on: the stars above, and `extras` orgs without a story."""

    seed: int
    start_ms: int
    extras: int = 10
    end_ms: int = field(init=False)

    def __post_init__(self) -> None:
        """Put the end where it follows from the start."""
        object.__setattr__(self, "end_ms", self.start_ms + SPAN_MS)

    @property
    def orgs(self) -> list[str]:
        """Every org, in order of its id."""
        return sorted((*_STARS, *users.org_names(self.extras)))

    def minute(self, minutes: float) -> int:
        """Tell the time in ms, `minutes` after the start."""
        return self.start_ms + int(minutes * MINUTE_MS)

    def user_lives(self) -> Iterator[tuple[str, Life]]:
        """Tell what users do, for a day: their requests go on after the two hours."""
        for org, script in self._scripts().items():
            for n, life in enumerate(script):
                yield f"user/{org}/{n}", life
        for plan in users.plan_deployments(
            self.seed, self.extras, self.extras * 2, self.extras * 5, start_ms=self.minute(1), end_ms=self.end_ms
        ):
            name = f"{plan.org}/{plan.name}"
            yield f"deployment/{name}", users.commands_of(plan)
            yield f"requests/{name}", users.requests_of(plan, self.end_ms + 24 * HOUR_MS)
        for moves in users.plan_instances(
            self.seed, self.extras, self.extras, start_ms=self.minute(1), end_ms=self.end_ms
        ):
            yield f"moves/{moves.org}/{moves.name}", users.moves_of(moves)

    def cues(self) -> list[Cue]:
        """Tell what Croesus decides and when."""
        org, _ = SUSPENDED
        dry_org, _ = RUN_DRY

        def open_books(croesus: Croesus, at_ms: int) -> Iterable[Record]:
            for profile, amount in PRICES.items():
                yield croesus.set_price(at_ms, profile, amount)
            for name in self.orgs:
                yield croesus.pay_in(at_ms, name, _OPENINGS.get(name, OPENING))

        return [
            (self.start_ms, open_books),
            (self.minute(6), lambda croesus, at: [croesus.set_price(at, UNPRICED_PROFILE, UNPRICED_PRICE)]),
            (self.minute(40), lambda croesus, at: [croesus.set_price(at, UNPRICED_PROFILE, None)]),
            (self.minute(60), lambda croesus, at: [croesus.suspend(at, org)]),
            (self.minute(80), lambda croesus, at: [croesus.reinstate(at, org)]),
            (self.minute(85), lambda croesus, at: [croesus.set_price(at, UNPRICED_PROFILE, UNPRICED_PRICE)]),
            (self.minute(90), lambda croesus, at: [croesus.pay_in(at, dry_org, "1000")]),
        ]

    def execlet_casting(self) -> lives.Casting:
        """Give replicas their tempers: the stars' as written above, the extras' seeded."""
        extras = lives.seeded()

        def cast(order: ExecletOrder, rng: Random) -> lives.Temper:
            if order.org_id not in _STARS:
                return extras(order, rng)
            temper = _REPLICAS.get((order.org_id, order.replica_id)) or _DEPLOYMENTS.get(
                (order.org_id, order.deployment_id)
            )
            return temper or lives.Temper(pull_s=rng.randint(15, 50), init_s=rng.randint(10, 30))

        return cast

    def host_casting(self) -> hosts.Casting:
        """Give hosts their tempers, alike."""

        def cast(order: HostOrder, rng: Random) -> hosts.Temper:
            if order.org_id not in _STARS:
                return hosts.seeded(order, rng)
            return _INSTANCES.get((order.org_id, order.instance_id)) or hosts.Temper()

        return cast

    def _scripts(self) -> dict[str, list[Life]]:
        at = self.minute
        return {
            "aurora": [iter((create_deployment(at(1.2), *DEAD_NODE, "h100.2x", min_replicas=2),))],
            "borealis": [iter((create_deployment(at(1.5), *PAUSE, "a100.1x"),))],
            "cascade": [iter((create_deployment(at(2.1), *RESTART, "h100.1x"),))],
            "drift": [iter((create_deployment(at(3.3), *FATAL_IMAGE, "h100.1x", min_replicas=2, model="visoin-7b"),))],
            "ember": [iter((create_deployment(at(2.6), *CRASH_LOOP, "l40s.4x"),))],
            "fjord": [
                iter((create_deployment(at(2.8), *IDLE, "a100.1x", idle_timeout_s=900),)),
                _requests(IDLE, at(4), at(27)),
                _requests(IDLE, at(80.4), at(24 * 60)),
            ],
            "glacier": [
                iter(
                    (
                        create_deployment(at(3.5), "glacier", "giant-too-early", "b200.8x"),
                        create_deployment(at(8.5), *UNPRICED, "b200.8x"),
                    )
                )
            ],
            "harbor": [
                iter(
                    (
                        create_deployment(at(2.2), *SUSPENDED, "h100.1x", min_replicas=2),
                        create_deployment(at(70.5), "harbor", "desk-refused", "h100.1x"),
                        create_deployment(at(82.5), "harbor", REINSTATED, "h100.1x"),
                    )
                )
            ],
            "isle": [
                iter(
                    (
                        deploy_instance(at(3.1), *RUN_DRY, "h100.1x", 150),
                        start_instance(at(88.5), *RUN_DRY),
                        start_instance(at(91.5), *RUN_DRY),
                    )
                )
            ],
            "jade": [iter((deploy_instance(at(2.4), *DEAF_STOP, "a100.1x", 200), stop_instance(at(25.3), *DEAF_STOP)))],
            "karst": [iter(sorted(self._mixed(), key=lambda record: record.timestamp_ms))],
            "lagoon": [
                iter((create_deployment(at(2.9), *SERVERLESS, "l40s.4x", serving="serverless", min_replicas=2),)),
                _requests(SERVERLESS, at(4), at(24 * 60)),
            ],
        }

    def _mixed(self) -> Iterator[Record]:
        at, org = self.minute, MIXED_HOST
        yield deploy_instance(at(2), org, "train", "a100.1x", 80, template=Template(mode="args", image="trainer:3"))
        yield deploy_instance(at(4), org, "typo", "rtx4090.1x", 40, template=Template(mode="ssh", image="base:12.88"))
        yield deploy_instance(at(5), org, "far", "rtx4090.1x", 40)
        yield deploy_instance(
            at(6), org, "dev", "rtx4090.2x", 120, template=Template(mode="jupyter", image="base:12.8")
        )
        yield stop_instance(at(30), org, "dev")
        yield start_instance(at(45), org, "dev")
        yield start_instance(at(50), org, "dev")
        yield deploy_instance(at(7), org, "render", "a100.1x", 400)
        yield destroy_instance(at(75), org, "train")
        yield destroy_instance(at(12), org, "typo")


def _requests(deployment: tuple[str, str], start_ms: int, end_ms: int) -> Iterator[Record]:
    return (request(at, *deployment, 3) for at in range(start_ms, end_ms, 150 * SECOND_MS))
