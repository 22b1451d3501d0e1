"""State of the baseline rules for each device, from snapshot to snapshot."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from evaluation.states.baselines import BaselineInput, Watched
from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import seconds

_READINGS: Final = 500
_P95_SHARE: Final = 0.05
_LOW: Final = 0.70


class _Device:
    def __init__(self) -> None:
        self.held_seconds = self.zero_seconds = self.engine_zero_seconds = 0.0
        self._recent: deque[bool] = deque(maxlen=_READINGS)
        self._high = 0

    def see(self, seen: BaselineInput, passed: float) -> Watched:
        self.held_seconds = self.held_seconds + passed if seen.is_held else 0.0
        engine = seen.utilization if seen.engine is None else seen.engine
        self.zero_seconds = _added(self.zero_seconds, passed, seen.utilization, seen)
        self.engine_zero_seconds = _added(self.engine_zero_seconds, passed, engine, seen)
        if len(self._recent) == _READINGS:
            self._high -= self._recent[0]
        is_high = (seen.utilization or 0.0) >= _LOW
        self._recent.append(is_high)
        self._high += is_high
        # P95 reaches a height where more than a twentieth of the readings do.
        p95 = _LOW if self._high > _P95_SHARE * len(self._recent) else 0.0
        return Watched(seen, self.held_seconds, self.zero_seconds, self.engine_zero_seconds, p95)


def _added(so_far: float, passed: float, value: float | None, seen: BaselineInput) -> float:
    return so_far + passed if seen.is_held and not value and value is not None else 0.0


class BaselineState:
    """All devices."""

    def __init__(self) -> None:
        self._devices: dict[str, _Device] = {}

    def see(self, snapshot: Snapshot) -> Mapping[str, tuple[Watched, Sequence[Watched]]]:
        """Every device that utilization is read of, with all the devices of its workload."""
        passed = seconds(snapshot.interval)
        watched = {
            uuid: self._devices.setdefault(uuid, _Device()).see(baseline_input(reading), passed)
            for uuid, reading in snapshot.readings.items()
            if Signal.GPU_BUSY in reading.values
        }
        by_workload: dict[str, list[Watched]] = {}
        for uuid, device in watched.items():
            for holding in snapshot.holdings.get(uuid, ()):
                by_workload.setdefault(holding.workload.key, []).append(device)
        return {
            uuid: (device, self._together(uuid, device, snapshot, by_workload))
            for uuid, device in watched.items()
        }

    def _together(
        self,
        uuid: str,
        device: Watched,
        snapshot: Snapshot,
        by_workload: Mapping[str, Sequence[Watched]],
    ) -> Sequence[Watched]:
        holdings = snapshot.holdings.get(uuid, ())
        return by_workload[holdings[0].workload.key] if holdings else (device,)


def baseline_input(reading: Reading) -> BaselineInput:
    """A reading as the rules of others see it."""
    values = reading.values
    busy = values.get(Signal.GPU_BUSY)
    has_counters = Signal.SM_ACTIVE in values
    return BaselineInput(
        utilization=None if busy is None else round(busy, 2),
        engine=busy if has_counters else None,
        sm=values.get(Signal.SM_ACTIVE, 0.0),
        tensor=values.get(Signal.TENSOR_ACTIVE, 0.0),
        fp64=values.get(Signal.FP64_ACTIVE, 0.0),
        dram=values.get(Signal.DRAM_ACTIVE, 0.0),
        has_counters=has_counters,
        pcie_bytes_per_second=values.get(Signal.PCIE_RECEIVE_BYTES_PER_SECOND, 0.0)
        + values.get(Signal.PCIE_TRANSMIT_BYTES_PER_SECOND, 0.0),
        cpu=values.get(Signal.CPU, 0.0),
        io_pressure=values.get(Signal.IO_PRESSURE, 0.0),
        is_held=bool(reading.processes),
    )
