"""The figures of the headline: what there is, what it does, what is lost, what could be done."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rightsizer.domain.advice import Advice
from rightsizer.domain.finding import Severity
from rightsizer.domain.span import Span
from rightsizer.domain.state import IDLE_STATES, State
from rightsizer.publish.web.view.money import interval, savings_sum
from rightsizer.publish.web.view.present import Present
from rightsizer.publish.web.view.strip import Share
from rightsizer.publish.web.view.waste import WasteView
from rightsizer.publish.web.view.words import ABSENT, SEVERITY_COLORS, percent

__all__ = ["Tile", "part_of", "tiles"]


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure of the headline; the script on the page renews it by its id."""

    id: str
    name: str
    value: str
    detail: str
    key: str = ""


def tiles(
    now: Present,
    shares: Sequence[Share],
    waste: WasteView,
    open_advice: Sequence[Advice],
    span: Span,
) -> tuple[Tile, ...]:
    """All of them, in the order that they are read."""
    return (
        _gpus(now),
        _working(now),
        _idle(shares, span),
        _used(waste),
        _advice(open_advice),
        _savings(open_advice),
    )


def part_of(shares: Sequence[Share], *states: State) -> float:
    """The part of the time in any of these states."""
    return sum(share.ratio for share in shares if share.key in states)


def _gpus(now: Present) -> Tile:
    instances = now.counted - now.gpus
    detail = f"{now.silent} without fresh readings" if now.silent else "all answer"
    if instances > 0 and not now.silent:
        detail = f"{now.counted} devices with MIG; all answer"
    return Tile("gpus", "GPUs", str(now.gpus), detail, "act" if now.silent else "")


def _working(now: Present) -> Tile:
    parts = [
        f"{count} {word}"
        for count, word in ((now.idle, "idle"), (now.stalled, "stalled"), (now.unknown, "unknown"))
        if count
    ]
    if now.power_watts is not None:
        parts.append(f"{now.power_watts / 1000:.1f}\u00a0kW")
    return Tile(
        "working",
        "At work now",
        f"{now.working} of {now.counted}",
        ", ".join(parts) or "all of them",
    )


def _idle(shares: Sequence[Share], span: Span) -> Tile:
    idle, stalled = part_of(shares, *IDLE_STATES), part_of(shares, State.HIDDEN_STALL)
    unknown = part_of(shares, State.UNKNOWN)
    return Tile(
        "idle",
        f"Idle, last {span.text}",
        percent(idle) if shares else ABSENT,
        f"stalled {percent(stalled)}, unknown {percent(unknown)}"
        if shares
        else "nothing known yet",
    )


def _used(waste: WasteView) -> Tile:
    return Tile(
        "used", "Put to use", waste.used_text or ABSENT, f"lost {waste.lost}" if waste.lost else ""
    )


def _advice(open_advice: Sequence[Advice]) -> Tile:
    counts = Counter(piece.finding.severity for piece in open_advice)
    told = [f"{counts[severity]} {severity}" for severity in SEVERITY_COLORS if counts[severity]]
    worst = next((severity for severity in SEVERITY_COLORS if counts[severity]), Severity.LOW)
    return Tile(
        "advice",
        "Open advice",
        str(len(open_advice)),
        ", ".join(told) or "nothing to do",
        SEVERITY_COLORS[worst] if told else "",
    )


def _savings(open_advice: Sequence[Advice]) -> Tile:
    total = savings_sum(open_advice)
    gpus = f"{interval(total.gpus_low, total.gpus_high, '{:.1f}')} GPUs"
    if not total.has_price:
        is_known = total.gpus_high > 0
        return Tile("savings", "It would free", gpus if is_known else ABSENT, "no price is known")
    money = interval(total.dollars_per_hour_low, total.dollars_per_hour_high, "{:,.0f}")
    return Tile("savings", "It would save", f"${money}", f"an hour; {gpus}")
