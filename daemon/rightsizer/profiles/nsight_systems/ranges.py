"""NVTX ranges: what the program says of itself."""

from typing import Final

from rightsizer.profiles.nsight_systems.database import ExportDatabase
from rightsizer.profiles.nsight_systems.gpus import Gpus, process_of
from rightsizer.profiles.range_names import is_step, range_kind, range_name
from rightsizer.profiles.recorder import Recorder

__all__ = ["record_ranges"]

RANGES: Final = "NVTX_EVENTS"
_RANGE_TYPES: Final = frozenset({59, 60, 70, 71})
"""Push/pop and start/end ranges, plain and with a time of their own."""


def record_ranges(database: ExportDatabase, recorder: Recorder, gpus: Gpus) -> None:
    """Ranges by name; those that are steps also as steps of the devices of their process."""
    columns = ("end", "text", "textId", "globalTid")
    for start, kind, end, text, number, thread in database.rows(
        RANGES, ("start", "eventType"), columns
    ):
        if kind not in _RANGE_TYPES:
            database.unread["NVTX event that is no range"] += 1
            continue
        if type(end) is not int:
            database.unread["NVTX range that never ends"] += 1
            continue
        name = range_name(text if isinstance(text, str) and text else database.text(number))
        if not name:
            database.unread["NVTX range without a name"] += 1
            continue
        recorder.host_span(range_kind(name), name, start, end)
        if is_step(name):
            counted = recorder.events
            for device in gpus.of_process(process_of(thread)) or (None,):
                recorder.step(name, start, end, device)
            # One row of the file, which the span above has counted.
            recorder.events = counted
