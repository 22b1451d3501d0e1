"""Command `rightsizer export`: the local history as a table, read only."""

import argparse
import contextlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import IO, Final

from msgspec import Struct

from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.accounting.history import HistoryRepository, HolderPeriod
from rightsizer.accounting.settings import HistorySettings
from rightsizer.accounting.window_builder import WindowBuilder
from rightsizer.advice.storage import Storage
from rightsizer.console.command import Command, add_flags, explained_output, help_of, say
from rightsizer.console.flags import add_config_flag, add_history_flag, moment, settings_of
from rightsizer.io.files import whole_file
from rightsizer.model.values import NANOSECONDS_PER_SECOND, Nanoseconds, UsageError, Window
from rightsizer.report.block_text import text_of
from rightsizer.report.export import EXPORT_FORMATS, ExportRow, export_blocks

_HELP: Final = help_of(__file__)
_OVERLAP: Final = NANOSECONDS_PER_SECOND
"""Allowed overlap of windows: two clocks are read one after the other."""
_GRAINS: Final = {"5m": 300 * NANOSECONDS_PER_SECOND, "1h": 3600 * NANOSECONDS_PER_SECOND}
_BINARY: Final = frozenset({"parquet"})


class _ExportSettings(Struct, frozen=True):
    history: HistorySettings = HistorySettings()


class ExportQuery(Struct, frozen=True):
    """Part of a history to export, and its resolution."""

    grain: Nanoseconds
    """Span of a row; hours in the history stay hours."""
    since: Nanoseconds = 0
    """Lower bound of the window's start."""
    until: Nanoseconds | None = None
    """Upper bound of the window's start, exclusive."""
    devices: tuple[str, ...] = ()
    """Uuids or indexes; empty for all."""


@contextlib.contextmanager
def export_rows(path: Path, query: ExportQuery) -> Iterator[Iterator[ExportRow]]:
    """Yield the rows of the devices, oldest first, while the history is open.

    Raises:
        HistoryError: there is no history, or it cannot be read.
        UsageError: a requested device is not in it.
    """
    with contextlib.closing(Storage(str(path), read_only=True)) as storage:
        history = storage.kept_history
        yield _rows(history, query, _wanted(query.devices, history.devices()))


def merged(windows: Iterable[Window], grain: Nanoseconds) -> Iterator[Window]:
    """Merge consecutive windows, in time order, of a device and grain.

    A span that a clock passed twice stays two rows.
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
        for first, *others in laps:
            if not others:
                yield first
                continue
            builder = WindowBuilder(first.uuid)
            for part in (first, *others):
                builder.merge(part)
            yield builder.window()


def _rows(
    history: HistoryRepository, query: ExportQuery, wanted: frozenset[str]
) -> Iterator[ExportRow]:
    devices = {device.device.uuid: device.device for device in history.devices()}
    tenures: dict[str, list[HolderPeriod]] = defaultdict(list)
    for tenure in history.tenures():
        tenures[tenure.uuid].append(tenure)
    windows = (
        window
        for window in history.load(query.since, query.until)
        if window.workload_key is None and (not wanted or window.uuid in wanted)
    )
    for window in merged(windows, query.grain):
        periods = tenures[window.uuid]
        holders = dict.fromkeys(period.workload for period in periods if period.overlaps(window))
        yield ExportRow(window, devices.get(window.uuid), tuple(holders))


def _wanted(names: Iterable[str], records: Sequence[DeviceRecord]) -> frozenset[str]:
    wanted = set()
    devices = [device.device for device in records]
    for name in names:
        uuids = [
            device.uuid for device in devices if name in (device.uuid, str(device.stated_index))
        ]
        if not uuids:
            there = ", ".join(
                f"{device.index} ({device.uuid})" if device.has_index else device.uuid
                for device in devices
            )
            raise UsageError(f"--devices: the history has no device '{name}'; it has {there}")
        wanted.update(uuids)
    return frozenset(wanted)


def _configure(parser: argparse.ArgumentParser) -> None:
    out = "without it to standard output"
    parser.add_argument("file", nargs="?", type=Path, metavar="OUT", help=out)
    add_flags(
        parser.add_argument,
        _HELP["flags"],
        from_=moment,
        to=moment,
        devices=lambda text: tuple(filter(None, text.split(","))),
        grain={"choices": _GRAINS, "default": "5m"},
        format={"choices": EXPORT_FORMATS},
    )
    add_history_flag(parser)
    add_config_flag(parser)


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments, _ExportSettings)
    path = arguments.history_path or Path(settings.history.path)
    since = arguments.from_ or 0
    until = arguments.to
    if until is not None and until <= since:
        raise UsageError("--to: is not after --from, so that nothing lies between them")
    if arguments.file is not None and arguments.file.resolve() == path.resolve():
        raise UsageError(f"OUT {arguments.file}: is the history itself; name another file")
    if arguments.file is None and arguments.format in _BINARY:
        raise UsageError(f"--format {arguments.format}: name a file to write to")
    query = ExportQuery(_GRAINS[arguments.grain], since, until, arguments.devices or ())
    out = _standard_output() if arguments.file is None else whole_file(arguments.file, "export")
    with export_rows(path, query) as rows, out as stream:
        if arguments.file is None and arguments.format is None and sys.stdout.isatty():
            say(text_of(export_blocks(rows)))
        else:
            EXPORT_FORMATS[arguments.format or "csv"](rows, stream)
    return 0


@contextlib.contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    with explained_output("name a file"):
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()


COMMAND = Command("export", _configure, _run, _HELP["description"])
