"""Tables of records: headings, and rows of cells below them."""

import contextlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import chain, islice
from typing import Final

from msgspec import Struct

from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.values import (
    DAY,
    EPOCH_UNITS,
    EvidenceKind,
    Nanoseconds,
    RecordingError,
    Signal,
    Unit,
    convert,
    parse_epoch,
)
from rightsizer.recordings.column_choice import LEAST_ORDER, order_of
from rightsizer.recordings.heading_words import (
    DMON,
    EPOCH,
    PIDS,
    QUANTITY,
    UNITS,
    Heading,
    clock_places,
    is_time,
    place_of,
    read_headings,
    time_places,
    words_of,
)
from rightsizer.recordings.nvidia_smi_columns import is_query_heading, unit_of_heading
from rightsizer.recordings.row import RecordingNotes
from rightsizer.recordings.table import local_number, number_and_unit, untorn
from rightsizer.recordings.text_file import TextFile, delimiter_of, row_of, split_csv_line
from rightsizer.recordings.timestamps import (
    ASSUMED_CLOCK,
    DayAndMonth,
    DayTimes,
    has_open_order,
    is_timestamp,
    leading_time,
    page_time,
    parse_time_of_day,
    parse_timestamp,
    seconds_text,
)

_ROWS_WITH_UNITS: Final = 100
"""Rows whose cells may have units that the headings lack."""
_FEWEST_TIMES: Final = 3
"""Rows by which a column is known to be a clock."""
_BYTES_FROM: Final = 2**20
"""Maximum from which memory must be in bytes: as MiB it would be 1 TiB."""
_MILLIWATTS_FROM: Final = 5000
"""Maximum from which power must be in NVML's milliwatts: no board draws as many watts."""
_MIB_FROM: Final = 512
"""Maximum from which memory must be in MiB: no board has as many GiB; below, it is ambiguous."""
_SMALLER: Final = {
    "GiB": (_MIB_FROM, "MiB", range(1, _MIB_FROM << 10)),
    "MiB": (_BYTES_FROM, "bytes", range(_BYTES_FROM, _MIB_FROM << 30)),
    "W": (_MILLIWATTS_FROM, "mW", range(1000, _MILLIWATTS_FROM * 1000)),
}
"""From which number on a stated unit is impossible, the smaller unit, and numbers that are possible
in it."""
_DECIMAL: Final = {"GiB": ("GB", 0.002), "MiB": ("MB", 0.0005)}
"""Decimal units that share a word with others, and the tolerance for the size of a board: narrower
than what ECC takes, wider than what rounding does."""
_ERRATIC_RATIO: Final = 0.01
"""Share of numbers that may be garbage."""
_EXCESS_RATIO: Final = 16.0
"""Multiple of the total of memory from which a size is in a smaller unit: no sum over the GPUs of a
node is as large.

Source: assumed."""
_REMEMBERED: Final = 4096
_NO_ROW: Final = re.compile(r"sep=|(?=[-+|: ]+$).*--")
"""A directive for spreadsheets, and rules of text tables."""
QUERY: Final = (
    "record with --query-gpu=timestamp,index,uuid,name,utilization.gpu,memory.used,memory.total,"
    "power.draw --format=csv"
)
"""Remedy for a log without what it needs."""
DMON_QUERY: Final = "record with 'nvidia-smi dmon -s pucm -o DT'"
PMON_QUERY: Final = "record with 'nvidia-smi pmon -o DT'"

NumberedRow = tuple[int, Sequence[str]]
"""Line and cells."""


class HeadedTable(Struct, frozen=True):
    """Records of one file as a table, whatever their text looks like."""

    text: TextFile
    headings: Sequence[str]
    rows: Callable[[RecordingNotes], Iterator[NumberedRow]]
    """Reads all rows anew with each call."""
    is_csv: bool = True
    """Whether its columns can be stated by `--fields`."""

    def cells(self) -> Iterator[Sequence[str]]:
        """Yield the cells of all rows."""
        return (cells for _, cells in self.rows(RecordingNotes(self.text.name)))


