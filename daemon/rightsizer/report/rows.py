"""Rows of GPUs and workloads, and their columns: on pages, in reports and in terminals."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Self

from msgspec import Struct

from rightsizer.model.values import (
    GIB,
    UNADVISED,
    Cause,
    Rank,
    ServedLoad,
    ServedNeed,
    Signal,
    dollars_text,
    number_text,
    percent_text,
    wasted_in,
    wasted_mostly,
)
from rightsizer.report.blocks import (
    NOTHING,
    Cell,
    CellKind,
    Column,
    Figure,
    Fold,
    Heading,
    Section,
    Table,
    table_of,
)
from rightsizer.report.labels import CAUSE_LABELS, STATE_ORDER, display_name, uncapitalized
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


class SubjectUse(Struct, frozen=True):
    """What became of the known GPU-hours of a GPU or a workload."""

    used_ratio: float | None = None
    """Effective utilization; `None` if nothing is known."""
    headroom_ratio: float = 0.0
    """Left over by work."""
    wasted_ratio: float | None = None
    """Share that was idle, stalled or held up; `None` if nothing is known."""
    wasted_gpu_hours: float = 0.0
    cause: Cause | None = None
    """Of most of what was wasted; `None` without any."""

    @classmethod
    def of(cls, used_gpu_hours: float, unused: Mapping[Any, float]) -> Self:
        """Return the use of hours: used by the busiest resource, the others by cause."""
        known_hours = used_gpu_hours + sum(unused.values())
        if not known_hours:
            return cls()
        wasted = wasted_in(unused)
        return cls(
            used_gpu_hours / known_hours,
            unused.get(Cause.HEADROOM, 0.0) / known_hours,
            wasted / known_hours,
            wasted,
            wasted_mostly(unused),
        )


class SubjectRow(Struct, frozen=True, kw_only=True):
    """What a GPU or a workload used and wasted, and what is advised about it."""

    title: str
    cluster: str = ""
    team: str = ""
    past: Cell = None
    """States over the past, where blocks draw them."""
    use: SubjectUse = SubjectUse()
    wasted_dollars: float | None = None
    wasted_range: str = ""
    """Lowest and highest cost of that, and whose prices they are."""
    kilowatt_hours: float | None = None
    known_ratio: float | None = None
    """Share of the past that is known; `None` if that is not told."""
    to_do: str = ""
    """Its first open recommendation, in the order of `advise`; empty without one."""
    to_do_detail: str = ""
    details: Section | None = None
    """More of it, which a page unfolds."""
    severity: str = ""
    saves_dollars_per_day: float = 0.0
    saves_detail: str = ""
    rank: Rank = UNADVISED
    """Of that recommendation."""


def savings_fields(dollars_per_day: float, gpus: int) -> dict[str, Any]:
    """Return what a row says of savings, which are of all GPUs that a recommendation is about."""
    return {
        "saves_dollars_per_day": max(0.0, dollars_per_day),
        "saves_detail": f"on {gpus} GPUs" if gpus > 1 and dollars_per_day > 0 else "",
    }


def saves_text(row: SubjectRow) -> str:
    """Return the savings of a row and of how many GPUs they are; empty without any."""
    dollars = dollars_text(row.saves_dollars_per_day) if row.saves_dollars_per_day else ""
    return ", ".join(filter(None, (dollars, row.saves_detail)))


class GpuRow(SubjectRow, frozen=True, kw_only=True):
    """GPU or MIG instance: what it does, who holds it, what it wastes, what is advised."""

    uuid: str
    model: str = ""
    """Without the vendor; empty if unknown."""
    state: str = ""
    """`unknown` if its last reading is outdated."""
    down: str = ""
    """Why it does not respond; empty if it does."""
    holders: tuple[str, ...] = ()
    served: tuple[ServedLoad, ...] = ()
    """Models of the engines on it."""
    needs: tuple[ServedNeed, ...] = ()
    """What they would need."""
    readings: Mapping[Signal, float] = {}
    """Empty if outdated."""
    is_cause: bool = False
    """Whether its recommendation says that this GPU is to blame."""

    @property
    def order(self) -> tuple[bool, Rank, bool, float]:
        """Sort key: those that do not respond, then by urgency, then what wastes most."""
        return not self.down, self.rank, not self.is_cause, -self.use.wasted_gpu_hours


class WorkloadRow(SubjectRow, frozen=True, kw_only=True):
    """Workload, or whatever else a recommendation is about: its GPUs, and what it did on them."""

    gpus: str = ""
    """Their names."""
    freed_gpus: float | None = None
    """What the recommendation gives back."""
    workload_class: str = ""
    """Empty if unknown."""
    busy_ratio: float | None = None
    held_gpu_hours: float | None = None
    held_ratio: float | None = None
    """Share of the time held by all workloads."""
    confidence: float | None = None
    """Of the recommendation."""
    id: str = ""
    """Of the recommendation, where it is named."""


def _nothing(_: Any) -> str:
    return ""


class RowColumn(Struct, frozen=True):
    """Column of a table of GPUs or workloads; each renderer draws title and past in its own way."""

    name: str
    text: Callable[[Any], str]
    """Empty if unknown."""
    sort: Callable[[Any], float | str] | None = None
    """Numbers from the largest, texts in their order; `None` if nobody sorts by it."""
    meaning: str = ""
    detail: Callable[[Any], str] = _nothing
    """Second line on a page."""
    hint: Callable[[Any], str] = _nothing
    """What a pointer tells on a page."""
    tone: Callable[[Any], str] = _nothing
    """State or severity that colors it in a terminal."""
    reading: str = ""
    """Signal whose present value it is, which a page renews."""
    kind: str = "number"
    """`number`, `below` for a text that a page has in another column, or what it draws itself."""
    least_width: int = 0
    """Characters of the narrowest terminal that has it."""

    @property
    def is_live(self) -> bool:
        """Whether pages and terminals of a node have it in their tables of GPUs."""
        return self.least_width < _REPORT_ONLY


def amount_text(signal: Signal, readings: Mapping[Signal, float]) -> str:
    """Return an amount and its total, such as `62 of 80 GiB`; empty if unknown."""
    if signal not in _AMOUNTS or _AMOUNTS[signal][0] not in readings:
        return ""
    part, whole, size, unit = _AMOUNTS[signal]
    of = f" of {readings[whole] / size:.0f}" if whole in readings else ""
    return f"{readings[part] / size:.0f}{of} {unit}"


def _holder_text(row: GpuRow) -> str:
    """Return who holds it, what is served on it, and what that needs."""
    names = [name.rpartition("/")[2] for name in row.holders]
    served = [*map(served_label, row.served)]
    needs = [f"needs {need.short}" for need in row.needs]
    return "; ".join(filter(None, map(", ".join, (names, served, needs))))


def _share(ratio: float | None) -> str:
    return "" if ratio is None else percent_text(ratio)


def _wasted(row: SubjectRow) -> str:
    dollars = dollars_text(row.wasted_dollars) if row.wasted_dollars else ""
    return ", ".join(filter(None, (_share(row.use.wasted_ratio), dollars)))


def _hours(gpu_hours: float | None) -> str:
    return f"{gpu_hours:,.1f} h" if gpu_hours and gpu_hours >= _LEAST_HOURS else ""


def _reading(name: str, signal: Signal, **options: Any) -> RowColumn:
    """Make the column of a signal's present value."""
    return RowColumn(
        name,
        lambda row: amount_text(signal, row.readings) or _share(row.readings.get(signal)),
        lambda row: row.readings.get(signal, _UNKNOWN),
        reading=signal,
        **options,
    )


