"""Source of a recording's snapshots, with detection of its format."""

import contextlib
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    Device,
    Down,
    Evidence,
    EvidenceKind,
    Holding,
    Missing,
    Nanoseconds,
    Reading,
    RecordingError,
    Signal,
    Snapshot,
    UsageError,
    seconds,
    utc_text,
)
from rightsizer.recordings.inferred_jobs import inferred_jobs
from rightsizer.recordings.jobs import RecordedJobs, stated_jobs
from rightsizer.recordings.mapped_csv import ColumnMap, load_column_map, mapped_csv
from rightsizer.recordings.native import NATIVE, NativeFiles
from rightsizer.recordings.plausibility import BoardLimits
from rightsizer.recordings.printed_lines import (
    COUNTER_LINES,
    GPUSTAT,
    NVIDIA_SMI_REPORT,
    NVIDIA_SMI_TABLE,
)
from rightsizer.recordings.records import (
    CSV_RECORDS,
    JSON_RECORDS,
    LINE_RECORDS,
    PROMETHEUS_JSON,
    PROMETHEUS_TEXT,
)
from rightsizer.recordings.row import SUMMED, RecordingNotes, RecordingRow
from rightsizer.recordings.row_file import RowFile, merge_rows
from rightsizer.recordings.survey import (
    RecordingSurvey,
    survey_files,
)
from rightsizer.recordings.text_file import (
    Progress,
    RecordingFormat,
    TextFile,
    no_progress,
)
from rightsizer.recordings.unknown_format import check_tool, unknown_format
from rightsizer.recordings.unnamed_devices import NOTHING_STATED, StatedDevices
from rightsizer.telemetry.device_description import build_devices

FORMATS: Final[tuple[RecordingFormat, ...]] = (
    NATIVE,
    COUNTER_LINES,
    NVIDIA_SMI_REPORT,
    PROMETHEUS_JSON,
    PROMETHEUS_TEXT,
    NVIDIA_SMI_TABLE,
    GPUSTAT,
    JSON_RECORDS,
    LINE_RECORDS,
    CSV_RECORDS,
)
"""In order of detection."""

_EXPORTED: Final = ("start_seconds", "accounted_seconds", "unknown_no_reading_seconds")
_HOLD_INTERVALS: Final = 2.0
"""Intervals of its own file for which a value is valid, like for slower signals."""
_POLL_GAP: Final[Nanoseconds] = NANOSECONDS_PER_SECOND // 2
"""Closer readings of several devices belong to one poll, unless this exceeds half the recording's
interval: nvidia-smi takes a few milliseconds per device, and 22 ms without persistence."""
_GONE_INTERVALS: Final = 3
"""Intervals without a reading after which a device is gone."""
_LOST: Final = Down(Missing.LOST, "nvidia-smi could not determine its handle")
_SHOWN_EVERY: Final = 1 << 6
_ASSUMED_INTERVAL: Final = NANOSECONDS_PER_SECOND
_ASSUMED: Final = "no device was read twice; an interval of one second is assumed"


def format_of(text: TextFile, column_map: ColumnMap | None = None) -> RecordingFormat:
    """Return a file's format by content or column map; fail if there is none."""
    if column_map is not None:
        columns = column_map.columns_of(text.path)
        if columns is not None:
            return mapped_csv(column_map, columns)
    if all(name in " ".join(text.head[:2]) for name in _EXPORTED):
        raise RecordingError(
            f"{text.name}:1: is a table of 'rightsizer export': accounts of minutes, not readings; "
            "see them with 'rightsizer report --history.path HISTORY', of the history that it was "
            "made from, or replay the recording itself"
        )
    check_tool(text)
    for recording_format in FORMATS:
        if recording_format.recognizes(text.head):
            return recording_format
    map_name = None if column_map is None else column_map.name
    raise unknown_format(text, map_name, partial(_is_read, text.head))


