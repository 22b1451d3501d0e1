"""Fills a history up to a file size limit, like a full disk, and prints the results.

A program of its own, since the limit holds for a whole process.
"""

import json
import resource
import sys
from pathlib import Path

from cases import window
from rightsizer.advice.storage import Storage
from rightsizer.model.errors import HistoryError
from rightsizer.model.state import Resource, State

_ROOM = 24 * 1024
_MORE_FAILURES = 2


def main(path: Path) -> None:
    """Save windows until they do not fit, continue, and make room."""
    storage = Storage(str(path))
    assert storage.history is not None
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    largest = max(file.stat().st_size for file in path.parent.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest + _ROOM, hard))
    saved = 0
    failures = 0
    error = ""
    before = 0
    while failures < _MORE_FAILURES:
        demands = {Resource.COMPUTE: {0.5: 0.05}, Resource.MEMORY: {0.25: 0.05}}
        start = saved * 300 * 10**9
        made = window({State.PRODUCTIVE: 1 / 12}, demands, start=start, end=start + 300 * 10**9)
        saved += 1
        try:
            storage.save_windows([made], [], [])
        except HistoryError as refusal:
            before = before or len(list(storage.history.load()))
            failures = failures + 1
            error = str(refusal)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    storage.save_windows([], [], [])
    found = len(list(storage.history.load()))
    storage.close()
    result = {
        "saved": saved,
        "found": found,
        "before": before,
        "failures": failures,
        "error": error,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
