"""Opening and closing of NVML, remedies if it does not open, and paths between GPUs."""

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

import pynvml
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.host.device_files import openable_gpus
from rightsizer.host.pcie import BusGpu, expected_gpus, kernel_address
from rightsizer.host.topology import GpuPairFacts, TopologyFacts
from rightsizer.model.values import LinkKind, Missing, Placement
from rightsizer.telemetry.nvml.device_facts import DeviceFactsReader
from rightsizer.telemetry.nvml.inventory import (
    PEERS,
    DeviceTarget,
    Inventory,
    NvmlInventoryReader,
    StuckProbes,
)
from rightsizer.telemetry.nvml.library import NvmlFailure, NvmlLibrary, bus_id, load_successor
from rightsizer.telemetry.nvml.nvlink_wiring import NvlinkWiringReader, link_is_up

_KINDS: Final[Mapping[int | None, LinkKind]] = {
    # Two GPUs of one board are behind its switch.
    pynvml.NVML_TOPOLOGY_INTERNAL: LinkKind.PIX,
    pynvml.NVML_TOPOLOGY_SINGLE: LinkKind.PIX,
    pynvml.NVML_TOPOLOGY_MULTIPLE: LinkKind.PXB,
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: LinkKind.PHB,
    pynvml.NVML_TOPOLOGY_NODE: LinkKind.NODE,
    pynvml.NVML_TOPOLOGY_SYSTEM: LinkKind.SYSTEM,
}
# The bindings' constant for reading is a tuple by mistake.
_READ: Final = 0
_NVLINK: Final = pynvml.NVML_P2P_CAPS_INDEX_NVLINK
_LINKS: Final = range(pynvml.NVML_NVLINK_MAX_LINKS)
_WORD_BITS: Final = 64
_CPU_WORDS: Final = 128
_NODE_WORDS: Final = 16
_SCOPE_NODE: Final = 0
_NO_ADDRESS: Final = "ffffffff:ff:ff.0"
_MISMATCH: Final = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
_REMEDIES: Final[Mapping[int | None, str]] = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 was not found: install the NVIDIA "
    "driver, or start the container with the NVIDIA runtime",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA kernel module is not loaded: "
    "run 'modprobe nvidia' and look for its reason in 'dmesg'",
    _MISMATCH: "the NVIDIA driver was updated, but the kernel "
    "module in use is the former one: reload the module or reboot",
    pynvml.NVML_ERROR_NO_PERMISSION: "the NVIDIA devices may not be opened: give this user "
    "/dev/nvidiactl and /dev/nvidia0 and up",
}
_LOST_DEVICES: Final = (
    "if this is a container, restart it, since containers lose their devices when systemd reloads "
    "its units; else look for 'NVRM' in 'dmesg'"
)
_ALL_ASLEEP: Final = NvmlFailure(
    Missing.SUSPENDED, "the PCI bus", "all GPUs are asleep, and asking would wake them"
)