def with_clock(
    headings: Sequence[str], rows: Iterable[Sequence[str]]
) -> tuple[Sequence[str], str | None]:
    """Return headings, and that of the column which is named a time here by its cells.

    Where no heading is of a time, it is the only column whose first cells are dates, which may be
    out of order, or else numbers of today that only grow.
    """
    sample = [] if time_places(headings) else [*islice(rows, _ROWS_WITH_UNITS)]
    columns = {at: [cells[at].strip() for cells in sample] for at in range(len(headings))}
    clocks = [at for at, cells in columns.items() if _are_times(cells)]
    dated = [at for at in clocks if not columns[at][0].replace(".", "").isdecimal()]
    growing = [at for at in clocks if sorted(columns[at], key=parse_timestamp) == columns[at]]
    if len(dated or growing) != 1:
        return headings, None
    at = (dated or growing)[0]
    return [*headings[:at], "timestamp", *headings[at + 1 :]], headings[at]


def _are_times(cells: Sequence[str]) -> bool:
    is_enough = len(cells) >= _FEWEST_TIMES and len({*cells}) > 1
    return is_enough and all(map(is_timestamp, cells))


def heading_line(head: Sequence[str]) -> tuple[str, list[str]]:
    """Return the line of headings, and its cells: the first with a time, or as wide as rows."""
    lines = [line for line in head if not _NO_ROW.match(line) and page_time(line) is None]
    cells = [[cell.strip() for cell in split_csv_line(line, delimiter_of(line))] for line in lines]
    queried = (at for at, cell in enumerate(cells) if is_query_heading(cell))
    timed = (at for at, cell in enumerate(cells) if len(cell) > 1 and time_places(cell))
    width = len(split_csv_line(row := row_of(head), delimiter_of(row)))
    wide = (at for at, cell in enumerate(cells) if len(cell) == width > 1)
    at = next(queried, next(timed, next(wide, 0)))
    return (lines[at], cells[at]) if lines else ("", [])


def untimed_headings(head: Sequence[str]) -> tuple[list[str], str]:
    """Return headings of GPUs without a time, whose rows have it before or above them.

    The second is what separates them; without such headings both are empty.
    """
    if time_places(heading_line(head)[1]):
        return [], ""
    lines = [leading_time(line, RecordingNotes("")) for line in head]
    is_paged = any(map(page_time, head))
    for _, line in lines:
        mark = delimiter_of(line)
        cells = _stripped_cells(line, mark)
        signals = {heading.signal for heading in read_headings(cells).values()}
        others = (_stripped_cells(row, mark) for row in head)
        wide = (row for row in others if len(row) == len(cells))
        is_query = is_query_heading(cells) and not any(map(is_timestamp, chain(*wide)))
        if is_query or (
            mark != " " and not signals.isdisjoint((Signal.GPU_BUSY, Signal.SM_ACTIVE))
        ):
            rows = (split_csv_line(rest, mark) for time, rest in lines if time is not None)
            is_timed = is_query or is_paged or any(len(row) == len(cells) for row in rows)
            return (cells, mark) if is_timed else ([], "")
    return [], ""


def timed_lines(
    text: TextFile,
    names: Sequence[str],
    delimiter: str,
    is_heading: Callable[[str], bool],
    notes: RecordingNotes,
) -> Iterator[tuple[int, str]]:
    """Yield lines with the time before each, or above its page, as their first cell.

    `ts` and shell loops write such times, also below a heading without one.
    """
    time = None
    first = 1
    width = len(names)
    for number, line in text.lines(notes):
        if (dated := page_time(line)) is not None:
            time = dated
        if dated is not None or not line.strip():
            continue
        line_time, rest = leading_time(line, notes)
        width_of_rest = len(split_csv_line(rest, delimiter))
        if is_heading(rest):
            first = number
            width = width_of_rest
            yield number, f"timestamp{delimiter}{rest}"
        elif line_time is not None and width_of_rest == width:
            time = line_time
            yield number, f"{seconds_text(line_time)}{delimiter}{rest}{line[len(line.rstrip()) :]}"
        elif time is not None:
            yield number, f"{seconds_text(time)}{delimiter}{line}"
        elif len(split_csv_line(line, delimiter)) == width:
            raise RecordingError(
                f"{text.name}:{first}: there is no timestamp among the columns {', '.join(names)}; "
                f"{QUERY}"
            )
        else:
            yield number, line


