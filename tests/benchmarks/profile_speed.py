"""Reading long profiles of each kind: megabytes a second, and memory at most."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from benchmarks.options import Options
from benchmarks.profile_files import WRITERS, Writer
from measured import Figure

__all__ = ["measure"]

_ALONE: Final = Path(__file__).parent / "profile_alone.py"
_MOST_MEBIBYTES: Final = 300e6 / 2**20
_PEER: Final = "HolisticTraceAnalysis"


def measure(options: Options) -> Iterator[Figure]:
    """Each in a process of its own, on a file of the size that was asked for."""
    with tempfile.TemporaryDirectory() as folder:
        for writer in WRITERS:
            path = Path(folder) / writer.name
            writer.write(path, options.replay_megabytes * 1e6)
            yield from _ours(writer, path, options.replay_megabytes)
            if writer is WRITERS[1]:
                yield from _peers(path, options.replay_megabytes)
            path.unlink()


def _ours(writer: Writer, path: Path, unpacked_megabytes: float) -> Iterator[Figure]:
    told = _told(path, "rightsizer")
    megabytes = path.stat().st_size / 1e6
    # Packed files are told by what they unpack to, which is what is read.
    read = unpacked_megabytes if path.suffix == ".gz" else megabytes
    yield Figure(
        f"{writer.what}: read in a second of CPU",
        read / told["seconds"],
        "MB",
        note=f"{megabytes:.0f} MB, {told['events']:,} events",
    )
    yield Figure(
        f"{writer.what}: memory at most",
        told["mebibytes"],
        "MiB",
        _MOST_MEBIBYTES,
        "300 MB, promised for files up to 1 GB",
    )


def _peers(path: Path, megabytes: float) -> Iterator[Figure]:
    """The same file, read and broken down by another."""
    speed, memory = f"the same by {_PEER}, in a second of CPU", f"{_PEER}: memory at most"
    if find_spec("hta") is None:
        yield Figure(speed, None, "MB", note="it is not installed here")
        return
    told = _told(path, "hta")
    yield Figure(speed, megabytes / told["seconds"], "MB")
    yield Figure(memory, told["mebibytes"], "MiB")


def _told(path: Path, reader: str) -> dict[str, Any]:
    answer = subprocess.run(
        [sys.executable, str(_ALONE), str(path), reader],
        check=True,
        capture_output=True,
        text=True,
    )
    # Libraries may print as they work; what was measured is last.
    told: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return told
