"""The history as rows, read beside whoever writes it."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from rightsizer.accounting.builder import WindowBuilder
from rightsizer.accounting.history import History, Tenure
from rightsizer.accounting.known import KnownDevice
from rightsizer.domain.device import Device
from rightsizer.domain.errors import HistoryError, UsageError
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.domain.window import Window
from rightsizer.publish.export.row import ExportRow
from rightsizer.runtime.storage import Storage

__all__ = ["ExportQuery", "export_rows", "merged"]

_OVERLAP: Final = NANOSECONDS_PER_SECOND
"""By which a window may begin before the end of the last: two clocks are not read at once."""


@dataclass(frozen=True, slots=True)
class ExportQuery:
    """Which part of a history, and how fine."""

    grain: Nanoseconds
    """The span of a row; what the history has merged into hours stays an hour."""
    since: Nanoseconds = 0
    """Rows are made of windows that begin at this time or later,"""
    until: Nanoseconds | None = None
    """and before this one."""
    devices: tuple[str, ...] = ()
    """Uuids or indexes; all where none is named."""


@contextlib.contextmanager
def export_rows(path: Path, query: ExportQuery) -> Iterator[Iterator[ExportRow]]:
    """The devices' rows, oldest first, while the history is open.

    Raises:
        HistoryError: there is no history, or it cannot be read.
        UsageError: a device that is asked for is not in it.
    """
    storage = Storage(str(path), read_only=True)
    try:
        if storage.history is None:
            raise HistoryError("no history is kept; set history.path or give --history.path")
        wanted = _wanted(query.devices, storage.history.devices())
        yield _rows(storage.history, query, wanted)
    finally:
        storage.close()


def merged(windows: Iterable[Window], grain: Nanoseconds) -> Iterator[Window]:
    """Windows in the order of time, those of a device and a span of the grain made one.

    A span that a clock lived twice stays two.
    """
    for _, same in groupby(windows, lambda window: window.start // grain):
        laps: list[list[Window]] = []
        for window in same:
            for lap in laps:
                if lap[-1].uuid == window.uuid and window.start >= lap[-1].end - _OVERLAP:
                    lap.append(window)
                    break
            else:
                laps.append([window])
        yield from map(_as_one, laps)


def _rows(history: History, query: ExportQuery, wanted: frozenset[str]) -> Iterator[ExportRow]:
    devices = {known.device.uuid: known.device for known in history.devices()}
    tenures: dict[str, list[Tenure]] = {}
    for tenure in history.tenures():
        tenures.setdefault(tenure.uuid, []).append(tenure)
    windows = (
        window
        for window in history.load(query.since, query.until)
        if window.workload_key is None and (not wanted or window.uuid in wanted)
    )
    for window in merged(windows, query.grain):
        yield _row(window, devices.get(window.uuid), tenures.get(window.uuid, ()))


def _row(window: Window, device: Device | None, tenures: Sequence[Tenure]) -> ExportRow:
    holders = (tenure.workload for tenure in tenures if tenure.overlaps(window))
    return ExportRow(window, device, tuple(dict.fromkeys(holders)))


def _wanted(names: Iterable[str], known: Sequence[KnownDevice]) -> frozenset[str]:
    wanted = set()
    for name in names:
        found = [
            each.device.uuid for each in known if name in (each.device.uuid, str(each.device.index))
        ]
        if not found:
            there = ", ".join(f"{each.device.index} ({each.device.uuid})" for each in known)
            raise UsageError(f"--devices: the history has no device '{name}'; it has {there}")
        wanted.update(found)
    return frozenset(wanted)


def _as_one(parts: Sequence[Window]) -> Window:
    if len(parts) == 1:
        return parts[0]
    builder = WindowBuilder(parts[0].uuid)
    for part in parts:
        builder.merge(part)
    return builder.window()
