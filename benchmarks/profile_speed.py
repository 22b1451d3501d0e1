"""Reading long profiles of each kind: megabytes a second, and memory at most."""

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.options import Options
from benchmarks.profile_files import WRITERS, Writer
from measured import Figure
from profiler_environment import Absent, environment

_ALONE: Final = Path(__file__).parent / "profile_alone.py"
_SIZES: Final = 2.0
"""Times as long as the log of the replay."""
_MOST_MEBIBYTES: Final = 300e6 / 2**20
_PEER: Final = "HolisticTraceAnalysis"
_COMPARED_SIZES: Final = (0.03, 1.0, 6.0)
"""Times as long as the log of the replay: 3, 100 and 600 MB, of traces that both read."""


def measure(options: Options) -> Iterator[Figure]:
    """Each in a process of its own, on a file of the size that was asked for."""
    peaks: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for writer in WRITERS:
            path = Path(folder) / writer.name
            writer.write(path, _SIZES * options.replay_megabytes * 1e6)
            speed, memory = _ours(writer, path, _SIZES * options.replay_megabytes)
            yield from (speed, memory)
            peaks.append(memory.value or math.nan)
            path.unlink()
        yield Figure("memory at most, of any format", max(peaks), "MiB", _MOST_MEBIBYTES)
        packed = WRITERS[1]
        path = Path(folder) / packed.name
        for size in _COMPARED_SIZES:
            packed.write(path, size * options.replay_megabytes * 1e6)
            yield from _beside(path, size * options.replay_megabytes)


def _ours(writer: Writer, path: Path, unpacked_megabytes: float) -> Iterator[Figure]:
    result = _read_with(path, "rightsizer", Path(sys.executable))
    megabytes = path.stat().st_size / 1e6
    # Packed files are told by what they unpack to, which is what is read.
    read = unpacked_megabytes if path.suffix == ".gz" else megabytes
    is_row = path.suffix == ".gz"
    yield Figure(
        f"{writer.what}: read in a second of CPU",
        read / result["seconds"],
        "MB",
        note=f"{megabytes:.0f} MB, {result['events']:,} events",
        is_row=is_row,
    )
    yield Figure(
        f"{writer.what}: memory at most",
        result["mebibytes"],
        "MiB",
        _MOST_MEBIBYTES,
        is_row=True,
    )


def _beside(path: Path, megabytes: float) -> Iterator[Figure]:
    """The same packed file, read and broken down by us and by another."""
    size = f"{megabytes:.3g} MB"
    speed = f"{_PEER}: a PyTorch trace of {size}, in a second of CPU"
    try:
        python = environment("peers")
    except Absent as reason:
        yield Figure(speed, None, "MB", note=f"skipped: {reason}")
        return
    peer = _read_with(path, "hta", python)
    ours = _read_with(path, "rightsizer", Path(sys.executable))
    yield Figure(speed, megabytes / peer["seconds"], "MB", is_row=True)
    imported = f"{peer['imported_mebibytes']:.0f} MiB before it reads anything"
    memory = f"{_PEER}: memory at most, {size}"
    yield Figure(memory, peer["mebibytes"], "MiB", note=imported, is_row=True)
    yield Figure(
        f"{_PEER}: CPU for its idle time breakdown, of ours for {size} ({ours['seconds']:.3g} s)",
        peer["seconds"] / ours["seconds"],
        "x",
    )
    yield Figure(
        f"{_PEER}: memory, of ours for {size} ({ours['mebibytes']:.0f} MiB)",
        peer["mebibytes"] / ours["mebibytes"],
        "x",
    )


def _read_with(path: Path, reader: str, python: Path) -> dict[str, Any]:
    answer = subprocess.run(
        [python, _ALONE, path, reader],
        check=True,
        capture_output=True,
        text=True,
    )
    # Libraries may print as they work; what was measured is last.
    document: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return document
