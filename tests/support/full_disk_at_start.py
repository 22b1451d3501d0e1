"""Opens a history while no file can grow, saves a window once it can, and prints the results.

A program of its own, since the limit holds for a whole process.
"""

import json
import resource
import sys
from pathlib import Path

from cases import window
from rightsizer.advice.storage import Storage
from rightsizer.model.errors import HistoryError
from rightsizer.model.state import State


def main(path: Path) -> None:
    """Open, read, fail to write, make room, write."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    storage = Storage(str(path), waits_for_disk=True)
    assert storage.history is not None
    trouble, before = storage.database.disk_trouble, len(list(storage.history.load()))
    start = 600 * 10**9
    made = window({State.PRODUCTIVE: 1 / 12}, start=start, end=start + 300 * 10**9)
    error = ""
    try:
        storage.save_windows([made], [], [])
    except HistoryError as refusal:
        error = str(refusal)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    storage.save_windows([], [], [])
    after, left = len(list(storage.history.load())), storage.database.disk_trouble
    storage.close()
    found = {"trouble": trouble, "before": before, "error": error, "after": after, "left": left}
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
