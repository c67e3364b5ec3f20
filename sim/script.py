"""The script of the demo: what each org does in the two hours. Each org shows one case. Times are in minutes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

from schemas.commands import Template
from schemas.orders import ExecletOrder, HostOrder
from sim import execlets, hosts, users
from sim.agenda import Actor
from sim.croesus import Croesus
from sim.records import (
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    Record,
    create_deployment,
    credit_window,
    deploy_instance,
    destroy_instance,
    request,
    start_instance,
    stop_instance,
)
from sim.stage import CroesusAction

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
UNCONFIRMED_STOP: Final = ("jade", "mill")
MIXED_HOST: Final = "karst"
SERVERLESS: Final = ("lagoon", "burst")
CREDITED: Final = ("mesa", "relay")
CREDITED_WINDOW: Final = "relay-r1.w1"
CREDITED_MINUTES: Final = (50.5, 60.5)
"""From when until when its host served nothing."""
CREDIT_NOTE: Final = "ticket 4711"

PRICES: Final = {**users.PRICES, "instance.h100.1x": "240"}
UNPRICED_PROFILE: Final = "dedicated.b200.8x"
UNPRICED_PRICE: Final = "7310.4"
OPENING: Final = "250000"

_OPENINGS: Final = {"isle": "250"}
_SCRIPTED_ORGS: Final = (
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
            UNCONFIRMED_STOP,
        )
    ),
    MIXED_HOST,
    SERVERLESS[0],
    CREDITED[0],
)

_REPLICAS: Final[dict[tuple[str, str], execlets.Behavior]] = {
    ("aurora", DEAD_REPLICA): execlets.Behavior(silent_after_s=1_800, ending="vm_crash", end_after_s=5_400),
    ("borealis", "search-r1"): execlets.Behavior(silent_after_s=1_500, silent_for_s=1_330),
    ("cascade", "coder-r1"): execlets.Behavior(restart_after_s=2_405, restart_takes_s=190),
    ("drift", "vision-r2"): execlets.Behavior(pull_s=38, ending="image"),
}
_DEPLOYMENTS: Final[dict[tuple[str, str], execlets.Behavior]] = {
    FATAL_IMAGE: execlets.Behavior(pull_s=25, ending="image"),
    CRASH_LOOP: execlets.Behavior(pull_s=12, init_s=8, ending="crash", end_after_s=260),
}
_INSTANCES: Final[dict[tuple[str, str], hosts.Behavior]] = {
    UNCONFIRMED_STOP: hosts.Behavior(launch_s=70, ignored_stops=10),
    ("karst", "train"): hosts.Behavior(ending="workload_completed", end_after_s=1_860),
    ("karst", "typo"): hosts.Behavior(launch="fails", launch_s=20),
    ("karst", "far"): hosts.Behavior(launch="never_reaches_host", launch_s=45),
    ("karst", "dev"): hosts.Behavior(resumes=("start_refused",)),
    ("karst", "render"): hosts.Behavior(ending="workload_lost", end_after_s=2_400, found_after_s=600),
}


@dataclass(frozen=True, slots=True)
class Script:
    """The script from `start_ms`, a whole minute, for the orgs above and `extras` orgs with random behavior."""

    seed: int
    start_ms: int
    extras: int = 10
    end_ms: int = field(init=False)

    def __post_init__(self) -> None:
        """Derive the end from the start."""
        object.__setattr__(self, "end_ms", self.start_ms + SPAN_MS)

    @property
    def orgs(self) -> list[str]:
        """All orgs, ordered by id."""
        return sorted((*_SCRIPTED_ORGS, *users.org_names(self.extras)))

    def minute(self, minutes: float) -> int:
        """Return the time in ms `minutes` after the start."""
        return self.start_ms + int(minutes * MINUTE_MS)

    def user_actors(self) -> Iterator[tuple[str, Actor]]:
        """Yield the users with names. Their requests continue for a day."""
        for org, script in self._scripts().items():
            for n, actor in enumerate(script):
                yield f"user/{org}/{n}", actor
        for plan in users.plan_deployments(
            self.seed, self.extras, self.extras * 2, self.extras * 5, start_ms=self.minute(1), end_ms=self.end_ms
        ):
            name = f"{plan.org}/{plan.name}"
            yield f"deployment/{name}", users.deployment_commands(plan)
            yield f"requests/{name}", users.deployment_requests(plan, self.end_ms + 24 * HOUR_MS)
        for actions in users.plan_instances(
            self.seed, self.extras, self.extras, start_ms=self.minute(1), end_ms=self.end_ms
        ):
            yield f"actions/{actions.org}/{actions.name}", users.instance_commands(actions)

    def croesus_actions(self) -> list[CroesusAction]:
        """Return what Croesus does and when."""
        org, _ = SUSPENDED
        dry_org, _ = RUN_DRY

        def open_accounts(croesus: Croesus, at_ms: int) -> Iterable[Record]:
            for profile, amount in PRICES.items():
                yield croesus.set_price(at_ms, profile, amount)
            for name in self.orgs:
                yield croesus.pay_in(at_ms, name, _OPENINGS.get(name, OPENING))

        return [
            (self.start_ms, open_accounts),
            (self.minute(6), lambda croesus, at: [croesus.set_price(at, UNPRICED_PROFILE, UNPRICED_PRICE)]),
            (self.minute(40), lambda croesus, at: [croesus.set_price(at, UNPRICED_PROFILE, None)]),
            (self.minute(60), lambda croesus, at: [croesus.suspend(at, org)]),
            (self.minute(80), lambda croesus, at: [croesus.reinstate(at, org)]),
            (self.minute(85), lambda croesus, at: [croesus.set_price(at, UNPRICED_PROFILE, UNPRICED_PRICE)]),
            (self.minute(90), lambda croesus, at: [croesus.pay_in(at, dry_org, "1000")]),
        ]

    def execlet_behavior(self) -> execlets.BehaviorChoice:
        """Return the choice of replicas' behavior: as above for scripted orgs, random for the others."""
        extras = execlets.seeded()

        def choose(order: ExecletOrder, rng: Random) -> execlets.Behavior:
            if order.org_id not in _SCRIPTED_ORGS:
                return extras(order, rng)
            behavior = _REPLICAS.get((order.org_id, order.replica_id)) or _DEPLOYMENTS.get(
                (order.org_id, order.deployment_id)
            )
            return behavior or execlets.Behavior(pull_s=rng.randint(15, 50), init_s=rng.randint(10, 30))

        return choose

    def host_behavior(self) -> hosts.BehaviorChoice:
        """Return the choice of hosts' behavior: as above for scripted orgs, random for the others."""

        def choose(order: HostOrder, rng: Random) -> hosts.Behavior:
            if order.org_id not in _SCRIPTED_ORGS:
                return hosts.seeded(order, rng)
            return _INSTANCES.get((order.org_id, order.instance_id)) or hosts.Behavior()

        return choose

    def _scripts(self) -> dict[str, list[Actor]]:
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
            "jade": [
                iter(
                    (
                        deploy_instance(at(2.4), *UNCONFIRMED_STOP, "a100.1x", 200),
                        stop_instance(at(25.3), *UNCONFIRMED_STOP),
                    )
                )
            ],
            "karst": [iter(sorted(self._mixed(), key=lambda record: record.timestamp_ms))],
            "lagoon": [
                iter((create_deployment(at(2.9), *SERVERLESS, "l40s.4x", serving="serverless", min_replicas=2),)),
                _requests(SERVERLESS, at(4), at(24 * 60)),
            ],
            "mesa": [
                iter((create_deployment(at(2.7), *CREDITED, "h100.1x", labels={"team": "nlp"}),)),
                iter(self._credit(at(minutes)) for minutes in (75.5, 78.5)),
            ],
        }

    def _credit(self, at_ms: int) -> Record:
        start_ms, end_ms = map(self.minute, CREDITED_MINUTES)
        return credit_window(at_ms, CREDITED[0], CREDITED_WINDOW, start_ms, end_ms, CREDIT_NOTE)

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
