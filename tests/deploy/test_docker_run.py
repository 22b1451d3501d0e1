"""The documented `docker build` and `docker run` in a real engine, and the same in Podman."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from built_packages import ROOT
from docker_engine import FETCH, DockerEngine, docker_engine
from image_base import OFFLINE_PIP, python_root, wheelhouse
from podman_engine import podman_engine

# The first run makes a root file system and fetches the libraries.
pytestmark = [pytest.mark.image, pytest.mark.timeout(600)]

PAGE: Final = (ROOT / "docs" / "install.md").read_text("utf-8")
BASE: Final = "python-base"
LIBRARY: Final = ROOT / "tests" / "endtoend" / "foreign_nvml.c"
SIMULATED: Final = "sources: {simulated: {scenario: eight-gpu-node}}\n"
STOP_SECONDS: Final = 10
"""What `docker stop` waits before it kills."""
LIMITS: Final = ("--ulimit=nofile=1000:1000", "--ulimit=nproc=1000:1000")
"""Podman raises them, which takes a capability that a machine in a sandbox lacks."""


def documented(beginning: str) -> list[str]:
    """The arguments of a command line of the page."""
    text = PAGE.replace("\\\n", " ")
    (line,) = [each for each in text.splitlines() if each.startswith(beginning)]
    return shlex.split(line, comments=True)[1:]


RUN: Final = documented("docker run ")
WITHOUT_DRIVER: Final = [each for each in RUN if each != "--runtime=nvidia"]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library of a driver."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler to make a driver library with")
    folder = tmp_path_factory.mktemp("driver")
    command = [compiler, "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", LIBRARY]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="module")
def engine(driver: Path) -> Iterator[DockerEngine]:
    """An engine that has built the image by the documented line."""
    with docker_engine(driver) as engine:
        base = driver / "base.tar"
        with tarfile.open(base, "w") as archive:
            archive.add(python_root(), "/")
            archive.add(wheelhouse(), "/wheelhouse")
        variables = [part for each in OFFLINE_PIP for part in ("--change", f"ENV {each}")]
        engine.run("import", *variables, base, BASE)
        base.unlink()
        line = documented("docker build --build-arg VERSION=1.0.0rc1 -t")
        assert line.pop() == "."
        engine.run(*line, "--network", "none", "--build-arg", f"PYTHON={BASE}", ROOT)
        yield engine


@pytest.fixture
def run(engine: DockerEngine) -> Iterator[Callable[..., None]]:
    """Start a container that is removed after the test, with its volumes."""

    def start(line: list[str], *more: str) -> None:
        # The image's check every second, to spare half a minute.
        engine.run(*line[:-1], "--health-interval", "1s", line[-1], *more)

    yield start
    engine.run("rm", "--force", "--volumes", "rightsizer")
    engine.run("volume", "rm", "rightsizer")


def shown(engine: DockerEngine) -> Callable[[], str]:
    """The log of its container."""
    return lambda: engine.run("logs", "rightsizer")


def until(ask: Callable[[], Any], log: Callable[[], str], seconds: float = 60.0) -> Any:
    """The first answer that is true, or a failure with the container's log."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < deadline, log()
        time.sleep(0.2)
    return answer


def health(engine: DockerEngine) -> str:
    """What the engine says of its container."""
    return str(engine.inspect("rightsizer")["State"]["Health"]["Status"])


def logged(engine: DockerEngine) -> list[dict[str, Any]]:
    """Its log: a JSON object a line."""
    return [json.loads(line) for line in engine.run("logs", "rightsizer").splitlines()]


