"""Who uses the node, as rows of a table."""

from collections.abc import Mapping
from dataclasses import dataclass

from rightsizer.model.report import Report, WorkloadReport
from rightsizer.model.state import ACTIVE_STATES, State
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import WorkloadClass
from rightsizer.report.labels import ABSENT, MomentLabel, display_name, moment_label, percent_label
from rightsizer.web.view.waste import waste_view

_JOULES_PER_KILOWATT_HOUR = 3.6e6


@dataclass(frozen=True, slots=True)
class WorkloadTableRow:
    """What the template shows of a workload; a dash stands for what is not known."""

    key: str
    workload_class: str
    devices: str
    """With the shares that it holds of them, where they are not whole."""
    busy: str
    busy_ratio: float
    used: str
    waste: str
    """The largest causes."""
    energy: str
    share: str
    """Of the time that all workloads of the node held."""
    left: MomentLabel | None
    """When it was last seen, `None` where it is here."""


def workload_rows(
    report: Report, names: Mapping[str, str], now: Nanoseconds
) -> tuple[WorkloadTableRow, ...]:
    """All workloads that did something since the agent started, most time first."""
    held = _held(report)
    known = [each for each in report.workloads if _known_seconds(each) or each.workload.key in held]
    total = sum(map(_known_seconds, known))
    known.sort(key=lambda each: (each.workload.key not in held, -_known_seconds(each)))
    return tuple(_row(each, held, names, total, now) for each in known)


def _row(
    report: WorkloadReport,
    held: Mapping[str, Mapping[str, float]],
    names: Mapping[str, str],
    total_seconds: float,
    now: Nanoseconds,
) -> WorkloadTableRow:
    workload, totals = report.workload, report.totals
    known = _known_seconds(report)
    busy = sum(totals.state_seconds.get(state, 0.0) for state in ACTIVE_STATES)
    waste = waste_view([(totals, 1.0)])
    causes = sorted(waste.parts, key=lambda part: -part.ratio)
    wasted = [part for part in causes if part.key != "waste-used"][:2]
    joules = totals.used_joules + sum(totals.waste_joules.values())
    is_class_known = workload.workload_class is not WorkloadClass.UNKNOWN
    return WorkloadTableRow(
        key=workload.key,
        workload_class=display_name(workload.workload_class) if is_class_known else ABSENT,
        devices=_devices(report, held.get(workload.key, {}), names),
        busy=percent_label(busy / known) if known else ABSENT,
        busy_ratio=busy / known if known else 0.0,
        used=waste.used_text or ABSENT,
        waste=", ".join(f"{part.name.lower()} {part.text}" for part in wasted) or ABSENT,
        energy=f"{joules / _JOULES_PER_KILOWATT_HOUR:,.2f}" if joules else ABSENT,
        share=percent_label(known / total_seconds) if total_seconds else ABSENT,
        left=None if workload.key in held else moment_label(report.last_seen, now),
    )


def _known_seconds(report: WorkloadReport) -> float:
    states = report.totals.state_seconds
    return sum(states.values()) - states.get(State.UNKNOWN, 0.0)


def _held(report: Report) -> dict[str, dict[str, float]]:
    """The shares that each workload holds now, by its key and the device."""
    held: dict[str, dict[str, float]] = {}
    for device in report.devices:
        for holding in device.holdings:
            shares = held.setdefault(holding.workload.key, {})
            shares[device.device.uuid] = holding.share_ratio
    return held


def _devices(report: WorkloadReport, shares: Mapping[str, float], names: Mapping[str, str]) -> str:
    parts = []
    for uuid in shares or report.devices:
        name, share = names.get(uuid, uuid), shares.get(uuid, 1.0)
        parts.append(name if share >= 1 else f"{name} ({percent_label(share)})")
    return ", ".join(parts)
