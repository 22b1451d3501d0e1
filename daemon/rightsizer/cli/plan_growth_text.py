"""What a plan comes to while its load grows, for people."""

from collections.abc import Iterator, Sequence
from typing import Final

from rightsizer.cli.aligned import aligned
from rightsizer.cli.plan_figures import NOTHING, dollars, number
from rightsizer.cli.plan_rejections_text import LACKS
from rightsizer.cli.wrapped import wrapped
from rightsizer.sizing.growth import GrowingKind
from rightsizer.sizing.outlook import Outlook
from rightsizer.sizing.planner import Plan

__all__ = ["growth_lines"]

_LEFT: Final = frozenset({"kind", "remark"})


def growth_lines(plan: Plan) -> Iterator[str]:
    """The steps of today's choice, what the leading kinds cost in all, and when to change over."""
    outlook = plan.outlook
    if outlook is None:
        return
    last = plan.growth[-1]
    yield f"as the load grows, x{last.load_ratio:.2f} in {last.month} months:"
    header = ("month", "load", "GPUs", "$/h", "remark")
    rows = [
        (
            str(step.month),
            f"x{step.load_ratio:.2f}",
            f"{step.candidate.count} x {step.candidate.gpu}",
            dollars(step.candidate.dollars_per_hour) if step.candidate.fits else NOTHING,
            "" if step.candidate.fits else LACKS[step.candidate.rejections[0].by],
        )
        for step in plan.growth
    ]
    yield from (f"  {line}" for line in aligned(header, rows, frozenset({"GPUs", "remark"})))
    if len(outlook.kinds) > 1:
        yield ""
        yield f"  over all {last.month} months, as many of a kind as each month takes:"
        kinds = [_kind_row(each) for each in outlook.kinds]
        lines = aligned(("kind", "now", "then", "$ in all", "remark"), kinds, _LEFT)
        yield from (f"    {line}" for line in lines)
    yield from wrapped(_verdict(outlook, plan.growth[0].candidate.gpu), indent=2)


def _kind_row(kind: GrowingKind) -> Sequence[str]:
    spent = kind.dollars() if kind.outgrown is None else None
    return (
        kind.gpu,
        str(kind.steps[0].candidate.count),
        str(kind.steps[-1].candidate.count) if kind.outgrown is None else NOTHING,
        NOTHING if spent is None else number(spent),
        "" if kind.outgrown is None else f"outgrown in month {kind.outgrown}",
    )


def _verdict(outlook: Outlook, today: str) -> str:
    switch, cheapest = outlook.switch, outlook.cheapest
    if switch is None and outlook.outgrown is not None:
        return f"From month {outlook.outgrown} on none of them holds the load."
    if switch is None:
        if cheapest is None or cheapest.gpu == today:
            return f"{today} stays the best choice; no change of GPU is due."
        return f"{cheapest.gpu} is the cheapest over all months, but not by enough to change over."
    saved = "" if switch.dollars_saved is None else f", which saves ${number(switch.dollars_saved)}"
    why = f"{today} no longer holds the load" if switch.dollars_saved is None else "it is cheaper"
    text = f"Change over in month {switch.month} to {switch.count} x {switch.gpu}: {why}{saved}."
    if cheapest is not None and cheapest.gpu != today:
        text += f" Starting with {cheapest.gpu} is the cheapest over all months."
    return text
