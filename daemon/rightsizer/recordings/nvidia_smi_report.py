"""Reports of `nvidia-smi -q`, as text or XML (`-x`), concatenated."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rightsizer.model.driver_codes import ClockEvent
from rightsizer.model.reading import Process
from rightsizer.model.units import Nanoseconds
from rightsizer.recordings.nvidia_smi_columns import signal_columns
from rightsizer.recordings.printed_lines import DIVIDED, PrintedRows
from rightsizer.recordings.row import RecordingNotes, RecordingRow, recorded_process
from rightsizer.recordings.table import missing_cell, with_clock_events
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
_COLUMNS: Final = signal_columns("report")
"""By section and name, equal in text and XML except for case."""
_INSTANCE: Final = "mig_device"
_OTHERS: Final = {_INSTANCE, "mig_devices", "accounted_processes", "module_power_readings"}
"""Sections whose values are not of the whole GPU."""
_EVENTS: Final = {
    **{event.label: event for event in ClockEvent},
    "idle": ClockEvent.GPU_IDLE,
    "display_clocks_setting": ClockEvent.DISPLAY_CLOCK_SETTING,
}
_EVENT: Final = re.compile(r"clocks_(?:event|throttle)_reasons/(?:clocks_\w+_reason_)?")
_FACTS: Final = {
    "power_readings/default_power_limit": "power_limit_watts",
    "gpu_power_readings/default_power_limit": "power_limit_watts",
    "pcie_generation/max": "pcie_generation_maximum",
    "pcie_gen/max_link_gen": "pcie_generation_maximum",
    "link_width/max": "pcie_width_maximum",
    "link_widths/max_link_width": "pcie_width_maximum",
}
_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?)(?: W|x)?")


class _Gpu:
    """Values of a GPU by section and name, and its processes."""

    def __init__(self, bus_id: str = "") -> None:
        self._bus_id = bus_id
        self._values: dict[str, str] = {}
        self._processes: list[dict[str, str]] = []
        self._is_divided = False

    def take(self, sections: Sequence[str], name: str, value: str) -> None:
        """Take a value."""
        if not _OTHERS.isdisjoint(sections):
            self._is_divided |= _INSTANCE in sections
        elif "processes" not in sections:
            self._values.setdefault("/".join((*sections[-1:], name)), value)
        elif name in ("process_id", "pid") and value.isdecimal():
            self._processes.append({"pid": value})
        elif self._processes:
            self._processes[-1][name] = value

    def rows(
        self, printed: PrintedRows, notes: RecordingNotes, time: Nanoseconds | None, line: int
    ) -> Iterator[RecordingRow]:
        """Yield its row; none for a report's header."""
        values = self._values
        cells = {name: cell.removesuffix("x") for name, cell in values.items() if name in _COLUMNS}
        # With `-d` a report has no other name of a GPU.
        uuid = self._named("gpu_uuid", "uuid") or self._bus_id
        if not cells:
            return
        if time is None or not uuid:
            notes.count("GPU without an address, or report without a timestamp", line)
            return
        facts: dict[str, Any] = {
            fact: float(match[1]) if "watts" in fact else int(float(match[1]))
            for name, fact in _FACTS.items()
            if (match := _NUMBER.fullmatch(values.get(name, "")))
        }
        name = self._named("product_name") or None
        notes.learn(uuid, DeviceDescription(name=name, pci_bus_id=self._bus_id or None, **facts))
        if self._is_divided:
            notes.remark(DIVIDED.format("nvidia-smi -q"))
        row = printed.row(line, uuid, cells, time)
        events: dict[int, str] = {
            _EVENTS[label]: value
            for name, value in values.items()
            if (label := _EVENT.sub("", name)) != name and label in _EVENTS
        }
        row = with_clock_events(row, events) if events else row
        yield row._replace(processes=tuple(map(_process, self._processes)) or None)

    def _named(self, *names: str) -> str:
        values = (self._values.get(f"gpu/{name}", "") for name in names)
        return next((value for value in values if missing_cell(value) is None), "")


def _process(fields: Mapping[str, str]) -> Process:
    return recorded_process(
        fields["pid"],
        fields.get("used_gpu_memory") or fields.get("used_memory") or "",
        letters=fields.get("type", ""),
        program=fields.get("name") or fields.get("process_name") or "",
    )


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    printed = PrintedRows(notes, _COLUMNS, "")
    gpu = _Gpu()
    time: Nanoseconds | None = None
    begun = 0
    sections = [""]
    value_in = _value_in_text
    for number, line in text.lines(notes):
        if _BEGINS.search(line):
            yield from gpu.rows(printed, notes, time, begun)
            gpu = _Gpu()
            time = None
            begun = number
            sections = []
            value_in = _value_in_xml if "<" in line else _value_in_text
            continue
        name, value = value_in(line.rstrip(), sections)
        if name == "gpu" and not value:
            yield from gpu.rows(printed, notes, time, begun)
            gpu = _Gpu(match[0] if (match := _BUS_ID.search(line)) else "")
        elif name == "timestamp":
            try:
                time = parse_timestamp(value)
            except ValueError:
                notes.count("unreadable timestamp", number, value)
        else:
            gpu.take(sections, name, value)
    yield from gpu.rows(printed, notes, time, begun)


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
