"""Reading lines of CSV once it is known which column holds what."""

import csv
from collections.abc import Callable, Iterator, Sequence

from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.workload import Holding, Workload, WorkloadKind
from rightsizer.telemetry.recorded.cells import Column, Table
from rightsizer.telemetry.recorded.row import Notes, Row
from rightsizer.telemetry.recorded.text import TextFile

__all__ = ["CsvRows", "split"]


class CsvRows:
    """The columns of a CSV file with one line a device and time."""

    def __init__(
        self,
        *,
        time: int,
        parse_time: Callable[[str], Nanoseconds],
        device: int,
        workload: int | None,
        columns: Sequence[Column],
    ) -> None:
        """The places of the columns, from 0."""
        self._time = time
        self._parse_time = parse_time
        self._device = device
        self._workload = workload
        self._table = Table.of(columns)

    def read(self, text: TextFile, notes: Notes) -> Iterator[Row]:
        """The rows below the heading; headings that come again are passed over."""
        lines = text.lines(notes)
        heading = next((line for _, line in lines if line.strip()), "")
        width = len(split(heading))
        for number, line in lines:
            cells = split(line)
            if len(cells) != width:
                notes.skip(number, line)
                continue
            try:
                time = self._parse_time(cells[self._time].strip())
            except ValueError:
                if line.strip() != heading.strip():
                    notes.count("unreadable timestamp", number, cells[self._time].strip())
                continue
            device = cells[self._device].strip()
            if not device:
                notes.count("row without a device", number)
                continue
            values, missing = self._table.read(cells, number, notes)
            holdings = None
            if self._workload is not None:
                holdings = _holdings(cells[self._workload].strip())
            yield Row(time, device, values, missing, text.name, holdings=holdings)


def split(line: str, delimiter: str = ",") -> list[str]:
    """The cells of a line; quoted ones cost more and are rare."""
    if '"' not in line:
        return line.rstrip("\r\n").split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return [line]


def _holdings(name: str) -> tuple[Holding, ...]:
    if not name:
        return ()
    workload = Workload(f"recorded:{name}", WorkloadKind.RECORDED, name)
    return (Holding(workload, 1.0),)
