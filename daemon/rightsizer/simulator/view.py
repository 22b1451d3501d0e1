"""View of a simulated device at a time: what its driver measures, before it is rounded."""

from collections.abc import Callable
from typing import Final

from rightsizer.model.values import Nanoseconds, Nvlink, Process
from rightsizer.simulator.counters import GpuCounters
from rightsizer.simulator.device import SimulatedDevice
from rightsizer.simulator.faults import GpuHealth, NvlinkErrorCounts
from rightsizer.simulator.node import SimulatedNode
from rightsizer.simulator.physics import (
    BoardEnvironment,
    BoardState,
    has_switches,
    link_count,
    link_megabytes_per_second,
    peer_of_link,
)
from rightsizer.simulator.support import support_of

_MEGABYTE: Final = 1e6


class DeviceView:
    """A GPU or MIG instance at the time of a clock."""

    def __init__(
        self, node: SimulatedNode, unit: SimulatedDevice, now: Callable[[], Nanoseconds]
    ) -> None:
        self.node = node
        self.unit = unit
        self.now = now
        self.uuid = unit.device.uuid
        self.timeline = node.timeline(unit)
        self.support = support_of(unit.slot.board)

    @property
    def state(self) -> BoardState:
        """Readable state."""
        return self.node.state(self.uuid, self.now())

    @property
    def around(self) -> BoardEnvironment:
        """Power limit, cooling and links of the slot."""
        return self.timeline.around(self.now())

    @property
    def processes(self) -> tuple[Process, ...]:
        """Processes on the device."""
        return self.node.processes(self.uuid, self.now())

    @property
    def counters(self) -> GpuCounters:
        """Counters of the GPU."""
        return self.node.counters(self.uuid, self.now())

    @property
    def health(self) -> GpuHealth:
        """Errors of the GPU over its life."""
        return self.node.health(self.uuid, self.now())

    @property
    def recent_health(self) -> GpuHealth:
        """Errors since the driver was loaded."""
        return self.node.recent_health(self.uuid, self.now())

    @property
    def links(self) -> tuple[Nvlink, ...]:
        """NVLinks that lead anywhere."""
        board = self.unit.slot.board
        health = self.health
        counters = self.counters
        count = link_count(board)
        is_switched = has_switches(board)
        nvlinks: list[Nvlink] = []
        for link in range(count):
            gpus = self.node.units
            peer = None if is_switched else peer_of_link(board, self.unit.spot.gpu, link, len(gpus))
            if peer is None and not is_switched:
                continue
            if link in health.links_down:
                nvlinks.append(Nvlink(link, is_up=False))
                continue
            errors = health.link_errors.get(link, NvlinkErrorCounts())
            nvlinks.append(
                Nvlink(
                    link,
                    is_up=True,
                    generation=board.nvlink_generation,
                    bytes_per_second=link_megabytes_per_second(board) * _MEGABYTE,
                    remote_pci_bus_id=None if peer is None else gpus[peer].device.pci_bus_id,
                    leads_to_switch=peer is None,
                    receive_bytes=counters.nvlink_receive_bytes / count,
                    transmit_bytes=counters.nvlink_transmit_bytes / count,
                    crc_errors=errors.crc,
                    replay_errors=errors.replay,
                    recovery_errors=errors.recovery,
                )
            )
        return tuple(nvlinks)
