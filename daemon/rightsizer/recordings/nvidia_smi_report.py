"""Reports of `nvidia-smi -q`, as text or XML (`-x`), concatenated."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from rightsizer.model.driver_codes import ClockEvent
from rightsizer.model.reading import Process
from rightsizer.model.units import Nanoseconds
from rightsizer.recordings.nvidia_smi_columns import signal_columns
from rightsizer.recordings.row import RecordingNotes, RecordingRow, recorded_process
from rightsizer.recordings.table import (
    CellColumn,
    CellTable,
    missing_cell,
    read_clock_events,
)
from rightsizer.recordings.text_file import RecordingFormat, TextFile
from rightsizer.recordings.timestamps import parse_timestamp
from rightsizer.telemetry.device_description import DeviceDescription

_TEXT: Final = re.compile(r"(?P<indent> *)(?P<name>\S.*?)(?:\s+:(?:\s(?P<value>.*))?)?")
_NO_WORD: Final = re.compile(r"\W+")
_XML: Final = re.compile(
    r"\s*<(?P<end>/?)(?P<name>\w+)[^>]*?(?P<empty>/?)>(?:(?P<value>[^<]*)</\w+>)?"
)
_BEGINS: Final = re.compile(r"=+NVSMI LOG=+|<nvidia_smi_log>")
_BUS_ID: Final = re.compile(r"[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d", re.IGNORECASE)
_INDENT: Final = 4
_COLUMNS: Final = {
    (section, name): column
    for place, column in signal_columns("report").items()
    for section, _, name in (place.partition("/"),)
}
"""By section and name, equal in text and XML except for case."""
_INSTANCE: Final = "mig_device"
_OTHERS: Final = {_INSTANCE, "mig_devices", "accounted_processes", "module_power_readings"}
"""Sections whose values are not of the whole GPU."""
_EVENTS: Final = {
    **{event.label: event for event in ClockEvent},
    "idle": ClockEvent.GPU_IDLE,
    "display_clocks_setting": ClockEvent.DISPLAY_CLOCK_SETTING,
}
_EVENT_SECTIONS: Final = frozenset({"clocks_event_reasons", "clocks_throttle_reasons"})
_EVENT: Final = re.compile(r"clocks_(?:event|throttle)_reason_")
_FACTS: Final = {
    ("power_readings", "default_power_limit"): "power_limit_watts",
    ("gpu_power_readings", "default_power_limit"): "power_limit_watts",
    ("pcie_generation", "max"): "pcie_generation_maximum",
    ("pcie_gen", "max_link_gen"): "pcie_generation_maximum",
    ("link_width", "max"): "pcie_width_maximum",
    ("link_widths", "max_link_width"): "pcie_width_maximum",
}
_DIVIDED: Final = (
    "has GPUs split into MIG instances, of which nvidia-smi -q gives no utilization: they are not "
    "read; record with 'rightsizer record'"
)
_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?)(?: W|x)?")


class _Report:
    """Report being read: its time, and the current GPU."""

    def __init__(self, line: int, stream: str) -> None:
        self.time: Nanoseconds | None = None
        self.line = line
        self._stream = stream
        self.begin_device()

    def begin_device(self, bus_id: str = "") -> None:
        self.bus_id = self.uuid = bus_id  # With `-d` a report has no other name of a GPU.
        self.name = ""
        self._cells: dict[tuple[str, str], str] = {}
        self._events: dict[int, str] = {}
        self._facts: dict[str, Any] = {}
        self._is_divided = False
        self._processes: list[dict[str, str]] = []

    def take(self, sections: Sequence[str], name: str, value: str) -> None:
        if not _OTHERS.isdisjoint(sections):
            self._is_divided |= _INSTANCE in sections
            return
        section = sections[-1] if sections else ""
        if name in ("gpu_uuid", "uuid") and missing_cell(value) is None:
            self.uuid = value
        elif name == "product_name" and missing_cell(value) is None:
            self.name = value
        elif "processes" in sections and name in ("process_id", "pid") and value.isdecimal():
            self._processes.append({"pid": value})
        elif "processes" in sections and self._processes:
            self._processes[-1][name] = value
        else:
            self._take_value(section, name, value)

    def _take_value(self, section: str, name: str, value: str) -> None:
        if section in _EVENT_SECTIONS and (event := _EVENTS.get(_EVENT.sub("", name))):
            self._events[event] = value
        elif (fact := _FACTS.get((section, name))) and (match := _NUMBER.fullmatch(value)):
            self._facts[fact] = float(match[1]) if "watts" in fact else int(float(match[1]))
        elif (section, name) in _COLUMNS:
            self._cells.setdefault((section, name), value.removesuffix("x"))

    def rows(self, notes: RecordingNotes) -> Iterator[RecordingRow]:
        """Yield the row of the current GPU; none for a report's header."""
        if self._cells and self.time is not None and self.uuid:
            facts = DeviceDescription(
                name=self.name or None, pci_bus_id=self.bus_id or None, **self._facts
            )
            notes.learn(self.uuid, facts)
            if self._is_divided:
                notes.remark(_DIVIDED)
            table = _table(tuple(self._cells))
            values, missing = table.read([*self._cells.values()], self.line, notes)
            if self._events:
                read_clock_events(self._events, values, missing)
            processes = tuple(map(_process, self._processes)) or None
            yield RecordingRow(
                self.time, self.uuid, values, missing, self._stream, processes=processes
            )
        elif self._cells:
            notes.count("GPU without an address, or report without a timestamp", self.line)
        self.begin_device()


