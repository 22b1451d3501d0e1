"""Result of a check, and the context that all checks share."""

import os
import socket
import stat
from collections.abc import Mapping
from contextlib import closing, suppress
from enum import StrEnum
from functools import cache
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from rightsizer.agent.settings import Settings
from rightsizer.io.yaml import load_beside
from rightsizer.model.values import Snapshot

_LOCAL: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - nothing is bound.
"""Loopback addresses of wildcard ones."""


class Verdict(StrEnum):
    """Result of a check."""

    OK = "ok"
    LIMITED = "limited"
    """Present in part, or only for some users."""
    MISSING = "missing"
    UNUSED = "unused"
    """Absent and not configured."""


class Check(Struct, frozen=True):
    """Result for one thing that the agent uses."""

    name: str
    verdict: Verdict
    found: str
    lost: str = ""
    """What telemetry or recommendations lack without it."""
    remedy: str = ""


@cache
def _remedies() -> Any:
    return load_beside(__file__, "remedies.yaml")


def failed_check(name: str, verdict: Verdict, case: str, found: str, **words: object) -> Check:
    """Return a failed check with the loss and remedy of its case in `remedies.yaml`."""
    texts = _remedies()[name][case]
    lost, remedy = (texts.get(key, "").format_map(words) for key in ("lost", "remedy"))
    return Check(name, verdict, found, lost, remedy)


class CheckContext(Struct, frozen=True):
    """What the checks examine."""

    settings: Settings
    snapshot: Snapshot
    """A reading of the agent's own source, here and now."""
    environ: Mapping[str, str]
    devices: Path = Path("/dev")

    @property
    def procfs(self) -> Path:
        """Mount point of procfs."""
        return Path(self.settings.path.procfs)

    @property
    def sysfs(self) -> Path:
        """Mount point of sysfs."""
        return Path(self.settings.path.sysfs)

    @property
    def is_simulated(self) -> bool:
        """Whether the GPUs are simulated, and so have no device files."""
        return bool(self.settings.sources.simulated.scenario)


def folder_fault(folder: Path, mode: int = os.X_OK) -> str | None:
    """Why this user has no access of a mode to a folder, or `None` if there is."""
    try:
        is_folder = stat.S_ISDIR(folder.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        is_folder = False
    except OSError:
        return f"{folder} is closed to user {os.geteuid()}"
    if not is_folder:
        return f"there is no folder {folder}"
    return None if os.access(folder, mode) else f"{folder} is closed to user {os.geteuid()}"


def connect_error(path: str) -> OSError | None:
    """Why nothing answers at a Unix socket, or `None` if a process does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except OSError as error:
            return error
    return None


def is_listened_at(host: str, port: int) -> bool:
    """Whether a process listens on a port; wildcard addresses are tried on loopback."""
    try:
        with socket.create_connection((_LOCAL.get(host, host), port), timeout=1.0):
            return True
    except OSError:
        return False


def is_served_at(host: str, port: int) -> bool:
    """Whether an agent's server answers on a port without TLS, by its `Server` header."""
    with (
        closing(HTTPConnection(_LOCAL.get(host, host), port, timeout=1.0)) as connection,
        suppress(OSError, HTTPException),
    ):
        connection.request("GET", "/-/healthy")
        return connection.getresponse().getheader("Server") == "rightsizer"
    return False
