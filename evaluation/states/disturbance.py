"""Snapshots as other nodes might give them: less, later and less exactly.

Nothing here is shared with the simulator's own noise or with the classifier. Each device has
errors of its own that stay, each reading has some that do not.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from msgspec.structs import replace

from rightsizer.model.reading import Reading
from rightsizer.model.signal import HOST_SIGNALS, PIPES, Signal
from rightsizer.model.snapshot import Snapshot

_PROFILING: Final = frozenset(
    {*PIPES, Signal.SM_ACTIVE, Signal.SM_OCCUPANCY, Signal.SM_WORK, Signal.INTEGER_ACTIVE}
    | {Signal.DRAM_ACTIVE}
)
"""What GPM or DCGM gives and NVML alone does not."""
_POWER: Final = frozenset({Signal.POWER, Signal.POWER_WATTS, Signal.ENERGY_JOULES})
_ENGINES: Final = (Signal.ENCODER, Signal.DECODER, Signal.JPEG, Signal.OFA)
_TRAFFIC: Final = (
    Signal.PCIE_RECEIVE_BYTES_PER_SECOND,
    Signal.PCIE_TRANSMIT_BYTES_PER_SECOND,
    Signal.NVLINK_RECEIVE_BYTES_PER_SECOND,
    Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND,
)
_COUNTED: Final = frozenset({*_PROFILING, *_ENGINES, *_TRAFFIC, Signal.GPU_BUSY})
_COUNTED_ALL: Final = (*sorted(_COUNTED), Signal.MEMORY_CONTROLLER_BUSY)
_RATIOS: Final = frozenset(_COUNTED_ALL) - frozenset(_TRAFFIC)
_TIMED: Final = frozenset({Signal.GPU_BUSY, *_ENGINES})
"""Shares of time, which no gain can be wrong with."""
_PERCENTS: Final = frozenset({Signal.GPU_BUSY, Signal.MEMORY_CONTROLLER_BUSY, *_ENGINES})

_COUNTER_GAIN = 0.04
_POWER_GAIN = 0.02
_CONTROLLER_GAINS: Final = (0.15, 1.0)
"""The memory controller's share says little of the traffic: an H100 at 632 W shows 11%."""
_COUNTER_NOISE = 0.04
_POWER_NOISE = 0.02
_HOST_NOISE = 0.15
_GRAIN: Final = 0.25
"""How uneven a busy share is from one second to the next: not at all where it is 0 or 1."""
_FLOORS: Final[Mapping[Signal, float]] = {
    Signal.SM_ACTIVE: 0.002,
    Signal.DRAM_ACTIVE: 0.01,
    Signal.FP32_ACTIVE: 0.0005,
    Signal.MEMORY_CONTROLLER_BUSY: 0.02,
    Signal.PCIE_RECEIVE_BYTES_PER_SECOND: 4e6,
    Signal.PCIE_TRANSMIT_BYTES_PER_SECOND: 4e6,
}
"""What counters show at rest, in the mean."""
_MISSING_VALUE: Final = 0.02
_MISSING_READING: Final = 0.01
_OUTAGE = 0.0005
_OUTAGE_TICKS = 12
_CLOCK_JITTER: Final = 0.1
"""Of the interval, to either side."""


def without_profiling(snapshot: Snapshot) -> Snapshot:
    """As NVML alone would give it."""
    return _each(snapshot, lambda reading: _without(reading, _PROFILING))


def without_power(snapshot: Snapshot) -> Snapshot:
    """As a source would give it that knows utilization and memory only."""
    return _each(snapshot, lambda reading: _without(reading, _PROFILING | _POWER))


class Disturbance:
    """One node's own faults of measuring; the same seed gives the same faults."""

    def __init__(self, seed: object) -> None:
        """Draw the errors of the node's sensors."""
        self._seed = seed
        self._random = Random(f"disturbance {seed}")
        self._gains: dict[str, Mapping[Signal, float]] = {}
        self._silent: dict[str, int] = {}

    def disturbed(self, snapshot: Snapshot, late: Snapshot) -> Snapshot:
        """A snapshot as it is read; counters lag, while memory, power and processes do not."""
        readings: dict[str, Reading] = {}
        for uuid, reading in snapshot.readings.items():
            if not self._is_missed(uuid):
                readings[uuid] = self._blurred(reading, late.readings.get(uuid), snapshot.interval)
        return replace(snapshot, readings=readings)

    def _is_missed(self, uuid: str) -> bool:
        left = self._silent.get(uuid, 0)
        if left == 0 and self._random.random() < _OUTAGE:
            left = _OUTAGE_TICKS
        self._silent[uuid] = max(0, left - 1)
        return left > 0 or self._random.random() < _MISSING_READING

    def _blurred(self, reading: Reading, late: Reading | None, interval: int) -> Reading:
        random = self._random
        gains = self._gains_of(reading.uuid)
        source = (late or reading).values
        busy = source.get(Signal.GPU_BUSY, 0.0)
        grain = max(0.0, 1.0 + _GRAIN * (1.0 - busy) * random.gauss(0.0, 1.0))
        values = dict(reading.values)
        for name in _COUNTED_ALL:
            if name in values and name in source:
                floor = 0.0 if busy else _FLOORS.get(name, 0.0)
                values[name] = self._counter(name, source[name] * grain, gains[name], floor)
        if Signal.POWER_WATTS in values:
            noise = random.gauss(1.0, _POWER_NOISE)
            values[Signal.POWER_WATTS] *= gains[Signal.POWER_WATTS] * noise
        for name in HOST_SIGNALS:
            if name in values:
                values[name] = min(1.0, max(0.0, values[name] * random.gauss(1.0, _HOST_NOISE)))
        for name in (*_COUNTED_ALL, Signal.POWER_WATTS, Signal.MEMORY_USED_BYTES):
            if random.random() < _MISSING_VALUE:
                values.pop(name, None)
        moved = round(random.uniform(-_CLOCK_JITTER, _CLOCK_JITTER) * interval)
        return replace(reading, values=values, time=reading.time + moved)

    def _counter(self, name: Signal, value: float, gain: float, floor: float) -> float:
        if name not in _TIMED:
            least = floor * self._random.random() * 2.0
            value = max(least, value * gain) * max(0.0, self._random.gauss(1.0, _COUNTER_NOISE))
        if name in _PERCENTS:
            value = round(value, 2)
        return min(1.0, value) if name in _RATIOS else value

    def _gains_of(self, uuid: str) -> Mapping[Signal, float]:
        if uuid not in self._gains:
            random = Random(f"gains {self._seed} {uuid}")
            self._gains[uuid] = {
                **{name: random.gauss(1.0, _COUNTER_GAIN) for name in _COUNTED_ALL},
                Signal.MEMORY_CONTROLLER_BUSY: random.uniform(*_CONTROLLER_GAINS),
                Signal.POWER_WATTS: random.gauss(1.0, _POWER_GAIN),
            }
        return self._gains[uuid]


def _without(reading: Reading, names: frozenset[Signal]) -> Reading:
    # What the driver itself does not offer came with the profiling counters, and goes with them.
    gone = names | reading.missing.keys()
    kept = {name: value for name, value in reading.values.items() if name not in gone}
    busy = kept.get(Signal.GPU_BUSY)
    if busy is not None:
        kept[Signal.GPU_BUSY] = round(busy, 2)
    return replace(reading, values=kept)


def _each(snapshot: Snapshot, change: Callable[[Reading], Reading]) -> Snapshot:
    readings = {uuid: change(reading) for uuid, reading in snapshot.readings.items()}
    return replace(snapshot, readings=readings)