def _is_read(head: Sequence[str], fields: str, device: str | None) -> bool:
    """Whether the first lines of a file are read with these fields, of this only GPU."""
    with tempfile.NamedTemporaryFile("w", prefix="rightsizer-") as file:
        file.write("".join(f"{line}\n" for line in head))
        file.flush()
        stated = StatedDevices(None, device)
        with (
            contextlib.suppress(RecordingError),
            closing(TextFile(Path(file.name), stated=stated, fields=fields)) as text,
        ):
            recording_format = next(
                (candidate for candidate in FORMATS if candidate.recognizes(text.head)), None
            )
            rows = (
                ()
                if recording_format is None
                else recording_format.rows(text, RecordingNotes(text.name))
            )
            return any(Signal.GPU_BUSY in row.values for row in rows)
    return False


class _DeviceState:
    """Last row of each stream; values of slower streams stay valid for a while."""

    def __init__(self, limits: Mapping[tuple[str, str], Nanoseconds]) -> None:
        self._limits = limits
        self._streams: dict[str, dict[str, RecordingRow]] = {}
        self.holdings: dict[str, tuple[Holding, ...]] = {}
        """Replaced, never changed: snapshots refer to it."""

    def reading(self, device: str, rows: Sequence[RecordingRow]) -> Reading:
        streams = self._streams.setdefault(device, {})
        for row in rows:
            streams[row.stream] = row
        newest = rows[-1]
        recorded = [row.holdings for row in rows if row.holdings is not None]
        if recorded:
            held = recorded[0] if len(recorded) == 1 else _shared(recorded)
            if self.holdings.get(device, ()) != held:
                self.holdings = {**self.holdings, device: held}
        processes = newest.processes
        if len(streams) == 1:
            return Reading(device, newest.time, newest.values, newest.missing, processes)
        values: dict[Signal, float] = {}
        missing: dict[Signal, Missing] = {}
        for row in sorted(
            streams.values(), key=lambda row: (row.rank > SUMMED, row.time, row.rank)
        ):
            if newest.time - row.time <= self._limits.get((device, row.stream), 0):
                values.update(row.values)
                missing.update(row.missing)
                processes = processes or row.processes
            else:
                missing.update(dict.fromkeys((*row.values, *row.missing), Missing.STALE))
        reasons = {signal: why for signal, why in missing.items() if signal not in values}
        return Reading(device, newest.time, values, reasons, processes)


def _shared(recorded: Sequence[tuple[Holding, ...]]) -> tuple[Holding, ...]:
    """Return equal shares of holders named in several lines."""
    holders = {holding.workload: holding for holdings in recorded for holding in holdings}
    if len(holders) == 1:
        return tuple(holders.values())
    return tuple(Holding(workload, 1 / len(holders)) for workload in holders)


@dataclass(slots=True)
class RecordedSource:
    """A surveyed recording, one snapshot per poll; created by `open_recording`."""

    devices: tuple[Device, ...]
    interval: Nanoseconds
    warnings: tuple[str, ...]
    """Skipped items and assumptions, with place and count."""
    evidence: tuple[Evidence, ...]
    """The same as a record."""
    snapshots: Generator[Snapshot, None, None]
    files: ExitStack
    """Closes files and deletes temporary ones."""

    def read(self) -> Snapshot | None:
        """Return the next snapshot; `None` after the last."""
        return next(self.snapshots, None)

    def close(self) -> None:
        """Close the files."""
        self.snapshots.close()
        self.files.close()


