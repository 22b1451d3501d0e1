"""The source that repeats a recording: opened here, read like any other."""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.domain.device import Device
from rightsizer.domain.errors import RecordingError, UsageError
from rightsizer.domain.snapshot import Snapshot
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.telemetry.recorded.assembly import Assembly
from rightsizer.telemetry.recorded.column_map import ColumnMap, load_column_map
from rightsizer.telemetry.recorded.devices import build_devices
from rightsizer.telemetry.recorded.format import Format
from rightsizer.telemetry.recorded.formats import format_of
from rightsizer.telemetry.recorded.mapped_csv import MappedCsv
from rightsizer.telemetry.recorded.own import OwnRecording
from rightsizer.telemetry.recorded.own_files import OwnFiles
from rightsizer.telemetry.recorded.settings import RecordingSettings
from rightsizer.telemetry.recorded.survey import RowFile, merged, survey
from rightsizer.telemetry.recorded.text import TextFile

__all__ = ["RecordedSource", "open_recording"]

_DEFAULTS: Final = RecordingSettings()
_ASSUMED: Final = "no device was read twice; an interval of one second is assumed"


@dataclass(frozen=True, slots=True)
class _Surveyed:
    devices: tuple[Device, ...]
    interval: Nanoseconds
    warnings: tuple[str, ...]
    snapshots: Generator[Snapshot, None, None]


class RecordedSource:
    """A recording, one snapshot a poll."""

    def __init__(self, name: str, surveyed: _Surveyed, close: Callable[[], None]) -> None:
        """A surveyed recording; `open_recording` makes one."""
        self.name = name
        self.devices = surveyed.devices
        self.interval = surveyed.interval
        """The exact median of the times between readings of a device."""
        self.warnings = surveyed.warnings
        """What was skipped or assumed, with its place and how often."""
        self._snapshots = surveyed.snapshots
        self._close = close

    def read(self) -> Snapshot | None:
        """The next snapshot; `None` after the last."""
        return next(self._snapshots, None)

    def close(self) -> None:
        """Close the files and remove temporary ones; there is nothing to read afterwards."""
        self._snapshots.close()
        self._close()


def open_recording(
    paths: Sequence[Path],
    *,
    catalogue: Catalogue,
    board: str | None = None,
    columns: Path | None = None,
    settings: RecordingSettings = _DEFAULTS,
) -> RecordedSource:
    """Survey the files of one recording and make them ready to be read.

    Args:
        paths: Files or pipes, plain or gzip, of any known format each.
        catalogue: Where a device's name leads to what nobody recorded.
        board: The board of devices whose name the recording does not tell.
        columns: A column map for CSV files that are in no known format.
        settings: How long values hold, and how far the readings of a poll lie apart.

    Raises:
        RecordingError: a file cannot be read, or lacks what a recording needs.
        ConfigurationError: the column map is wrong.
        UsageError: there is no such board, or no file.
    """
    if not paths:
        raise UsageError("no recording is named; name its files")
    given = None if board is None else catalogue.get(board)
    column_map = None if columns is None else load_column_map(columns)
    with ExitStack() as opened:
        texts = [opened.enter_context(closing(TextFile(path))) for path in paths]
        formats = [format_of(text, column_map) for text in texts]
        _check_map(column_map, formats, texts)
        if all(isinstance(known, OwnRecording) for known in formats):
            surveyed = _own(texts, given)
        else:
            files = [RowFile(text, known) for text, known in zip(texts, formats, strict=True)]
            for file in files:
                opened.callback(file.close)
            surveyed = _logs(files, catalogue, board, settings)
        return RecordedSource(_name(texts), surveyed, opened.pop_all().close)


def _own(texts: Sequence[TextFile], board: Board | None) -> _Surveyed:
    files = OwnFiles(texts, board)
    files.survey()
    warnings = [warning for notes in files.notes for warning in notes.warnings]
    interval = files.interval
    if interval is None:
        warnings.append(_ASSUMED)
        interval = NANOSECONDS_PER_SECOND
    return _Surveyed(files.devices, interval, tuple(warnings), files.snapshots())


def _logs(
    files: Sequence[RowFile], catalogue: Catalogue, board: str | None, settings: RecordingSettings
) -> _Surveyed:
    found = survey(files)
    devices = build_devices(found.facts, catalogue, board)
    assembly = Assembly(
        devices=devices,
        interval=found.interval,
        poll_gap=min(nanoseconds(settings.poll_gap_seconds), found.interval // 2),
        limits={
            key: round(settings.hold_intervals * interval)
            for key, interval in found.intervals.items()
        },
    )
    warnings = [warning for file in files for warning in file.notes.warnings]
    if found.assumed:
        warnings.append(_ASSUMED)
    return _Surveyed(devices, found.interval, tuple(warnings), assembly.snapshots(merged(files)))


def _check_map(
    column_map: ColumnMap | None, formats: Sequence[Format], texts: Sequence[TextFile]
) -> None:
    if column_map is None or any(isinstance(known, MappedCsv) for known in formats):
        return
    patterns = ", ".join(pattern for pattern, _ in column_map.files)
    names = ", ".join(text.path.name for text in texts)
    raise RecordingError(
        f"{column_map.name}: none of its patterns ({patterns}) fits {names}; "
        "change the patterns under 'files'"
    )


def _name(texts: Sequence[TextFile]) -> str:
    more = f" and {len(texts) - 1} more" if len(texts) > 1 else ""
    return f"{texts[0].path.name}{more}"