class PeerReader:
    """Reads how GPUs reach each other; caches what cannot change for the same GPUs."""

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library
        self._known: dict[Hashable, Any] = {}
        self._asked_of: Hashable = None

    def read(self, inventory: Inventory) -> TopologyFacts:
        """Return the driver's facts for the GPUs of an inventory; never raises."""
        asked_of = inventory.generation, inventory.gpus
        if asked_of != self._asked_of:
            self._asked_of = asked_of
            self._known.clear()
        targets = [gpu.whole for gpu in inventory.gpus]
        ends = [(target, self._ends(target)) for target in targets]
        return TopologyFacts(
            peers={
                (one.device.uuid, other.device.uuid): self._pair(one, mine, other, others)
                for (one, mine), (other, others) in itertools.combinations(ends, 2)
            },
            placements={target.device.uuid: self._placement(target) for target in targets},
        )

    def _pair(
        self, one: DeviceTarget, mine: "_LinkEnds", other: DeviceTarget, others: "_LinkEnds"
    ) -> GpuPairFacts:
        level = self._ask(one, "nvmlDeviceGetTopologyCommonAncestor", peer=other)
        # Direct links, else links to the switches, which connect all GPUs alike.
        there = kernel_address(other.device.pci_bus_id) or ""
        here = kernel_address(one.device.pci_bus_id) or ""
        direct = max(mine.direct[there], others.direct[here])
        nvlinks: int | None = direct or min(mine.switched, others.switched)
        if not nvlinks and mine.unknown and others.unknown and self._may(one, other, _NVLINK):
            nvlinks = None
        kind = _KINDS.get(level, LinkKind.UNKNOWN)
        return GpuPairFacts(kind, nvlinks, self._may(one, other, _READ))

    def _may(self, one: DeviceTarget, other: DeviceTarget, what: int) -> bool | None:
        status = self._ask(one, "nvmlDeviceGetP2PStatus", what, peer=other)
        if status is None or status == pynvml.NVML_P2P_STATUS_UNKNOWN:
            return None
        return bool(status == pynvml.NVML_P2P_STATUS_OK)

    def _ends(self, target: DeviceTarget) -> "_LinkEnds":
        ends = _LinkEnds()
        for link in self._links_up(target):
            info = self._ask(target, "nvmlDeviceGetNvLinkRemotePciInfo", link)
            kind = self._ask(target, "nvmlDeviceGetNvLinkRemoteDeviceType", link)
            address = None if info is None else kernel_address(bus_id(info))
            # A switch may hide its address; drivers without remote kinds hide only switches.
            is_hidden = info is not None and address == _NO_ADDRESS
            if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH or (kind is None and is_hidden):
                ends.switched += 1
            elif address is not None and not is_hidden:
                ends.direct[address] += 1
            else:
                ends.unknown += 1
        return ends

    def _links_up(self, target: DeviceTarget) -> Iterable[int]:
        if target.wiring.count is not None:
            return target.wiring.up
        # Without a count, try all links.
        states = {
            link: self._ask(target, "nvmlDeviceGetNvLinkState", link, may_change=True)
            for link in _LINKS
        }
        return [link for link, state in states.items() if state and link_is_up(state)]

    def _placement(self, target: DeviceTarget) -> Placement:
        def now(name: str) -> Any:
            return self._ask(target, name, may_change=True) or None

        memory_node = self._ask(target, "nvmlDeviceGetNumaNodeId")
        nodes = _bits(self._ask(target, "nvmlDeviceGetMemoryAffinity", _NODE_WORDS, _SCOPE_NODE))
        return Placement(
            target.device.uuid,
            numa_node=nodes[0] if len(nodes) == 1 else None,
            memory_numa_node=memory_node if memory_node is not None and memory_node >= 0 else None,
            cpus=_bits(self._ask(target, "nvmlDeviceGetCpuAffinity", _CPU_WORDS)),
            generation=now("nvmlDeviceGetCurrPcieLinkGeneration"),
            width=now("nvmlDeviceGetCurrPcieLinkWidth"),
        )

    def _ask(
        self,
        target: DeviceTarget,
        name: str,
        *arguments: Hashable,
        peer: DeviceTarget | None = None,
        may_change: bool = False,
    ) -> Any:
        """Return an answer, or `None` on failure; cache what is unsupported or cannot change."""
        targets = (target,) if peer is None else (target, peer)
        key = tuple(device_target.device.uuid for device_target in targets), name, arguments
        if key in self._known:
            return self._known[key]
        answer = self._library.ask(
            name, *(device_target.handle for device_target in targets), *arguments
        )
        value = None if isinstance(answer, NvmlFailure) else answer
        # Drivers refuse a link that the board lacks with either code.
        is_final = (
            not may_change
            if value is not None
            else (answer.is_unsupported or answer.code == pynvml.NVML_ERROR_INVALID_ARGUMENT)
        )
        if is_final:
            self._known[key] = value
        return value


@dataclass(slots=True)
class _LinkEnds:
    """Remote ends of a GPU's links that are up."""

    direct: Counter[str] = field(default_factory=Counter)
    """Links by the PCI address at the other end."""
    switched: int = 0
    unknown: int = 0


def _bits(words: Sequence[int] | None) -> tuple[int, ...]:
    return tuple(
        place * _WORD_BITS + bit
        for place, word in enumerate(words or ())
        for bit in range(_WORD_BITS)
        if word >> bit & 1
    )


