"""Registry of formats; opens files and folders by content."""

import json
import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct

from rightsizer.host.files import natural_order
from rightsizer.io.codec import convert
from rightsizer.io.files import packing_of
from rightsizer.io.yaml import load_beside
from rightsizer.model.profile import Profile, ProfileFormat
from rightsizer.model.values import ProfileError
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.mlperf.load_generator import (
    MLPERF_DETAIL,
    MLPERF_SUMMARY,
    merged,
)
from rightsizer.profiles.printed_text import excerpt
from rightsizer.profiles.reader import NO_EVENTS, Head, ProfileReader, Unpacked

_RUNS: Final = Path("plugins") / "profile"
_DEEPEST: Final = 4
"""Depth of folders: system, benchmark and run of a submission."""
_PERFETTO: Final = "perfetto_trace"
"""JAX's file for another viewer, with the same events."""
_FORM: Final = re.compile(r"\.(trace\.json|xplane\.pb|sqlite|nsys-rep|qdrep)(\.gz)?$")
_REPORTS: Final = frozenset({".nsys-rep", ".qdrep"})
"""Nsight Systems, which puts its export beside them."""
_EVENTS: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{(?:[^\[\]]*,)?\s*"traceEvents"\s*:')
_TOLD_BYTES: Final = 1 << 12
"""Bytes from which unsupported files are identified."""
_HEAD_BYTES: Final = 1 << 18
"""Enough for PyTorch's head before its events, and a launcher's output before a log."""


class _OtherFile(Struct, frozen=True):
    """An unsupported kind of file, and what to use instead."""

    what: str
    instead: str
    name: str = ""
    head: tuple[str, ...] = ()
    may_quote: bool = False
    """Whether it may contain the text of a profile without being one."""

    def fits(self, head: Head) -> bool:
        """Whether name or content matches."""
        begins = head.data[:_TOLD_BYTES].decode("latin-1")
        return bool(
            (self.name and re.search(self.name, head.name))
            or any(re.search(pattern, begins) for pattern in self.head)
        )


@cache
def _formats() -> tuple[ProfileReader, ...]:
    """Return all readers; raises `ProfileError` where the library for their tables is missing."""
    try:
        from rightsizer.profiles.formats import FORMATS  # noqa: PLC0415 - commands do without.
    except ImportError as error:
        raise ProfileError(
            f"reading profiles needs numpy ({error}); take pip install 'gpu-rightsizer[profile]', "
            "or the package rightsizer-fleet"
        ) from None
    return FORMATS


def _known_formats() -> str:
    names = dict.fromkeys(reader.format.value for reader in _formats())
    return (
        f"looked for {', '.join(names)}; record with PyTorch's profiler (export_chrome_trace) or "
        "'nsys profile', as in docs/profiles.md"
    )


@cache
def _other_files() -> tuple[_OtherFile, ...]:
    return convert(load_beside(__file__, "other_files.yaml"), tuple[_OtherFile, ...])


def files_of(folder: Path, limits: ReadLimits) -> list[Path]:
    """Return the files of a folder, recursively; for a TensorFlow log folder, of its latest run.

    Raises:
        ProfileError: the folder cannot be read, or has too many files.
    """
    within = folder
    try:
        if (runs := folder / _RUNS).is_dir():
            # Run folders are named by time.
            inner = (path for path in runs.iterdir() if path.is_dir())
            within = max(inner, key=lambda run: natural_order(run.name), default=runs)
        files = list(islice(_walk(within), limits.files_maximum + 1))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ProfileError(f"{folder}: {reason}; name a folder that can be read") from error
    if len(files) > limits.files_maximum:
        raise ProfileError(
            f"{within}: holds more than {limits.files_maximum} files; name the profiles, or "
            "the folder that they are in"
        )
    return sorted(files, key=lambda path: natural_order(str(path)))


def grouped(readers: Mapping[Path, ProfileReader]) -> Iterator[tuple[Path, ...]]:
    """Group files into profiles: both logs of a run together, duplicates removed."""
    logs: defaultdict[tuple[Path, ProfileReader], list[Path]] = defaultdict(list)
    for path, reader in readers.items():
        logs[path.parent, reader].append(path)
    pairs: dict[Path, Path] = {}
    for (folder, reader), summaries in logs.items():
        details = logs.get((folder, MLPERF_DETAIL), ())
        # With several in one folder their pairing is unknown.
        if reader is MLPERF_SUMMARY and len(summaries) == len(details) == 1:
            pairs[summaries[0]] = details[0]
    taken = {*pairs.values(), *_repeated(readers)}
    for path in readers:
        if path in pairs:
            yield path, pairs[path]
        elif path not in taken:
            yield (path,)


def _repeated(readers: Mapping[Path, ProfileReader]) -> Iterator[Path]:
    """Yield files with the same events as another file beside them."""
    from rightsizer.profiles.rocprof.tables import traces_of  # noqa: PLC0415 - the same.

    formats = {path: reader.format for path, reader in readers.items()}
    planes = {_place(path) for path, named in formats.items() if named is ProfileFormat.XPLANE}
    folders = {folder for folder, _ in planes}
    exports = {_place(path) for path in readers if path.suffix == ".sqlite"}
    for path, named in formats.items():
        place = _place(path)
        if named is ProfileFormat.ROCPROF:
            if path != next(trace for trace in traces_of(path) if trace in readers):
                yield path
        elif named is ProfileFormat.TRACE_VIEWER:
            if place in planes or (path.name.startswith(_PERFETTO) and place[0] in folders):
                yield path
        elif path.suffix in _REPORTS and place in exports:
            yield path


def _walk(folder: Path) -> Iterator[Path]:
    """Yield regular files, without hidden ones and symbolic links."""

    def refuse(error: OSError) -> None:
        raise error

    root = len(folder.parts)
    for here, folders, names in os.walk(folder, onerror=refuse):
        at = Path(here)
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and len(at.parts) - root < _DEEPEST
        )
        for name in sorted(names):
            path = at / name
            if not name.startswith(".") and path.is_file():
                yield path


