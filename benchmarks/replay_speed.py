"""Replaying a long nvidia-smi log of eight GPUs: lines a second, and memory at most."""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agent_process import RIGHTSIZER
from benchmarks.options import Options
from benchmarks.process import memory_mebibytes
from measured import Figure

__all__ = ["measure"]

_GPUS: Final = 8
_LOOK_SECONDS: Final = 0.02
_MOST_MEBIBYTES: Final = 100e6 / 2**20
_HEADER: Final = (
    "timestamp, index, uuid, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], "
    "power.draw [W], enforced.power.limit [W], clocks.current.sm [MHz], temperature.gpu"
)
_START_SECONDS: Final = 1_767_571_200


def measure(options: Options) -> Iterator[Figure]:
    """Of the size that was asked for."""
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "smi.csv"
        lines = _write(log, options.replay_megabytes * 1e6)
        started = time.monotonic()
        with (Path(name) / "out").open("wb") as out:
            process = subprocess.Popen([*RIGHTSIZER, "replay", str(log), "--json"], stdout=out)
            most = _most_mebibytes(process)
        elapsed = time.monotonic() - started
    if process.returncode:
        raise RuntimeError(f"the replay ended with status {process.returncode}")
    size = f"{options.replay_megabytes:g} MB, {lines:,} lines"
    yield Figure("lines of a log replayed in a second", lines / elapsed, note=size)
    yield Figure(
        "memory of a replay at most",
        most,
        "MiB",
        _MOST_MEBIBYTES,
        "100 MB, promised for logs up to 1 GB",
    )


def _most_mebibytes(process: subprocess.Popen[bytes]) -> float:
    """The most memory that it ever had, until it ends.

    What `wait4` tells of a child is at least what its parent had when it started the child.
    """
    most = 0.0
    while process.poll() is None:
        # Between its end and the next look it has no memory any more.
        with contextlib.suppress(OSError, ValueError):
            most = max(most, memory_mebibytes(process.pid, "VmHWM"))
        time.sleep(_LOOK_SECONDS)
    return most


def _write(path: Path, size_bytes: float) -> int:
    """A log of a reading a second, of GPUs that work in turns; how many lines it has."""
    lines, at_seconds = 0, 0
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{_HEADER}\n")
        while file.tell() < size_bytes:
            stamp = time.strftime("%Y/%m/%d %H:%M:%S", time.gmtime(_START_SECONDS + at_seconds))
            for index in range(_GPUS):
                busy = (at_seconds // 60 + index) % 5 * 24
                file.write(
                    f"{stamp}.{100 + index}, {index}, GPU-{index:08d}-0000-0000-0000-000000000000, "
                    f"NVIDIA H100 80GB HBM3, {busy} %, {2000 + 600 * busy} MiB, 81559 MiB, "
                    f"{70 + 6 * busy}.42 W, 700.00 W, {345 + 16 * busy} MHz, {30 + busy // 3}\n"
                )
                lines += 1
            at_seconds += 1
    return lines


if __name__ == "__main__":
    print(_write(Path(sys.argv[1]), float(sys.argv[2]) * 1e6))
