"""The report as one self-contained HTML document: views of rows, charts and texts."""

import datetime as dt
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from rightsizer.model.advice import OPEN_STATES, AdviceState
from rightsizer.model.frozen import dataclass
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
)
from rightsizer.report.model import CauseRow, DeviceRow, ReportDay, ReportModel, WorkloadRow
from rightsizer.report.summary import saved_text, summary_of
from rightsizer.report.template import rendered

_FROM_ISO_YEAR = 5
_MOST_HOLDERS = 3


@dataclass(frozen=True, slots=True)
class FitCellView:
    """A resource of a device."""

    bar: str
    text: str


@dataclass(frozen=True, slots=True)
class DeviceRowView:
    """A device."""

    device: DeviceRow
    holders: str
    shares: str
    strip: str
    percents: tuple[str, ...]
    cause: str
    fits: tuple[FitCellView, ...]
    verdict: str
    verdict_kind: str


@dataclass(frozen=True, slots=True)
class CauseView:
    """A cause of waste."""

    cause: CauseRow
    name: str
    bar: str


@dataclass(frozen=True, slots=True)
class WorkloadRowView:
    """A workload."""

    workload: WorkloadRow
    shares: str
    cause: str


def days_chart(model: ReportModel) -> str:
    """All GPUs, a column a day."""
    columns = [
        ChartColumn(day.date[_FROM_ISO_YEAR:], day.groups, f"{day.date}: {_told(day)}")
        for day in model.days
    ]
    name = "What all GPUs did, day by day"
    return stacked_columns(name, "The same numbers are in the tables below.", columns)


def cell_text(model: ReportModel) -> str:
    """How long a cell of the strips is."""
    hours = model.devices[0].strip.cell_hours if model.devices else 1
    return "hour" if hours == 1 else f"{hours} hours"


def device_views(model: ReportModel) -> list[DeviceRowView]:
    """Every device."""
    resources = resources_of(model)
    return [_device(row, resources) for row in model.devices]


def cause_views(model: ReportModel) -> list[CauseView]:
    """Every cause."""
    return [
        CauseView(row, CAUSE_LABELS[Cause(row.cause)], bar(row.cause, row.share_ratio, "wasted"))
        for row in model.causes
    ]


def workload_views(model: ReportModel) -> list[WorkloadRowView]:
    """Every workload."""
    return [
        WorkloadRowView(
            row,
            shares(row.workload, row.groups, GROUP_NAMES),
            CAUSE_LABELS[Cause(row.main_cause)] if row.main_cause else "-",
        )
        for row in model.workloads
    ]


def resources_of(model: ReportModel) -> list[Resource]:
    """Resources of which anything is known of some device."""
    known = {fit.resource for row in model.devices for fit in row.fits if fit.need is not None}
    return [resource for resource in Resource if resource in known]


def main_cause(waste: Mapping[str, float]) -> str:
    """Why most of it went unused."""
    if not any(waste.values()):
        return "-"
    return CAUSE_LABELS[Cause(max(waste, key=lambda cause: waste[cause]))]


def _device(row: DeviceRow, resources: list[Resource]) -> DeviceRowView:
    known = sum(row.groups.values()) - row.groups[StateGroup.NO_DATA]
    more = len(row.workloads) - _MOST_HOLDERS
    holders = ", ".join(row.workloads[:_MOST_HOLDERS]) + (f" and {more} more" if more > 0 else "")
    return DeviceRowView(
        device=row,
        holders=holders or "no known owner",
        shares=shares(row.label, row.groups, GROUP_NAMES),
        strip=strip(f"{row.label} over time", row.strip.cells, GROUP_NAMES),
        percents=tuple(
            percent(row.groups[group] / known) if known else "-"
            for group in GROUPS
            if group is not StateGroup.NO_DATA
        ),
        cause=main_cause(row.waste_hours),
        fits=tuple(_fit(row, resource) for resource in resources),
        verdict=fit_verdict(row),
        verdict_kind=fit_verdict_class(row),
    )


def _fit(row: DeviceRow, resource: Resource) -> FitCellView:
    found = next((each for each in row.fits if each.resource == resource), None)
    demand, need = (None, None) if found is None else (found.demand, found.need)
    return FitCellView(fit_bar(f"{row.label}, {resource}", demand, need), fit_text(row, resource))


def _told(day: ReportDay) -> str:
    return ", ".join(
        f"{GROUP_NAMES[StateGroup(group)]} {number(hours)} h"
        for group, hours in day.groups.items()
        if hours
    )


MOST_ROWS: Final = 50
"""Of workloads and of outcomes, so that a document stays small; JSON has all."""


def html_document(model: ReportModel, timezone: dt.tzinfo) -> str:
    """All of it."""
    words: Mapping[str, Any] = {
        "actions": ACTION_LABELS,
        "conditions": CONDITION_LABELS,
        "ended": [state for state in AdviceState if state not in OPEN_STATES],
        "group_meanings": GROUP_MEANINGS,
        "group_names": GROUP_NAMES,
        "groups": GROUPS,
        "resource_names": RESOURCE_LABELS,
        "states": STATE_LABELS,
    }
    return rendered(
        "report.html",
        {"moment": partial(moment_text, timezone=timezone)},
        model=model,
        when=span_line(model.span, timezone),
        kinds=kinds_text(model),
        story=list(summary_of(model)),
        method=list(method(model)),
        saved_text=saved_text,
        dollars=dollars,
        days_chart=days_chart(model),
        cell_text=cell_text(model),
        device_views=device_views(model),
        cause_views=cause_views(model),
        workload_views=workload_views(model)[:MOST_ROWS],
        more_workloads=len(model.workloads) > MOST_ROWS,
        outcomes=model.outcomes[:MOST_ROWS],
        more_outcomes=len(model.outcomes) > MOST_ROWS,
        resources=resources_of(model),
        **words,
    )
