"""Tables and texts that the commands print."""

from collections.abc import Iterable
from decimal import Decimal

from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sim.audit import Audit
from sim.croesus import Croesus
from sim.records import CURRENCY, MINUTE_MS
from sim.stories import Story
from streams.meters import METERS

_CENT = Decimal("0.01")


def minutes(ms: int) -> str:
    """Return a duration in minutes with two places; blank for 0."""
    return f"{(Decimal(ms) / MINUTE_MS).quantize(_CENT):,}" if ms else ""


def bill(croesus: Croesus, orgs: Iterable[str], found: Audit | None = None) -> Table:
    """Return a table of what each org was billed, and with an audit, of its pending and forgiven time."""
    table = Table(title="Billed by Croesus, in minutes and money", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("org")
    figures = (*METERS, "events", f"billed {CURRENCY}", f"credited {CURRENCY}", f"balance {CURRENCY}")
    for name in (*figures, *(("pending", "forgiven") if found is not None else ())):
        table.add_column(name, justify="right")
    for org in orgs:
        account = croesus.accounts[org]
        row = [
            *(minutes(account.by_type_ms[meter.usage_type]) for meter in METERS.values()),
            f"{account.events:,}",
            f"{account.amount.quantize(_CENT):,}",
            f"{account.credited.quantize(_CENT):,}" if account.credits else "",
            f"{account.balance.quantize(_CENT):,}" if account.paid_in else "",
        ]
        if found is not None:
            row += [minutes(found.orgs[org].pending_ms), minutes(found.orgs[org].forgiven_ms)]
        table.add_row(escape(org), *row)
    return table


def verdicts(croesus: Croesus) -> Text:
    """Return the number of usage events and credits by result."""
    return Text(
        "Usage events and credits: " + ", ".join(f"{count:,} {name}" for name, count in croesus.verdicts.items()) + "."
    )


def report(stories: Iterable[Story]) -> Group:
    """Return the stories one below the other."""
    parts: list[Text | Padding] = []
    for story in stories:
        parts += [Text(), Text(story.title, style="bold")]
        parts += [Padding(Text(line), (0, 0, 0, 2), expand=False) for line in story.lines]
    return Group(*parts)


def audit_summary(found: Audit) -> Text:
    """Return the result of an audit."""
    total = found.total
    if found.problems:
        text = Text(f"{len(found.problems)} figures do not add up:\n", style="bold red")
        text.append("\n".join(found.problems[:20]), style="red")
        return text
    return Text(
        f"All figures add up: {total.windows} windows, {total.running_ms:,} ms running = {total.billed_ms:,} billed + "
        f"{total.pending_ms:,} pending + {total.forgiven_ms:,} forgiven - {total.overbilled_ms:,} overbilled (B12). "
        f"{total.credited_ms:,} ms are credited. What is billed and credited of every window, and the "
        f"{found.day_sums} sums by day (U1), equal Croesus's ledger, to the last decimal.",
        style="green",
    )


def console() -> Console:
    """Return a console, wide enough for the tables where the output is not a terminal."""
    plain = Console()
    return plain if plain.is_terminal else Console(width=max(plain.width, 120))
