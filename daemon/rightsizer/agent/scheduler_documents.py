"""Documents for schedulers from a few readings of the node, without a running agent.

Functions raise RightsizerError if there is no GPU, or the driver does not answer.
"""

import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from rightsizer import __version__
from rightsizer.accounting.service import AccountingService
from rightsizer.advice.policy import apply_policies
from rightsizer.agent.node_labels import facts_of
from rightsizer.agent.settings import Settings
from rightsizer.agent.sources import live_source
from rightsizer.broker.placement import view_of
from rightsizer.broker.slot import LeaseSlot
from rightsizer.broker.slot_builder import slots_of
from rightsizer.host.device_files import device_files
from rightsizer.host.numa_locality import read_cores, read_distances
from rightsizer.io.clock import Clock
from rightsizer.model.values import (
    ACTIVE_STATES,
    AgentReport,
    Report,
    RightsizerError,
    Topology,
    nanoseconds,
)
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.report.schedulers import feature_file, gres_conf, labels, resource_topology

_LOOKS: Final = 3
"""Rates need two reports; a third catches work that has just begun."""
_BETWEEN: Final = nanoseconds(1.0)
_PATIENCE: Final = nanoseconds(8.0)
"""Opening NVML takes about 3 s without a persistence daemon."""


def first_reports(settings: Settings, clock: Clock) -> tuple[Report, ...]:
    """Return what an agent would publish at its first ticks, a second apart; the last has devices.

    They hold states of this moment alone: no idle time, earlier measurements or leases.

    Raises:
        RightsizerError: there is no GPU, or the driver does not answer.
    """
    named = live_source(settings, clock)
    enrich = partial(apply_policies, policies=settings.policies_here)
    accounting = AccountingService(settings.accounting, enrich)
    began = clock.time()
    never = threading.Event()
    reports: list[Report] = []
    with closing(named.source) as source:
        while True:
            snapshot = source.read()
            agent = partial(
                AgentReport,
                __version__,
                named.name,
                clock.wall_time(),
                settings.sampling.interval,
                trouble=snapshot.trouble,
            )
            report = accounting.post(snapshot, (), agent)
            is_late = clock.time() - began >= _PATIENCE
            if report.devices or is_late:
                reports.append(report)
            if is_late or (len(reports) >= _LOOKS and report.node.topology is not None):
                break
            clock.wait_until(clock.time() + _BETWEEN, never)
    if not reports[-1].devices:
        absent = "the driver offers no GPU; look with 'nvidia-smi -L'"
        raise RightsizerError(reports[-1].agent.trouble or absent)
    return tuple(reports)


def slots_over(reports: tuple[Report, ...], settings: Settings) -> tuple[LeaseSlot, ...]:
    """Return the slots of the last report; a GPU active in any report counts as active.

    A pause of a second does not end work.
    """
    last = reports[-1]
    seen = [device for report in reports[:-1] for device in report.devices]
    at_work = {
        device_report.device.uuid: device_report.state
        for device_report in seen
        if device_report.state in ACTIVE_STATES
    }
    slots = slots_of(last, view_of(settings, last.wall_time, FreshnessSettings()))
    return tuple(
        slot
        if slot.state in ACTIVE_STATES
        else replace(slot, state=at_work.get(slot.uuid, slot.state))
        for slot in slots
    )


def gres_of_node(settings: Settings, clock: Clock, host: str) -> str:
    """Return the lines of gres.conf, for the node's name in Slurm."""
    last = first_reports(settings, clock)[-1]
    devices = tuple(device.device for device in last.devices)
    files = device_files(Path(settings.path.procfs), devices)
    cores = read_cores(Path(settings.path.sysfs))
    return gres_conf(devices, last.node.topology or Topology(), files, cores, host)


def resource_topology_of_node(settings: Settings, clock: Clock, host: str) -> dict[str, Any]:
    """Return the NodeResourceTopology object, for the node's name in Kubernetes."""
    reports = first_reports(settings, clock)
    last = reports[-1]
    held = {slot.uuid for slot in slots_over(reports, settings) if slot.holders}
    devices = (device.device for device in last.devices)
    distances = read_distances(Path(settings.path.sysfs))
    return resource_topology(devices, last.node.topology or Topology(), distances, held, host)


def labels_of_node(settings: Settings, clock: Clock) -> dict[str, str]:
    """Return the node's labels by name; health is judged by this moment alone."""
    reports = first_reports(settings, clock)
    slots = slots_over(reports, settings)
    healthy = (slot.uuid for slot in slots if slot.device.mig is None and slot.trouble is None)
    return dict(labels(facts_of(reports[-1], healthy)))


def timed_feature_file(named: dict[str, str], settings: Settings, clock: Clock) -> str:
    """Return the feature file of labels, with the expiry that an agent would set."""
    return feature_file(named, clock.wall_time() + nanoseconds(settings.labels.expiry))
