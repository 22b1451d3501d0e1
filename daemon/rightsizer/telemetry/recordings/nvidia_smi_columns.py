"""What the columns of `nvidia-smi --query-gpu` mean, short and long spellings alike."""

import re
from typing import Final, NamedTuple

from rightsizer.model.driver_codes import ClockEvent
from rightsizer.model.signal import Signal
from rightsizer.model.table import table_rows


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


def signal_columns(log: str) -> dict[str, SignalColumn]:
    """The columns of a kind of log that hold signals, by their names there."""
    return {
        row["column"]: SignalColumn(Signal(row["signal"]), row["unit"], int(row["rank"] or 0))
        for row in table_rows(__file__, "columns.csv")
        if row["log"] == log
    }


SIGNAL_COLUMNS: Final = signal_columns("nvidia-smi")
"""The plain draw ranks first: it is what the driver means to be read, and which mean it is depends
on the board. One clock drives graphics and SMs on every board so far."""
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
