"""Figures of a report as text: significant digits, ranges, spans, fit, period and method."""

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from rightsizer.model.values import Resource, dollars_text, number_text, percent_text
from rightsizer.report.labels import GROUPS, RESOURCE_LABELS, StateGroup
from rightsizer.report.model import DeviceRow, FitRow, ReportModel, ReportSpan, UsageAmount

NOTHING: Final = "not known"
KNOWN_GROUPS: Final = tuple(group for group in GROUPS if group is not StateGroup.NO_DATA)


def percent(share: float | None) -> str:
    """Format a share in whole percent."""
    return NOTHING if share is None else percent_text(share)


def hours(value: float | None) -> str:
    """Format hours, as in `1,234 h`."""
    return NOTHING if value is None else f"{number_text(value)} h"


def kilowatt_hours(value: float | None) -> str:
    """Format energy, as in `123 kWh`."""
    return NOTHING if value is None else f"{number_text(value)} kWh"


def dollars(low: float | None, high: float | None, point: float | None = None) -> str:
    """Format money, as in `$180 ($120 to $340)`; without a point only the range."""
    written = partial(dollars_text, beside=high or 0.0)
    ends = _interval(low, high, written)
    return ends if point is None or low == high else f"{written(point)} ({ends})"


def span_text(low: float | None, high: float | None) -> str:
    """Format a range, as in `1 to 2`."""
    return _interval(low, high, number_text)


def _interval(low: float | None, high: float | None, written: Callable[[float], str]) -> str:
    if low is None:
        return NOTHING
    first = written(low)
    last = written(low if high is None else high)
    if first == last:
        return first
    return f"{first} to {last}" if low else f"up to {last}"


def money(amount: UsageAmount) -> str:
    """Format the cost of an amount."""
    return dollars(amount.dollars_low, amount.dollars_high, amount.dollars_typical)


def moment_text(time: float | None, timezone: dt.tzinfo) -> str:
    """Format a time, as in `2026-01-31 14:05`."""
    if time is None:
        return "-"
    return dt.datetime.fromtimestamp(time, timezone).strftime("%Y-%m-%d %H:%M")


_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def group_percent(group: StateGroup, row: DeviceRow) -> str:
    """Return a group's share of a device's known time."""
    known_hours = sum(row.groups[known_group] for known_group in KNOWN_GROUPS)
    return percent(row.groups[group] / known_hours) if known_hours else "-"


def resources_of(model: ReportModel) -> list[Resource]:
    """Return the resources with a known need on any device."""
    resources = {fit.resource for row in model.devices for fit in row.fits if fit.need is not None}
    return [resource for resource in Resource if resource in resources]


def fit_of(row: DeviceRow, resource: Resource) -> FitRow | None:
    """Return the fit of a resource, or `None` if unknown."""
    return next((fit_row for fit_row in row.fits if fit_row.resource == resource), None)


def fit_text(row: DeviceRow, resource: Resource) -> str:
    """Format a resource's need, as in `63 %`, or why it is unknown."""
    if (fit := fit_of(row, resource)) is not None and fit.need is not None:
        return percent(fit.need)
    if resource is Resource.MEMORY and row.memory_is_preallocated:
        return "preallocated: tells no need"
    return "not known"


def fit_verdict(row: DeviceRow) -> str:
    """Describe the fit of the whole device."""
    if row.is_underprovisioned:
        short = ", ".join(
            RESOURCE_LABELS[Resource(fit.resource)]
            for fit in row.fits
            if fit.underprovisioned is not None and fit.underprovisioned == row.underprovisioned
        )
        share = percent(row.underprovisioned)
        return f"too small: short of {short or 'a resource'} {share} of the time"
    if row.overprovisioned is None:
        return "not enough is known"
    is_over = row.overprovisioned > 0
    return f"{percent(row.overprovisioned)} more than is needed" if is_over else "needed as it is"


_MOMENT: Final = dt.timedelta(seconds=1)


def span_line(span: ReportSpan, timezone: dt.tzinfo) -> str:
    """Format a span, last day included, as in `5 January 2026 to 3 February 2026`; no locale."""
    moments = (span.start, span.end)
    start, end = (dt.datetime.fromtimestamp(moment, timezone) for moment in moments)
    dates = dict.fromkeys((start.date(), (end - _MOMENT).date()))
    return " to ".join(f"{date.day} {_MONTHS[date.month - 1]} {date.year}" for date in dates)


def kinds_text(model: ReportModel) -> str:
    """Count the GPU models, as in `8 x NVIDIA H100 80GB HBM3`."""
    counts = Counter(row.model or "GPU of unknown kind" for row in model.devices)
    return ", ".join(f"{count} x {kind}" for kind, count in sorted(counts.items()))


def method(model: ReportModel) -> Iterator[str]:
    """Yield sentences on how the figures were determined."""
    tiers = sorted({row.tier for row in model.devices if row.used_hours or row.wasted.gpu_hours})
    yield (
        "An agent read every GPU about once a second and gave each second one state; the report "
        "sums them up. States, used and unused time sum to the accounted time; unknown time is "
        "listed as such and never counted as idle."
    )
    yield (
        f"The telemetry was of the {'tiers' if len(tiers) > 1 else 'tier'} "
        f"{', '.join(tiers) or 'none'}: profiling sees pipes and memory traffic, power infers "
        "work from the draw, basic sees only utilization."
    )
    yield (
        "Windows older than two days are kept by the hour, so the span is of whole hours, and a "
        "window counts for the hour and day in which it begins. Energy is that of the GPUs; "
        "a building takes more. GPU time is priced whether it was used or not."
    )
    yield (
        "Savings by the month are of 730 hours. Of advice that excludes other advice only the one "
        "that saves most is counted. What past advice saved was measured, workload before against "
        "workload after, within the time compared."
    )
