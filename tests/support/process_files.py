"""A process table as files, in which a test assigns and reuses PIDs."""

import os
import shutil
from pathlib import Path

__all__ = ["ProcessFolder"]


class ProcessFolder:
    """What procfs would have of processes: `stat`, `status` and `environ`; they are this user's."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        folder.mkdir(exist_ok=True)

    def start(
        self,
        pid: int,
        parent: int = 1,
        session: int = 1,
        started: int = 100,
        state: str = "S",
        **environ: str,
    ) -> None:
        """Start a process, replacing one of the same PID."""
        folder = self.path / str(pid)
        folder.mkdir(exist_ok=True)
        zeros = " ".join(["0"] * 15)
        stat = f"{pid} (a) b (c)) {state} {parent} {pid} {session} {zeros} {started} 0 0\n"
        (folder / "stat").write_text(stat)
        uids = "\t".join([str(os.getuid())] * 4)
        (folder / "status").write_text(f"Name:\ta\nUid:\t{uids}\n")
        pairs = "".join(f"{name}={value}\0" for name, value in environ.items())
        (folder / "environ").write_text(pairs)

    def end(self, pid: int) -> None:
        """Remove the process."""
        shutil.rmtree(self.path / str(pid))
