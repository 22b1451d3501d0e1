"""The report as a screenful of text: what matters, the GPUs, what to change."""

import datetime as dt
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from rightsizer.model.finding import Action
from rightsizer.report.figures import (
    KNOWN_GROUPS,
    group_percents,
    hours,
    main_cause,
    moment_text,
    money,
    percent,
    span_line,
)
from rightsizer.report.labels import ACTION_LABELS, GROUP_NAMES
from rightsizer.report.model import DeviceRow, ReportModel
from rightsizer.report.summary import saved_text, summary_of

_WIDTH: Final = 100
_DEVICES: Final = 16
"""GPUs that are listed, most wasteful first; two nodes fit a screen."""
_ADVICE: Final = 5


def text_document(model: ReportModel, timezone: dt.tzinfo) -> str:
    """All of it; the other formats have the rest."""
    parts = [
        f"GPU report, {span_line(model.span, timezone)}",
        "\n".join(line for text in summary_of(model) for line in _wrapped(text)),
    ]
    if model.has_data:
        parts.append("\n".join(_devices(model)))
    else:
        start, end = model.span.history_start, model.span.history_end
        parts.append(
            f"The history holds {moment_text(start, timezone)} to {moment_text(end, timezone)}."
        )
    parts.append("\n".join(_to_change(model)))
    parts.append("The whole report, with days, workloads, fits and causes: --output report.html")
    return "\n\n".join(parts) + "\n"


def _devices(model: ReportModel) -> Iterator[str]:
    rows = sorted(model.devices, key=lambda row: -row.wasted.gpu_hours)
    header = ("GPU", *(GROUP_NAMES[each] for each in KNOWN_GROUPS), "known", "unused", "mostly")
    yield from _aligned([header, *(_device(row) for row in rows[:_DEVICES])], texts=(0, 7, 8))
    if len(rows) > _DEVICES:
        yield f"and {len(rows) - _DEVICES} more GPUs, which waste less"


def _device(row: DeviceRow) -> tuple[str, ...]:
    cost = money(row.wasted)
    unused = hours(row.wasted.gpu_hours)
    return (
        row.label,
        *group_percents(row),
        percent(row.coverage_ratio),
        f"{unused}, {cost}" if "$" in cost else unused,
        main_cause(row.waste_hours),
    )


def _to_change(model: ReportModel) -> Iterator[str]:
    if not model.advice and not model.findings:
        yield "Nothing to change is known."
        return
    yield "What to change:"
    for place, row in enumerate(model.advice[:_ADVICE], 1):
        yield from _wrapped(row.summary, f"{place:3}. ")
        yield f"     {ACTION_LABELS[Action(row.action)]}; {saved_text(row.savings)}"
        yield f"     rightsizer explain {row.id}"
    for place, finding in enumerate(model.findings[: max(0, _ADVICE - len(model.advice))], 1):
        yield from _wrapped(finding.summary, f"{len(model.advice) + place:3}. ")
        yield f"     {ACTION_LABELS[Action(finding.action)]}; {percent(finding.confidence)} sure"
    left = len(model.advice) + len(model.findings) - _ADVICE
    if left > 0:
        yield f"     and {left} more"


def _wrapped(text: str, head: str = "  ") -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    )


def _aligned(rows: Sequence[Sequence[str]], texts: Sequence[int]) -> Iterator[str]:
    """Rows whose columns line up; those of `texts` begin at the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            text.ljust(width) if place in texts else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
