"""Devices that come, go, are replaced, swapped and moved, as the driver lists them."""

from collections.abc import Iterable
from typing import Any

import pytest

from readings import SECOND, gpu
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.reading import Missing
from rightsizer.telemetry.nvml.inventory import DeviceRegistry, DeviceTarget, Gpu, Inventory
from rightsizer.telemetry.nvml.library import NvmlFailure

DAY = 86_400 * SECOND


def board(uuid: str, slot: int, serial: str = "", index: int | None = None) -> Device:
    """A GPU in a slot."""
    return gpu(
        slot if index is None else index,
        uuid=uuid,
        pci_bus_id=f"00000000:{slot:02X}:00.0",
        facts={"serial": serial} if serial else {},
    )


class Node:
    """A registry, and the time."""

    def __init__(self, *expected: Device) -> None:
        self.registry = DeviceRegistry(DAY)
        self.now = 0
        self.registry.expect(expected, 0)

    def offers(self, *devices: Device, **inventory: Any) -> tuple[set[str], set[str]]:
        """List devices after a second; return the present and the absent ones."""
        self.now += SECOND
        gpus = tuple(Gpu(DeviceTarget(device, None)) for device in devices)
        self.registry.update(Inventory(1, gpus, **inventory), None, self.now)
        return self.listed()

    def listed(self) -> tuple[set[str], set[str]]:
        """Return the present and the absent devices."""
        absent = set(self.registry.absent)
        return uuids(self.registry.devices) - absent, absent


def uuids(devices: Iterable[Device]) -> set[str]:
    """The uuids of devices."""
    return {device.uuid for device in devices}


def test_new_board_in_a_slot_replaces_the_former() -> None:
    """At once, or after a time without any."""
    node = Node()
    node.offers(board("a", 1), board("b", 2))
    assert node.offers(board("a", 1), board("c", 2)) == ({"a", "c"}, set())
    assert node.offers(board("a", 1)) == ({"a"}, {"c"})
    assert node.offers(board("a", 1), board("d", 2)) == ({"a", "d"}, set())


def test_board_with_the_serial_of_a_former_one_replaces_it() -> None:
    """It is the same board with another uuid, in any slot."""
    node = Node()
    node.offers(board("a", 1, "17"), board("b", 2, "18"))
    assert node.offers(board("a", 1, "17"), board("c", 3, "18")) == ({"a", "c"}, set())


def test_lost_gpu_of_a_board_with_several_stays_listed() -> None:
    """They have one serial, which the others still show; after a restart, too."""
    four = [board(f"a16-{slot}", slot, "17") for slot in range(1, 5)]
    node = Node()
    node.offers(*four)
    assert node.offers(*four[:3])[1] == {"a16-4"}
    assert Node(*four).offers(*four[:3])[1] == {"a16-4"}


@pytest.mark.parametrize("is_restarted", [False, True])
def test_gpus_that_are_swapped_or_reordered_are_the_same(is_restarted: bool) -> None:  # noqa: FBT001 - a parameter.
    """A GPU is known by its uuid, whatever its slot and index."""
    before = (board("a", 1), board("b", 2), board("c", 3))
    node = Node(*before) if is_restarted else Node()
    if not is_restarted:
        node.offers(*before)
    swapped = (board("b", 1), board("a", 2), board("c", 3))
    assert node.offers(*swapped) == ({"a", "b", "c"}, set())
    places = {device.uuid: device.pci_bus_id for device in node.registry.devices}
    assert places["a"] == "00000000:02:00.0"
    reordered = (board("b", 1, index=2), board("a", 2, index=0), board("c", 3, index=1))
    assert node.offers(*reordered) == ({"a", "b", "c"}, set())
    assert [device.uuid for device in node.registry.devices] == ["a", "c", "b"]


def test_gpus_of_another_machine_are_not_expected() -> None:
    """None of those in the history is there, and others are, in other slots."""
    node = Node(board("a", 1), board("b", 2))
    assert node.offers(board("c", 7), board("d", 8)) == ({"c", "d"}, set())


def test_gpus_that_cannot_be_opened_yet_are_expected() -> None:
    """What the driver does not tell may be what the history knows."""
    failure = NvmlFailure(Missing.TIMED_OUT, "nvmlDeviceGetHandleByIndex", "it hangs")
    node = Node(board("a", 0), board("b", 1))
    present, absent = node.offers(board("c", 7, index=2), unopened={0: failure, 1: failure})
    assert (present, absent) == ({"c"}, {"a", "b"})


def test_gpu_that_is_gone_is_listed_until_it_is_forgotten() -> None:
    """One that is there cannot be forgotten, and one that comes back is listed."""
    node = Node()
    node.offers(board("a", 1), board("b", 2))
    assert node.offers(board("a", 1)) == ({"a"}, {"b"})
    node.registry.forget("a")
    node.registry.forget("b")
    assert node.offers(board("a", 1)) == ({"a"}, set())
    assert node.offers(board("a", 1), board("b", 2)) == ({"a", "b"}, set())
    assert node.offers(board("a", 1)) == ({"a"}, {"b"})


def test_instances_go_with_the_gpu_that_is_replaced() -> None:
    """They are parts of the former board."""
    part = MigInstance("a", "1g.10gb", 7, 0, 1 / 7, 1 / 8)
    instance = gpu(1, uuid="MIG-1", pci_bus_id="00000000:01:00.0", mig=part)
    node = Node(board("a", 1), instance)
    node.offers(board("b", 1))
    assert node.listed() == ({"b"}, set())