def open_recording(  # noqa: PLR0913 - facts stated by the user.
    paths: Sequence[Path],
    *,
    catalogue: Catalogue,
    board: str | None = None,
    columns: Path | None = None,
    stated: StatedDevices = NOTHING_STATED,
    fields: str | None = None,
    jobs: Sequence[str] = (),
    progress: Progress = no_progress,
) -> RecordedSource:
    """Survey the files or pipes of one recording, and prepare them for reading.

    `board` is for devices without a recorded name; `columns` is a column map for CSV files of
    unknown format. `stated` describes devices of logs that do not name them, `fields` the columns
    of a log without a heading, and `jobs` the GPUs of jobs, as in `0-3` or `none`; without it they
    are inferred.

    Raises:
        RecordingError: a file cannot be read, or lacks what a recording needs.
        ConfigurationError: the column map is wrong.
        UsageError: there is no such board, GPU of a job, or no file.
    """
    if not paths:
        raise UsageError("no recording is named; name its files")
    column_map = None if columns is None else load_column_map(columns)
    with ExitStack() as opened:
        texts = _opened_texts(paths, stated, fields, opened)
        formats = _formats(texts, column_map)
        if all(recording_format is NATIVE for recording_format in formats):
            native = NativeFiles(texts, None if board is None else catalogue.get(board))
            devices, interval = native.survey(progress)
            notes = native.notes
            end = native.end
            held = RecordedJobs(stated_jobs(jobs, devices))
            snapshots = _with_jobs(native.snapshots(), held)
            remarks = []
        else:
            files = [opened.enter_context(closing(file)) for file in map(RowFile, texts, formats)]
            survey = survey_files(files, progress)
            devices = build_devices(survey.facts, catalogue, board)
            interval = survey.interval
            end = survey.end
            notes = [file.notes for file in files]
            held = _jobs(jobs, survey, devices)
            limits = BoardLimits(devices, catalogue, survey.loads.maxima)
            limits.judge(merge_rows([file.rows() for file in files]))
            rows = limits.plausible(merge_rows([file.rows() for file in files]))
            gone = _gone(survey, devices, notes)
            snapshots = _snapshots(rows, survey, devices, held, gone)
            remarks = [*_losses(survey.loads.lost | gone, devices), *limits.remarks]
        titles = {device.uuid: device.title for device in devices}
        return RecordedSource(
            devices,
            interval or _ASSUMED_INTERVAL,
            (*_warnings(notes, interval, stated, titles), *remarks, *held.remarks()),
            _evidence(notes, titles, remarks, held),
            _shown(snapshots, end, progress),
            opened.pop_all(),
        )


def _warnings(
    notes: Iterable[RecordingNotes],
    interval: Nanoseconds | None,
    stated: StatedDevices,
    titles: Mapping[str, str],
) -> Iterator[str]:
    for note in notes:
        yield from note.warnings(titles)
    if interval is None:
        yield _ASSUMED
    if stated.count is not None and stated.count != len(titles):
        yield f"--devices {stated.count}: {len(titles)} devices are in the recording"


def _evidence(
    notes: Iterable[RecordingNotes],
    titles: Mapping[str, str],
    remarks: Iterable[str],
    jobs: RecordedJobs,
) -> tuple[Evidence, ...]:
    faults = [text for note in notes for text in note.fault_texts(titles)]
    return (
        *(item for note in notes for item in note.evidence),
        *(Evidence(EvidenceKind.DROPPED, remark) for remark in (*faults, *remarks)),
        *(Evidence(EvidenceKind.LEARNED, remark) for remark in jobs.remarks()),
    )


def _gone(
    survey: RecordingSurvey, devices: Iterable[Device], notes: Iterable[RecordingNotes]
) -> dict[str, Nanoseconds]:
    """Return last times of devices that end before others, where nvidia-smi has lost a handle."""
    slots = {slot.lstrip("0:") for note in notes for slot in note.lost}
    latest = survey.end - _GONE_INTERVALS * (survey.interval or _ASSUMED_INTERVAL)
    return {
        device.uuid: end
        for device in devices
        if slots
        and (end := survey.ends.get(device.uuid, survey.end)) < latest
        and (not device.pci_bus_id or device.pci_bus_id.upper().lstrip("0:") in slots)
    }


