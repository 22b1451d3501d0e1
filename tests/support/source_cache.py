"""Folders of what is made from the sources, once for each state of them and for all workers."""

import fcntl
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["ROOT", "source_folder"]

ROOT: Final = Path(__file__).resolve().parents[2]
_STATES_MAXIMUM: Final = 3
"""That are kept; who goes back and forth between two commits makes nothing twice."""


@contextmanager
def source_folder(name: str, sources: tuple[str, ...]) -> Iterator[Path]:
    """The folder for what is made from some files and folders; one worker at a time is in it."""
    states = ROOT / ".cache" / name
    folder = states / _state(sources)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    paths = sorted(states.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in paths[_STATES_MAXIMUM:]:
        shutil.rmtree(old, ignore_errors=True)


@cache
def _state(sources: tuple[str, ...]) -> str:
    """A name for what all these are now."""
    files = [
        path
        for source in sources
        for path in ((ROOT / source).rglob("*") if (ROOT / source).is_dir() else [ROOT / source])
        if path.is_file() and "__pycache__" not in path.parts
    ]
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(str(path.relative_to(ROOT)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
