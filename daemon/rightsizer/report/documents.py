"""The report as one self-contained HTML document, and as Markdown; a template of each says all."""

import datetime as dt
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from rightsizer.model.advice import OPEN_STATES, AdviceState
from rightsizer.model.state import Resource
from rightsizer.report.charts import ChartColumn, bar, fit_bar, shares, stacked_columns, strip
from rightsizer.report.figures import (
    KNOWN_GROUPS,
    dollars,
    fit_of,
    fit_text,
    fit_verdict,
    fit_verdict_class,
    group_percents,
    kinds_text,
    main_cause,
    method,
    moment_text,
    number,
    resources_of,
    span_line,
)
from rightsizer.report.labels import (
    ACTION_LABELS,
    CAUSE_LABELS,
    CONDITION_LABELS,
    GROUP_MEANINGS,
    GROUP_NAMES,
    GROUPS,
    RESOURCE_LABELS,
    STATE_LABELS,
    first_names,
)
from rightsizer.report.model import DeviceRow, ReportDay, ReportModel
from rightsizer.report.summary import saved_text, summary_of, unknown_text
from rightsizer.report.template import rendered

_FROM_ISO_YEAR: Final = 5
_MOST_ROWS: Final = 50
"""Of workloads and of outcomes, so that a document stays small; JSON has all."""
_SPECIAL: Final = re.compile(r"([\\`*\[|~]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?<!\w)_|_(?!\w))")
"""What a renderer would take for more than text; the rest stays readable in a terminal."""
_WIDEST: Final = 48
"""Beyond this a cell is not made room for in the rows above and below."""
_WORDS: Final[dict[str, Any]] = {
    "actions": ACTION_LABELS,
    "causes": CAUSE_LABELS,
    "conditions": CONDITION_LABELS,
    "ended": tuple(state for state in AdviceState if state not in OPEN_STATES),
    "group_meanings": GROUP_MEANINGS,
    "group_names": GROUP_NAMES,
    "groups": GROUPS,
    "known_groups": KNOWN_GROUPS,
    "most_rows": _MOST_ROWS,
    "resource_names": RESOURCE_LABELS,
    "states": STATE_LABELS,
}


def html_document(model: ReportModel, timezone: dt.tzinfo) -> str:
    """All of it."""
    cell_hours = model.devices[0].strip.cell_hours if model.devices else 1
    return rendered(
        "report.html",
        {"moment": partial(moment_text, timezone=timezone)},
        **_values(model, timezone),
        bar=bar,
        cell_text="hour" if cell_hours == 1 else f"{cell_hours} hours",
        days_chart=_days_chart,
        first_names=first_names,
        fit_bar=_fit_bar,
        fit_verdict_class=fit_verdict_class,
        shares=shares,
        strip=strip,
    )


def markdown_document(model: ReportModel, timezone: dt.tzinfo) -> str:
    """All of it, in tables that read well in a terminal and in a wiki."""
    return rendered(
        "report.md",
        {"moment": partial(moment_text, timezone=timezone), "table": _table},
        _cell,
        **_values(model, timezone),
    )


def _values(model: ReportModel, timezone: dt.tzinfo) -> dict[str, Any]:
    """What both templates are given."""
    return _WORDS | {
        "dollars": dollars,
        "fit_text": fit_text,
        "fit_verdict": fit_verdict,
        "group_percents": group_percents,
        "kinds": kinds_text(model),
        "main_cause": main_cause,
        "method": list(method(model)),
        "model": model,
        "resources": resources_of(model),
        "saved_text": saved_text,
        "story": list(summary_of(model)),
        "unknown_text": unknown_text,
        "when": span_line(model.span, timezone),
    }


def _days_chart(days: Sequence[ReportDay]) -> str:
    """All GPUs, a column a day."""
    columns = []
    for day in days:
        told = (
            f"{GROUP_NAMES[group]} {number(hours)} h"
            for group, hours in day.groups.items()
            if hours
        )
        tip = f"{day.date}: {', '.join(told)}"
        columns.append(ChartColumn(day.date[_FROM_ISO_YEAR:], day.groups, tip))
    name = "What all GPUs did, day by day"
    return stacked_columns(name, "The same numbers are in the tables below.", columns)


def _fit_bar(row: DeviceRow, resource: Resource) -> str:
    fit = fit_of(row, resource)
    demand, need = (fit.demand, fit.need) if fit else (None, None)
    return fit_bar(f"{row.label}, {resource}", demand, need)


def _cell(value: object) -> str:
    """A text that is nothing but text to a renderer of Markdown, in one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(value).split()))


def _table(text: str, sides: str) -> str:
    """Lines of ` | ` between cells as a table, the first its header; `l` or `r` for each column."""
    lines = [line.split(" | ") for line in text.strip("\n").split("\n")]
    widths = [
        max(3, *(min(_WIDEST, len(cell)) for cell in column)) for column in zip(*lines, strict=True)
    ]
    rule = [
        "-" * (width - (side == "r")) + ":" * (side == "r")
        for width, side in zip(widths, sides, strict=True)
    ]
    aligned = [
        [
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, width, side in zip(line, widths, sides, strict=True)
        ]
        for line in lines
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in (aligned[0], rule, *aligned[1:]))
