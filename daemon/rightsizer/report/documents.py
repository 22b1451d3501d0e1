"""Documents of the report: HTML and Markdown from templates, and a screen of text."""

import datetime as dt
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from rightsizer.io.terminal import aligned, wrapped
from rightsizer.model.advice import OPEN_STATES, AdviceState
from rightsizer.model.units import number_text
from rightsizer.report import charts, figures, labels, summary
from rightsizer.report.block_markdown import escaped
from rightsizer.report.charts import ChartColumn, stacked_columns
from rightsizer.report.evidence import rests_on
from rightsizer.report.labels import GROUP_NAMES, action_label, uncapitalized
from rightsizer.report.model import DeviceRow, ReportDay, ReportModel
from rightsizer.report.summary import alternatives, saved_text, summary_of
from rightsizer.report.template import rendered

_FROM_ISO_YEAR: Final = 5
_MOST_ROWS: Final = 50
"""Limit of workloads and outcomes, to keep documents small; JSON has all."""
_WIDEST: Final = 48
"""Width beyond which a cell does not widen its column."""


def html_document(model: ReportModel, timezone: dt.tzinfo) -> str:
    """Render the full report as HTML."""
    cell_hours = model.devices[0].strip.cell_hours if model.devices else 1
    return rendered(
        "report.html",
        {"moment": partial(figures.moment_text, timezone=timezone)},
        **_values(model, timezone),
        cell_text="hour" if cell_hours == 1 else f"{cell_hours} hours",
        charts=charts,
        days_chart=_days_chart,
    )


def markdown_document(model: ReportModel, timezone: dt.tzinfo) -> str:
    """Render the full report as Markdown, with tables readable in a terminal and in a wiki."""
    return rendered(
        "report.md",
        {"moment": partial(figures.moment_text, timezone=timezone), "table": _table},
        lambda value: escaped(str(value)),
        **_values(model, timezone),
    )


def _values(model: ReportModel, timezone: dt.tzinfo) -> dict[str, Any]:
    return {
        "alternatives": alternatives(model.advice),
        "ended": tuple(state for state in AdviceState if state not in OPEN_STATES),
        "basis": rests_on(model.evidence),
        "figures": figures,
        "labels": labels,
        "model": model,
        "most_rows": _MOST_ROWS,
        "resources": figures.resources_of(model),
        "summary": summary,
        "when": figures.span_line(model.span, timezone),
    }


def _days_chart(days: Sequence[ReportDay]) -> str:
    """Return a chart of all GPUs with a column for each day."""
    columns = []
    for day in days:
        parts = (
            f"{GROUP_NAMES[group]} {number_text(hours)} h"
            for group, hours in day.groups.items()
            if hours
        )
        tip = f"{day.date}: {', '.join(parts)}"
        columns.append(ChartColumn(day.date[_FROM_ISO_YEAR:], day.groups, tip))
    name = "What all GPUs did, day by day"
    return stacked_columns(name, "The same numbers are in the tables below.", columns)


def _table(text: str, sides: str) -> str:
    """Format lines of ` | `-separated cells, header first; `sides` has `l` or `r` per column."""
    lines = [line.split(" | ") for line in text.strip("\n").split("\n")]
    widths = [
        max(3, *(min(_WIDEST, len(cell)) for cell in column)) for column in zip(*lines, strict=True)
    ]
    rule = [
        "-" * (width - (side == "r")) + ":" * (side == "r")
        for width, side in zip(widths, sides, strict=True)
    ]
    first, *rest = (
        [
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, width, side in zip(line, widths, sides, strict=True)
        ]
        for line in lines
    )
    return "".join(f"| {' | '.join(line)} |\n" for line in (first, rule, *rest))


_DEVICES: Final = 16
"""GPUs listed, largest waste first; two nodes fit a screen."""
_ADVICE: Final = 5


def text_document(model: ReportModel, timezone: dt.tzinfo) -> str:
    """Format a summary; the other formats have the details."""
    parts = [
        f"GPU report, {figures.span_line(model.span, timezone)}",
        "\n".join(line for text in summary_of(model) for line in wrapped(text, 2, 0)),
    ]
    if model.has_data:
        parts.append("\n".join(_devices(model)))
    else:
        ends = (model.span.history_start, model.span.history_end)
        start, end = (figures.moment_text(each, timezone) for each in ends)
        parts.append(f"The history holds {start} to {end}.")
    parts.append("\n".join(_to_change(model)))
    if basis := rests_on(model.evidence):
        parts.append("\n".join(line for text in basis for line in wrapped(text, 2, 0)))
    more = "The whole report, with days, workloads, fits and causes: --output report.html"
    parts.append("\n".join(wrapped(more, hanging=0)))
    return "\n\n".join(parts) + "\n"


def _devices(model: ReportModel) -> Iterator[str]:
    rows = sorted(model.devices, key=lambda row: -row.wasted.gpu_hours)
    groups = [GROUP_NAMES[group] for group in figures.KNOWN_GROUPS]
    header = ("GPU", *groups, "known", "unused", "mostly")
    cells = [_device(row) for row in rows[:_DEVICES]]
    yield from aligned(header, cells, {"GPU", "unused", "mostly"}, ("known", *reversed(groups)))
    if len(rows) > _DEVICES:
        yield f"and {len(rows) - _DEVICES} more GPUs, which waste less"


def _device(row: DeviceRow) -> tuple[str, ...]:
    cost = figures.money(row.wasted)
    unused = figures.hours(row.wasted.gpu_hours)
    return (
        row.label,
        *figures.group_percents(row),
        figures.percent(row.coverage_ratio),
        f"{unused}, {cost}" if "$" in cost else unused,
        figures.main_cause(row.waste_hours),
    )


def _to_change(model: ReportModel) -> Iterator[str]:
    if not model.advice and not model.findings:
        yield "Nothing to change is known."
        return
    yield "What to change:"
    firsts = alternatives(model.advice)
    for place, row in enumerate(model.advice[:_ADVICE], 1):
        action = action_label(row.action, row.finding)
        if row.id in firsts:
            action = f"Instead of {firsts[row.id]}: {uncapitalized(action)}"
        yield from wrapped(f"{place:3}. {row.summary}", hanging=5)
        yield from wrapped(f"{action}; {saved_text(row.savings)}", 5, 0)
        yield f"     rightsizer explain {row.id}"
    for place, finding in enumerate(model.findings[: max(0, _ADVICE - len(model.advice))], 1):
        yield from wrapped(f"{len(model.advice) + place:3}. {finding.summary}", hanging=5)
        action = action_label(finding.action, finding.finding)
        yield from wrapped(f"{action}; {figures.percent(finding.confidence)} sure", 5, 0)
    if (left := len(model.advice) + len(model.findings) - _ADVICE) > 0:
        yield f"     and {left} more"
