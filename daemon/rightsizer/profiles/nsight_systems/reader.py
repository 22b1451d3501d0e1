"""Reader of Nsight Systems exports and reports: session, NVTX ranges, notes."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import numpy as np

from rightsizer.model.profile import DeviceProfile, Profile, ProfileFormat
from rightsizer.model.values import ProfileError
from rightsizer.profiles.call_stacks import CallKind, without_turn
from rightsizer.profiles.columns import chosen, coded, integers
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.lost_kernels import LostKernels
from rightsizer.profiles.names import is_step, range_kind, range_names
from rightsizer.profiles.nsight_systems.activities import (
    ALLOCATIONS,
    CALLS,
    COPIES,
    FILLS,
    GRAPHS,
    KERNELS,
    WAITS,
    record_activities,
    record_host_calls,
    record_memory,
)
from rightsizer.profiles.nsight_systems.database import (
    MAGIC,
    ExportDatabase,
    Gpus,
    open_export,
    processes_of,
)
from rightsizer.profiles.printed_text import plain_words
from rightsizer.profiles.reader import Head, ProfileReader, beginning_of
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.timeline import NO_NUMBER

_VERSIONS: Final = ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION")
_ERROR: Final = 3
_WARNING: Final = 2
_LOSS: Final = "Not all CUDA events"
"""The warning about lost events."""
_NOTES_MAXIMUM: Final = 10
_NOTE_CHARACTERS: Final = 300
_TEXT_CHARACTERS: Final = 1000
RANGES: Final = "NVTX_EVENTS"
_RANGE_TYPES: Final = (59, 60, 70, 71)
"""Push/pop and start/end ranges, with and without times of their own."""
_GZIP: Final = b"\x1f\x8b"
_REPORT_ENDINGS: Final = (".nsys-rep", ".qdrep")
_TOLD_BY: Final = frozenset({"StringIds", "META_DATA_EXPORT", "TARGET_INFO_SESSION_START_TIME"})
_USED: Final = frozenset(
    (KERNELS, GRAPHS, COPIES, FILLS, CALLS, WAITS, RANGES, ALLOCATIONS, "DIAGNOSTIC_EVENT")
)
_TIMES: Final = frozenset({"start", "timestamp", "startedAt"})
"""Tables with one of these columns contain events."""


def _version(database: ExportDatabase) -> str:
    versions = {
        name: value
        for name, value in database.rows("META_DATA_EXPORT", (), ("name", "value"))
        if name in _VERSIONS and isinstance(value, str)
    }
    product, schema = (versions.get(name, "")[:40] for name in _VERSIONS)
    return f"{product}, schema {schema}" if product and schema else product or schema


def _diagnostics(database: ExportDatabase) -> Iterator[str]:
    for severity, text in database.rows("DIAGNOSTIC_EVENT", ("severity",), ("text",)):
        if isinstance(text, str) and (
            severity == _ERROR or (severity == _WARNING and text.startswith(_LOSS))
        ):
            yield f"The profiler says: {plain_words(text[:_TEXT_CHARACTERS], _NOTE_CHARACTERS)}"


def record_ranges(database: ExportDatabase, recorder: Recorder, gpus: Gpus) -> None:
    """Record ranges by name; steps also as steps of their process's devices."""
    for starts, kinds, numbers, ends, threads, texts in database.batches(
        RANGES, ("start", "eventType"), ("textId", "end", "globalTid"), "text"
    ):
        every_text = (
            texts
            if all(texts)
            else [
                text or database.text(number).encode()
                for text, number in zip(texts, numbers, strict=True)
            ]
        )
        names = coded(range_names(every_text))
        untils = integers(ends)
        is_left = np.ones(starts.size, bool)
        for fault, is_sound in (
            ("NVTX event that is no range", np.isin(kinds, _RANGE_TYPES)),
            ("NVTX range that never ends", untils != NO_NUMBER),
            ("NVTX range without a name", names.array(bool, bool)),
        ):
            if count := np.count_nonzero(is_left & ~is_sound):
                database.unread[fault] += int(count)
                is_left &= is_sound
        rows = np.flatnonzero(is_left)
        begins, untils, names, owners = chosen(rows, starts, untils, names, threads)
        recorder.host_spans_of(begins, untils, names.mapped(range_kind), names)
        is_marked = names.array(is_step, bool)
        for row in np.flatnonzero(is_marked).tolist():
            process = int(processes_of(owners[row : row + 1])[0])
            for device in gpus.of_process(process) or (None,):
                span = int(begins[row]), int(untils[row])
                # The host span above has counted this row.
                name = names.values[names.codes[row]]
                recorder.step(name, span, device, is_counted=True)
        rows = np.flatnonzero(~is_marked)
        callers, calls, *spans = chosen(rows, owners, names, begins, untils)
        lines = recorder.stacks.numbers(CallKind.LINE, calls.mapped(without_turn))
        recorder.stacks.extend(callers, lines, *spans)


