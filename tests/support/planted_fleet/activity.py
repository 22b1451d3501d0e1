"""Loads of GPUs as dcgm-exporter shows them: boards, kinds of work, and their course over time."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

__all__ = [
    "A100",
    "BASE_SECONDS",
    "H100",
    "L4",
    "L40S",
    "PRESENT_HOUR",
    "Board",
    "Course",
    "Floats",
    "Load",
    "bursts",
    "constant",
    "dips",
    "grown",
    "in_turns",
    "office_hours",
    "ramp",
    "readings",
    "steady",
    "until",
]

Floats: TypeAlias = NDArray[np.float64]
Course: TypeAlias = Callable[[Floats, np.random.Generator], Floats]
"""Load between 0 and 1 by the hours since the present, which are negative."""

PRESENT_HOUR: Final = 10
"""Hour of the day, UTC, at which the samples end."""
BASE_SECONDS: Final = 30
"""Interval of all courses; longer scrape intervals see some of their moments."""


class Board(Struct, frozen=True):
    """A board, as its driver names it."""

    name: str
    memory_mebibytes: int
    limit_watts: float
    idle_watts: float
    clock_megahertz: int
    has_nvlink: bool = False


H100: Final = Board("NVIDIA H100 80GB HBM3", 81_559, 700.0, 72.0, 1980, has_nvlink=True)
A100: Final = Board("NVIDIA A100-SXM4-80GB", 81_920, 400.0, 58.0, 1410, has_nvlink=True)
L40S: Final = Board("NVIDIA L40S", 46_068, 350.0, 36.0, 2520)
L4: Final = Board("NVIDIA L4", 23_034, 72.0, 16.0, 2040)


class Load(Struct, frozen=True):
    """Work on a GPU at a course of 1, each as a share of the board's capacity."""

    busy: float = 0.0
    sm: float = 0.0
    tensor: float = 0.0
    fp32: float = 0.0
    dram: float = 0.0
    power: float = 0.0
    """Of the power between idle and limit."""
    memory: float = 5e-5
    """Held whatever the course is; a free board has a few MiB."""
    memory_course: Course | None = None
    """Replaces `memory`."""
    pcie_bytes_per_second: float = 2e8
    nvlink_bytes_per_second: float = 0.0
    encoder: float = 0.0
    decoder: float = 0.0
    clock: float = 1.0
    course: Course = lambda hours, _: np.ones_like(hours)


