"""Nsight Systems exports, whole."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rightsizer.domain.errors import ProfileError
from rightsizer.domain.profile import DeviceProfile, Profile, ProfileFormat
from rightsizer.profiles.nsight_systems.activities import record_activities
from rightsizer.profiles.nsight_systems.database import MAGIC, ExportDatabase, open_export
from rightsizer.profiles.nsight_systems.export import exported
from rightsizer.profiles.nsight_systems.gpus import Gpus
from rightsizer.profiles.nsight_systems.host_calls import record_host_calls
from rightsizer.profiles.nsight_systems.memory import record_memory
from rightsizer.profiles.nsight_systems.ranges import record_ranges
from rightsizer.profiles.nsight_systems.session import (
    diagnostic_notes,
    session_start,
    tool_version,
)
from rightsizer.profiles.reader import Head, ProfileReader, ReadLimits
from rightsizer.profiles.recorder import Recorder

__all__ = ["NSIGHT_SYSTEMS", "read", "recognizes"]

_GZIP: Final = b"\x1f\x8b"
_REPORT_ENDINGS: Final = (".nsys-rep", ".qdrep")
_TOLD_BY: Final = frozenset({"StringIds", "META_DATA_EXPORT", "TARGET_INFO_SESSION_START_TIME"})
_USED: Final = frozenset(
    {
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        "NVTX_EVENTS",
        "CUDA_GPU_MEMORY_USAGE_EVENTS",
        "DIAGNOSTIC_EVENT",
    }
)
_TIMES: Final = frozenset({"start", "timestamp", "startedAt"})
"""A table with one of these columns holds events."""


def recognizes(head: Head) -> bool:
    """Whether a file is a SQLite database, or a report of Nsight Systems.

    The vendor says nothing of how a report begins, so that its name has to do.
    """
    if head.is_folder:
        return False
    if head.data.startswith(MAGIC):
        return True
    return head.name.lower().endswith(_REPORT_ENDINGS) and b"\0" in head.data


def read(path: Path, limits: ReadLimits) -> Profile:
    """An export or a report.

    Raises:
        ProfileError: the file is neither, is broken, or asks for more than is allowed.
    """
    begin = _beginning(path)
    if begin == MAGIC:
        return _read_export(path, limits, path)
    if begin.startswith(_GZIP):
        raise ProfileError(
            f"{path.name}: a packed database cannot be read in place; unpack it first"
        )
    if not path.name.lower().endswith(_REPORT_ENDINGS):
        raise ProfileError(
            f"{path.name}: not an export of Nsight Systems; export the report with "
            "`nsys export --type sqlite`"
        )
    with exported(path, limits) as export:
        return _read_export(export, limits, path)


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ProfileError(f"{path.name}: cannot be read: {reason}; name a file that can") from None


def _read_export(export: Path, limits: ReadLimits, path: Path) -> Profile:
    with open_export(export, limits) as database:
        if not _TOLD_BY & database.tables:
            raise ProfileError(
                f"{path.name}: a SQLite database, but none that Nsight Systems wrote: it has none "
                f"of the tables {', '.join(sorted(_TOLD_BY))}; name an export of "
                "`nsys export --type sqlite`"
            )
        try:
            return _profile(database, limits, path)
        except ProfileError as error:
            raise ProfileError(f"{path.name}: {error}") from None


def _profile(database: ExportDatabase, limits: ReadLimits, path: Path) -> Profile:
    recorder = Recorder(limits)
    gpus = Gpus(database, recorder)
    awaited = record_activities(database, recorder, gpus)
    record_host_calls(database, recorder, awaited)
    record_memory(database, recorder, gpus)
    record_ranges(database, recorder, gpus)
    for table in sorted(database.tables - _USED):
        if _TIMES & database.columns(table) and (count := database.count(table)):
            database.unread[table] += count
    devices = recorder.devices()
    unread = Counter(database.unread) + recorder.refused
    return Profile(
        format=ProfileFormat.NSIGHT_SYSTEMS,
        source=path.name,
        version=tool_version(database),
        start=session_start(database),
        devices=devices,
        host_spans=recorder.host_spans(),
        host_steps=recorder.host_steps(),
        events=recorder.events + unread.total(),
        unread=dict(unread),
        notes=(*_notes(database, gpus, devices), *diagnostic_notes(database)),
    )


def _notes(
    database: ExportDatabase, gpus: Gpus, devices: tuple[DeviceProfile, ...]
) -> Iterator[str]:
    if not any(device.time for device in devices):
        yield "No kernel is in it: where the time of a GPU went is not known."
    if "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" in database.tables:
        yield (
            "CUDA graphs are in it as wholes: their kernels are not named, and their time is in "
            "no kernel's sum; `nsys profile --cuda-graph-trace=node` names them."
        )
    if gpus.is_ambiguous:
        yield (
            "Several processes use the same device number and the export does not say which GPU "
            "each means: they are shown as GPUs of their own."
        )
    if devices and "CUPTI_ACTIVITY_KIND_RUNTIME" not in database.tables:
        yield "The calls of the host are not in it: why a GPU was idle is not known."


NSIGHT_SYSTEMS: Final = ProfileReader(ProfileFormat.NSIGHT_SYSTEMS, recognizes, read)
