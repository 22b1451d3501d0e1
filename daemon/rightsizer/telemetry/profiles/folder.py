"""Folders of profiles: which files are one profile each, and which belong together."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import ProfileFormat
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.mlperf.load_generator import MLPERF_DETAIL, MLPERF_SUMMARY
from rightsizer.telemetry.profiles.reader import ProfileReader

_RUNS: Final = Path("plugins") / "profile"
_DEEPEST: Final = 4
"""Folders within the one that was named: of a submission, its systems, benchmarks and runs."""
_DIGITS: Final = re.compile(r"(\d+)")
_PERFETTO: Final = "perfetto_trace"
"""What JAX writes for another viewer, of the same events."""
_FORM: Final = re.compile(r"\.(trace\.json|xplane\.pb|sqlite|nsys-rep|qdrep)(\.gz)?$")
_REPORTS: Final = frozenset({".nsys-rep", ".qdrep"})
"""Of Nsight Systems, which leaves its export beside them."""


@dataclass(frozen=True, slots=True)
class ProfileFile:
    """A file and what reads it."""

    path: Path
    reader: ProfileReader


def files_of(folder: Path, limits: ReadLimits) -> list[Path]:
    """The files of a folder and of those in it; of a log folder of TensorFlow, its latest run.

    Raises:
        ProfileError: the folder cannot be read, or holds more files than anybody means.
    """
    try:
        return _files_of(folder, limits)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ProfileError(f"{folder}: {reason}; name a folder that can be read") from error


def _files_of(folder: Path, limits: ReadLimits) -> list[Path]:
    runs = folder / _RUNS
    if runs.is_dir():
        # A run's folder is named by its time.
        inner = sorted((each for each in runs.iterdir() if each.is_dir()), key=_natural)
        folder = inner[-1] if inner else runs
    files: list[Path] = []
    for path in _walk(folder):
        files.append(path)
        if len(files) > limits.files_maximum:
            raise ProfileError(
                f"{folder}: holds more than {limits.files_maximum} files; name the profiles, or "
                "the folder that they are in"
            )
    return sorted(files, key=_natural)


def grouped(found: Sequence[ProfileFile]) -> Iterator[tuple[ProfileFile, ...]]:
    """What makes one profile each: the two logs of a run together, nothing said twice."""
    pairs = dict(_pairs(found))
    taken = {*pairs.values(), *_repeated(found)}
    for each in found:
        if each in pairs:
            yield each, pairs[each]
        elif each not in taken:
            yield (each,)


def _repeated(found: Sequence[ProfileFile]) -> Iterator[ProfileFile]:
    """What holds the same events as another file beside it."""
    planes = {_place(each.path) for each in found if each.reader.format is ProfileFormat.XPLANE}
    folders = {folder for folder, _ in planes}
    exports = {_place(each.path) for each in found if each.path.suffix == ".sqlite"}
    for each in found:
        place = _place(each.path)
        if each.reader.format is ProfileFormat.TRACE_VIEWER:
            is_perfetto = each.path.name.startswith(_PERFETTO) and place[0] in folders
            if place in planes or is_perfetto:
                yield each
        elif each.path.suffix in _REPORTS and place in exports:
            yield each


def _pairs(found: Sequence[ProfileFile]) -> Iterator[tuple[ProfileFile, ProfileFile]]:
    """Summary and detail of a folder that holds one of each; of more, nobody can tell."""
    logs: dict[Path, tuple[list[ProfileFile], list[ProfileFile]]] = {}
    for each in found:
        summaries, details = logs.setdefault(each.path.parent, ([], []))
        if each.reader is MLPERF_SUMMARY:
            summaries.append(each)
        elif each.reader is MLPERF_DETAIL:
            details.append(each)
    for summaries, details in logs.values():
        if len(summaries) == len(details) == 1:
            yield summaries[0], details[0]


def _walk(folder: Path) -> Iterator[Path]:
    """Regular files, hidden ones and what links lead to left out."""

    def refuse(error: OSError) -> None:
        raise error

    root = len(folder.parts)
    for here, folders, names in os.walk(folder, onerror=refuse):
        at = Path(here)
        folders[:] = sorted(
            each for each in folders if not each.startswith(".") and len(at.parts) - root < _DEEPEST
        )
        for name in sorted(names):
            path = at / name
            if not name.startswith(".") and path.is_file():
                yield path


def _natural(path: Path) -> list[tuple[int, str]]:
    """So that rank 10 comes behind rank 2."""
    return [(int(part[:18]) if part.isdecimal() else -1, part) for part in _DIGITS.split(str(path))]


def _place(path: Path) -> tuple[Path, str]:
    """Folder and name, without what says which form of the same events it is."""
    return path.parent, _FORM.sub("", path.name)
