"""Reader of the model: the readings that NVML would give, without a driver in between."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    Missing,
    Nanoseconds,
    Nvlink,
    Process,
    Reading,
    Signal,
)
from rightsizer.simulator.device import SimulatedDevice
from rightsizer.simulator.faults import DeadCounters
from rightsizer.simulator.node import SimulatedNode, host_signals
from rightsizer.simulator.physics import BoardState
from rightsizer.simulator.signals import SIGNALS, SimulatedSignal
from rightsizer.simulator.support import BoardFeature
from rightsizer.simulator.view import DeviceView

_SLOW: Final[Nanoseconds] = 10 * NANOSECONDS_PER_SECOND
_ALL: Final = frozenset(row.signal for row in SIGNALS)


class _Offer(Struct, frozen=True):
    """What a device answers while it has MIG instances or not, and counters that work or not."""

    rows: tuple[SimulatedSignal, ...]
    steady: Mapping[Signal, float]
    """Values that never change."""
    missing: Mapping[Signal, Missing]


class ModelReader(DeviceView):
    """Reader of one device of a node."""

    def __init__(self, node: SimulatedNode, unit: SimulatedDevice) -> None:
        super().__init__(node, unit, lambda: self._time)
        self._time: Nanoseconds = 0
        self._state = node.state(self.uuid, 0)
        self._processes: tuple[Process, ...] = ()
        self._links: tuple[int, tuple[Nvlink, ...]] = (-1, ())
        self._varies = node.has_faults
        self._offers = {
            (is_cut, is_dead): self._offer(is_cut=is_cut, is_dead=is_dead)
            for is_cut in (False, True)
            for is_dead in (False, True)
        }

    def read(self, time: Nanoseconds) -> Reading:
        """Read the device at a time."""
        self._time = time
        self._state = self.node.state(self.uuid, time)
        is_cut = not self.unit.is_instance and bool(self.timeline.spots(time))
        is_dead = self._varies and self.timeline.has(DeadCounters, time)
        offer = self._offers[is_cut, is_dead]
        self._processes = () if is_cut else self._present(time)
        values = {row.signal: row.read(self) / row.per for row in offer.rows}
        values |= offer.steady
        if self._processes:
            pids = (process.pid for process in self._processes)
            host = self.node.workloads.owner_host(pids, time)
            values |= host_signals(host) if host is not None else {}
        links = self.links if Signal.NVLINK_LINKS in values else ()
        processes = None if is_cut else self._processes
        return Reading(self.uuid, time, values, offer.missing, processes, links)

    @property
    def state(self) -> BoardState:
        """Readable state."""
        return self._state

    @property
    def processes(self) -> tuple[Process, ...]:
        """Processes on the device, with the shares of active ones."""
        return self._processes

    @property
    def links(self) -> tuple[Nvlink, ...]:
        """NVLinks that lead anywhere, without faults only at the live source's slow interval."""
        step = self._time if self._varies else self._time // _SLOW
        if self._links[0] != step:
            self._links = step, super().links
        return self._links[1]

    def _offer(self, *, is_cut: bool, is_dead: bool) -> _Offer:
        """Return what the device answers: of a signal, the first row that it has."""
        scope = "instance" if self.unit.is_instance else "cut" if is_cut else "whole"
        features = set(self.support.features_with_mig if is_cut else self.support.features)
        if not self.support.nvlink_up:
            features.discard(BoardFeature.NVLINK)
        rows = [row for row in SIGNALS if row.feature in features and scope in row.scopes]
        if is_dead:
            rows.sort(key=lambda row: row.feature is BoardFeature.GPM)
            rows = [_dead(row) for row in rows]
        by_signal = {row.signal: row for row in reversed(rows)}
        lasting = [row for row in by_signal.values() if row.is_steady and not self._varies]
        return _Offer(
            tuple(row for row in by_signal.values() if row not in lasting),
            {row.signal: row.read(self) / row.per for row in lasting},
            dict.fromkeys(_ALL - by_signal.keys(), Missing.NOT_SUPPORTED),
        )

    def _present(self, time: Nanoseconds) -> tuple[Process, ...]:
        if self.unit.is_instance:
            return self.node.processes(self.uuid, time)
        processes: list[Process] = []
        for member in self.node.members(self.uuid, time):
            load = member.load
            works = load.gpu_busy > 0.0 or load.engines > 0.0
            share = round(load.sm_active / len(member.pids), 2) if works else None
            processes.extend(replace(process, gpu_busy=share) for process in member.processes)
        return tuple(processes)


def _dead(row: SimulatedSignal) -> SimulatedSignal:
    """Return the row while profiling counters read 0."""
    return replace(row, read=lambda _: 0.0) if row.feature is BoardFeature.GPM else row
