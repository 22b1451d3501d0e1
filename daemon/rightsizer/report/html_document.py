"""The report as one self-contained HTML document: views of rows, charts and texts."""

import datetime as dt
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from rightsizer.model.advice import OPEN_STATES, AdviceState
from rightsizer.model.state import Cause, Resource
from rightsizer.report.charts import ChartColumn, bar, fit_bar, shares, stacked_columns, strip
from rightsizer.report.figures import (
    dollars,
    fit_text,
    fit_verdict,
    fit_verdict_class,
    kinds_text,
    method,
    moment_text,
    number,
    percent,
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
    StateGroup,
    first_names,
)
from rightsizer.report.model import DeviceRow, ReportModel
from rightsizer.report.summary import saved_text, summary_of, unknown_text
from rightsizer.report.template import rendered

_FROM_ISO_YEAR = 5
_MOST_HOLDERS = 3
MOST_ROWS: Final = 50
"""Of workloads and of outcomes, so that a document stays small; JSON has all."""
ENDED: Final = tuple(state for state in AdviceState if state not in OPEN_STATES)
KNOWN_GROUPS: Final = tuple(group for group in GROUPS if group is not StateGroup.NO_DATA)


def resources_of(model: ReportModel) -> list[Resource]:
    """Resources of which anything is known of some device."""
    known = {fit.resource for row in model.devices for fit in row.fits if fit.need is not None}
    return [resource for resource in Resource if resource in known]


def main_cause(waste: Mapping[str, float]) -> str:
    """Why most of it went unused."""
    if not any(waste.values()):
        return "-"
    return CAUSE_LABELS[Cause(max(waste, key=lambda cause: waste[cause]))]


def group_percents(row: DeviceRow) -> list[str]:
    """Each group's share of a device's known time."""
    known = sum(row.groups[group] for group in KNOWN_GROUPS)
    return [percent(row.groups[group] / known) if known else "-" for group in KNOWN_GROUPS]


def _days_chart(model: ReportModel) -> str:
    """All GPUs, a column a day."""
    columns = []
    for day in model.days:
        told = (
            f"{GROUP_NAMES[group]} {number(hours)} h"
            for group, hours in day.groups.items()
            if hours
        )
        tip = f"{day.date}: {', '.join(told)}"
        columns.append(ChartColumn(day.date[_FROM_ISO_YEAR:], day.groups, tip))
    name = "What all GPUs did, day by day"
    return stacked_columns(name, "The same numbers are in the tables below.", columns)


def _device(row: DeviceRow, resources: list[Resource]) -> dict[str, Any]:
    known = {fit.resource: (fit.demand, fit.need) for fit in row.fits}
    return {
        "device": row,
        "holders": first_names(row.workloads, _MOST_HOLDERS) or "no known owner",
        "shares": shares(row.label, row.groups, GROUP_NAMES),
        "strip": strip(f"{row.label} over time", row.strip.cells, GROUP_NAMES),
        "percents": group_percents(row),
        "cause": main_cause(row.waste_hours),
        "fits": [
            {
                "bar": fit_bar(f"{row.label}, {each}", *known.get(each, (None, None))),
                "text": fit_text(row, each),
            }
            for each in resources
        ],
        "verdict": fit_verdict(row),
        "verdict_kind": fit_verdict_class(row),
    }


def html_document(model: ReportModel, timezone: dt.tzinfo) -> str:
    """All of it."""
    resources = resources_of(model)
    cell_hours = model.devices[0].strip.cell_hours if model.devices else 1
    return rendered(
        "report.html",
        {"moment": partial(moment_text, timezone=timezone)},
        model=model,
        when=span_line(model.span, timezone),
        kinds=kinds_text(model),
        story=list(summary_of(model)),
        method=list(method(model)),
        saved_text=saved_text,
        unknown_text=unknown_text,
        dollars=dollars,
        days_chart=_days_chart(model),
        cell_text="hour" if cell_hours == 1 else f"{cell_hours} hours",
        device_views=[_device(row, resources) for row in model.devices],
        cause_views=[
            {
                "cause": row,
                "name": CAUSE_LABELS[Cause(row.cause)],
                "bar": bar(row.cause, row.share_ratio, "wasted"),
            }
            for row in model.causes
        ],
        workload_views=[
            {
                "workload": row,
                "shares": shares(row.workload, row.groups, GROUP_NAMES),
                "cause": CAUSE_LABELS[Cause(row.main_cause)] if row.main_cause else "-",
            }
            for row in model.workloads[:MOST_ROWS]
        ],
        more_workloads=len(model.workloads) > MOST_ROWS,
        outcomes=model.outcomes[:MOST_ROWS],
        more_outcomes=len(model.outcomes) > MOST_ROWS,
        resources=resources,
        actions=ACTION_LABELS,
        conditions=CONDITION_LABELS,
        ended=ENDED,
        group_meanings=GROUP_MEANINGS,
        group_names=GROUP_NAMES,
        groups=GROUPS,
        resource_names=RESOURCE_LABELS,
        states=STATE_LABELS,
    )
