"""Process that listens on a TCP port, from procfs."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rightsizer.model.frozen import dataclass

_LISTENING: Final = "0A"
_TABLES: Final = ("net/tcp", "net/tcp6")


@dataclass(frozen=True, slots=True)
class ListeningProcess:
    """Process with a listening socket."""

    pid: int
    name: str
    """Command name, truncated by the kernel to 15 characters."""


def listening_process(port: int, procfs: Path = Path("/proc")) -> ListeningProcess | None:
    """Return who listens on a port; `None` if none does, or it is of another user."""
    wanted = {f"socket:[{inode}]" for inode in _inodes(port, procfs)}
    if not wanted:
        return None
    for folder in procfs.glob("[0-9]*"):
        # Processes end meanwhile, and those of other users are closed.
        with contextlib.suppress(OSError):
            if any(str(file.readlink()) in wanted for file in (folder / "fd").iterdir()):
                name = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
                return ListeningProcess(int(folder.name), name)
    return None


def _inodes(port: int, procfs: Path) -> Iterator[str]:
    for table in _TABLES:
        with contextlib.suppress(OSError):
            for line in (procfs / table).read_text(encoding="ascii").splitlines()[1:]:
                _, local, _, state, *rest = line.split()
                if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                    yield rest[5]
