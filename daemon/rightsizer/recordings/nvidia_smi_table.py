"""Tables that `nvidia-smi` prints without a query, one after the other (`-l`, or a loop)."""

import re
from collections.abc import Iterator
from typing import Final

from rightsizer.model.reading import Process, count_computing
from rightsizer.model.signal import Signal
from rightsizer.model.units import Nanoseconds
from rightsizer.recordings.nvidia_smi_columns import signal_columns
from rightsizer.recordings.row import RecordingNotes, RecordingRow, recorded_process
from rightsizer.recordings.table import signal_table
from rightsizer.recordings.text_file import RecordingFormat, TextFile
from rightsizer.recordings.timestamps import AssumedTimes, page_time
from rightsizer.telemetry.device_description import DeviceDescription

_BEGINS: Final = re.compile(r"\| NVIDIA-SMI \S+ .*(?:Driver|KMD) Version")
_DATE: Final = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \d{4}")
_GPU: Final = re.compile(
    r"\| +(?P<index>\d+) +(?P<name>\S.*?)(?: +(?:On|Off|N/A|WDDM|TCC|MCDM))? *"
    r"\| *(?P<bus>[\dA-F]{4,8}:[\dA-F]{2}:[\dA-F]{2}\.\d) ",
    re.IGNORECASE,
)
_PAIR: Final = re.compile(r"(\S+) */ *(\S+)$")
"""Draw and limit, memory in use and of the board."""
_TEMPERATURE: Final = re.compile(r"\b\d+C\b")
_PROCESS: Final = re.compile(
    r"\| +(?P<index>\d+) +(?:(?:N/A|\d+) +(?:N/A|\d+) +)?(?P<pid>\d+) +(?P<kind>[CGM+]+) +"
    r"(?P<name>\S.*?) +(?P<size>\d+|N/A)(?:MiB)? +\|"
)
_ERROR: Final = "ERR!"
_CELLS: Final = 3
"""Of each line: state, memory, use."""
_INSTANCES: Final = "| MIG devices:"
_DIVIDED: Final = (
    "has GPUs split into MIG instances, of which nvidia-smi's table gives no utilization: they are "
    "not read; record with 'rightsizer record'"
)
_TABLE: Final = signal_columns("table")
TABLE_COLUMNS: Final = signal_table([*_TABLE], _TABLE, "", "")
"""In the order of `_cells`."""


class _Table:
    """Table being read: rows of its GPUs, then their processes."""

    def __init__(self, time: Nanoseconds | None, notes: RecordingNotes) -> None:
        self._time = time
        self._notes = notes
        self.devices: dict[str, RecordingRow] = {}
        self._processes: dict[str, list[Process]] = {}
        self._device = ""

    def take(self, line: str, number: int, times: AssumedTimes) -> None:
        """Take a line; others than of GPUs and processes are of no use."""
        if self._device:
            cells = [cell.strip() for cell in line.split("|")]
            if len(cells) > _CELLS:
                time = times.next(self._device) if self._time is None else self._time
                values = TABLE_COLUMNS.read(_cells(*cells[1 : _CELLS + 1]), number, self._notes)
                if _ERROR in cells[1]:
                    self._notes.fault(self._device, _ERROR, number)
                self.devices[self._device] = RecordingRow(
                    time, self._device, *values, self._notes.file
                )
            self._device = ""
        elif match := _GPU.match(line):
            self._device = self._notes.gpu(int(match["index"]))
            facts = DeviceDescription(name=match["name"], pci_bus_id=match["bus"])
            self._notes.learn(self._device, facts)
        elif match := _PROCESS.match(line):
            process = recorded_process(
                match["pid"], match["size"], letters=match["kind"], program=match["name"]
            )
            device = self._notes.gpu(int(match["index"]))
            self._processes.setdefault(device, []).append(process)
        elif line.startswith(_INSTANCES):
            self._notes.remark(_DIVIDED)

    def rows(self) -> Iterator[RecordingRow]:
        """Yield the rows of the table's GPUs."""
        for device, row in self.devices.items():
            # In a container no process is listed, though there may be some.
            processes = tuple(self._processes.get(device, ()))
            if not processes:
                yield row
                continue
            count = float(count_computing(processes))
            values = {**row.values, Signal.PROCESS_COUNT: count}
            yield row._replace(values=values, processes=processes)


def _cells(state: str, memory: str, use: str) -> tuple[str, ...]:
    """Return the cells of a GPU's second line, in the order of the columns."""
    temperature = _TEMPERATURE.search(state)
    watts = _PAIR.search(state)
    sizes = _PAIR.search(memory)
    return (
        temperature[0] if temperature else "N/A",
        *(watts.groups() if watts else ("N/A", "N/A")),
        *(sizes.groups() if sizes else ("N/A", "N/A")),
        use.split(maxsplit=1)[0] if use else "",
    )


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    times = AssumedTimes(notes, "record with --query-gpu=timestamp,index,...")
    time: Nanoseconds | None = None
    table = _Table(None, notes)
    before = 0
    number = 0
    line = ""
    for number, line in text.lines(notes):
        if (dated := page_time(line)) is not None:
            time = dated
        elif _DATE.match(line):
            notes.count("unreadable timestamp", number, line.strip())
        elif _BEGINS.match(line):
            yield from table.rows()
            table, time, before = _Table(time, notes), None, len(table.devices)
        else:
            table.take(line, number, times)
    if len(table.devices) < before:
        notes.count("torn last table", number, line.strip())
    yield from table.rows()


NVIDIA_SMI_TABLE: Final = RecordingFormat(
    "nvidia-smi's table", lambda head: any(map(_BEGINS.match, head)), _rows
)
"""GPUs by index; the date above a table is its time."""
