"""Progress of the two passes over a recording."""

import gzip
from pathlib import Path

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.recordings.source import open_recording


@pytest.mark.parametrize("is_packed", [False, True])
def test_progress_of_both_passes_rises_to_the_end(tmp_path: Path, *, is_packed: bool) -> None:
    """By what was read of the file, then by the time that is over; nothing of it is on a pipe."""
    rows = "".join(f"{at},GPU-{at % 53},0.{at * 7919 % 1000:03d}\n" for at in range(30_000))
    text = f"timestamp,device,gpu_busy\n{rows}".encode()
    path = tmp_path / "log.csv"
    path.write_bytes(gzip.compress(text, mtime=0) if is_packed else text)
    shown: list[tuple[str, int]] = []
    source = open_recording(
        [path], catalogue=built_in(), progress=lambda stage, done, _: shown.append((stage, done))
    )
    while source.read() is not None:
        pass
    source.close()
    for stage in ("survey", "replay"):
        parts = [done for name, done in shown if name == stage]
        assert parts == sorted(parts)
        # Python 3.12 and later unpack 128 KiB at a time.
        assert len(set(parts)) > (1 if is_packed else 5)
        assert 90 < parts[-1] <= 100
