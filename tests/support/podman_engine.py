"""A real Podman with a store, a network and devices of its own, gone after the test."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from built_packages import tool
from image_base import CACHE, mount_point
from nvidia_runtime import DEVICES, LIBRARIES, MAJOR

__all__ = ["Podman", "podman_engine"]


class Podman(Struct, frozen=True):
    """The commands of one store, in namespaces of its own."""

    program: tuple[str, ...]
    process: int
    """It holds the namespaces."""

    def run(self, *arguments: str | Path) -> str:
        """The output of a command, which succeeds."""
        done = self.inside(*self.program, *map(str, arguments))
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def inside(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command beside the containers."""
        enter = ("nsenter", "--target", str(self.process), "--net", "--mount")
        return subprocess.run(
            [*enter, *command], capture_output=True, text=True, check=False, timeout=120
        )


@contextmanager
def podman_engine(driver: Path) -> Iterator[Podman]:
    """A store whose device `nvidia.com/gpu=all` hands in the driver library of a folder."""
    if os.geteuid():
        pytest.skip("a container without a user's namespace takes root")
    podman = tool("podman", "podman")
    CACHE.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=CACHE, prefix="podman-") as name,
        mount_point(Path("/etc/cdi")),
    ):
        folder = Path(name)
        (devices := folder / "cdi").mkdir()
        (devices / "nvidia.json").write_text(json.dumps(specification(driver)))
        store = ("--root", str(folder / "root"), "--runroot", str(folder / "run"))
        options = ("--cgroup-manager=cgroupfs", "--runtime=runc", "--storage-driver=overlay")
        prepare = "mount --bind $1 /etc/cdi && ip link set lo up && echo ready && exec sleep 3600"
        holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-c", prepare, "sh", devices],
            stdout=subprocess.PIPE,
        )
        engine = Podman((podman, *store, *options), holder.pid)
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"ready\n"
            yield engine
        finally:
            engine.run("rm", "--all", "--force", "--volumes")
            engine.inside("umount", str(folder / "root" / "overlay"))
            holder.kill()
            holder.communicate()


def specification(driver: Path) -> dict[str, object]:
    """What `nvidia-ctk cdi generate` writes, as far as this driver has it."""
    nodes = [
        {"path": path, "type": "c", "major": MAJOR, "minor": minor, "permissions": "rw"}
        for path, minor in DEVICES.items()
    ]
    options = ["ro", "nosuid", "nodev", "bind"]
    mounts = [
        {"hostPath": str(path), "containerPath": f"{LIBRARIES}/{path.name}", "options": options}
        for path in driver.glob("*.so*")
    ]
    all_devices = {"name": "all", "containerEdits": {"deviceNodes": nodes}}
    return {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [all_devices],
        "containerEdits": {"mounts": mounts},
    }