def csv_table(text: TextFile) -> HeadedTable:
    """Return a file of separated cells as a table, with the columns of all its headings."""
    untimed, mark = untimed_headings(text.head)
    heading = mark.join(("timestamp", *untimed)) if untimed else heading_line(text.head)[0]

    def is_heading(line: str) -> bool:
        cells = _stripped_cells(line, mark)
        return cells == untimed or is_query_heading(cells)

    def lines(notes: RecordingNotes) -> Iterator[tuple[int, str]]:
        return timed_lines(text, untimed, mark, is_heading, notes) if untimed else text.lines(notes)

    delimiter = delimiter_of(heading)
    headings = _stripped_cells(heading, delimiter)
    # Stated fields stand in for the headings of the file.
    time = "" if text.has_fields else headings[next(iter(time_places(headings)), 0)]
    for _, line in lines(RecordingNotes(text.name)) if time else ():
        if time in line and time in (cells := _stripped_cells(line, delimiter)):
            headings += [cell for cell in cells if cell not in headings]
    return HeadedTable(
        text, headings, lambda notes: csv_rows(lines(notes), heading, headings, time, notes)
    )


def csv_rows(
    lines: Iterable[tuple[int, str]],
    heading: str,
    headings: Sequence[str],
    repeated: str,
    notes: RecordingNotes,
) -> Iterator[NumberedRow]:
    """Yield the rows below a table's heading, with their lines.

    A heading may come again with other columns, as in appended logs:
    `headings` has those of all, and `repeated` is the name of the time in them.
    """
    delimiter = delimiter_of(heading)
    names = _stripped_cells(heading, delimiter)
    time = next(iter(time_places(names)), 0)
    width = len(names)
    places: list[int | None] = [] if names == headings else _places(names, headings)
    # The program ends its lines, scripts may not.
    may_be_torn = is_query_heading(names)
    begins_with_time = not time and not repeated[:1].isdigit()
    for number, line in lines:
        cells = split_csv_line(line, delimiter)
        if delimiter == " " and len(cells) == width + 1:
            cells[time : time + 2] = [" ".join(cells[time : time + 2])]  # Date and time of day.
        if begins_with_time and line[:1].isdigit() and len(cells) == width:
            pass  # As nearly all lines are.
        elif repeated and len(cells) > time and cells[time].strip() == repeated:
            others = [cell.strip() for cell in cells]
            width = len(others)
            places = [] if others == headings else _places(others, headings)
            continue
        elif not line[:1].isdigit() and (_NO_ROW.match(line) or line.strip() == heading):
            continue
        elif len(cells) != width:
            notes.skip(number, line)
            continue
        if may_be_torn and not line.endswith("\n"):
            cells[-1] = untorn(cells, line, number, notes)[-1]
        yield number, ["" if at is None else cells[at] for at in places] if places else cells


def _places(names: Sequence[str], headings: Sequence[str]) -> list[int | None]:
    """Return the place of each heading in a line, or `None`."""
    return [names.index(heading) if heading in names else None for heading in headings]


def _stripped_cells(line: str, delimiter: str) -> list[str]:
    return [cell.strip() for cell in split_csv_line(line, delimiter)]


def _day_remedy(headings: Sequence[str]) -> str:
    """Return how times of day are recorded with their dates."""
    if {*DMON.values()}.isdisjoint(headings):
        return "write dates too"
    return DMON_QUERY if place_of(headings, PIDS) is None else PMON_QUERY


