"""Holders of an action's devices, compared between the decision and the moment before it runs."""

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from rightsizer.model.values import Holding, ProcessGeneration, Report

Holders: TypeAlias = Mapping[tuple[str, str], Holding]
"""Holdings by device and workload key."""


def holders_of(report: Report | None, devices: Collection[str]) -> Holders:
    """Present holders of some devices."""
    return {
        (device_report.device.uuid, holding.workload.key): holding
        for device_report in (() if report is None else report.devices)
        if device_report.device.uuid in devices
        for holding in device_report.holdings
    }


def change_of(
    before: Holders, now: Holders, still_runs: Callable[[ProcessGeneration], bool]
) -> str:
    """What has changed, in words; empty if the same proven owners hold the same devices.

    A workload is the same while one of the processes that it had on a device is: others of it may
    come and go.
    """
    for uuid, workload in sorted(before.keys() | now.keys()):
        holding = before.get((uuid, workload))
        later = now.get((uuid, workload))
        if later is None:
            return f"{workload} no longer holds {uuid}"
        if holding is None:
            return f"{workload} holds {uuid} by now"
        if later.workload.unproven != holding.workload.unproven:
            doubt = later.workload.unproven or "it is proven now"
            return f"the owner of {workload} on {uuid} has changed: {doubt}"
        same = [
            process
            for process in holding.processes
            if process in later.processes and still_runs(process)
        ]
        if holding.processes and not same:
            return f"{workload} has other processes on {uuid} than when it was decided"
    return ""
