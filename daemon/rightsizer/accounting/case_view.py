"""What cases are made of, as it was at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass

from rightsizer.accounting.past import PastSettings
from rightsizer.accounting.provisioning import ProvisioningSettings
from rightsizer.accounting.recollection import Recollection
from rightsizer.domain.device import Device
from rightsizer.domain.state import Resource
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.window import Window
from rightsizer.domain.workload import Allocator, Workload

__all__ = ["CaseView", "DeviceView", "allocator_of"]


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device of a case."""

    device: Device
    recollection: Recollection
    whole: Window
    """Everything that was posted."""
    since: Nanoseconds
    """From when on it is held as it is now."""
    demands: Mapping[Resource, float]
    """What is needed of it now."""


@dataclass(frozen=True, slots=True)
class CaseView:
    """What a case is made of; it does not change."""

    key: str
    workload: Workload | None
    devices: tuple[DeviceView, ...]
    group: Recollection | None
    """Of the workload, where one is known."""
    provisioning: ProvisioningSettings
    past: PastSettings


def allocator_of(workload: Workload | None) -> Allocator:
    """How a device's holder takes memory."""
    return Allocator.UNKNOWN if workload is None else workload.allocator