class TimeColumns:
    """The column of times, or those of date and time of day.

    `stated` is the place of another column, and how its times are read; `rows` yields the cells of
    all rows, which tell the clock among several columns, and the order of day and month.
    """

    def __init__(
        self,
        headings: Sequence[str],
        notes: RecordingNotes,
        stated: tuple[int, Callable[[str], Nanoseconds]] | None = None,
        rows: Callable[[], Iterable[Sequence[str]]] = tuple,
    ) -> None:
        self._headings = headings
        self._notes = notes
        self._remedy = _day_remedy(headings)
        self._days = DayTimes(notes, self._remedy)
        self.places = self._chosen(rows) if stated is None else stated[:1]
        # What counts from 0 on tells its unit by the heading alone.
        self._heading = headings[self.places[0]] if self.places else ""
        words = words_of(self._heading)
        unit = EPOCH_UNITS.get(words[-1]) if words else None
        by_heading = parse_timestamp if unit is None else partial(parse_epoch, unit=unit)
        self._read: Callable[[str], Nanoseconds] = by_heading if stated is None else stated[1]
        self._last: tuple[str | None, Nanoseconds] = (None, 0)
        """Time of the latest row, which others of its poll share."""
        self._dates = DayAndMonth()
        first = map(self.text, islice(rows(), 1)) if self.places else ()
        self._has_open_order = has_open_order(first)
        if self._has_open_order:
            for cells in rows():
                self._dates.add(self.text(cells))
            if text := self._dates.evidence:
                notes.remark(text, EvidenceKind.READ)

    def _chosen(self, rows: Callable[[], Iterable[Sequence[str]]]) -> Sequence[int]:
        """Return the first of the clocks that go on; fail if the only one counts up and down."""
        clocks = clock_places(self._headings)
        if not clocks or (len(clocks) == 1 and is_time(self._headings[clocks[0][0]])):
            return clocks[0] if clocks else []
        ratio = 1.0
        best: Sequence[int] = []
        for places in reversed(clocks):
            ratio = self._order(places, rows)
            best = places if ratio >= LEAST_ORDER else best
        first = self._headings[clocks[0][0]]
        if best and best is not clocks[0]:
            self._notes.remark(
                f"its clock is '{self._headings[best[0]]}': '{first}' goes up and down, "
                f"{ratio:.0%} of its steps in one direction",
                EvidenceKind.READ,
            )
        if not best and not is_time(first):
            raise RecordingError(
                f"{self._notes.file}: '{first}' goes up and down and is no clock; add a column "
                "timestamp"
            )
        return best or clocks[0]

    @staticmethod
    def _order(places: Sequence[int], rows: Callable[[], Iterable[Sequence[str]]]) -> float:
        """Return how steadily the numbers of a clock go on; dates may be out of order."""
        texts = (" ".join(cells[at].strip() for at in places) for cells in rows())
        first = next(filter(None, texts), "")
        return 1.0 if is_timestamp(first) else order_of((first, *texts))

    def again(self, notes: RecordingNotes) -> "TimeColumns":
        """Return the same columns for another pass."""
        other = copy(self)
        other._notes = notes  # noqa: SLF001 - its own kind.
        other._days = DayTimes(notes, self._remedy)  # noqa: SLF001
        other._last = (None, 0)  # noqa: SLF001
        return other

    def text(self, cells: Sequence[str]) -> str:
        """Return the time of a row as written, with its date first."""
        if len(self.places) == 1:
            return cells[self.places[0]].strip()
        return " ".join([cells[at].strip() for at in self.places])

    def parse(self, cells: Sequence[str]) -> Nanoseconds:
        """Return the time of a row; raise `ValueError` for an invalid one."""
        text = self.text(cells)
        if text != self._last[0]:
            self._last = text, self._parsed(text)
        return self._last[1]

    def _parsed(self, text: str) -> Nanoseconds:
        if self._has_open_order and (dated := self._dates.parse(text)) is not None:
            return dated
        try:
            time = self._read(text)
        except ValueError:
            with contextlib.suppress(ValueError):
                return self._days.of(parse_time_of_day(text))
            yearless, rest = leading_time(f"{text} ", self._notes)
            return parse_timestamp(text) if yearless is None or rest else yearless
        if time < DAY and self._heading != ASSUMED_CLOCK:
            self._note_count()
        return time

    def _note_count(self) -> None:
        if words_of(self._heading) == [EPOCH]:
            raise RecordingError(
                f"{self._notes.file}: '{self._heading}' is no time, but counts epochs of a "
                "training; add a column timestamp"
            )
        self._notes.remark(f"its times are counted from 1970-01-01 on by '{self._heading}'")