def _place(path: Path) -> tuple[Path, str]:
    """Return folder and name without the suffix of an alternative form."""
    return path.parent, _FORM.sub("", path.name)


class BrokenFile(Struct, frozen=True):
    """A profile in a folder that cannot be read."""

    source: str
    """Path within the named folder."""
    reason: str
    """Fault, place and remedy."""


class ReadFiles(Struct, frozen=True):
    """Profiles that were read, and those that could not be."""

    profiles: tuple[Profile, ...]
    broken: tuple[BrokenFile, ...] = ()


def _unfinished(data: bytes) -> str:
    """Explain a trace that no reader recognizes; empty for other files.

    The whole trace must be in its head.
    """
    if len(data) >= _HEAD_BYTES or not _EVENTS.match(data):
        return ""
    try:
        events = json.loads(data)["traceEvents"]
    except (ValueError, RecursionError):
        return (
            "a trace that is cut off before an event that tells its profiler; wait until the "
            "profiler has finished writing, copy it again, or record again"
        )
    if isinstance(events, list) and not any(events):
        return NO_EVENTS
    return ""


def open_profile(path: Path, limits: ReadLimits) -> Profile:
    """Read a file; raises `ProfileError` if it is unreadable or of unknown format."""
    return _read(path, _recognized(path, limits), limits)


def is_profile(path: Path, limits: ReadLimits) -> bool:
    """Whether it is a folder, or a profiler's file by content.

    Raises:
        ProfileError: it does not exist, or its packed data is broken.
    """
    return _is_folder(path) or _reader_for(_head(path, limits)) is not None


def read_all(paths: Iterable[Path], limits: ReadLimits) -> tuple[Profile, ...]:
    """Read files and folders: ranks, MLPerf logs, runs of TensorFlow or JAX.

    Raises:
        ProfileError: one cannot be read, or a folder has no profile.
    """
    read = read_files(paths, limits)
    if read.broken:
        first = read.broken[0]
        raise ProfileError(f"{first.source}: {first.reason}")
    return read.profiles


def read_files(paths: Iterable[Path], limits: ReadLimits) -> ReadFiles:
    """Read files and folders; broken files of a folder do not prevent reading the others.

    Raises:
        ProfileError: a named file cannot be read, or no file of a folder can.
    """
    profiles: list[Profile] = []
    broken: list[BrokenFile] = []
    for path in dict.fromkeys(paths):
        if _is_folder(path):
            read = _read_folder(path, limits)
            profiles += read.profiles
            broken += read.broken
        else:
            profiles.append(open_profile(path, limits))
    return ReadFiles(tuple(profiles), tuple(broken))


