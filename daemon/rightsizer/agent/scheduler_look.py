"""This node as schedulers and label writers take it, by a few looks of one's own."""

from pathlib import Path
from typing import Any

from rightsizer.agent.look import look_at_node, seats_over
from rightsizer.agent.node_labels import facts_of
from rightsizer.agent.settings import Settings
from rightsizer.host.device_files import device_files
from rightsizer.host.numa import read_cores, read_distances
from rightsizer.io.clock import Clock
from rightsizer.model.device import Device
from rightsizer.model.topology import Topology
from rightsizer.model.units import nanoseconds
from rightsizer.report.feature_file import feature_file, labels
from rightsizer.report.gres import gres_conf
from rightsizer.report.resource_topology import resource_topology


def gres_by_look(settings: Settings, clock: Clock, host: str) -> str:
    """The lines of gres.conf.

    Args:
        settings: Which driver, and where procfs and sysfs are.
        clock: The clock to wait by.
        host: The node's name in Slurm.

    Raises:
        RightsizerError: there is no GPU, or the driver does not answer.
    """
    last = look_at_node(settings, clock)[-1]
    devices = tuple(each.device for each in last.devices)
    return gres_conf(
        devices,
        last.node.topology or Topology(),
        _files(settings, devices),
        read_cores(_sysfs(settings)),
        host,
    )


def resource_topology_by_look(settings: Settings, clock: Clock, host: str) -> dict[str, Any]:
    """The NodeResourceTopology object.

    Args:
        settings: Which driver, and where sysfs is.
        clock: The clock to wait by.
        host: The node's name in Kubernetes.

    Raises:
        RightsizerError: there is no GPU, or the driver does not answer.
    """
    reports = look_at_node(settings, clock)
    last = reports[-1]
    held = {seat.uuid for seat in seats_over(reports, settings) if seat.holders}
    return resource_topology(
        (each.device for each in last.devices),
        last.node.topology or Topology(),
        read_distances(_sysfs(settings)),
        held,
        host,
    )


def labels_by_look(settings: Settings, clock: Clock) -> dict[str, str]:
    """The node's labels by name; a GPU counts as healthy by this moment alone.

    Args:
        settings: Which driver, and what counts as trouble.
        clock: The clock to wait by.

    Raises:
        RightsizerError: there is no GPU, or the driver does not answer.
    """
    reports = look_at_node(settings, clock)
    seats = seats_over(reports, settings)
    healthy = (each.uuid for each in seats if each.device.mig is None and each.trouble is None)
    return dict(labels(facts_of(reports[-1], healthy)))


def timed_feature_file(named: dict[str, str], settings: Settings, clock: Clock) -> str:
    """The feature file of some labels, which hold for as long as the agent's would."""
    return feature_file(named, clock.wall_time() + nanoseconds(settings.labels.expiry))


def _files(settings: Settings, devices: tuple[Device, ...]) -> dict[str, tuple[str, ...]]:
    return device_files(Path(settings.path.procfs), devices)


def _sysfs(settings: Settings) -> Path:
    return Path(settings.path.sysfs)
