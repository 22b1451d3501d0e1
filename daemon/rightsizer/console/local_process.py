"""What this host tells of a process."""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rightsizer.host.process_table import user_name


class LocalProcess(NamedTuple):
    """What this host tells to this user; empty if it does not."""

    user: str = ""
    name: str = ""


def local_process(pid: int, root: Path = Path("/proc")) -> LocalProcess:
    """Return user and name of a process; empty without such a process."""
    folder = root / str(pid)
    with suppress(OSError):
        owner = folder.stat().st_uid
        return LocalProcess(
            user_name(owner), (folder / "comm").read_text("utf-8", "replace").strip()
        )
    return LocalProcess()
