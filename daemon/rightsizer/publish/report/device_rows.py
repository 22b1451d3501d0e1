"""Devices over the span: what they did, what was wasted, how well they fit."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from rightsizer.domain.state import Resource, State
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.domain.window import Provisioning
from rightsizer.publish.report.amount import energy_of, priced
from rightsizer.publish.report.facts import DeviceFacts, ReportFacts, Slice
from rightsizer.publish.report.model import DeviceRow, FitRow, StripRow
from rightsizer.publish.report.words import GROUP_OF, GROUPS, Group

__all__ = ["HOUR", "device_row", "grouped", "hours_by_state", "label_of"]

HOUR: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND
_MOST_CELLS: Final = 5760
"""Of all strips together: 8 GPUs by the hour for 30 days, so that a document stays small."""
_CELL_HOURS: Final = (1, 2, 3, 4, 6, 8, 12, 24, 48, 168)
_SECONDS_PER_HOUR: Final = 3600.0


def device_row(facts: DeviceFacts, report: ReportFacts) -> DeviceRow:
    """One device."""
    device, window = facts.device, facts.window
    part = device.capacity_ratio
    states = hours_by_state(window.states, part)
    total_hours = _span_hours(facts, report)
    unrecorded = max(0.0, total_hours - sum(states.values()))
    wasted_seconds = sum(window.waste_seconds.values())
    waste_joules = energy_of(facts, sum(window.waste_joules.values()))
    known = sum(states.values()) - states.get(State.UNKNOWN, 0.0)
    return DeviceRow(
        uuid=device.uuid,
        index=device.index,
        label=label_of(facts),
        model=device.name or device.board or "",
        capacity_ratio=part,
        workloads=facts.workloads,
        tier=window.tier,
        total=priced(total_hours, energy_of(facts, window.energy_joules), facts.rate),
        coverage_ratio=min(1.0, known / total_hours) if total_hours else 0.0,
        groups=grouped(states, unrecorded),
        states=states,
        unrecorded_hours=unrecorded,
        used_hours=window.used_seconds * part / _SECONDS_PER_HOUR,
        wasted=priced(wasted_seconds * part / _SECONDS_PER_HOUR, waste_joules, facts.rate),
        waste_hours={
            cause: lost * part / _SECONDS_PER_HOUR for cause, lost in window.waste_seconds.items()
        },
        fits=tuple(_fits(facts.provisioning)),
        overprovisioned=facts.provisioning.overprovisioned,
        underprovisioned=facts.provisioning.underprovisioned,
        is_underprovisioned=facts.provisioning.is_underprovisioned,
        memory_is_preallocated=facts.provisioning.memory_is_preallocated,
        strip=_strip(facts.slices, report),
    )


def label_of(facts: DeviceFacts) -> str:
    """What a device is called: `GPU 3`, `MIG 12 (1g.10gb)`."""
    mig = facts.device.mig
    if mig is None:
        return f"GPU {facts.device.index}"
    return f"MIG {facts.device.index} ({mig.profile})"


def hours_by_state(states: Mapping[State, Nanoseconds], part: float = 1.0) -> dict[str, float]:
    """GPU-hours by state, in the order of the states; those that were not are left out."""
    return {state: states[state] * part / HOUR for state in State if states.get(state)}


def grouped(states: Mapping[str, float], unrecorded: float = 0.0) -> dict[str, float]:
    """Hours by group of states, every group."""
    found: Counter[Group] = Counter({Group.NO_DATA: unrecorded})
    for state, hours in states.items():
        found[GROUP_OF[State(state)]] += hours  # type: ignore[assignment] # Hours.
    return {group: float(found[group]) for group in GROUPS}


def _span_hours(facts: DeviceFacts, report: ReportFacts) -> float:
    """The time that a device should have been accounted for.

    A parent of MIG instances has none but that before it was divided.
    """
    accounted = facts.window.accounted
    if facts.device.has_mig_instances:
        return accounted * facts.device.capacity_ratio / HOUR
    return max(report.until - report.since, accounted) * facts.device.capacity_ratio / HOUR


def _fits(provisioning: Provisioning) -> Iterable[FitRow]:
    for resource in Resource:
        fit = provisioning.resources.get(resource)
        if fit is not None:
            yield FitRow(
                resource,
                fit.demand,
                fit.need,
                fit.overprovisioned,
                fit.saturated,
                fit.underprovisioned,
            )


def _strip(slices: Iterable[Slice], report: ReportFacts) -> StripRow:
    hours = max(1, -(-(report.until - report.since) // HOUR))
    count = max(1, len(report.devices))
    cell = next((each for each in _CELL_HOURS if hours * count <= each * _MOST_CELLS), 168)
    times: dict[int, Counter[Group]] = {}
    for each in slices:
        place = (each.start - report.since) // (cell * HOUR)
        counts = times.setdefault(max(0, place), Counter())
        for state, time in each.states.items():
            counts[GROUP_OF[state]] += time
    cells = range(-(-hours // cell))
    return StripRow(cell, tuple(_mostly(times.get(place)) for place in cells))


def _mostly(counts: Counter[Group] | None) -> Group:
    if not counts:
        return Group.NO_DATA
    return max(GROUPS, key=lambda group: counts[group])
