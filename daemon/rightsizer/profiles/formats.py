"""Every format that is read, and the opening of a file by what is in it."""

import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rightsizer.domain.errors import ProfileError
from rightsizer.domain.profile import Profile
from rightsizer.profiles.excerpt import excerpt
from rightsizer.profiles.folder import Found, files_of, grouped
from rightsizer.profiles.mlperf.detail import MLPERF_DETAIL
from rightsizer.profiles.mlperf.pair import merged
from rightsizer.profiles.mlperf.summary import MLPERF_SUMMARY
from rightsizer.profiles.mlperf.training import MLPERF_TRAINING
from rightsizer.profiles.nsight_compute.reader import NSIGHT_COMPUTE
from rightsizer.profiles.nsight_stats.reader import NSIGHT_STATS
from rightsizer.profiles.nsight_systems.reader import NSIGHT_SYSTEMS
from rightsizer.profiles.packed import Unpacked
from rightsizer.profiles.pytorch import PYTORCH
from rightsizer.profiles.reader import Head, ProfileReader, ReadLimits
from rightsizer.profiles.trace_viewer import TRACE_VIEWER
from rightsizer.profiles.xplane.reader import XPLANE

__all__ = ["FORMATS", "open_profile", "read_all"]

FORMATS: Final[tuple[ProfileReader, ...]] = (
    XPLANE,
    NSIGHT_SYSTEMS,
    TRACE_VIEWER,
    PYTORCH,
    NSIGHT_COMPUTE,
    NSIGHT_STATS,
    MLPERF_DETAIL,
    MLPERF_TRAINING,
    MLPERF_SUMMARY,
)
"""In the order in which they are tried: the more particular first."""

_HEAD_BYTES: Final = 1 << 18
"""Enough for what PyTorch writes before its events, and a launcher before a program's log."""


def open_profile(path: Path, limits: ReadLimits) -> Profile:
    """Reads a file, or a folder that holds one profile.

    Raises:
        ProfileError: it cannot be read, is of no known format, or holds several profiles.
    """
    if not _is_folder(path):
        return _read(path, _recognized(path, limits), limits)
    profiles = _read_folder(path, limits)
    if len(profiles) > 1:
        raise ProfileError(
            f"{path}: holds {len(profiles)} profiles, {profiles[0].source} among them; name one"
        )
    return profiles[0]


def read_all(paths: Iterable[Path], limits: ReadLimits) -> tuple[Profile, ...]:
    """Reads files and folders: of ranks, of MLPerf logs, of runs of TensorFlow or JAX.

    Raises:
        ProfileError: one of them cannot be read, or a folder holds no profile.
    """
    profiles: list[Profile] = []
    for path in dict.fromkeys(paths):
        if _is_folder(path):
            profiles += _read_folder(path, limits)
        else:
            profiles.append(open_profile(path, limits))
    return tuple(profiles)


def _is_folder(path: Path) -> bool:
    """Whether it is a folder; raises `ProfileError` for what is no file either."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        reason = error.strerror or str(error)
        raise ProfileError(f"{path}: {reason}; name a file or a folder that can be read") from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        # Opening a pipe waits until somebody writes into it.
        raise ProfileError(f"{path}: a pipe or a device; name a file or a folder")
    return stat.S_ISDIR(mode)


def _read_folder(folder: Path, limits: ReadLimits) -> list[Profile]:
    files = files_of(folder, limits)
    found = [
        Found(path, reader)
        for path in files
        if (reader := _reader_for(_head(path, limits))) is not None
    ]
    if not found:
        raise ProfileError(
            f"{folder}: none of its {len(files)} files is a profile; looked for {_known()}"
        )
    profiles: list[Profile] = []
    for group in grouped(found):
        read = [_read(each.path, each.reader, limits) for each in group]
        profiles.append(merged(*read) if len(read) > 1 else read[0])
    # Of a folder of ranks, the ranks in order; of others, as their names are.
    return sorted(profiles, key=lambda each: -1 if each.rank is None else each.rank)


def _read(path: Path, reader: ProfileReader, limits: ReadLimits) -> Profile:
    try:
        return reader.read(path, limits)
    except ProfileError as error:
        raise ProfileError(_placed(str(error), path)) from error


def _recognized(path: Path, limits: ReadLimits) -> ProfileReader:
    head = _head(path, limits)
    reader = _reader_for(head)
    if reader is not None:
        return reader
    if not head.data:
        what = "its packed data is broken" if head.is_packed else "it is empty"
        raise ProfileError(f"{path}: {what}; wait until it is written, or copy it again")
    raise ProfileError(
        f"{path}: of no known format: it begins with '{excerpt(head.data)}'; looked for {_known()}"
    )


def _reader_for(head: Head) -> ProfileReader | None:
    return next((each for each in FORMATS if each.recognizes(head)), None)


def _head(path: Path, limits: ReadLimits) -> Head:
    try:
        with Unpacked(path, limits) as file:
            data = b""
            while len(data) < _HEAD_BYTES and (more := file.read(_HEAD_BYTES - len(data))):
                data += more
            return Head(path.name, data, is_packed=file.is_packed)
    except ProfileError as error:
        raise ProfileError(_placed(str(error), path)) from error


def _placed(text: str, path: Path) -> str:
    """With the whole path: readers know a file by its name, operators by where it is."""
    if str(path) in text:
        return text
    return (
        str(path) + text.removeprefix(path.name)
        if text.startswith(path.name)
        else f"{path}: {text}"
    )


def _known() -> str:
    names = dict.fromkeys(each.format.value for each in FORMATS)
    return ", ".join(names)