class UnitSample:
    """Extremes of each signal's numbers, by which missing units are inferred."""

    def __init__(self, decimal: str = "") -> None:
        self._decimal = decimal
        self._numbers: dict[tuple[Signal, str], dict[str, float | None]] = {}
        self._counts: dict[tuple[Signal, str], Counter[float | None]] = {}
        """Cells by their numbers."""
        self._most: dict[tuple[Signal, str], float] = {}
        self._fractions: set[Signal] = set()
        self._stated: Counter[str] = Counter()
        self._impossible: Counter[str] = Counter()
        """Numbers of each stated unit, and those that no board has."""
        self._smaller: Counter[str] = Counter()
        """Those that are possible in the smaller unit."""

    def add(self, heading: Heading, cell: str) -> float | None:
        """Add a cell; return its number, or `None` for one without a finite number.

        Cells repeat: of equal ones the first counts.
        """
        key = heading.signal, heading.unit or ""
        numbers = self._numbers.setdefault(key, {})
        counts = self._counts.setdefault(key, Counter())
        if cell not in numbers:
            if len(numbers) >= _REMEMBERED:
                numbers.clear()
                counts.clear()
            numbers[cell] = self._added(heading, cell)
        number = numbers[cell]
        counts[number] += 1
        return number

    def _added(self, heading: Heading, cell: str) -> float | None:
        try:
            number = local_number(number_and_unit(cell)[0], self._decimal)
        except (ValueError, OverflowError):
            return None
        if not math.isfinite(number):
            return None
        signal = heading.signal
        unit = heading.unit or ""
        self._most[signal, unit] = max(self._most.get((signal, unit), 0.0), abs(number))
        if number % 1.0:
            self._fractions.add(signal)
        self._stated[unit] += number > 0.0
        if unit in _SMALLER and number > 0.0:
            limit, _, possible = _SMALLER[unit]
            self._impossible[unit] += number >= limit
            self._smaller[unit] += possible.start <= number < possible.stop
        return number

    def unit_of(self, heading: Heading) -> str | None:
        """Return the unit of a heading; `None` if it is ambiguous."""
        if (unit := heading.unit) is not None:
            # Scripts head nvidia-smi's mebibytes by GB, and NVML's milliwatts by W.
            wrong = self._impossible[unit]
            is_wrong = self._exceeds_total(heading.signal, unit) or (
                wrong > max(1, _ERRATIC_RATIO * self._stated[unit])
                and self._smaller[unit] > self._stated[unit] - wrong
            )
            return _SMALLER[unit][1] if is_wrong else self._of_size(unit, unit)
        signal = heading.signal
        maximum = self._most.get((heading.signal, ""), 0.0)
        if (signal, "") in self._most and not maximum:
            return signal.unit.value
        if signal.unit is Unit.WATTS:
            return "mW" if maximum >= _MILLIWATTS_FROM else "W"
        if signal.unit is Unit.RATIO:
            is_ratio = maximum <= 1.0 and signal in self._fractions
            return "ratio" if is_ratio else "%" if maximum > 1.0 else None
        # What is used is in the unit of the whole, which no board has less of than half a GiB.
        total = self._most.get((Signal.MEMORY_TOTAL_BYTES, ""), 0.0)
        maximum = max(maximum, total)
        if maximum >= _MIB_FROM:
            return "bytes" if maximum >= _BYTES_FROM else self._of_size("MiB", "")
        return self._of_size("GiB", "") if total else None

    def _exceeds_total(self, signal: Signal, unit: str) -> bool:
        """Whether GPUs would mostly have more memory in use, or free, than in all."""
        if signal is not Signal.MEMORY_USED_BYTES or unit not in _SMALLER:
            return False
        totals = [
            largest * convert(total_unit or unit)[1]
            for (of, total_unit), largest in self._most.items()
            if of is Signal.MEMORY_TOTAL_BYTES
        ]
        limit = _EXCESS_RATIO * max(totals, default=0.0) / convert(unit)[1]
        counts = self._counts.get((signal, unit), Counter())
        used = {number: count for number, count in counts.items() if number}
        exceeding = sum(count for number, count in used.items() if number > limit)
        return limit > 0.0 and 2 * exceeding > sum(used.values())

    def _of_size(self, unit: str, stated: str) -> str:
        """Return a unit of memory, the decimal one if in it alone the total is a board's."""
        total = self._most.get((Signal.MEMORY_TOTAL_BYTES, stated), 0.0)
        if not total or unit not in _DECIMAL:
            return unit
        decimal, tolerance = _DECIMAL[unit]
        fits = (
            any(
                abs(total * convert(size_unit)[1] / board.memory_bytes - 1.0) <= tolerance
                for board in built_in().boards.values()
            )
            for size_unit in (unit, decimal)
        )
        return decimal if [*fits] == [False, True] else unit


def with_units_of_cells(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the headings, with the units that their cells have where they state none."""
    unit_suffixes = {at: "" for at, text in enumerate(headings) if not unit_of_heading(text)}
    for cells in islice(rows, _ROWS_WITH_UNITS):
        for at in [at for at, unit in unit_suffixes.items() if not unit]:
            quantity = QUANTITY.fullmatch(cells[at].strip())
            if quantity and (quantity["unit"] or "").lower() in UNITS:
                unit_suffixes[at] = f" [{quantity['unit']}]"
    return [f"{heading}{unit_suffixes.get(at, '')}" for at, heading in enumerate(headings)]