def test_the_documented_line_serves_the_gpus_of_the_driver(
    engine: DockerEngine, run: Callable[..., None]
) -> None:
    """Healthy by the image's own check, without a file of ours, confined as the line says."""
    run(RUN)
    until(lambda: health(engine) == "healthy", shown(engine))
    assert until(lambda: engine.get("/-/ready"), shown(engine)).strip() == "ready"
    page = engine.get("/metrics")
    assert {*re.findall(r'^rightsizer_device_up\{uuid="(.*)"\} 1.0$', page, re.MULTILINE)} == {
        "GPU-busy",
        "GPU-idle",
    }

    state = engine.inspect("rightsizer")
    status = Path(f"/proc/{state['State']['Pid']}/status").read_text()
    for name, value in (("Uid", "19400"), ("CapEff", "0" * 16), ("NoNewPrivs", "1")):
        assert re.search(rf"^{name}:\t{value}\b", status, re.MULTILINE), name
    with pytest.raises(AssertionError, match="Read-only file system"):
        engine.run("exec", "rightsizer", "touch", "/opt/rightsizer/x")
    assert "devices: 2" in engine.run("exec", "rightsizer", "rightsizer", "doctor")


def test_it_stops_in_time_and_continues_its_history(
    engine: DockerEngine, run: Callable[..., None]
) -> None:
    """`docker stop` does not have to kill; a new container has the windows of the old one."""
    run(RUN)
    seconds = re.compile(r'^rightsizer_state_seconds_total\{.*"GPU-idle"\} (\S+)$', re.MULTILINE)
    until(lambda: sum(map(float, seconds.findall(engine.get("/metrics")))) >= 3, shown(engine))
    start = time.monotonic()
    engine.run("stop", "rightsizer")
    assert time.monotonic() - start < STOP_SECONDS
    assert engine.inspect("rightsizer")["State"]["ExitCode"] == 0
    first = logged(engine)
    assert first[-1]["event"] == "agent_stopped"
    assert {each["level"] for each in first} == {"info"}

    engine.run("rm", "rightsizer")
    run(RUN)
    until(lambda: engine.get("/-/ready"), shown(engine))
    restored = [each["windows"] for each in first + logged(engine) if "windows" in each]
    assert restored[0] == 0 < restored[1]


def test_a_mounted_configuration_has_simulated_gpus(
    engine: DockerEngine, run: Callable[..., None]
) -> None:
    """By the option that the page adds for one, on a machine without a driver."""
    mount = re.search(r"add `(-v /etc/\S+)` before", PAGE)
    assert mount is not None
    (engine.etc / "rightsizer.yaml").write_text(SIMULATED)
    run([*WITHOUT_DRIVER[:-1], *mount[1].split(), WITHOUT_DRIVER[-1]])
    up = r"^rightsizer_device_up\{.*\} 1.0$"
    until(lambda: len(re.findall(up, engine.get("/metrics"), re.MULTILINE)) == 8, shown(engine))


def test_without_a_driver_it_stays_up_and_says_what_to_do(
    engine: DockerEngine, run: Callable[..., None]
) -> None:
    """Healthy and not ready, with the remedy in its log."""
    run(WITHOUT_DRIVER)
    until(lambda: health(engine) == "healthy", shown(engine))
    assert engine.get("/-/ready") == ""
    log = engine.run("logs", "rightsizer")
    assert "libnvidia-ml" in log


def test_podman_serves_the_gpus_that_its_device_hands_in(
    engine: DockerEngine, driver: Path, tmp_path: Path
) -> None:
    """By the documented line, on the host's network; the machine's limits are kept."""
    engine.run("save", "--output", tmp_path / "image.tar", "rightsizer")
    line = [*documented("podman run ")]
    port = line.index("-p")
    line[port : port + 2] = ["--network", "host", *LIMITS]
    with podman_engine(driver) as podman:
        podman.run("load", "--input", tmp_path / "image.tar")
        podman.run(*line)

        def page() -> str:
            fetch = (sys.executable, "-c", FETCH, "http://127.0.0.1:19400/metrics")
            return podman.inside(*fetch).stdout

        logs = partial(podman.run, "logs", "rightsizer")
        until(lambda: page().count("rightsizer_device_up{") == 2, logs)
        podman.run("healthcheck", "run", "rightsizer")
        start = time.monotonic()
        podman.run("stop", "rightsizer")
        assert time.monotonic() - start < STOP_SECONDS
        assert podman.run("inspect", "--format", "{{.State.ExitCode}}", "rightsizer") == "0"
