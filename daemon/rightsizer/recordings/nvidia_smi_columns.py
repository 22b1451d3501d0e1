"""Meaning of `nvidia-smi --query-gpu` columns, in short and long spellings."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from rightsizer.model.table import table_rows
from rightsizer.model.values import ClockEvent, Signal


class SignalColumn(NamedTuple):
    """Signal of a column, default unit of its cells, and preference."""

    signal: Signal
    unit: str
    rank: int = 0


_UNIT: Final = re.compile(r"\s*\[(?P<unit>[^\]]*)\]\s*$")
_SPELLINGS: Final = (
    ("clocks_throttle_reasons.", "clocks_event_reasons."),
    ("clocks.current.", "clocks."),
    ("gpu_name", "name"),
    ("gpu_bus_id", "pci.bus_id"),
    ("bus_id", "pci.bus_id"),
    ("gpu_uuid", "uuid"),
    ("gpu_serial", "serial"),
    ("gpu_index", "index"),
)
_ENDINGS: Final = ((".graphics", ".gr"), (".memory", ".mem"))

IDENTITY: Final = ("uuid", "index", "pci.bus_id", "serial")
"""Columns that identify a device, best first."""

FACTS: Final = {
    "power.default_limit",
    "pcie.link.gen.max",
    "pcie.link.gen.gpumax",
    "pcie.link.gen.hostmax",
    "pcie.link.width.max",
    "name",
    "index",
    "pci.bus_id",
}
"""Columns with constant values."""


def signal_columns(log: str) -> dict[str, SignalColumn]:
    """Return the signal columns of a kind of log, by name."""
    return {
        row["column"]: SignalColumn(Signal(row["signal"]), row["unit"], int(row["rank"] or 0))
        for row in table_rows(__file__, "columns.csv")
        if row["log"] == log
    }


SIGNAL_COLUMNS: Final = signal_columns("nvidia-smi")
"""The plain draw ranks first: it is the driver's primary value, averaged as the board defines. One
clock drives graphics and SMs on all boards so far."""
FACT_COLUMNS: Final = signal_columns("nvidia-smi fact")
"""Numbers that tell of a device; its memory is the sum of parts where no column has it."""
REASON_BITS: Final = {f"clocks_event_reasons.{event.label}": event for event in ClockEvent}
"""Columns of 'Active' and 'Not Active', with their bits in NVML's mask."""

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
"""Spellings of logs kept as tables, like MIT Supercloud's: `utilization_gpu_pct`."""


def column_name(heading: str) -> str:
    """Normalize a heading: without unit, in the spelling of these tables."""
    name = _UNIT.sub("", heading).strip().lower()
    for spelling, ours in _SPELLINGS:
        name = _respelled(name, spelling, ours)
    name = _FLAT.get(name, name)
    if name.startswith("clocks."):
        for ending, short in _ENDINGS:
            if name.endswith(ending):
                name = name.removesuffix(ending) + short
    return name


def unit_of_heading(heading: str) -> str:
    """Return the unit in brackets behind a heading; empty if there is none."""
    match = _UNIT.search(heading)
    return match["unit"].strip() if match else ""


def exported_spellings(name: str) -> frozenset[str]:
    """Return the spellings of a column with underscores, as exporters name it."""
    spellings = {name}
    if name.startswith("clocks."):
        spellings |= {name.removesuffix(b) + a for a, b in _ENDINGS if name.endswith(b)}
    for spelling, ours in _SPELLINGS:
        spellings |= {_respelled(spelled, ours, spelling) for spelled in spellings}
    return frozenset(spelled.replace(".", "_") for spelled in spellings)


def is_query_heading(headings: Iterable[str]) -> bool:
    """Whether a line has headings that only `nvidia-smi --query-gpu` writes."""
    names = {*map(column_name, headings)}
    is_of_words = not any(name[:1].isdigit() for name in names)
    return (
        is_of_words
        and names.isdisjoint(("device", "pid"))
        and (
            any(
                name in SIGNAL_COLUMNS
                or name in REASON_BITS
                or (name in FACTS and "." in name)
                or name.startswith(("ecc.", "clocks", "mig.", "retired_pages.", "pcie.", "fan."))
                for name in names
            )
            or ("timestamp" in names and not names.isdisjoint(FACTS.union(IDENTITY)))
        )
    )


def _respelled(name: str, spelling: str, other: str) -> str:
    """Return a name with the other spelling, if it has the first as a whole or up to a dot."""
    is_spelled = name == spelling or (spelling.endswith(".") and name.startswith(spelling))
    return other + name.removeprefix(spelling) if is_spelled else name