_REPORT_ONLY: Final = sys.maxsize
"""Of a column that no live table of GPUs has."""
_BUSY: Final = "share of time with a kernel resident; a kernel that waits counts, too"
_PAST: Final = RowColumn(
    "Last 24 h",
    _nothing,
    meaning="main state of each part of the day, colored as in the column Now",
    kind="past",
    least_width=120,
)
_USED: Final = RowColumn(
    "Used",
    lambda row: _share(row.use.used_ratio),
    lambda row: _UNKNOWN if row.use.used_ratio is None else row.use.used_ratio,
    "effective utilization: use of the busiest resource, of what the GPU can achieve",
    lambda row: (
        f"{percent_text(row.use.headroom_ratio)} headroom" if row.use.headroom_ratio else ""
    ),
    least_width=140,
)
_WORTH: Final = (
    RowColumn(
        "Wasted",
        _wasted,
        lambda row: row.use.wasted_gpu_hours,
        "share of the known past that was idle, stalled or held up, and what that cost",
        lambda row: _hours(row.use.wasted_gpu_hours),
        lambda row: row.wasted_range,
    ),
    RowColumn(
        "Mostly",
        lambda row: CAUSE_LABELS[row.use.cause] if row.use.cause else "",
        kind="cause",
        least_width=_REPORT_ONLY,
    ),
    RowColumn(
        "kWh",
        lambda row: "" if row.kilowatt_hours is None else number_text(row.kilowatt_hours),
        least_width=_REPORT_ONLY,
    ),
    RowColumn("Known", lambda row: _share(row.known_ratio), least_width=_REPORT_ONLY),
    RowColumn(
        "Saves",
        lambda row: dollars_text(row.saves_dollars_per_day) if row.saves_dollars_per_day else "",
        lambda row: row.saves_dollars_per_day or _UNKNOWN,
        "what the recommendation beside it saves a day",
        lambda row: row.saves_detail,
        kind="saves",
    ),
    RowColumn(
        "To do",
        lambda row: row.to_do,
        meaning="the most urgent recommendation",
        detail=lambda row: row.to_do_detail,
        tone=lambda row: row.severity,
        kind="todo",
    ),
)
GPU_COLUMNS: Final = (
    RowColumn("GPU", lambda row: row.title, lambda row: row.title, kind="gpu"),
    _PAST,
    RowColumn(
        "Now",
        lambda row: row.down or (row.state and display_name(row.state)),
        lambda row: -float(STATE_ORDER.index(row.state)),
        tone=lambda row: row.state,
        kind="below",
        least_width=76,
    ),
    RowColumn("Holder", _holder_text, kind="below", least_width=120),
    _USED,
    _reading("Busy", Signal.GPU_BUSY, meaning=_BUSY, kind="below number", least_width=120),
    _reading("Memory", Signal.MEMORY_USED, least_width=76),
    _reading("Power", Signal.POWER, least_width=120),
    *_WORTH,
)
"""Of every table of GPUs, in this order; tables that are not live leave out empty ones."""
WORKLOAD_COLUMNS: Final = (
    RowColumn("Workload", lambda row: row.title, kind="workload"),
    RowColumn("GPUs", lambda row: row.gpus, kind="below"),
    RowColumn("Class", lambda row: row.workload_class, kind="below"),
    _PAST,
    RowColumn("Busy", lambda row: _share(row.busy_ratio), meaning=_BUSY),
    RowColumn("Held", lambda row: _hours(row.held_gpu_hours)),
    RowColumn(
        "GPUs back",
        lambda row: number_text(row.freed_gpus) if row.freed_gpus else "",
        lambda row: row.freed_gpus or 0.0,
        kind="summed",
    ),
    RowColumn("Of all time", lambda row: _share(row.held_ratio)),
    _USED,
    *_WORTH,
    RowColumn("Sure", lambda row: _share(row.confidence)),
    RowColumn("Cluster", lambda row: row.cluster, kind="filter"),
    RowColumn("Team", lambda row: row.team, kind="filter"),
    RowColumn("Id", lambda row: row.id, kind="id"),
)
"""Of every table of workloads, or of what else is advised about, in this order."""
_KINDS: Final = {
    "number": CellKind.NUMBER,
    "below number": CellKind.NUMBER,
    "summed": CellKind.NUMBER,
    "saves": CellKind.MONEY,
}
_HEADINGS: Final = {"Last 24 h": "time", "Saves": "saves a day"}
_WIDEST_TITLE: Final = 34