def _losses(lost: Mapping[str, Nanoseconds], devices: Iterable[Device]) -> Iterator[str]:
    for device in devices:
        if (time := lost.get(device.uuid)) is not None:
            yield f"{device.title} is lost from {utc_text(seconds(time), '%H:%M:%S')} on"


def _jobs(
    stated: Sequence[str],
    survey: RecordingSurvey,
    devices: Sequence[Device],
) -> RecordedJobs:
    if stated:
        return RecordedJobs(stated_jobs(stated, devices))
    if survey.loads.has_owners:
        return RecordedJobs(())
    loads = survey.loads.series(survey.interval or _ASSUMED_INTERVAL)
    return RecordedJobs(inferred_jobs(loads, devices))


def _with_jobs(
    snapshots: Generator[Snapshot, None, None], jobs: RecordedJobs
) -> Generator[Snapshot, None, None]:
    with closing(snapshots):
        for snapshot in snapshots:
            yield replace(
                snapshot, holdings=jobs.holdings_at(snapshot.wall_time, snapshot.holdings)
            )


def _shown(
    snapshots: Generator[Snapshot, None, None], end: Nanoseconds, progress: Progress
) -> Generator[Snapshot, None, None]:
    """Yield the snapshots, and show the progress in the recording's time."""
    start: Nanoseconds | None = None
    with closing(snapshots):
        for count, snapshot in enumerate(snapshots):
            if start is None:
                start = snapshot.wall_time
            elif not count % _SHOWN_EVERY:
                progress("replay", 100 * (snapshot.wall_time - start) // max(1, end - start), 100)
            yield snapshot


def _opened_texts(
    paths: Iterable[Path], stated: StatedDevices, fields: str | None, opened: ExitStack
) -> list[TextFile]:
    """Open the files; those opened are closed where a later one cannot be."""
    return [
        opened.enter_context(closing(TextFile(path, stated=stated, fields=fields)))
        for path in paths
    ]


def _formats(texts: Sequence[TextFile], column_map: ColumnMap | None) -> Sequence[RecordingFormat]:
    formats = [format_of(text, column_map) for text in texts]
    if column_map and all(column_map.columns_of(text.path) is None for text in texts):
        patterns = ", ".join(column_map.files)
        names = ", ".join(text.path.name for text in texts)
        raise RecordingError(
            f"{column_map.name}: none of its patterns ({patterns}) fits {names}; "
            "change the patterns under 'files'"
        )
    return formats


def _snapshots(
    rows: Iterable[RecordingRow],
    survey: RecordingSurvey,
    devices: tuple[Device, ...],
    jobs: RecordedJobs,
    gone: Mapping[str, Nanoseconds],
) -> Generator[Snapshot, None, None]:
    """Yield a snapshot per poll, in time order.

    A poll ends when a device is repeated, or the next reading is late.
    """
    interval = survey.interval or _ASSUMED_INTERVAL
    poll_gap = min(_POLL_GAP, interval // 2)
    held = _DeviceState(
        {key: round(_HOLD_INTERVALS * interval) for key, interval in survey.intervals.items()}
    )
    poll: dict[str, list[RecordingRow]] = {}
    last: Nanoseconds = 0

    def snapshot() -> Snapshot:
        return Snapshot(
            wall_time=last,
            time=last,
            interval=interval,
            devices=devices,
            readings={device: held.reading(device, rows) for device, rows in poll.items()},
            holdings=jobs.holdings_at(last, held.holdings),
            down={device: _LOST for device, end in gone.items() if end < last},
            intervals={
                device: survey.stretches[device].at(rows[0].time, interval)
                for device, rows in poll.items()
                if device in survey.stretches
            },
        )

    for row in rows:
        recording_rows = poll.get(row.device)
        if recording_rows is not None and recording_rows[0].time == row.time:
            recording_rows.append(row)
            continue
        if poll and (recording_rows is not None or row.time - last > poll_gap):
            yield snapshot()
            poll = {}
        poll[row.device] = [row]
        last = row.time
    if poll:
        yield snapshot()