@contextmanager
def exported(path: Path, limits: ReadLimits) -> Iterator[Path]:
    """Export a report to SQLite; the file exists until the block ends.

    Raises:
        ProfileError: `nsys` is not installed, fails, or takes too long.
    """
    program = shutil.which("nsys")
    by_hand = f"nsys export --type sqlite {path.name}"
    if program is None:
        raise ProfileError(
            "a report that only Nsight Systems can read, and `nsys` is not on PATH; run "
            f"`{by_hand}` where it is installed and name the file that it writes"
        )
    # Exports contain the program's environment: private, and deleted soon.
    with tempfile.TemporaryDirectory(prefix="rightsizer-") as folder:
        target = Path(folder) / "export.sqlite"
        words = [program, "export", "--type", "sqlite", "--output", str(target)]
        status = _run([*words, str(path.absolute())], limits.export_maximum_seconds)
        if status is None:
            raise ProfileError(
                f"`nsys export` was not done after {limits.export_maximum_seconds:g} seconds; run "
                f"`{by_hand}` by hand and name the file that it writes"
            )
        if status or not target.is_file():
            raise ProfileError(
                f"`nsys export` failed with exit code {status}; run `{by_hand}` by hand to see "
                "why, with a version no older than the one that wrote the report"
            )
        yield target


def _run(words: list[str], maximum_seconds: float) -> int | None:
    """Return the exit code, or `None` after a timeout, which kills the process group."""
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(  # noqa: S603 - a list of words, no shell.
        words, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True
    ) as process:
        try:
            return process.wait(maximum_seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def recognizes(head: Head) -> bool:
    """Whether a file is a SQLite database or an Nsight Systems report.

    The report's format is undocumented, so its file name has to do.
    """
    if head.data.startswith(MAGIC):
        return True
    return head.name.lower().endswith(_REPORT_ENDINGS) and b"\0" in head.data


def read(path: Path, limits: ReadLimits) -> Profile:
    """Read an export or a report; raises `ProfileError` if it is neither, broken, or too large."""
    begin = beginning_of(path, len(MAGIC))
    if begin == MAGIC:
        return _read_export(path, limits, path)
    if begin.startswith(_GZIP):
        raise ProfileError("a packed database cannot be read in place; unpack it first")
    if path.name.lower().endswith(_REPORT_ENDINGS):
        with exported(path, limits) as export:
            return _read_export(export, limits, path)
    raise ProfileError(
        "not an export of Nsight Systems; write one with `nsys export --type sqlite`"
    )


def _read_export(export: Path, limits: ReadLimits, path: Path) -> Profile:
    with open_export(export, limits) as database:
        if not _TOLD_BY & database.tables:
            raise ProfileError(
                "a SQLite database, but none that Nsight Systems wrote: it has none of the tables "
                f"{', '.join(sorted(_TOLD_BY))}; name an export of `nsys export --type sqlite`"
            )
        return _profile(database, limits, path)


def _profile(database: ExportDatabase, limits: ReadLimits, path: Path) -> Profile:
    recorder = Recorder(limits)
    gpus = Gpus(database, recorder)
    lost = LostKernels()
    awaited = record_activities(database, recorder, gpus, lost)
    record_host_calls(database, recorder, awaited, lost)
    record_memory(database, recorder, gpus)
    record_ranges(database, recorder, gpus)
    for table in sorted(database.tables - _USED):
        if _TIMES & database.columns(table) and (count := database.count(table)):
            database.unread[table] += count
    starts = database.rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))
    is_whole = lost.is_whole  # Before the devices, which take the memory of its columns.
    devices = recorder.devices()
    unread = Counter(database.unread) + recorder.refused
    diagnostics = tuple(dict.fromkeys(_diagnostics(database)))[:_NOTES_MAXIMUM]
    return Profile(
        format=ProfileFormat.NSIGHT_SYSTEMS,
        source=path.name,
        version=_version(database),
        # Wall time of the export's time 0.
        start=next((int(row[0]) for row in starts), None),
        devices=devices,
        host_spans=recorder.host_spans(),
        host_steps=recorder.host_steps(),
        events=recorder.events + unread.total(),
        unread=dict(unread),
        notes=(
            *recorder.notes,
            *lost.notes,
            *_notes(database, gpus, devices, lost),
            *diagnostics,
        ),
        is_whole=is_whole,
    )


def _notes(
    database: ExportDatabase, gpus: Gpus, devices: tuple[DeviceProfile, ...], lost: LostKernels
) -> Iterator[str]:
    if not any(device.time for device in devices):
        yield "No kernel is in it: where the time of a GPU went is not known."
        if lost.all_lost_text:
            yield lost.all_lost_text
    if GRAPHS in database.tables:
        yield (
            "CUDA graphs are in it as wholes: their kernels are not named, and their time is in "
            "no kernel's sum; `nsys profile --cuda-graph-trace=node` names them."
        )
    if gpus.is_ambiguous:
        yield (
            "Several processes use the same device number and the export does not say which GPU "
            "each means: they are shown as GPUs of their own."
        )
    if devices and CALLS not in database.tables:
        yield "The calls of the host are not in it: why a GPU was idle is not known."


NSIGHT_SYSTEMS: Final = ProfileReader(ProfileFormat.NSIGHT_SYSTEMS, recognizes, read)
