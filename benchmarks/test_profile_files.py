"""Long profiles of the benchmark, made short: they are valid."""

from pathlib import Path

import pytest

from benchmarks.profile_files import WRITERS, Writer
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import open_profile


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.name)
def test_a_profile_of_the_benchmark_is_read_whole(tmp_path: Path, writer: Writer) -> None:
    """It has some hundred kernels of many names, and is not truncated."""
    path = tmp_path / writer.name
    writer.write(path, 400e3)

    profile = open_profile(path, ReadLimits())

    if profile.benchmark is not None:
        assert profile.benchmark.figures
        assert profile.events > 50
        return
    (device,) = profile.devices
    assert sum(kernel.count for kernel in device.kernels) > 50
    assert len(device.kernels) > 20
    assert not any("whole" in note for note in profile.notes)
