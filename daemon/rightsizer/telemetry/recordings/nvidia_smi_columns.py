"""What the columns of `nvidia-smi --query-gpu` mean, short and long spellings alike."""

import re
from typing import Final, NamedTuple

from rightsizer.model.driver_codes import ClockEvent
from rightsizer.model.signal import Signal


class SignalColumn(NamedTuple):
    """The signal of a column, the unit of its cells where they show none, and its preference."""

    signal: Signal
    unit: str
    rank: int = 0


_UNIT: Final = re.compile(r"\s*\[[^\]]*\]\s*$")
_SPELLINGS: Final = (
    ("clocks_throttle_reasons.", "clocks_event_reasons."),
    ("clocks.current.", "clocks."),
    ("gpu_name", "name"),
    ("gpu_bus_id", "pci.bus_id"),
    ("gpu_uuid", "uuid"),
    ("gpu_serial", "serial"),
    ("gpu_index", "index"),
)
_ENDINGS: Final = ((".graphics", ".gr"), (".memory", ".mem"))

IDENTITY: Final = ("uuid", "index", "pci.bus_id", "serial")
"""Columns that tell one device from another, the best first."""

FACTS: Final = {
    *("power.default_limit", "pcie.link.gen.max", "pcie.link.gen.gpumax", "pcie.link.gen.hostmax"),
    *("pcie.link.width.max", "name", "index", "pci.bus_id"),
}
"""Columns that hold still."""

SIGNAL_COLUMNS: Final[dict[str, SignalColumn]] = {
    "utilization.gpu": SignalColumn(Signal.GPU_BUSY, "%"),
    "utilization.memory": SignalColumn(Signal.MEMORY_CONTROLLER_BUSY, "%"),
    "utilization.encoder": SignalColumn(Signal.ENCODER, "%"),
    "utilization.decoder": SignalColumn(Signal.DECODER, "%"),
    "utilization.jpeg": SignalColumn(Signal.JPEG, "%"),
    "utilization.ofa": SignalColumn(Signal.OFA, "%"),
    "memory.used": SignalColumn(Signal.MEMORY_USED_BYTES, "MiB"),
    "memory.total": SignalColumn(Signal.MEMORY_TOTAL_BYTES, "MiB"),
    "memory.reserved": SignalColumn(Signal.MEMORY_RESERVED_BYTES, "MiB"),
    # The plain draw is what the driver means to be read; which mean it is depends on the board.
    "power.draw": SignalColumn(Signal.POWER_WATTS, "W", 2),
    "power.draw.average": SignalColumn(Signal.POWER_WATTS, "W", 1),
    "power.draw.instant": SignalColumn(Signal.POWER_WATTS, "W", 0),
    "enforced.power.limit": SignalColumn(Signal.POWER_LIMIT_WATTS, "W", 1),
    "power.limit": SignalColumn(Signal.POWER_LIMIT_WATTS, "W", 0),
    "temperature.gpu": SignalColumn(Signal.TEMPERATURE_CELSIUS, "C"),
    "temperature.memory": SignalColumn(Signal.MEMORY_TEMPERATURE_CELSIUS, "C"),
    # One clock drives both on every board so far.
    "clocks.sm": SignalColumn(Signal.SM_CLOCK_HERTZ, "MHz", 1),
    "clocks.gr": SignalColumn(Signal.SM_CLOCK_HERTZ, "MHz", 0),
    "clocks.max.sm": SignalColumn(Signal.SM_CLOCK_MAXIMUM_HERTZ, "MHz", 1),
    "clocks.max.gr": SignalColumn(Signal.SM_CLOCK_MAXIMUM_HERTZ, "MHz", 0),
    "clocks.mem": SignalColumn(Signal.MEMORY_CLOCK_HERTZ, "MHz"),
    "clocks_event_reasons.active": SignalColumn(Signal.CLOCK_EVENT_REASONS, "count"),
    "pcie.link.gen.gpucurrent": SignalColumn(Signal.PCIE_LINK_GENERATION, "count", 1),
    "pcie.link.gen.current": SignalColumn(Signal.PCIE_LINK_GENERATION, "count", 0),
    "pcie.link.width.current": SignalColumn(Signal.PCIE_LINK_WIDTH, "count"),
}

REASON_BITS: Final = {f"clocks_event_reasons.{event.label}": event for event in ClockEvent}
"""Columns of 'Active' and 'Not Active', and the bit of NVML's mask that each of them shows."""

_FLAT_UNITS: Final = {
    "%": ("_pct", "_percent"),
    "MiB": ("_mib",),
    "W": ("_w", "_watts"),
    "C": ("", "_c", "_celsius"),
    "MHz": ("_mhz",),
    "count": ("",),
}
_FLAT: Final = {
    name.replace(".", "_") + ending: name
    for name, unit in (
        *((name, column.unit) for name, column in SIGNAL_COLUMNS.items()),
        ("memory.free", "MiB"),
    )
    for ending in _FLAT_UNITS[unit]
}
"""The spellings of those who keep logs as tables, as MIT Supercloud: `utilization_gpu_pct`."""


def column_name(heading: str) -> str:
    """A heading without its unit, in the one spelling that the tables here use."""
    name = _UNIT.sub("", heading).strip().lower()
    for spelling, ours in _SPELLINGS:
        if name == spelling or (spelling.endswith(".") and name.startswith(spelling)):
            name = ours + name.removeprefix(spelling)
    name = _FLAT.get(name, name)
    if name.startswith("clocks."):
        for ending, short in _ENDINGS:
            if name.endswith(ending):
                name = name.removesuffix(ending) + short
    return name


def is_query_column(heading: str) -> bool:
    """Whether only `nvidia-smi --query-gpu` writes such a heading."""
    name = column_name(heading)
    return (
        name in SIGNAL_COLUMNS
        or name in REASON_BITS
        or (name in FACTS and "." in name)
        or name.startswith(("ecc.", "clocks", "mig.", "retired_pages.", "pcie.", "fan."))
    )
