"""What the driver says of the ways between GPUs: PCIe, NVLink, and who may read whose memory."""

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import pynvml

from rightsizer.domain.topology import LinkKind
from rightsizer.telemetry.nvml.bus_id import bus_id
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.inventory import Inventory, Target
from rightsizer.telemetry.nvml.library import Library
from rightsizer.telemetry.nvml.wiring import link_is_up
from rightsizer.telemetry.topology.address import kernel_address
from rightsizer.telemetry.topology.told import Peer, Seat, Told

__all__ = ["PeerReader"]

_KINDS: Final[Mapping[int, LinkKind]] = MappingProxyType(
    {
        # Two GPUs of one board stand behind the switch on it.
        pynvml.NVML_TOPOLOGY_INTERNAL: LinkKind.PIX,
        pynvml.NVML_TOPOLOGY_SINGLE: LinkKind.PIX,
        pynvml.NVML_TOPOLOGY_MULTIPLE: LinkKind.PXB,
        pynvml.NVML_TOPOLOGY_HOSTBRIDGE: LinkKind.PHB,
        pynvml.NVML_TOPOLOGY_NODE: LinkKind.NODE,
        pynvml.NVML_TOPOLOGY_SYSTEM: LinkKind.SYSTEM,
    }
)
# The bindings' own constant for reading is a tuple by mistake.
_READ: Final = 0
_NVLINK: Final = pynvml.NVML_P2P_CAPS_INDEX_NVLINK
_LINKS: Final = range(pynvml.NVML_NVLINK_MAX_LINKS)
_WORD_BITS: Final = 64
_CPU_WORDS: Final = 128
_NODE_WORDS: Final = 16
_SCOPE_NODE: Final = 0
_NO_ADDRESS: Final = "ffffffff:ff:ff.0"


