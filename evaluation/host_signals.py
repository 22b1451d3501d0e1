"""Signals of a host beside its boards: NUMA placement, network, a driver that wakes up.

The simulator places no process and has no network, so these figures follow from the phase's own
label: one range where it says so, another where it does not. No one has measured these ranges;
what is tested is that the signals are read, and not over-read.
"""

from typing import Final

from msgspec.structs import replace

from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import Condition
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.simulator.node import SimulatedNode
from rightsizer.simulator.transients import channel, uniform, wake_transient

_WAKES_EVERY: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND
_LEAST_GPUS_WITH_FABRIC: Final = 2
_REMOTE_MEMORY = (0.05, 0.35)
_LOCAL_MEMORY = (0.75, 1.0)
_REMOTE_CORES = 0.0
_ANY_CORES = 0.5
_LOCAL_CORES = 1.0
_BUSY_NETWORK = (0.65, 0.95)
_QUIET_NETWORK = (0.02, 0.45)


def with_host_signals(snapshot: Snapshot, node: SimulatedNode) -> Snapshot:
    """The same with the place of its processes, its network, and what waking GPUs show."""
    readings = {
        uuid: _with_host_signals(reading, node, snapshot)
        for uuid, reading in snapshot.readings.items()
    }
    return replace(snapshot, readings=readings)


def _with_host_signals(reading: Reading, node: SimulatedNode, snapshot: Snapshot) -> Reading:
    if not reading.processes:
        return _as_woken(reading, node, snapshot.interval)
    conditions = node.truth(reading.uuid, reading.time)[1]
    seed = node.scenario.seed
    memory = channel(seed, "memory", reading.uuid)
    cores = channel(seed, "cores", reading.uuid)
    step = reading.time // NANOSECONDS_PER_SECOND
    is_remote = Condition.NUMA_MISPLACED in conditions
    free = _ANY_CORES if uniform(cores, 0) < 1 / 2 else _LOCAL_CORES
    added = {
        Signal.HOST_MEMORY_LOCAL: _within(
            _REMOTE_MEMORY if is_remote else _LOCAL_MEMORY, memory, step
        ),
        Signal.CPU_AFFINITY_LOCAL: _REMOTE_CORES if is_remote else free,
    }
    if len(node.units) >= _LEAST_GPUS_WITH_FABRIC and Signal.NVLINK_LINKS in reading.values:
        is_bound = Condition.NETWORK_BOUND in conditions
        network = channel(seed, "network")
        range_ = _BUSY_NETWORK if is_bound else _QUIET_NETWORK
        added[Signal.INFINIBAND_RECEIVE] = _within(range_, network, 2 * step)
        added[Signal.INFINIBAND_TRANSMIT] = _within(range_, network, 2 * step + 1)
    return replace(reading, values={**reading.values, **added})


def _within(limits: tuple[float, float], key: int, step: int) -> float:
    least, most = limits
    return least + (most - least) * uniform(key, step)


def _as_woken(reading: Reading, node: SimulatedNode, interval: Nanoseconds) -> Reading:
    """Someone's program opens and closes the driver every hour where it does not stay loaded."""
    unit = node.unit(reading.uuid)
    elapsed = reading.time % _WAKES_EVERY
    if unit.slot.is_persistent or elapsed >= interval:
        return reading
    woken = wake_transient(node.state(reading.uuid, reading.time), unit.around, 0)
    shown = {Signal.GPU_BUSY: woken.load.gpu_busy, Signal.POWER_WATTS: woken.power_watts}
    return replace(reading, values={**reading.values, **shown})
