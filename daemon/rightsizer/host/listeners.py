"""Process that listens on a TCP port, from procfs."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_LISTENING: Final = "0A"


def listening_process(port: int, procfs: Path = Path("/proc")) -> tuple[int, str] | None:
    """Return pid and command name of who listens on a port; `None` for other users' processes."""
    wanted = {f"socket:[{inode}]" for inode in _inodes(port, procfs)}
    for folder in procfs.glob("[0-9]*") if wanted else ():
        # Processes end meanwhile, and those of other users are closed.
        with contextlib.suppress(OSError):
            if any(str(file.readlink()) in wanted for file in (folder / "fd").iterdir()):
                name = (folder / "comm").read_text(encoding="utf-8", errors="replace")
                return int(folder.name), name.strip()
    return None


def _inodes(port: int, procfs: Path) -> Iterator[str]:
    for table in ("net/tcp", "net/tcp6"):
        with contextlib.suppress(OSError):
            for line in (procfs / table).read_text(encoding="ascii").splitlines()[1:]:
                _, local, _, state, *rest = line.split()
                if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                    yield rest[5]
