"""What the template shows of each row: charts and the words beside them."""

from collections.abc import Mapping
from dataclasses import dataclass

from rightsizer.domain.state import Cause, Resource
from rightsizer.publish.report.charts.bars import bar, fit_bar
from rightsizer.publish.report.charts.stacked import Column, shares, stacked_columns
from rightsizer.publish.report.charts.strip import strip
from rightsizer.publish.report.figures import number, percent
from rightsizer.publish.report.fit_text import fit_text, verdict, verdict_kind
from rightsizer.publish.report.model import CauseRow, Day, DeviceRow, ReportModel, WorkloadRow
from rightsizer.publish.report.words import CAUSES, GROUP_NAMES, GROUPS, Group

__all__ = [
    "cause_views",
    "cell_text",
    "days_chart",
    "device_views",
    "main_cause",
    "resources_of",
    "workload_views",
]

_FROM_ISO_YEAR = 5
_MOST_HOLDERS = 3


@dataclass(frozen=True, slots=True)
class FitView:
    """A resource of a device."""

    bar: str
    text: str


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device."""

    device: DeviceRow
    holders: str
    shares: str
    strip: str
    percents: tuple[str, ...]
    cause: str
    fits: tuple[FitView, ...]
    verdict: str
    verdict_kind: str


@dataclass(frozen=True, slots=True)
class CauseView:
    """A cause of waste."""

    cause: CauseRow
    name: str
    bar: str


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """A workload."""

    workload: WorkloadRow
    shares: str
    cause: str


def days_chart(model: ReportModel) -> str:
    """All GPUs, a column a day."""
    columns = [
        Column(day.date[_FROM_ISO_YEAR:], day.groups, f"{day.date}: {_told(day)}")
        for day in model.days
    ]
    name = "What all GPUs did, day by day"
    return stacked_columns(name, "The same numbers are in the tables below.", columns)


def cell_text(model: ReportModel) -> str:
    """How long a cell of the strips is."""
    hours = model.devices[0].strip.cell_hours if model.devices else 1
    return "hour" if hours == 1 else f"{hours} hours"


def device_views(model: ReportModel) -> list[DeviceView]:
    """Every device."""
    resources = resources_of(model)
    return [_device(row, resources) for row in model.devices]


def cause_views(model: ReportModel) -> list[CauseView]:
    """Every cause."""
    return [
        CauseView(row, CAUSES[Cause(row.cause)], bar(row.cause, row.share_ratio, "wasted"))
        for row in model.causes
    ]


def workload_views(model: ReportModel) -> list[WorkloadView]:
    """Every workload."""
    return [
        WorkloadView(
            row,
            shares(row.workload, row.groups, GROUP_NAMES),
            CAUSES[Cause(row.main_cause)] if row.main_cause else "-",
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
    return CAUSES[Cause(max(waste, key=lambda cause: waste[cause]))]


def _device(row: DeviceRow, resources: list[Resource]) -> DeviceView:
    known = sum(row.groups.values()) - row.groups[Group.NO_DATA]
    more = len(row.workloads) - _MOST_HOLDERS
    holders = ", ".join(row.workloads[:_MOST_HOLDERS]) + (f" and {more} more" if more > 0 else "")
    return DeviceView(
        device=row,
        holders=holders or "no known owner",
        shares=shares(row.label, row.groups, GROUP_NAMES),
        strip=strip(f"{row.label} over time", row.strip.cells, GROUP_NAMES),
        percents=tuple(
            percent(row.groups[group] / known) if known else "-"
            for group in GROUPS
            if group is not Group.NO_DATA
        ),
        cause=main_cause(row.waste_hours),
        fits=tuple(_fit(row, resource) for resource in resources),
        verdict=verdict(row),
        verdict_kind=verdict_kind(row),
    )


def _fit(row: DeviceRow, resource: Resource) -> FitView:
    found = next((each for each in row.fits if each.resource == resource), None)
    demand, need = (None, None) if found is None else (found.demand, found.need)
    return FitView(fit_bar(f"{row.label}, {resource}", demand, need), fit_text(row, resource))


def _told(day: Day) -> str:
    return ", ".join(
        f"{GROUP_NAMES[Group(group)]} {number(hours)} h"
        for group, hours in day.groups.items()
        if hours
    )
