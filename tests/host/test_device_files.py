"""GPUs that this process may open, by what the kernel says of their files."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from rightsizer.host.device_files import openable_gpus

GROUPS: Final = Path("/sys/fs/cgroup/devices")
DENIED: Final = "c 1:5 rwm"
"""/dev/zero's numbers, which nothing here needs."""


def node(root: Path, gpus: int) -> None:
    """A node's list of GPUs in procfs."""
    for minor in range(gpus):
        folder = root / f"proc/driver/nvidia/gpus/0000:{minor + 1:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Device Minor: \t {minor}\n", "ascii")


@pytest.fixture
def denying_group() -> Iterator[Path]:
    """A control group that may not open one device."""
    group = GROUPS / f"rightsizer-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "devices.deny").write_text(DENIED, "ascii")
    except OSError as error:
        pytest.skip(f"no control group of devices: {error}")
    yield group
    group.rmdir()


def test_gpus_of_other_jobs_are_not_openable(tmp_path: Path) -> None:
    """Slurm shows a job the files of all GPUs, and lets it open its own."""
    node(tmp_path, 4)
    own = {tmp_path / "dev/nvidia1", tmp_path / "dev/nvidia2"}

    assert openable_gpus(tmp_path, own.__contains__) == {"0000:02:00.0", "0000:03:00.0"}


def test_where_no_gpu_is_openable_nothing_is_known(tmp_path: Path) -> None:
    """A user without the files' group is no job without GPUs."""
    node(tmp_path, 2)

    assert openable_gpus(tmp_path) == frozenset()


def test_a_control_group_of_devices_is_asked(tmp_path: Path, denying_group: Path) -> None:
    """A file of a denied device is there, and is not openable."""
    node(tmp_path, 2)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    try:
        os.mknod(tmp_path / "dev/nvidia1", 0o020666, os.makedev(1, 5))
    except OSError as error:
        pytest.skip(f"no device file can be made: {error}")
    code = (
        "import os, sys, pathlib\n"
        "pathlib.Path(sys.argv[1], 'tasks').write_text(str(os.getpid()))\n"
        "from rightsizer.host.device_files import openable_gpus\n"
        "print(*openable_gpus(pathlib.Path(sys.argv[2])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, denying_group, tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == ["0000:01:00.0"]
