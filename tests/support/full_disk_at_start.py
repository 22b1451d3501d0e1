"""Opens a history while its disk cannot be written, saves a window once it can, prints the results.

A program of its own, since limits and mounts hold for a whole process. With `read-only`, it needs a
mount namespace of its own.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cases import window
from rightsizer.advice.storage import Storage
from rightsizer.model.errors import HistoryError
from rightsizer.model.state import State


def main(path: Path, *, is_read_only: bool) -> None:
    """Open, read, fail to write, make room, write."""
    with _mounted_read_only(path.parent) if is_read_only else _full():
        storage = Storage(str(path), waits_for_disk=True)
        assert storage.history is not None
        trouble = storage.database.disk_trouble
        before = len(list(storage.history.load()))
        remedy = storage.database.disk_remedy
        start = 600 * 10**9
        made = window({State.PRODUCTIVE: 1 / 12}, start=start, end=start + 300 * 10**9)
        error = ""
        try:
            storage.save_windows([made], [], [])
        except HistoryError as refusal:
            error = str(refusal)
    storage.save_windows([], [], [])
    after = len(list(storage.history.load()))
    left = storage.database.disk_trouble
    storage.close()
    found = {"trouble": trouble, "before": before, "error": error, "after": after, "left": left}
    found["remedy"] = remedy
    print(json.dumps(found))


@contextmanager
def _full() -> Iterator[None]:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


@contextmanager
def _mounted_read_only(folder: Path) -> Iterator[None]:
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
    yield
    subprocess.run(["mount", "-o", "remount,bind,rw", folder], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), is_read_only="read-only" in sys.argv[2:])
