"""A real Docker engine with a network of its own, gone after the tests with all that it made."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Struct

from built_packages import tool
from image_base import CACHE, mount_point

__all__ = ["FETCH", "DockerEngine", "docker_engine"]

RUNTIME: Final = Path(__file__).with_name("nvidia_runtime.py")
_START_SECONDS: Final = 60.0
FETCH: Final = """
import sys, urllib.request
sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())
"""


class DockerEngine(Struct, frozen=True):
    """A running engine."""

    client: Path
    socket: Path
    process: int
    etc: Path
    """What containers may mount as /etc/rightsizer."""

    def run(self, *arguments: str | Path, given: Path | None = None) -> str:
        """The output of a command of the client, which succeeds."""
        command: list[str | Path] = [
            self.client,
            "--host",
            f"unix://{self.socket}",
            *map(str, arguments),
        ]
        # The older builder would pull stages that are not used.
        environment = {**os.environ, "DOCKER_BUILDKIT": "1", "DOCKER_CONFIG": str(self.etc.parent)}
        with (given or Path(os.devnull)).open("rb") as source:
            done = subprocess.run(
                command,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=300,
                env=environment,
            )
        assert done.returncode == 0, f"{arguments}: {done.stdout}"
        return done.stdout.strip()

    def inspect(self, name: str) -> Any:
        """What the engine knows of a container."""
        return json.loads(self.run("inspect", name))[0]

    def get(self, path: str, port: int = 19400) -> str:
        """The answer at a published port, empty where there is none."""
        fetch = [sys.executable, "-c", FETCH, f"http://127.0.0.1:{port}{path}"]
        inside = ["nsenter", f"--net=/proc/{self.process}/ns/net", *fetch]
        return subprocess.run(inside, capture_output=True, text=True, check=False).stdout


@contextmanager
def docker_engine(driver: Path) -> Iterator[DockerEngine]:
    """An engine whose runtime `nvidia` hands in the driver library of a folder.

    The test is skipped, with the reason, where no engine runs.
    """
    if os.geteuid():
        pytest.skip("an engine takes root")
    dockerd = tool("dockerd", "docker.io")
    # The client of the same package needs no plug-in to build.
    client = Path(dockerd).parents[1] / "bin" / "docker"
    CACHE.mkdir(exist_ok=True)
    # Layers over layers need a file system of a disk.
    with (
        tempfile.TemporaryDirectory(dir=CACHE, prefix="docker-") as name,
        mount_point(Path("/etc/rightsizer")),
    ):
        folder = Path(name)
        (etc := folder / "etc").mkdir()
        runtime = folder / "nvidia-container-runtime"
        runtime.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{RUNTIME}" "{driver}" "$@"\n')
        runtime.chmod(0o755)
        # The engine's bridge and rules are in namespaces of its own, as is /etc/rightsizer.
        prepare = "mount --bind $1 /etc/rightsizer && ip link set lo up && shift && exec $@"
        options = {
            "data-root": folder / "data",
            "exec-root": folder / "run",
            "pidfile": folder / "pid",
            "host": f"unix://{folder / 'socket'}",
            "add-runtime": f"nvidia={runtime}",
            "cgroup-parent": f"/rightsizer-{os.getpid()}",
        }
        flags = [f"--{key}={value}" for key, value in options.items()]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    "setpriv",
                    "--pdeathsig",
                    "TERM",
                    "unshare",
                    "--net",
                    "--mount",
                    "sh",
                    "-c",
                    prepare,
                    "sh",
                    etc,
                    dockerd,
                    *flags,
                ],
                stdout=log,
                stderr=log,
            )
        engine = DockerEngine(client, folder / "socket", process.pid, etc)
        try:
            _wait(engine, process, folder / "log")
            yield engine
        finally:
            _end(engine, process)


def _wait(engine: DockerEngine, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            engine.run("info")
        except AssertionError:
            time.sleep(0.2)
        else:
            return
    pytest.skip(f"no Docker engine runs here: {log.read_text()[-500:]}")


def _end(engine: DockerEngine, process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        if containers := engine.run("ps", "--all", "--quiet").split():
            engine.run("rm", "--force", "--volumes", *containers)
        process.terminate()
        process.wait(30)
    _remove_groups(Path("/sys/fs/cgroup").glob(f"*/rightsizer-{os.getpid()}"))


def _remove_groups(groups: Iterator[Path] | Sequence[Path]) -> None:
    """Remove empty control groups, which an engine leaves."""
    for group in groups:
        _remove_groups([path for path in group.iterdir() if path.is_dir()])
        group.rmdir()