def rows_table(
    rows: Sequence[SubjectRow], columns: Iterable[RowColumn], subject: str = "", **options: Any
) -> Table:
    """Make a table of the columns that any row has something in.

    Args:
        rows: In the order in which they are shown.
        columns: `GPU_COLUMNS` or `WORKLOAD_COLUMNS`.
        subject: Heading of what the rows are about, which is cut; empty for workloads.
        options: Other fields of the table.
    """
    headings: dict[Heading, Callable[[SubjectRow], Cell]] = {
        _heading(column, subject): partial(_table_cell, column) for column in filled(rows, columns)
    }
    return table_of(rows, headings, **options)


def filled(rows: Sequence[SubjectRow], columns: Iterable[RowColumn]) -> list[RowColumn]:
    """Return the columns that any row has something in."""
    return [
        column
        for column in columns
        if any(row.past if column.kind == "past" else column.text(row) for row in rows)
    ]


def _table_cell(column: RowColumn, row: SubjectRow) -> Cell:
    """Return a cell with its second line in brackets; what is summed as a number."""
    if column.kind == "past":
        return row.past
    if column.kind == "saves":
        dollars = row.saves_dollars_per_day
        return Figure(dollars, saves_text(row)) if row.saves_detail else dollars or None
    text = column.text(row)
    if column.kind == "summed" and column.sort:
        return Figure(float(column.sort(row)), text or NOTHING)
    if column.kind == "todo" and row.details:
        return Fold(text, row.details)
    detail = column.detail(row)
    return (f"{text} ({detail})" if detail else text) or None


def _heading(column: RowColumn, subject: str) -> Column:
    is_workload = column.kind == "workload"
    name = subject if subject and is_workload else uncapitalized(column.name)
    return Column(
        _HEADINGS.get(column.name, name),
        _KINDS.get(column.kind, CellKind.TEXT),
        is_below=column.kind in {"below", "cause"},
        widest=_WIDEST_TITLE if is_workload and subject else None,
        is_filter=column.kind == "filter",
        is_summed=column.kind in {"saves", "summed"},
    )