def explain(failure: NvmlFailure) -> str:
    """Return why there is no driver, and what to do about it."""
    if failure.reason is Missing.SUSPENDED:
        return failure.detail
    remedy = f"; {_LOST_DEVICES}" if failure.is_unknown else ""
    return _REMEDIES.get(failure.code, f"NVML does not answer: {failure}{remedy}")


class NvmlDriver:
    """NVML, opened and closed by one thread for all others."""

    def __init__(  # noqa: PLR0913 - the outside world comes in as arguments.
        self,
        generations: Iterator[int],
        catalogue: Catalogue,
        sysfs: Path,
        stuck_probes: StuckProbes | None = None,
        last_inventory: Callable[[], Inventory | None] = lambda: None,
        *,
        root: Path,
    ) -> None:
        """Create it closed.

        `root` has this process's /dev and /proc, by which a container has its own GPUs alone;
        `last_inventory` the devices of the last opening, which a hung thread may keep open.
        """
        self._root = root
        self._stuck_probes = stuck_probes or StuckProbes()
        self._last_inventory = last_inventory
        self.library = NvmlLibrary()
        self._generations = generations
        self._facts = DeviceFactsReader(
            self.library, catalogue, sysfs, NvlinkWiringReader(self.library)
        )
        self._generation: int | None = None
        self._known: Inventory | None = None
        self._peers = PeerReader(self.library)
        self.versions: Mapping[str, str] = MappingProxyType({})

    def find_devices(self) -> Inventory | NvmlFailure:
        """Enumerate all devices; open NVML if closed."""
        openable = openable_gpus(self._root)
        bus = tuple(
            gpu
            for gpu in expected_gpus(self._facts.sysfs)
            if not openable or gpu.pci_bus_id in openable
        )
        if self._generation is None:
            opened = self._open(bus)
            if isinstance(opened, NvmlFailure):
                return opened
            self._generation = opened
        inventory = self._known or self._last_inventory()
        gpus = () if inventory is None else inventory.gpus
        devices = NvmlInventoryReader(
            self._facts, self._generation, gpus, bus, self._stuck_probes
        ).read()
        if isinstance(devices, Inventory):
            with self._stuck_probes.at(PEERS, self.library) as stuck:
                topology = self._peers.read(devices) if stuck is None else TopologyFacts()
            devices = self._known = replace(devices, versions=self.versions, topology=topology)
        elif devices.driver_is_gone:
            self.close()
        return devices

    def _open(self, bus: Sequence[BusGpu]) -> int | NvmlFailure:
        """Open NVML, without attaching GPUs if some are asleep; return the generation."""
        if bus and all(gpu.is_asleep for gpu in bus):
            return _ALL_ASLEEP
        sleeps = any(gpu.is_asleep for gpu in bus)
        gentle = ("nvmlInitWithFlags", pynvml.NVML_INIT_FLAG_NO_ATTACH)
        call: tuple[Any, ...] = gentle if sleeps else ("nvmlInit",)
        opened = self.library.ask(*call)
        is_outdated = isinstance(opened, NvmlFailure) and opened.code == _MISMATCH
        if is_outdated and load_successor():
            opened = self.library.ask(*call)
        if isinstance(opened, NvmlFailure):
            return opened
        self.versions = MappingProxyType(_versions(self.library))
        return next(self._generations)

    def close(self) -> None:
        """Close NVML; handles of this opening become invalid."""
        if self._generation is not None:
            self.library.ask("nvmlShutdown")
            self._generation = self._known = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _versions(library: NvmlLibrary) -> dict[str, str]:
    cuda = library.ask("nvmlSystemGetCudaDriverVersion_v2")
    if isinstance(cuda, NvmlFailure):
        cuda = library.ask("nvmlSystemGetCudaDriverVersion")
    if not isinstance(cuda, NvmlFailure):
        cuda = f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda > 0 else ""  # 12040 is CUDA 12.4.
    versions = {
        "driver_version": library.ask("nvmlSystemGetDriverVersion"),
        "cuda_version": cuda,
        "nvml_version": library.ask("nvmlSystemGetNVMLVersion"),
    }
    return {
        name: str(version)
        for name, version in versions.items()
        if not isinstance(version, NvmlFailure) and version
    }
