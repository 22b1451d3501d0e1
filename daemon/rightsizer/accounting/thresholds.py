"""Where one state ends and another begins."""

from dataclasses import dataclass
from typing import Final

from rightsizer.domain.settings import setting

__all__ = ["ClassifySettings"]

_MEBIBYTE: Final = 2**20


def _ratio(default: float, text: str, source: str) -> float:
    result: float = setting(default, help=text, unit="ratio", minimum=0, maximum=1, source=source)
    return result


@dataclass(frozen=True, slots=True)
class ClassifySettings:
    """Where one state ends and another begins."""

    active_ratio: float = _ratio(
        0.01,
        "Share of any engine's time from which on a device does something.",
        "docs/definitions.md, states",
    )
    active_sm_ratio: float = _ratio(
        0.005,
        "SM activity from which on a device does something.",
        "docs/definitions.md, sources: execution idle",
    )
    active_traffic_ratio: float = _ratio(
        0.05,
        "Memory, PCIe or NVLink traffic from which on a device does something.",
        "above the idle noise of profiling counters",
    )
    empty_memory_ratio: float = _ratio(
        0.01, "Memory in use below which nobody holds the device.", "docs/definitions.md, states"
    )
    empty_memory_bytes: float = setting(
        512 * _MEBIBYTE,
        help="The same as a size; the larger of the two counts.",
        unit="bytes",
        minimum=0,
        source="docs/definitions.md, states",
    )
    context_memory_bytes: float = setting(
        64 * _MEBIBYTE,
        help="Memory in use below which no program can run; a device without processes that is "
        "busy then shows what its driver does on waking it.",
        unit="bytes",
        minimum=0,
        source="nvidia-smi on an L40S without persistence: 100 % with no process and 0 MiB; a "
        "CUDA context takes more than 64 MiB",
    )
    idle_power_ratio: float = _ratio(
        0.5,
        "Power from which on a device at rest by its counters is not believed to be idle.",
        "dcgm-exporter#662: counters that read 0 under load; a context alone draws up to .3 "
        "(L4: 33 of 72 W, idle 17)",
    )
    stall_busy_ratio: float = _ratio(
        0.8, "Busy share of a hidden stall.", "docs/definitions.md, states; NVIDIA/nccl#968"
    )
    stall_power_ratio: float = _ratio(
        0.25,
        "Power below which a busy device does no work; where no profiling counters are, at the "
        "highest clock, and less in proportion at a lower one.",
        "docs/definitions.md, states; NVIDIA/nccl#968",
    )
    stall_engine_ratio: float = _ratio(
        0.05,
        "Time of a media engine from which on a busy device works, whatever its SMs do.",
        "above the noise of engines at rest; video encoding leaves the SMs alone",
    )
    stall_pipe_ratio: float = _ratio(
        0.02,
        "Activity of every pipe below which a busy device does no work.",
        "docs/definitions.md, states",
    )
    stall_dram_ratio: float = _ratio(
        0.05,
        "Memory traffic below which a busy device does no work.",
        "docs/definitions.md, states",
    )
    stall_busy_alone_ratio: float = _ratio(
        0.98,
        "Busy share that shows a hidden stall by itself where no profiling counters are.",
        "docs/definitions.md, states",
    )
    stall_memory_controller_ratio: float = _ratio(
        0.05,
        "Memory controller time, at the highest memory clock, from which on a busy device at low "
        "power is not stalled; it may decode at low clocks, or replay small kernels.",
        "as for memory traffic; an H100 at its full 632 W reads no more than .11",
    )
    link_ratio: float = _ratio(
        0.6, "Share of a PCIe direction that limits.", "docs/definitions.md, states"
    )
    link_pipe_ratio: float = _ratio(
        0.3,
        "Pipe activity from which on PCIe is not what limits.",
        "docs/definitions.md, sources: sm < 0.3",
    )
    dram_ratio: float = _ratio(
        0.65, "Memory traffic that limits, whatever the pipes do.", "docs/definitions.md, states"
    )
    dram_alone_ratio: float = _ratio(
        0.5,
        "Memory traffic that limits where no pipe does.",
        "docs/definitions.md, states; KempnerPulse",
    )
    pipe_ratio: float = _ratio(
        0.5, "Activity of a pipe that limits.", "docs/definitions.md, states"
    )
    launch_busy_ratio: float = _ratio(
        0.5, "Busy share of a device bound by launches.", "docs/definitions.md, sources: gr >= 0.5"
    )
    launch_sm_ratio: float = _ratio(
        0.25,
        "SM activity below which a busy device waits for launches.",
        "docs/definitions.md, states",
    )
    launch_coverage_ratio: float = _ratio(
        0.4,
        "SM activity of the busy time from which on a device has gaps rather than small kernels.",
        "activity is a mean that gaps lower as well; NVIDIA calls less than .5 ineffective",
    )
    gap_busy_ratio: float = _ratio(
        0.7, "Busy share below which a device has gaps.", "docs/definitions.md, sources: u < 0.7"
    )
    io_pressure_ratio: float = _ratio(
        0.2, "I/O pressure that explains gaps.", "docs/definitions.md, sources: PSI 20 %"
    )
    cpu_pressure_ratio: float = _ratio(
        0.2, "CPU pressure that explains gaps.", "docs/definitions.md, sources: PSI 20 %"
    )
    cpu_ratio: float = _ratio(
        0.9,
        "CPU use of the quota that explains gaps.",
        "docs/definitions.md, sources: 90 % of quota",
    )
    second_cause_score: float = _ratio(
        0.25, "Score from which on another state is named as second cause.", "half a match"
    )
