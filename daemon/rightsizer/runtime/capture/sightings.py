"""Who is at work on this node's GPUs, as a report tells it: what a capture goes by."""

from collections.abc import Mapping
from dataclasses import dataclass

from rightsizer.advice.workload_course import WorkloadSighting
from rightsizer.domain.device import Device
from rightsizer.domain.report import DeviceReport, Report, WorkloadReport
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.workload import Workload

__all__ = ["AtWork", "at_work"]


@dataclass(frozen=True, slots=True)
class AtWork:
    """A workload that has processes on devices."""

    workload: Workload
    devices: tuple[Device, ...]
    is_alone: bool
    """Whether nobody else has processes on them, so that all that are there are its own."""
    sighting: WorkloadSighting

    @property
    def pids(self) -> tuple[int, ...]:
        """Its processes, lowest number first; empty where they are not known."""
        return tuple(sorted(self.sighting.pids or ()))


def at_work(report: Report, now: Nanoseconds) -> Mapping[str, AtWork]:
    """The workloads that are there, by key.

    Args:
        report: The latest.
        now: On the steady clock.
    """
    accounts = {each.workload.key: each for each in report.workloads}
    held: dict[str, list[DeviceReport]] = {}
    for device in report.devices:
        for holding in device.holdings:
            if holding.has_process:
                held.setdefault(holding.workload.key, []).append(device)
    return {
        key: _at_work(accounts[key], devices, now)
        for key, devices in held.items()
        if key in accounts
    }


def _at_work(account: WorkloadReport, devices: list[DeviceReport], now: Nanoseconds) -> AtWork:
    is_alone = all(
        holding.workload.key == account.workload.key
        for device in devices
        for holding in device.holdings
        if holding.has_process
    )
    return AtWork(
        account.workload,
        tuple(each.device for each in devices),
        is_alone,
        WorkloadSighting(
            now,
            account.totals.state_seconds,
            len(devices),
            _pids(devices) if is_alone else None,
        ),
    )


def _pids(devices: list[DeviceReport]) -> frozenset[int] | None:
    processes = [None if each.reading is None else each.reading.processes for each in devices]
    if any(each is None for each in processes):
        return None
    return frozenset(process.pid for each in processes for process in each or ())
