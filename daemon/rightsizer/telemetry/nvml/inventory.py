"""Inventory of the driver's devices, and registry of devices that come and go."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pynvml
from msgspec import Struct
from msgspec.structs import replace

from rightsizer.host.pcie import BusGpu, kernel_address
from rightsizer.host.topology import TopologyFacts
from rightsizer.model.values import (
    BY_ADDRESS,
    BY_INDEX,
    PLACEHOLDERS,
    Device,
    Down,
    Missing,
    Nanoseconds,
)
from rightsizer.telemetry.nvml.device_facts import (
    DeviceFactsReader,
    MigParent,
    describe_gpu,
    describe_instance,
    describe_known,
    with_modes,
)
from rightsizer.telemetry.nvml.library import NvmlFailure, NvmlLibrary, bus_id
from rightsizer.telemetry.nvml.nvlink_wiring import UNKNOWN_WIRING, NvlinkWiring

_MOST_DEVICES: Final = 256
"""A driver that counts more answers nonsense: its minor numbers end there."""
PEERS: Final = "peers"
"""Key of the probe that reads the paths between GPUs."""
_DRIVER: Final = "nvidia"
_ASLEEP: Final = NvmlFailure(
    Missing.SUSPENDED, "the PCI bus", "the kernel has put the GPU to sleep"
)
_NOT_OFFERED: Final = NvmlFailure(
    Missing.LOST, "the PCI bus", "the GPU is there, and the driver does not offer it"
)
_IDENTITY: Final = ("nvmlDeviceGetUUID", "nvmlDeviceGetGpuInstanceId")
_NO_INSTANCE: Final = frozenset({pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT})


class StuckProbes:
    """Probes that a thread is inside of; a thread that comes back frees its probe.

    Enumerating threads run one after another: another thread found at a probe was abandoned there.
    """

    def __init__(self) -> None:
        self._places: dict[NvmlLibrary, Hashable] = {}

    @property
    def calls(self) -> tuple[str, ...]:
        """Names of the calls that threads are inside of."""
        return tuple(sorted({place.asking or "the driver" for place in tuple(self._places)}))

    def holds(self, library: NvmlLibrary) -> bool:
        """Whether a thread is inside a probe that others can skip."""
        return library in self._places

    @contextmanager
    def at(self, place: Hashable, library: NvmlLibrary) -> Iterator[NvmlFailure | None]:
        """Enter a probe; yield why it must be skipped, or `None` if no thread hangs there.

        `place` is the index or the address of a GPU, or `PEERS`.
        """
        # Copied: an abandoned thread may come back at any time.
        for other, held in tuple(self._places.items()):
            if other is not library and held == place:
                call = other.asking or "the driver"
                yield NvmlFailure(Missing.TIMED_OUT, call, "the look for devices hangs in it")
                return
        self._places[library] = place
        try:
            yield None
        finally:
            del self._places[library]


class DeviceTarget(Struct, frozen=True):
    """A device and its driver handles."""

    device: Device
    handle: Any
    parent_handle: Any = None
    wiring: NvlinkWiring = UNKNOWN_WIRING
    """NVLinks; a change makes another target, so that topology is read again."""

    def __eq__(self, other: object) -> bool:
        # Each look for devices has handles of its own.
        if not isinstance(other, DeviceTarget):
            return NotImplemented
        return (self.device, self.wiring) == (other.device, other.wiring)

    def __hash__(self) -> int:
        return hash(self.device)

    @property
    def sampled_handle(self) -> Any:
        """Handle for GPM: samples of a MIG instance are taken through its GPU."""
        return self.handle if self.parent_handle is None else self.parent_handle


class Gpu(Struct, frozen=True):
    """A physical GPU with its MIG instances: they hang together when the driver hangs."""

    whole: DeviceTarget
    instances: tuple[DeviceTarget, ...] = ()
    is_persistent: bool = True
    """Whether the driver keeps it initialized when unused; true if unknown."""

    @property
    def targets(self) -> tuple[DeviceTarget, ...]:
        """The GPU itself, followed by its instances."""
        return (self.whole, *self.instances)

    @property
    def address(self) -> str | None:
        """PCI address as the kernel writes it."""
        return kernel_address(self.whole.device.pci_bus_id)


class Inventory(Struct, frozen=True):
    """All devices of one opening of NVML."""

    generation: int
    """Number of the opening; handles of another one are invalid."""
    gpus: tuple[Gpu, ...]
    unopened: Mapping[int, NvmlFailure] = {}
    """GPUs that the driver counts but gives no handle for, by index."""
    hidden: Mapping[str, NvmlFailure] = {}
    """GPUs on the bus but not in `gpus`, by PCI address: asleep, or not offered."""
    versions: Mapping[str, str] = {}
    topology: TopologyFacts = TopologyFacts()


class NvmlInventoryReader(Struct, frozen=True):
    """Enumerates all devices of the driver.

    Static facts are taken from earlier enumerations of the same opening. GPUs asleep are not
    called, which would wake them. A GPU at which another enumeration hangs keeps its known facts.
    """

    facts: DeviceFactsReader
    generation: int
    known_gpus: Sequence[Gpu]
    bus: Sequence[BusGpu]
    stuck_probes: StuckProbes

    def read(self) -> Inventory | NvmlFailure:
        """Return all devices, or why there are none."""
        if any(gpu.is_asleep for gpu in self.bus):
            return self._read_awake()
        count = self.facts.library.ask("nvmlDeviceGetCount")
        if isinstance(count, NvmlFailure):
            return count
        if count > _MOST_DEVICES:
            reason = f"the driver answered {count}"
            return NvmlFailure(Missing.INVALID, "nvmlDeviceGetCount", reason)
        gpus: list[Gpu] = []
        unopened: dict[int, NvmlFailure] = {}
        for index in range(count):
            with self.stuck_probes.at(index, self.facts.library) as stuck:
                if stuck is None:
                    identified = self._identify(index, is_alone=count == 1)
                else:
                    # Keep what is known; the GPU's own thread reports its state.
                    identified = self._known(BY_INDEX, index) or stuck
            if isinstance(identified, NvmlFailure):
                unopened[index] = identified
            else:
                gpus.append(identified)
        gone = next((failure for failure in unopened.values() if failure.driver_is_gone), None)
        if gone is not None and not gpus:
            return gone
        return Inventory(self.generation, self._distinct(gpus), unopened, self._hidden(gpus))

    def _read_awake(self) -> Inventory | NvmlFailure:
        """Read the GPUs that are awake by address: counting would wake the others."""
        gpus: list[Gpu] = []
        for address in (gpu.pci_bus_id for gpu in self.bus if not gpu.is_asleep):
            with self.stuck_probes.at(address, self.facts.library) as stuck:
                if stuck is not None:
                    gpus += (gpu for gpu in self.known_gpus if gpu.address == address)
                    continue
                handle = self.facts.library.ask("nvmlDeviceGetHandleByPciBusId", address.encode())
                if not isinstance(handle, NvmlFailure):
                    index = self.facts.ask("nvmlDeviceGetIndex", handle)
                    place = len(gpus) if index is None else index
                    gpus.append(self._gpu(handle, place, is_alone=len(self.bus) == 1))
                elif handle.driver_is_gone:
                    return handle
        return Inventory(self.generation, tuple(gpus), hidden=self._hidden(gpus))

    def _hidden(self, gpus: Sequence[Gpu]) -> Mapping[str, NvmlFailure]:
        offered = {gpu.address for gpu in gpus}
        return {
            gpu.pci_bus_id: _ASLEEP if gpu.is_asleep else _NOT_OFFERED
            for gpu in self.bus
            # A GPU bound to another driver was removed on purpose.
            if gpu.pci_bus_id not in offered and gpu.driver_name == _DRIVER
        }

    def _identify(self, index: int, *, is_alone: bool) -> Gpu | NvmlFailure:
        """Return a GPU, or why it cannot be identified now.

        A known GPU under another name would count as a new one, and the known one as lost.
        """
        handle = self.facts.library.ask("nvmlDeviceGetHandleByIndex", index)
        if isinstance(handle, NvmlFailure):
            return handle
        try:
            gpu = self._gpu(handle, index, is_alone=is_alone)
        except Exception as error:  # noqa: BLE001 - a fault of one GPU must not affect others.
            return NvmlFailure(Missing.FAILED, "enumeration", repr(error))
        is_named = not gpu.whole.device.uuid.startswith(PLACEHOLDERS)
        if is_named or index not in self.facts.identified:
            return gpu
        uuid = self.facts.library.ask("nvmlDeviceGetUUID", handle)
        return uuid if isinstance(uuid, NvmlFailure) and not uuid.is_unsupported else gpu

    def _gpu(self, handle: Any, index: int, *, is_alone: bool) -> Gpu:
        facts = self.facts
        mode = facts.library.ask("nvmlDeviceGetMigMode", handle)
        pci_bus_id = bus_id(facts.ask("nvmlDeviceGetPciInfo", handle))
        uuid = facts.uuid(handle, pci_bus_id, index)
        gpu = self._known(uuid, index, pci_bus_id)
        if gpu is not None and gpu.whole.device.index == index:
            device = describe_known(facts, handle, gpu.whole.device)
        else:
            device = describe_gpu(facts, handle, index, uuid, pci_bus_id)
        # Known instances are kept while the driver does not answer. A GPU in MIG mode without
        # instances is idle itself, and is accounted for.
        listed: tuple[DeviceTarget, ...] | NvmlFailure = ()
        is_cut = gpu is not None and gpu.whole.device.has_mig_instances
        if isinstance(mode, NvmlFailure):
            listed = () if mode.is_unsupported else mode
        elif mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE:
            listed = self._instances(device, handle, gpu)
            is_cut = True
        if isinstance(listed, NvmlFailure):
            instances = () if gpu is None else gpu.instances
        else:
            instances = listed
            is_cut = bool(listed)
        device = replace(device, has_mig_instances=is_cut)
        wiring = facts.wiring(handle, device, is_alone=is_alone)
        whole = DeviceTarget(with_modes(facts, handle, device, wiring), handle, wiring=wiring)
        is_persistent = whole.device.facts.get("persistence_mode") != "disabled"
        return Gpu(whole, instances, is_persistent)

    def _known(self, uuid: str, index: int, pci_bus_id: str | None = None) -> Gpu | None:
        """Return the same GPU of the last enumeration, by uuid, else by address, else by index."""
        name: str = "uuid"
        value: object = uuid
        if uuid.startswith(PLACEHOLDERS):
            name, value = ("pci_bus_id", pci_bus_id) if pci_bus_id else ("index", index)
        return next(
            (gpu for gpu in self.known_gpus if getattr(gpu.whole.device, name) == value), None
        )

    def _distinct(self, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
        """Rename GPUs with a duplicate uuid, except the first, as long as they report it."""
        named: dict[str, Gpu] = {}
        instances = {instance.device.uuid for gpu in gpus for instance in gpu.instances}
        for gpu in gpus:
            device = gpu.whole.device
            if device.uuid in instances:
                continue  # Counted by the driver beside the GPU that it is a part of.
            if device.uuid not in named:
                named[device.uuid] = gpu
                continue
            if device.pci_bus_id is not None:
                self.facts.duplicates[device.pci_bus_id] = device.uuid
            names = (f"{BY_ADDRESS}{gpu.address}", f"{BY_INDEX}{device.index}")
            name = names[gpu.address is None or names[0] in named]
            named[name] = _renamed(gpu, name)
        return tuple(named.values())

    def _instances(
        self, whole: Device, whole_handle: Any, gpu: Gpu | None
    ) -> tuple[DeviceTarget, ...] | NvmlFailure:
        """Return all instances of a GPU in MIG mode, or why they are unknown."""
        ask = self.facts.library.ask
        facts = self.facts
        devices = (
            {}
            if gpu is None
            else {instance.device.uuid: instance.device for instance in gpu.instances}
        )
        slices = ask("nvmlDeviceGetMaxMigDeviceCount", whole_handle)
        if isinstance(slices, NvmlFailure):
            return slices
        if slices > _MOST_DEVICES:
            return NvmlFailure(Missing.INVALID, "nvmlDeviceGetMaxMigDeviceCount", f"{slices}")
        parent = MigParent(whole, whole_handle, slices)
        targets: list[DeviceTarget] = []
        for place in range(slices):
            handle = ask("nvmlDeviceGetMigDeviceHandleByIndex", whole_handle, place)
            if isinstance(handle, NvmlFailure):
                if handle.code not in _NO_INSTANCE:
                    return handle
                continue
            facts.failures.clear()
            device = describe_instance(facts, handle, parent, place)
            if facts.failures and device.uuid in devices:
                device = devices[device.uuid]  # The facts of an instance never change.
            elif devices and (unnamed := [e for e in facts.failures if e.call in _IDENTITY]):
                return unnamed[0]  # Under another name it would become another instance.
            targets.append(DeviceTarget(device, handle, whole_handle))
        return tuple(targets)


def _renamed(gpu: Gpu, whole: str) -> Gpu:
    def renamed(target: DeviceTarget, uuid: str) -> DeviceTarget:
        mig = target.device.mig and replace(target.device.mig, parent_uuid=whole)
        return replace(target, device=replace(target.device, uuid=uuid, mig=mig))

    parts = enumerate(gpu.instances)
    instances = tuple(renamed(target, f"{whole}/{place}") for place, target in parts)
    return replace(gpu, whole=renamed(gpu.whole, whole), instances=instances)


_NOTHING: Final = Inventory(-1, ())
_NOT_LISTED: Final = "the driver no longer offers it"


class DeviceRegistry:
    """Devices that are present, and recently lost ones."""

    def __init__(self, retention: Nanoseconds) -> None:
        self._retention = retention
        self._seen: dict[str, Nanoseconds] = {}
        self._devices: dict[str, Device] = {}
        self._dismissed: set[str] = set()
        self._is_unconfirmed = False
        self._present: frozenset[str] = frozenset()
        self.devices: tuple[Device, ...] = ()
        """All listed devices: GPUs by index, each before its MIG instances."""
        self.absent: Mapping[str, Down] = {}

    def update(
        self,
        inventory: Inventory | None,
        trouble: str | None,
        now: Nanoseconds,
        reason: Missing = Missing.LOST,
        cause: str = "",
    ) -> None:
        """Update the registry from the current inventory."""
        offered = inventory or _NOTHING
        targets = [target for gpu in offered.gpus for target in gpu.targets]
        present = {target.device.uuid: target.device for target in targets}
        # Only a driver that answers can miss a device; while it is away, none is forgotten.
        is_away = inventory is None
        self._seen.update(dict.fromkeys(self._devices if is_away else present, now))
        if present.keys() != self._present:
            self._replace(present, is_complete=not offered.unopened)
        self._devices.update(present)
        self._forget(present, now)
        self._list_unnamed(present, offered, now)
        self.devices = tuple(sorted(self._devices.values(), key=_order))
        otherwise = Down(reason, trouble or _NOT_LISTED, cause, is_of_driver=is_away)
        self.absent = {
            uuid: _down(device, offered, otherwise)
            for uuid, device in self._devices.items()
            if uuid not in present
        }

    def forget(self, uuid: str) -> None:
        """Forget a device at the next update unless it is present; thread-safe."""
        self._dismissed.add(uuid)

    def _replace(self, present: Mapping[str, Device], *, is_complete: bool) -> None:
        """Forget absent GPUs in whose place, or under whose serial, the driver offers others.

        If it offers none of those that are expected, they are of another machine, whose history
        this is. Boards of several GPUs have one serial: it tells only of a GPU that is new.
        """
        self._present = frozenset(present)
        gpus = [device for device in present.values() if device.mig is None]
        arrived = [device for device in gpus if self._has_arrived(device)]
        slots = {kernel_address(device.pci_bus_id) for device in arrived} - {None}
        added = (device for device in gpus if device.uuid not in self._devices)
        serials = {serial for device in added if (serial := device.facts.get("serial"))}
        is_foreign = self._is_unconfirmed and self._devices.keys().isdisjoint(present)
        is_foreign = is_foreign and is_complete and bool(gpus)
        if gpus:
            self._is_unconfirmed = False
        gone = {
            uuid
            for uuid, device in self._devices.items()
            if uuid not in present
            and device.mig is None
            and (
                is_foreign
                or kernel_address(device.pci_bus_id) in slots
                or device.facts.get("serial") in serials
            )
        }
        for uuid, device in list(self._devices.items()):
            if device.board_uuid in gone:
                del self._devices[uuid], self._seen[uuid]

    def _has_arrived(self, gpu: Device) -> bool:
        """Whether a GPU is new, or in another slot than before."""
        former = self._devices.get(gpu.uuid)
        return former is None or former.pci_bus_id != gpu.pci_bus_id

    def _forget(self, present: Mapping[str, Device], now: Nanoseconds) -> None:
        gpus = [device for device in present.values() if device.mig is None]
        former = {f"{BY_INDEX}{device.index}" for device in gpus}
        former |= {f"{BY_ADDRESS}{kernel_address(device.pci_bus_id)}" for device in gpus}
        dismissed = self._dismissed
        self._dismissed = set()
        for uuid, device in list(self._devices.items()):
            # An instance missing from a present GPU was destroyed on purpose.
            is_dissolved = device.mig is not None and device.mig.parent_uuid in present
            is_replaced = uuid.partition("/")[0] in former
            is_long_gone = now - self._seen[uuid] > self._retention
            is_placeholder = not device.name and uuid.startswith(PLACEHOLDERS)
            is_dismissed = uuid in dismissed or device.board_uuid in dismissed
            is_over = is_dissolved or is_replaced or is_long_gone or is_placeholder or is_dismissed
            if uuid not in present and is_over:
                del self._devices[uuid], self._seen[uuid]

    def expect(self, devices: Iterable[Device], now: Nanoseconds) -> None:
        """List devices that were present before the agent started; enumeration may miss some."""
        for device in devices:
            self._list(device, now)
            self._is_unconfirmed = True

    def _list_unnamed(
        self, present: Mapping[str, Device], offered: Inventory, now: Nanoseconds
    ) -> None:
        """List GPUs that were never opened, and so have no uuid, by address, else by index.

        The driver counts in bus order, and GPUs without a handle are not offered: with as many
        indices as addresses, they are the same GPUs in order. If the bus has more, the surplus is
        unknown to the driver, and all are listed behind those with an index.
        """
        missing = {device.index for uuid, device in self._devices.items() if uuid not in present}
        listed = {kernel_address(device.pci_bus_id) for device in self._devices.values()}
        indices = sorted(offered.unopened.keys() - missing)
        addresses = sorted(offered.hidden.keys() - listed)
        if len(addresses) < len(indices):
            for index in indices:
                self._list(Device(f"{BY_INDEX}{index}", index), now)
            return
        is_guessed = len(addresses) > len(indices)
        if is_guessed:
            first = 1 + max((device.index for device in self._devices.values()), default=-1)
            indices = list(range(first, first + len(addresses)))
        for index, address in zip(indices, addresses, strict=True):
            uuid = f"{BY_ADDRESS}{address}"
            self._list(Device(uuid, index, pci_bus_id=address, has_index=not is_guessed), now)

    def _list(self, device: Device, now: Nanoseconds) -> None:
        self._devices[device.uuid] = device
        self._seen[device.uuid] = now


def _down(device: Device, offered: Inventory, otherwise: Down) -> Down:
    address = kernel_address(device.pci_bus_id) or ""
    failure = offered.unopened.get(device.index) or offered.hidden.get(address)
    return failure.down if failure is not None else otherwise


def _order(device: Device) -> tuple[int, str, int, int]:
    mig = device.mig
    part = (mig.parent_uuid, mig.gpu_instance_id, mig.compute_instance_id) if mig else ("", -1, -1)
    return (device.index, *part)