class PeerReader:
    """Asks how GPUs reach each other; what cannot change is asked once for the same GPUs."""

    def __init__(self, library: Library) -> None:
        """A reader for the thread that owns the library."""
        self._library = library
        self._known: dict[Hashable, Any] = {}
        self._asked_of: Hashable = None

    def read(self, inventory: Inventory) -> Told:
        """What the driver says of the GPUs of an inventory; never raises."""
        asked_of = inventory.generation, inventory.gpus
        if asked_of != self._asked_of:
            self._asked_of = asked_of
            self._known.clear()
        targets = [gpu.whole for gpu in inventory.gpus]
        ends = [(target, self._ends(target)) for target in targets]
        return Told(
            peers={
                (one.device.uuid, other.device.uuid): self._peer(one, mine, other, others)
                for (one, mine), (other, others) in itertools.combinations(ends, 2)
            },
            seats={target.device.uuid: self._seat(target) for target in targets},
        )

    def _peer(self, one: Target, mine: "_Ends", other: Target, others: "_Ends") -> Peer:
        pair = other.device.uuid, other.handle
        level = self._ask_once(one, "nvmlDeviceGetTopologyCommonAncestor", peer=pair)
        nvlinks: int | None = _nvlinks(one, mine, other, others)
        if not nvlinks and mine.untold and others.untold and self._may(one, pair, _NVLINK):
            nvlinks = None
        return Peer(
            pcie_kind=LinkKind.UNKNOWN if level is None else _KINDS.get(level, LinkKind.UNKNOWN),
            nvlinks=nvlinks,
            can_read=self._may(one, pair, _READ),
        )

    def _may(self, one: Target, peer: tuple[str, Any], what: int) -> bool | None:
        status = self._ask_once(one, "nvmlDeviceGetP2PStatus", what, peer=peer)
        if status is None or status == pynvml.NVML_P2P_STATUS_UNKNOWN:
            return None
        return bool(status == pynvml.NVML_P2P_STATUS_OK)

    def _ends(self, target: Target) -> "_Ends":
        """Where the links of a GPU lead that are up now."""
        ends = _Ends()
        for link in self._links_up(target):
            info = self._ask_once(target, "nvmlDeviceGetNvLinkRemotePciInfo", link)
            kind = self._ask_once(target, "nvmlDeviceGetNvLinkRemoteDeviceType", link)
            address = None if info is None else kernel_address(bus_id(info))
            # A switch may hide its address; drivers that do not know of kinds hide nothing else.
            is_hidden = info is not None and address == _NO_ADDRESS
            if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH or (kind is None and is_hidden):
                ends.switched += 1
            elif address is not None and not is_hidden:
                ends.direct[address] += 1
            else:
                ends.untold += 1
        return ends

    def _links_up(self, target: Target) -> Iterable[int]:
        if target.wiring.count is not None:
            return target.wiring.up
        # An inventory that could not count the links leaves them to be tried one by one.
        states = {link: self._ask(target, "nvmlDeviceGetNvLinkState", link) for link in _LINKS}
        return [link for link, state in states.items() if state and link_is_up(state)]

    def _seat(self, target: Target) -> Seat:
        memory_node = self._ask_once(target, "nvmlDeviceGetNumaNodeId")
        nodes = _bits(
            self._ask_once(target, "nvmlDeviceGetMemoryAffinity", _NODE_WORDS, _SCOPE_NODE)
        )
        return Seat(
            numa_node=nodes[0] if len(nodes) == 1 else None,
            memory_numa_node=memory_node if memory_node is not None and memory_node >= 0 else None,
            cpus=_bits(self._ask_once(target, "nvmlDeviceGetCpuAffinity", _CPU_WORDS)),
            generation=self._ask(target, "nvmlDeviceGetCurrPcieLinkGeneration") or None,
            width=self._ask(target, "nvmlDeviceGetCurrPcieLinkWidth") or None,
        )

    def _ask(self, target: Target, name: str, *arguments: Hashable) -> Any:
        """An answer that may change, `None` for a failure; what is not supported is kept."""
        key = target.device.uuid, name, arguments
        if key in self._known:
            return None
        answer = self._library.ask(name, target.handle, *arguments)
        if not isinstance(answer, Failure):
            return answer
        if _is_final(answer):
            self._known[key] = None
        return None

    def _ask_once(
        self, target: Target, name: str, *arguments: Hashable, peer: tuple[str, Any] | None = None
    ) -> Any:
        """An answer that cannot change, `None` for a failure."""
        key = target.device.uuid, name, arguments, None if peer is None else peer[0]
        if key in self._known:
            return self._known[key]
        handles = (target.handle,) if peer is None else (target.handle, peer[1])
        answer = self._library.ask(name, *handles, *arguments)
        if not isinstance(answer, Failure):
            self._known[key] = answer
            return answer
        if _is_final(answer):
            self._known[key] = None
        return None


@dataclass(slots=True)
class _Ends:
    """Where a GPU's links lead, as far as they are up."""

    direct: Counter[str] = field(default_factory=Counter)
    """By the PCI address at the other end."""
    switched: int = 0
    untold: int = 0


def _nvlinks(one: Target, mine: _Ends, other: Target, others: _Ends) -> int:
    """Links between two GPUs: direct ones, else those to the switches, which join all alike."""
    there = kernel_address(other.device.pci_bus_id) or ""
    here = kernel_address(one.device.pci_bus_id) or ""
    direct = max(mine.direct[there], others.direct[here])
    return direct or min(mine.switched, others.switched)


def _is_final(failure: Failure) -> bool:
    # Drivers refuse a link that the board does not have in one way or the other.
    return failure.is_unsupported or failure.code == pynvml.NVML_ERROR_INVALID_ARGUMENT


def _bits(words: Sequence[int] | None) -> tuple[int, ...]:
    """The numbers of the bits that are set."""
    return tuple(_set_bits(enumerate(words))) if words is not None else ()


def _set_bits(words: Iterable[tuple[int, int]]) -> Iterable[int]:
    for place, word in words:
        yield from (place * _WORD_BITS + bit for bit in range(_WORD_BITS) if word >> bit & 1)