@cache
def _table(places: Sequence[tuple[str, str]]) -> CellTable:
    """Return the columns of values by their places, the less preferred first."""
    columns = [(at, place, _COLUMNS[place]) for at, place in enumerate(places)]
    return CellTable(
        CellColumn(at, name, column.signal, column.unit)
        for at, (_, name), column in sorted(columns, key=lambda column: column[2].rank)
    )


def _process(fields: Mapping[str, str]) -> Process:
    return recorded_process(
        fields["pid"],
        fields.get("used_gpu_memory") or fields.get("used_memory") or "",
        letters=fields.get("type", ""),
        program=fields.get("name") or fields.get("process_name") or "",
    )


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    report = _Report(0, text.name)
    sections = [""]
    value_in = _value_in_text
    for number, line in text.lines(notes):
        if _BEGINS.search(line):
            yield from report.rows(notes)
            report = _Report(number, text.name)
            sections = []
            value_in = _value_in_xml if "<" in line else _value_in_text
            continue
        name, value = value_in(line.rstrip(), sections)
        if name == "gpu" and not value:
            yield from report.rows(notes)
            report.begin_device(match[0] if (match := _BUS_ID.search(line)) else "")
        elif name == "timestamp":
            try:
                report.time = parse_timestamp(value)
            except ValueError:
                notes.count("unreadable timestamp", number, value)
        else:
            report.take(sections, name, value)
    yield from report.rows(notes)


def _value_in_xml(line: str, sections: list[str]) -> tuple[str, str]:
    """Return name and value of a line; updates the enclosing `sections`."""
    if (match := _XML.fullmatch(line)) is None:
        return "", ""
    name = match["name"]
    value = match["value"]
    if match["end"]:
        del sections[-1:]
        return "", ""
    if value is None and not match["empty"]:
        sections.append(name)
    return name, value or ""


def _value_in_text(line: str, sections: list[str]) -> tuple[str, str]:
    """Return the same for a line whose indentation gives its sections."""
    if (match := _TEXT.fullmatch(line)) is None:
        return "", ""
    is_device = line.startswith("GPU ")
    name = "gpu" if is_device else _NO_WORD.sub("_", match["name"].lower())
    del sections[len(match["indent"]) // _INDENT :]
    if match["value"] is None:
        sections.append(name)
    return name, (match["value"] or "").strip()


NVIDIA_SMI_REPORT: Final = RecordingFormat(
    "nvidia-smi -q", lambda head: any(map(_BEGINS.search, head)), _rows
)
"""All values that nvidia-smi reports per GPU, with the time of the report."""