def steady(level: float) -> Course:
    """A level that wanders by a tenth, as real work does."""

    def course(hours: Floats, random: np.random.Generator) -> Floats:
        wander = np.repeat(random.normal(1.0, 0.03, len(hours) // 10 + 1), 10)[: len(hours)]
        return np.clip(level * wander, 0.0, 1.0)

    return course


def constant(value: float) -> Course:
    """A value that never changes."""
    return lambda hours, _: np.full(len(hours), float(value))


def bursts(share: float, minutes: float, high: float = 1.0, low: float = 0.0) -> Course:
    """Bursts of a mean length that come at random, for a share of the time."""

    def course(hours: Floats, random: np.random.Generator) -> Floats:
        steps = minutes * 60 / BASE_SECONDS
        count = int(len(hours) / steps * 4) + 8
        on = random.exponential(steps, count) + 1
        off = random.exponential(steps * (1 - share) / share, count) + 1
        edges = np.cumsum(np.stack([off, on], axis=1).ravel()).astype(int)
        is_on = np.searchsorted(edges, np.arange(len(hours)), side="right") % 2 == 1
        return np.where(is_on, high, low)

    return course


def office_hours(low: float, high: float, first: float = 7.0, last: float = 18.0) -> Course:
    """A load from one hour of the day to another, with an hour of rise and fall."""

    def course(hours: Floats, random: np.random.Generator) -> Floats:
        hour = (hours + PRESENT_HOUR) % 24
        rise = np.clip(np.minimum(hour - first, last - hour), 0.0, 1.0)
        return np.clip((low + (high - low) * rise) * random.normal(1.0, 0.05, len(hours)), 0, 1)

    return course


def dips(every_hours: float, minutes: float, level: float = 1.0) -> Course:
    """Work that pauses at equal intervals, as for a checkpoint."""

    def course(hours: Floats, random: np.random.Generator) -> Floats:
        return np.where(hours % every_hours < minutes / 60, 0.02, level)

    return course


def in_turns(low: float, high: float) -> Course:
    """A level drawn anew at each moment, as of work whose steps are shorter than a scrape."""

    def course(hours: Floats, random: np.random.Generator) -> Floats:
        return random.uniform(low, high, len(hours))

    return course


def until(hour: float, before: Course) -> Course:
    """A course that ends at some hour; then nothing."""

    def course(hours: Floats, random: np.random.Generator) -> Floats:
        return np.where(hours < hour, before(hours, random), 0.0)

    return course


def ramp(first: float, last: float, days: float = 8.0) -> Course:
    """A level that grows from one to the other over the last days."""

    def course(hours: Floats, random: np.random.Generator) -> Floats:
        passed = np.clip(1 + hours / 24 / days, 0.0, 1.0)
        return first + (last - first) * passed + random.normal(0.0, 0.002, len(hours))

    return course


def grown(seconds_per_unit: float, since_hours: float) -> Course:
    """A counter that grows by one in some time, since some hours ago."""

    def course(hours: Floats, _: np.random.Generator) -> Floats:
        return np.floor(np.maximum(0.0, (hours + since_hours) * 3600) / seconds_per_unit)

    return course


def readings(
    board: Board, load: Load, hours: Floats, random: np.random.Generator
) -> Mapping[str, Floats]:
    """Values of an exporter's fields at each moment."""
    course = load.course(hours, random)
    works = course > 0.0
    noise = random.normal(1.0, 0.02, len(hours))

    def share(of: float) -> Floats:
        return np.clip(of * course * noise, 0.0, 1.0)

    held = np.full(len(hours), load.memory)
    if load.memory_course is not None:
        held = load.memory_course(hours, random)
    used = np.floor(np.clip(held, 0.0, 0.999) * board.memory_mebibytes)
    context = 0.06 if load.memory > 0.02 else 0.0
    power = np.maximum(context, load.power * course * noise)
    watts = np.minimum(
        board.limit_watts, board.idle_watts + (board.limit_watts - board.idle_watts) * power
    )
    lowest = 0.15 if context == 0.0 else 0.98
    clock = board.clock_megahertz * np.where(works, load.clock, lowest)
    busy = share(load.busy)
    zero = np.zeros(len(hours))
    traffic = course * noise * load.pcie_bytes_per_second
    values = {
        "DCGM_FI_DEV_SM_CLOCK": np.floor(clock / 15) * 15,
        "DCGM_FI_DEV_GPU_TEMP": np.round(30 + 38 * (watts / board.limit_watts)),
        "DCGM_FI_DEV_POWER_USAGE": np.round(watts, 3),
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": np.cumsum(watts) * BASE_SECONDS * 1000.0,
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": zero,
        "DCGM_FI_DEV_GPU_UTIL": np.round(100 * busy),
        "DCGM_FI_DEV_MEM_COPY_UTIL": np.round(100 * share(load.dram)),
        "DCGM_FI_DEV_ENC_UTIL": np.round(100 * share(load.encoder)),
        "DCGM_FI_DEV_DEC_UTIL": np.round(100 * share(load.decoder)),
        "DCGM_FI_DEV_XID_ERRORS": zero,
        "DCGM_FI_DEV_FB_USED": used,
        "DCGM_FI_DEV_FB_FREE": board.memory_mebibytes - used - 500.0,
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": zero,
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": zero,
        "DCGM_FI_DEV_ROW_REMAP_FAILURE": zero,
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": busy,
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": share(load.tensor),
        "DCGM_FI_PROF_DRAM_ACTIVE": share(load.dram),
        "DCGM_FI_PROF_PCIE_TX_BYTES": np.round(0.1 * traffic + 1e5),
        "DCGM_FI_PROF_PCIE_RX_BYTES": np.round(traffic + 1e5),
    }
    if board.has_nvlink:
        rate = course * noise * load.nvlink_bytes_per_second / 2**20
        # The exporter's unit is MB/s.
        values["DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"] = np.round(rate)
    return values | {
        # Beyond the exporter's default counters.
        "DCGM_FI_PROF_SM_ACTIVE": share(load.sm),
        "DCGM_FI_PROF_PIPE_FP32_ACTIVE": share(load.fp32),
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": np.where(works, 0.0, 1.0),
    }
