"""Row of a GPU, and its columns: on the page and in a terminal."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from rightsizer.model.finding import UNADVISED, Rank
from rightsizer.model.served_load import ServedLoad, ServedNeed
from rightsizer.model.signal import Signal
from rightsizer.model.units import GIB, dollars_text, percent_text
from rightsizer.report.labels import STATE_ORDER, display_name
from rightsizer.report.served_labels import served_label

_LEAST_HOURS: Final = 0.05
"""Fewer would be shown as none."""
_UNKNOWN: Final = -1.0
"""Sorts below every figure."""
_AMOUNTS: Final = {
    Signal.MEMORY_USED: (Signal.MEMORY_USED_BYTES, Signal.MEMORY_TOTAL_BYTES, GIB, "GiB"),
    Signal.POWER: (Signal.POWER_WATTS, Signal.POWER_LIMIT_WATTS, 1.0, "W"),
}
"""Of a ratio: its amount, the whole, their unit's size and name."""


class GpuRow(Struct, frozen=True, kw_only=True):
    """GPU or MIG instance: what it does, who holds it, what it wastes, what is advised."""

    uuid: str
    title: str
    model: str
    """Without the vendor; empty if unknown."""
    state: str
    """`unknown` if its last reading is outdated."""
    down: str
    """Why it does not respond; empty if it does."""
    holders: tuple[str, ...]
    served: tuple[ServedLoad, ...] = ()
    """Models of the engines on it."""
    needs: tuple[ServedNeed, ...] = ()
    """What they would need."""
    readings: Mapping[Signal, float] = {}
    """Empty if outdated."""
    used_ratio: float | None = None
    """Effective utilization over the past; `None` if unknown."""
    headroom_ratio: float = 0.0
    wasted_ratio: float | None
    """Share of the known past that was idle, stalled or held up; `None` if unknown."""
    wasted_gpu_hours: float
    wasted_dollars: float | None = None
    wasted_range: str = ""
    """Lowest and highest cost of that, and whose prices they are."""
    to_do: str = ""
    """Its first open recommendation, in the order of `advise`; empty without one."""
    to_do_detail: str = ""
    severity: str = ""
    saves_dollars_per_day: float = 0.0
    saves_detail: str = ""
    rank: Rank = UNADVISED
    """Of that recommendation."""
    is_cause: bool = False
    """Whether it says that this GPU is to blame."""

    @property
    def order(self) -> tuple[bool, Rank, bool, float]:
        """Sort key: those that do not respond, then what saves most, then what wastes most."""
        return not self.down, self.rank, not self.is_cause, -self.wasted_gpu_hours


def _nothing(_: GpuRow) -> str:
    return ""


class GpuColumn(Struct, frozen=True):
    """Column of a table of GPUs; each renderer draws title, past and links in its own way."""

    name: str
    text: Callable[[GpuRow], str]
    """Empty if unknown."""
    sort: Callable[[GpuRow], float | str] | None = None
    """Numbers from the largest, texts in their order; `None` if nobody sorts by it."""
    meaning: str = ""
    detail: Callable[[GpuRow], str] = _nothing
    """Second line on a page."""
    hint: Callable[[GpuRow], str] = _nothing
    """What a pointer tells on a page."""
    tone: Callable[[GpuRow], str] = _nothing
    """State or severity that colors it in a terminal."""
    reading: str = ""
    """Signal whose present value it is, which a page renews."""
    kind: str = "number"
    """`number`, `below` for a text that a page has in another column, or what it draws itself."""
    least_width: int = 0
    """Characters of the narrowest terminal that has it."""


def amount_text(signal: Signal, readings: Mapping[Signal, float]) -> str:
    """Return an amount and its total, such as `62 of 80 GiB`; empty if unknown."""
    if signal not in _AMOUNTS or _AMOUNTS[signal][0] not in readings:
        return ""
    part, whole, size, unit = _AMOUNTS[signal]
    of = f" of {readings[whole] / size:.0f}" if whole in readings else ""
    return f"{readings[part] / size:.0f}{of} {unit}"


def holder_text(row: GpuRow) -> str:
    """Return who holds it, what is served on it, and what that needs."""
    names = [name.rpartition("/")[2] for name in row.holders]
    served = [*map(served_label, row.served)]
    needs = [f"needs {need.short}" for need in row.needs]
    return "; ".join(filter(None, map(", ".join, (names, served, needs))))


def _share(ratio: float | None) -> str:
    return "" if ratio is None else percent_text(ratio)


def _wasted(row: GpuRow) -> str:
    dollars = dollars_text(row.wasted_dollars) if row.wasted_dollars else ""
    return ", ".join(filter(None, (_share(row.wasted_ratio), dollars)))


def _hours(row: GpuRow) -> str:
    return f"{row.wasted_gpu_hours:,.1f} h" if row.wasted_gpu_hours >= _LEAST_HOURS else ""


def _reading(name: str, signal: Signal, **options: Any) -> GpuColumn:
    """Make the column of a signal's present value."""
    return GpuColumn(
        name,
        lambda row: amount_text(signal, row.readings) or _share(row.readings.get(signal)),
        lambda row: row.readings.get(signal, _UNKNOWN),
        reading=signal,
        **options,
    )


GPU_COLUMNS: Final = (
    GpuColumn("GPU", lambda row: row.title, lambda row: row.title, kind="gpu"),
    GpuColumn(
        "Last 24 h",
        _nothing,
        meaning="main state of each part of the day, colored as in the column Now",
        kind="past",
        least_width=120,
    ),
    GpuColumn(
        "Now",
        lambda row: row.down or display_name(row.state),
        lambda row: -float(STATE_ORDER.index(row.state)),
        tone=lambda row: row.state,
        kind="below",
        least_width=76,
    ),
    GpuColumn("Holder", holder_text, kind="below", least_width=120),
    GpuColumn(
        "Used",
        lambda row: _share(row.used_ratio),
        lambda row: _UNKNOWN if row.used_ratio is None else row.used_ratio,
        "effective utilization: use of the busiest resource, of what the GPU can achieve",
        lambda row: f"{percent_text(row.headroom_ratio)} headroom" if row.headroom_ratio else "",
        least_width=140,
    ),
    _reading(
        "Busy",
        Signal.GPU_BUSY,
        meaning="share of time with a kernel resident; a kernel that waits counts, too",
        kind="below number",
        least_width=120,
    ),
    _reading("Memory", Signal.MEMORY_USED, least_width=76),
    _reading("Power", Signal.POWER, least_width=120),
    GpuColumn(
        "Wasted",
        _wasted,
        lambda row: row.wasted_gpu_hours,
        "share of the known past that was idle, stalled or held up, and what that cost",
        _hours,
        lambda row: row.wasted_range,
    ),
    GpuColumn(
        "Saves",
        lambda row: dollars_text(row.saves_dollars_per_day) if row.saves_dollars_per_day else "",
        lambda row: row.saves_dollars_per_day or _UNKNOWN,
        "what the recommendation beside it saves a day",
        lambda row: row.saves_detail,
        kind="saves",
    ),
    GpuColumn(
        "To do",
        lambda row: row.to_do,
        meaning="the most urgent recommendation",
        detail=lambda row: row.to_do_detail,
        tone=lambda row: row.severity,
        kind="todo",
    ),
)
"""Of every table of GPUs, in this order."""
