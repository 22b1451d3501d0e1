"""Workloads over the span, and what nobody held."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from rightsizer.domain.state import State
from rightsizer.publish.report.amount import priced
from rightsizer.publish.report.device_rows import grouped, hours_by_state, label_of
from rightsizer.publish.report.facts import DeviceFacts, Rate, ReportFacts, WorkloadFacts
from rightsizer.publish.report.model import WorkloadRow

__all__ = ["workload_rows"]

_SECONDS_PER_HOUR: Final = 3600.0


def workload_rows(facts: ReportFacts) -> tuple[WorkloadRow, ...]:
    """Those that held anything, by what they wasted, most first."""
    devices = {each.device.uuid: each for each in facts.devices}
    rows = [_row(each, devices) for each in facts.workloads if each.window.accounted]
    return tuple(sorted(rows, key=lambda row: (-row.wasted.gpu_hours, row.workload)))


def _row(facts: WorkloadFacts, devices: Mapping[str, DeviceFacts]) -> WorkloadRow:
    held = [devices[uuid] for uuid in facts.devices if uuid in devices]
    # Whose devices nobody noted down held some of these.
    window, part, rate = facts.window, _part(held), _rate(held or list(devices.values()))
    states = hours_by_state(window.states, part)
    total = sum(states.values())
    known = total - states.get(State.UNKNOWN, 0.0)
    waste = {
        str(cause): lost * part / _SECONDS_PER_HOUR for cause, lost in window.waste_seconds.items()
    }
    measures_energy = window.energy_joules > 0.0
    return WorkloadRow(
        workload=facts.key,
        devices=tuple(label_of(each) for each in held),
        held=priced(total, window.energy_joules if measures_energy else None, rate),
        coverage_ratio=known / total if total else 0.0,
        groups=grouped(states),
        used_hours=window.used_seconds * part / _SECONDS_PER_HOUR,
        wasted=priced(
            sum(waste.values()),
            sum(window.waste_joules.values()) if measures_energy else None,
            rate,
        ),
        waste_hours=waste,
        main_cause=max(waste, key=lambda cause: waste[cause]) if any(waste.values()) else None,
    )


def _part(held: Sequence[DeviceFacts]) -> float:
    """How much of a GPU its devices are; their mean, for which it held when is not kept apart."""
    parts = [each.device.capacity_ratio for each in held]
    return sum(parts) / len(parts) if parts else 1.0


def _rate(held: Sequence[DeviceFacts]) -> Rate | None:
    """From the cheapest of its devices at the least to the dearest at the most."""
    rates = [each.rate for each in held]
    known = [rate for rate in rates if rate is not None]
    if not known or len(known) < len(rates):
        return None
    return replace(
        known[0],
        dollars_per_hour_low=min(rate.dollars_per_hour_low for rate in known),
        dollars_per_hour_high=max(rate.dollars_per_hour_high for rate in known),
    )
