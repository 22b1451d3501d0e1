"""Whether a GPU waits while the fabric near to it is full."""

from collections.abc import Mapping
from dataclasses import dataclass

from rightsizer.accounting.signals import highest
from rightsizer.domain.settings import setting
from rightsizer.domain.signal import PIPES, Signal

__all__ = ["NetworkSettings", "is_network_bound"]


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """From when on the network is what a GPU waits for."""

    port_ratio: float = setting(
        0.6,
        help="Traffic of a direction of the nearest fabric ports, of their rate, that limits.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="as for PCIe: exchanges alternate with work, so that the mean stays below the peak",
    )
    busy_ratio: float = setting(
        0.1,
        help="Busy share from which on a GPU takes part in the exchange; the ports are not its "
        "own, and one that rests may be beside another's traffic.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="as for the PCIe generation: a load",
    )
    pipe_ratio: float = setting(
        0.3,
        help="Pipe activity from which on a GPU does not wait.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, states: as for PCIe",
    )
    dram_ratio: float = setting(
        0.5,
        help="Memory traffic from which on a GPU does not wait.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, states: memory traffic that limits",
    )
    power_ratio: float = setting(
        0.6,
        help="Power from which on a GPU without profiling counters does not wait.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, sources: power .6 of a GPU that works fully",
    )
    gap_busy_ratio: float = setting(
        0.7,
        help="Busy share below which a GPU waits where neither counters nor power are known.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, states: gaps",
    )


def is_network_bound(signals: Mapping[Signal, float], settings: NetworkSettings) -> bool:
    """Whether the nearest InfiniBand or RoCE ports are at their limit while the GPU waits.

    Only a port's rate tells what full is; of other interfaces it is not known, so that nothing is
    claimed of them.
    """
    port = highest(signals, Signal.INFINIBAND_RECEIVE, Signal.INFINIBAND_TRANSMIT)
    return (
        port is not None
        and port >= settings.port_ratio
        and signals.get(Signal.GPU_BUSY, 0.0) >= settings.busy_ratio
        and _waits(signals, settings)
    )


def _waits(signals: Mapping[Signal, float], settings: NetworkSettings) -> bool:
    """By the best witness: a collective's kernels keep a GPU busy while it waits."""
    pipes = highest(signals, *PIPES)
    if pipes is not None:
        dram = signals.get(Signal.DRAM_ACTIVE, 0.0)
        return pipes < settings.pipe_ratio and dram < settings.dram_ratio
    power = signals.get(Signal.POWER)
    if power is not None:
        return power < settings.power_ratio
    return signals[Signal.GPU_BUSY] < settings.gap_busy_ratio
