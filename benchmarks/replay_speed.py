"""Replaying a long nvidia-smi log of eight GPUs, and a merged trace of 76: CPU and memory."""

import contextlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from agent_process import RIGHTSIZER
from benchmarks.options import Options
from benchmarks.process import memory_mebibytes
from measured import Figure

_GPUS: Final = 8
_LOOK_SECONDS: Final = 0.02
_MOST_MEBIBYTES: Final = 100e6 / 2**20
_HEADER: Final = (
    "timestamp, index, uuid, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], "
    "power.draw [W], enforced.power.limit [W], clocks.current.sm [MHz], temperature.gpu"
)
_START_SECONDS: Final = 1_767_571_200
_PODS: Final = 76
_POD_SECONDS: Final = 57
_POD_MEGABYTES: Final = 7.6
"""Size of the merged trace at most: 22 hours, as in the published one of this shape."""
_POD_COLUMNS: Final = """\
time: {column: timestamp_s, unit: s}
device: pod
files:
  duty.csv:
    value: {signal: gpu_busy, unit: "%"}
  memory.csv:
    value: {signal: memory_used, unit: bytes}
"""
_MICROSECONDS: Final = 1e6
_PLAIN_LINES: Final = 20_000
_MERGED_LINES: Final = 10_000
"""Promised lines a second of user CPU."""


def measure(options: Options) -> Iterator[Figure]:
    """Of the size that was asked for."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "smi.csv"
        lines = _write(log, options.replay_megabytes * 1e6)
        started = time.monotonic()
        used_seconds, most = _replay([str(log)], folder / "out")
        elapsed = time.monotonic() - started
        size = f"{options.replay_megabytes:g} MB, {lines:,} lines"
        yield Figure("lines of a log replayed in a second", lines / elapsed, note=size)
        yield _cpu("a log", lines, used_seconds, _PLAIN_LINES)
        columns, duty, memory = (folder / each for each in ("map.yaml", "duty.csv", "memory.csv"))
        columns.write_text(_POD_COLUMNS, encoding="utf-8")
        lines = _write_pods(duty, memory, min(options.replay_megabytes, _POD_MEGABYTES) * 1e6)
        used_seconds, _ = _replay(
            [str(duty), str(memory), "--columns", str(columns)], folder / "out"
        )
        yield _cpu(f"a merged trace of {_PODS} GPUs", lines, used_seconds, _MERGED_LINES)
    yield Figure(
        "memory of a replay at most",
        most,
        "MiB",
        _MOST_MEBIBYTES,
        "100 MB, promised for logs up to 1 GB",
    )


def _cpu(what: str, lines: int, used_seconds: float, promised: int) -> Figure:
    each = used_seconds / lines * _MICROSECONDS
    note = f"{lines / used_seconds:,.0f} lines a second, {promised:,} promised; {lines:,} lines"
    return Figure(f"user CPU for a line of {what}", each, "µs", _MICROSECONDS / promised, note)


def _replay(arguments: Sequence[str], answer: Path) -> tuple[float, float]:
    """User CPU in seconds and memory at most of a replay, its start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with answer.open("wb") as out:
        process = subprocess.Popen([*RIGHTSIZER, "replay", *arguments, "--json"], stdout=out)
        most = _most_mebibytes(process)
    if process.returncode:
        raise RuntimeError(f"the replay ended with status {process.returncode}")
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, most


def _most_mebibytes(process: subprocess.Popen[bytes]) -> float:
    """Peak memory of a process, once it has ended.

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
    lines = 0
    at_seconds = 0
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


def _write_pods(duty: Path, memory: Path, size_bytes: float) -> int:
    """A file of each signal by pods that start one after the other; how many lines both have."""
    lines = 0
    at_seconds = 0
    with duty.open("w", encoding="utf-8") as busy, memory.open("w", encoding="utf-8") as held:
        for file in (busy, held):
            file.write("timestamp_s,pod,value\n")
        while busy.tell() + held.tell() < size_bytes:
            hour = at_seconds // 3600
            for pod in range(_PODS):
                if pod % 8 > hour:
                    continue
                start = f"{_START_SECONDS + at_seconds},{pod:032x}"
                load = 0 if (hour + pod) % 3 == 0 else (at_seconds // 60 * 7 + pod * 11) % 90
                busy.write(f"{start},{load}\n")
                held.write(f"{start},{(4 + pod % 12 + load // 30) << 30}\n")
                lines += 2
            at_seconds += _POD_SECONDS
    return lines


if __name__ == "__main__":
    print(_write(Path(sys.argv[1]), float(sys.argv[2]) * 1e6))