def _is_folder(path: Path) -> bool:
    """Whether it is a folder; raises `ProfileError` for pipes and devices."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        reason = error.strerror or str(error)
        raise ProfileError(f"{path}: {reason}; name a file or a folder that can be read") from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        # Opening a pipe would wait for a writer.
        raise ProfileError(f"{path}: a pipe or a device; name a file or a folder")
    return stat.S_ISDIR(mode)


def _read_folder(folder: Path, limits: ReadLimits) -> ReadFiles:
    files = files_of(folder, limits)
    readers, broken = _by_program(files, limits)
    if not readers and not broken:
        raise ProfileError(
            f"{folder}: none of its {len(files)} files is a profile; {_known_formats()}"
        )
    profiles: list[Profile] = []
    for group in grouped(readers):
        read: list[Profile] = []
        for file in group:
            try:
                read.append(_read(file, readers[file], limits))
            except ProfileError as error:
                broken[file] = error
        if read:
            profiles.append(merged(*read) if len(read) > 1 else read[0])
    if not profiles:
        more = f" (and {len(broken) - 1} more of this folder)" if len(broken) > 1 else ""
        raise ProfileError(f"{next(iter(broken.values()))}{more}")
    return ReadFiles(
        # Ranks in order; other files by name.
        tuple(sorted(profiles, key=lambda profile: -1 if profile.rank is None else profile.rank)),
        tuple(
            BrokenFile(str(path.relative_to(folder)), str(error).removeprefix(f"{path}: "))
            for path, error in broken.items()
        ),
    )


def _by_program(
    files: Iterable[Path], limits: ReadLimits
) -> tuple[dict[Path, ProfileReader], dict[Path, ProfileError]]:
    """Return the profiles among files, and those whose head is broken."""
    readers: dict[Path, ProfileReader] = {}
    broken: dict[Path, ProfileError] = {}
    for path in files:
        try:
            head = _head(path, limits)
        except ProfileError as error:
            broken[path] = error
        else:
            if (reader := _reader_for(head)) is not None:
                readers[path] = reader
            elif fault := _unfinished(head.data):
                broken[path] = ProfileError(f"{path}: {fault}")
    return readers, broken


def _read(path: Path, reader: ProfileReader, limits: ReadLimits) -> Profile:
    with _placed(path):
        return reader.read(path, limits)


def _recognized(path: Path, limits: ReadLimits) -> ProfileReader:
    head = _head(path, limits)
    if (reader := _reader_for(head)) is not None:
        return reader
    if not head.data:
        what = "its packed data is broken" if head.is_packed else "it is empty"
        fault = f"{what}; wait until it is written, or copy it again"
    elif packing := packing_of(head.data):
        fault = (
            f"packed by {packing[0]}, and gzip alone is read in place; unpack it and name what is "
            "in it"
        )
    else:
        begins = f"it begins with '{excerpt(head.data)}'"
        unknown = f"of no known format: {begins}; {_known_formats()}"
        descriptions = (
            f"{file.what}; {file.instead}" for file in _other_files() if file.fits(head)
        )
        fault = _unfinished(head.data) or next(descriptions, unknown)
    raise ProfileError(f"{path}: {fault}")


def _reader_for(head: Head) -> ProfileReader | None:
    if any(file.may_quote and file.fits(head) for file in _other_files()):
        return None
    return next((reader for reader in _formats() if reader.recognizes(head)), None)


def _head(path: Path, limits: ReadLimits) -> Head:
    with _placed(path), Unpacked(path, limits) as file:
        data = b""
        while len(data) < _HEAD_BYTES and (more := file.read(_HEAD_BYTES - len(data))):
            data += more
        return Head(path.name, data, is_packed=file.is_packed)


@contextmanager
def _placed(path: Path) -> Iterator[None]:
    """Put the path before errors of readers."""
    try:
        yield
    except ProfileError as error:
        raise ProfileError(f"{path}: {error}") from error
