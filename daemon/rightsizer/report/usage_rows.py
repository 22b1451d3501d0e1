"""Rows of devices and of workloads over the span: use, waste, fit."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple, replace
from typing import Final

from rightsizer.model.state import Resource, State
from rightsizer.model.units import HOUR_SECONDS, NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.report.facts import ReportDeviceFacts, ReportFacts, Slice, WorkloadFacts
from rightsizer.report.labels import GROUP_OF, GROUPS, StateGroup
from rightsizer.report.model import DeviceRow, FitRow, StripRow, WorkloadRow, energy_of, priced

HOUR: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND
_MOST_CELLS: Final = 5760
"""Of all strips together: 8 GPUs by the hour for 30 days, so that a document stays small."""
_CELL_HOURS: Final = (1, 2, 3, 4, 6, 8, 12, 24, 48, 168)


def device_row(facts: ReportDeviceFacts, report: ReportFacts) -> DeviceRow:
    """One device."""
    device, window = facts.device, facts.window
    part = device.capacity_ratio
    states = hours_by_state(window.states, part)
    # A parent of MIG instances should have no time but that before it was divided.
    accounted = window.accounted
    total = accounted if device.has_mig_instances else max(report.until - report.since, accounted)
    total_hours = total * part / HOUR
    unrecorded = max(0.0, total_hours - sum(states.values()))
    wasted_seconds = sum(window.waste_seconds.values())
    waste_joules = energy_of(facts, sum(window.waste_joules.values()))
    known = sum(states.values()) - states.get(State.UNKNOWN, 0.0)
    return DeviceRow(
        uuid=device.uuid,
        index=device.stated_index,
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
        used_hours=window.used_seconds * part / HOUR_SECONDS,
        effective_utilization=window.effective_utilization,
        headroom_ratio=window.headroom_ratio,
        wasted=priced(wasted_seconds * part / HOUR_SECONDS, waste_joules, facts.rate),
        waste_hours={
            cause: lost * part / HOUR_SECONDS for cause, lost in window.waste_seconds.items()
        },
        fits=tuple(
            FitRow(resource, *astuple(facts.provisioning.resources[resource]))
            for resource in Resource
            if resource in facts.provisioning.resources
        ),
        overprovisioned=facts.provisioning.overprovisioned,
        underprovisioned=facts.provisioning.underprovisioned,
        is_underprovisioned=facts.provisioning.is_underprovisioned,
        memory_is_preallocated=facts.provisioning.memory_is_preallocated,
        strip=_strip(facts.slices, report),
    )


def label_of(facts: ReportDeviceFacts) -> str:
    """What a device is called: `GPU 3`, `MIG 12 (1g.10gb)`."""
    mig = facts.device.mig
    if mig is None:
        return facts.device.title
    return f"MIG {facts.device.index} ({mig.profile})"


def hours_by_state(states: Mapping[State, Nanoseconds], part: float = 1.0) -> dict[str, float]:
    """GPU-hours by state, in the order of the states; those that were not are left out."""
    return {state: states[state] * part / HOUR for state in State if states.get(state)}


def grouped(states: Mapping[str, float], unrecorded: float = 0.0) -> dict[str, float]:
    """Hours by group of states, every group."""
    found: Counter[StateGroup] = Counter({StateGroup.NO_DATA: unrecorded})
    for state, hours in states.items():
        found[GROUP_OF[State(state)]] += hours  # type: ignore[assignment] # Hours.
    return {group: float(found[group]) for group in GROUPS}


def _strip(slices: Iterable[Slice], report: ReportFacts) -> StripRow:
    hours = max(1, -(-(report.until - report.since) // HOUR))
    count = max(1, len(report.devices))
    cell = next((each for each in _CELL_HOURS if hours * count <= each * _MOST_CELLS), 168)
    times: dict[int, Counter[StateGroup]] = {}
    for each in slices:
        place = (each.start - report.since) // (cell * HOUR)
        counts = times.setdefault(max(0, place), Counter())
        for state, time in each.states.items():
            counts[GROUP_OF[state]] += time
    cells = range(-(-hours // cell))
    # The first group of the most, and no data where there is none.
    found = (times.get(place) or {StateGroup.NO_DATA: 1} for place in cells)
    mostly = (max(GROUPS, key=lambda group: each.get(group, 0)) for each in found)
    return StripRow(cell, tuple(mostly))


def workload_rows(facts: ReportFacts) -> tuple[WorkloadRow, ...]:
    """Those that held anything, by what they wasted, most first."""
    devices = {each.device.uuid: each for each in facts.devices}
    rows = [_row(each, devices) for each in facts.workloads if each.window.accounted]
    return tuple(sorted(rows, key=lambda row: (-row.wasted.gpu_hours, row.workload)))


def _row(facts: WorkloadFacts, devices: Mapping[str, ReportDeviceFacts]) -> WorkloadRow:
    held = [devices[uuid] for uuid in facts.devices if uuid in devices]
    parts = [each.device.capacity_ratio for each in held]
    # How much of a GPU its devices are; their mean, for which it held when is not kept apart.
    window, part = facts.window, sum(parts) / len(parts) if parts else 1.0
    # If its devices are not known, it held some of these.
    rates = [each.rate for each in held or devices.values()]
    known_rates = [each for each in rates if each is not None]
    rate = None
    # From the cheapest of its devices at the least to the dearest at the most.
    if known_rates and len(known_rates) == len(rates):
        rate = replace(
            known_rates[0],
            dollars_per_hour_low=min(each.dollars_per_hour_low for each in known_rates),
            dollars_per_hour_high=max(each.dollars_per_hour_high for each in known_rates),
        )
    states = hours_by_state(window.states, part)
    total = sum(states.values())
    known = total - states.get(State.UNKNOWN, 0.0)
    waste = {str(cause): lost * part / HOUR_SECONDS for cause, lost in window.waste_seconds.items()}
    measures_energy = window.energy_joules > 0.0
    return WorkloadRow(
        workload=facts.key,
        devices=tuple(label_of(each) for each in held),
        held=priced(total, window.energy_joules if measures_energy else None, rate),
        coverage_ratio=known / total if total else 0.0,
        groups=grouped(states),
        used_hours=window.used_seconds * part / HOUR_SECONDS,
        wasted=priced(
            sum(waste.values()),
            sum(window.waste_joules.values()) if measures_energy else None,
            rate,
        ),
        waste_hours=waste,
        main_cause=max(waste, key=lambda cause: waste[cause]) if any(waste.values()) else None,
    )
