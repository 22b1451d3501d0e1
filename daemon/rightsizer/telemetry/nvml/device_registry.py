"""Registry of the devices seen; a device the driver no longer offers stays listed as down."""

import itertools
from collections.abc import Mapping
from typing import Final

from rightsizer.host.pcie import kernel_address
from rightsizer.model.device import Device
from rightsizer.model.reading import Missing
from rightsizer.model.snapshot import Down
from rightsizer.model.units import Nanoseconds
from rightsizer.telemetry.nvml.inventory import Inventory
from rightsizer.telemetry.nvml.library import NvmlFailure

_NOTHING: Final = Inventory(-1, ())
_NOT_OFFERED: Final = "the driver no longer offers it"
_BY_INDEX: Final = "index:"
_PLACEHOLDERS: Final = (_BY_INDEX, "pci:")


class DeviceRegistry:
    """Who is there, and who was."""

    def __init__(self, retention: Nanoseconds) -> None:
        """Empty. Absent devices are forgotten after `retention`."""
        self._retention = retention
        self._seen: dict[str, Nanoseconds] = {}
        self._devices: dict[str, Device] = {}
        self.devices: tuple[Device, ...] = ()
        """All devices that are listed: GPUs by index, each before its MIG instances."""
        self.absent: Mapping[str, Down] = {}
        """Those that the driver does not offer, and why."""

    def update(
        self,
        inventory: Inventory | None,
        trouble: str | None,
        now: Nanoseconds,
        reason: Missing = Missing.LOST,
    ) -> None:
        """Compare with what the driver offers now.

        Args:
            inventory: All that it offers; `None` while it cannot be asked.
            trouble: Why it cannot be asked.
            now: On the steady clock.
            reason: Why devices are absent that the driver does not offer.
        """
        offered = inventory or _NOTHING
        targets = [target for gpu in offered.gpus for target in gpu.targets]
        present = {target.device.uuid: target.device for target in targets}
        is_released = inventory is None and reason is Missing.RELEASED
        # What was let go on request may be away for days and is not forgotten.
        self._seen.update(dict.fromkeys(self._devices if is_released else present, now))
        self._devices.update(present)
        self._forget(present, now)
        self._list_unopened(present, offered.unopened, now)
        self._list_hidden(offered.hidden, now)
        self.devices = tuple(sorted(self._devices.values(), key=_order))
        self.absent = {
            uuid: _down(device, offered, Down(reason, trouble or _NOT_OFFERED))
            for uuid, device in self._devices.items()
            if uuid not in present
        }

    def _forget(self, present: Mapping[str, Device], now: Nanoseconds) -> None:
        told = {device.index for device in present.values() if device.mig is None}
        for uuid, device in list(self._devices.items()):
            # An instance whose GPU is there without it was taken apart on purpose.
            is_dissolved = device.mig is not None and device.mig.parent_uuid in present
            is_replaced = uuid.startswith(_BY_INDEX) and device.index in told
            is_long_gone = now - self._seen[uuid] > self._retention
            is_over = is_dissolved or is_replaced or is_long_gone or _is_placeholder(device)
            if uuid not in present and is_over:
                del self._devices[uuid], self._seen[uuid]

    def _list_unopened(
        self, present: Mapping[str, Device], unopened: Mapping[int, NvmlFailure], now: Nanoseconds
    ) -> None:
        """A GPU that was never opened has no uuid; it goes by its index."""
        missing = {device.index for uuid, device in self._devices.items() if uuid not in present}
        for index in unopened.keys() - missing:
            device = Device(uuid=f"index:{index}", index=index)
            self._devices[device.uuid] = device
            self._seen[device.uuid] = now

    def _list_hidden(self, hidden: Mapping[str, NvmlFailure], now: Nanoseconds) -> None:
        """A GPU that only the bus knows goes by its address, behind all that have an index."""
        listed = {kernel_address(device.pci_bus_id) for device in self._devices.values()}
        following = itertools.count(
            1 + max((device.index for device in self._devices.values()), default=-1)
        )
        for address in sorted(hidden.keys() - listed):
            device = Device(f"pci:{address}", next(following), pci_bus_id=address)
            self._devices[device.uuid] = device
            self._seen[device.uuid] = now


def _is_placeholder(device: Device) -> bool:
    return not device.name and device.uuid.startswith(_PLACEHOLDERS)


def _down(device: Device, offered: Inventory, otherwise: Down) -> Down:
    address = kernel_address(device.pci_bus_id) or ""
    failure = offered.unopened.get(device.index) or offered.hidden.get(address)
    return Down(failure.reason, str(failure)) if failure is not None else otherwise


def _order(device: Device) -> tuple[int, str, int, int]:
    if device.mig is None:
        return device.index, "", -1, -1
    mig = device.mig
    return device.index, mig.parent_uuid, mig.gpu_instance_id, mig.compute_instance_id
