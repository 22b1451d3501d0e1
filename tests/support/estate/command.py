"""`rightsizer fleet` in a process of its own: its answer, time and memory."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

__all__ = ["Answer", "ask_fleet"]

_MEBIBYTE: Final = 1024
"""In the kibibytes of /proc."""
_LOOK_SECONDS: Final = 0.2


class Answer(Struct, frozen=True):
    """The result of a run."""

    document: dict[str, Any]
    """Its JSON."""
    wall_seconds: float
    cpu_seconds: float
    """Of all its processes."""
    peak_mebibytes: float
    """Sum of the peak resident sizes of processes that existed together, at its maximum: an upper
    bound of simultaneous use that counts shared pages once per process."""
    main_peak_mebibytes: float
    """Peak resident size of the process that gives the answer, without its workers."""

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The findings."""
        found: list[dict[str, Any]] = self.document["findings"]
        return found


def ask_fleet(
    url: str,
    at: float,
    folder: Path | None = None,
    *,
    settings: dict[str, Any] | None = None,
    timeout_seconds: float = 600.0,
) -> Answer:
    """Run the command once.

    Args:
        url: The store.
        at: The end of the analyzed time, in seconds since the epoch.
        folder: Its cache folder; `None` for a temporary one.
        settings: Further settings of the section `fleet`.
        timeout_seconds: The time limit.

    Raises:
        AssertionError: it failed; the message is its own.
    """
    with tempfile.TemporaryDirectory(prefix="fleet-") as temporary:
        place = folder or Path(temporary)
        config = place / "rightsizer.yaml"
        fleet = {"store": {"url": url}, "path": str(place / "fleet.db"), **(settings or {})}
        # JSON is YAML.
        config.write_text(json.dumps({"fleet": fleet}), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "rightsizer",
            "fleet",
            "--json",
            "--no-progress",
            "--at",
            str(at),
            "--config.file",
            str(config),
        ]
        return _run(command, timeout_seconds)


def _run(command: list[str], timeout_seconds: float) -> Answer:
    before = os.times()
    began = time.monotonic()
    with (
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
        subprocess.Popen(command, stdout=stdout, stderr=stderr) as process,
    ):
        peaks = _Peaks(process.pid)
        peaks.start()
        try:
            process.wait(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"it took more than {timeout_seconds:.0f} s") from None
        finally:
            peaks.finish()
        took = time.monotonic() - began
        after = os.times()
        stdout.seek(0)
        stderr.seek(0)
        if process.returncode:
            raise AssertionError(stderr.read().decode()[-4000:])
        return Answer(
            json.loads(stdout.read()),
            took,
            sum(after[2:4]) - sum(before[2:4]),
            peaks.mebibytes,
            peaks.main_mebibytes,
        )


@dataclass
class _Peaks:
    """Samples a process and its children until it ends."""

    pid: int

    def __post_init__(self) -> None:
        self.mebibytes = 0.0
        """The current processes' peaks so far."""
        self.main_mebibytes = 0.0
        """That of the first of them."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            peaks = [_peak_kibibytes(pid) / _MEBIBYTE for pid in _family(self.pid)]
            self.mebibytes = max(self.mebibytes, sum(peaks))
            self.main_mebibytes = max(self.main_mebibytes, peaks[0])


def _family(pid: int) -> list[int]:
    """A process and all its descendants."""
    found = [pid]
    for each in found:
        try:
            tasks = list(Path(f"/proc/{each}/task").iterdir())
            for task in tasks:
                found += map(int, (task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _peak_kibibytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    lines = (line.split() for line in text.splitlines() if line.startswith("VmHWM:"))
    return next((int(line[1]) for line in lines), 0)
