"""The documented `docker build` and `docker run` in a real Docker engine, word by word."""

import json
import re
import shlex
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from built_packages import ROOT
from docker_engine import DockerEngine, docker_engine
from image_base import OFFLINE_PIP, python_root, wheelhouse

# The first run makes a root file system and fetches the libraries.
pytestmark = [pytest.mark.image, pytest.mark.timeout(600)]

PAGE: Final = (ROOT / "docs" / "install.md").read_text("utf-8")
BASE: Final = "python-base"
LIBRARY: Final = ROOT / "tests" / "endtoend" / "foreign_nvml.c"
SIMULATED: Final = "sources: {simulated: {scenario: eight-gpu-node}}\n"
STOP_SECONDS: Final = 10
"""What `docker stop` waits before it kills."""


def documented(beginning: str) -> list[str]:
    """The arguments of a command line of the page."""
    text = PAGE.replace("\\\n", " ")
    (line,) = [each for each in text.splitlines() if each.startswith(beginning)]
    return shlex.split(line, comments=True)[1:]


RUN: Final = documented("docker run ")
WITHOUT_DRIVER: Final = [each for each in RUN if each != "--runtime=nvidia"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerEngine]:
    """An engine that has built the image by the documented line."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler to make a driver library with")
    driver = tmp_path_factory.mktemp("driver")
    command = [compiler, "-shared", "-fPIC", "-o", driver / "libnvidia-ml.so.1", LIBRARY]
    subprocess.run(command, check=True)
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


def until(ask: Callable[[], Any], engine: DockerEngine, seconds: float = 60.0) -> Any:
    """The first answer that is true, or a failure with the container's log."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < deadline, engine.run("logs", "rightsizer")
        time.sleep(0.2)
    return answer


def logged(engine: DockerEngine) -> list[dict[str, Any]]:
    """Its log: a JSON object a line."""
    return [json.loads(line) for line in engine.run("logs", "rightsizer").splitlines()]


def test_the_documented_line_serves_the_gpus_of_the_driver(
    engine: DockerEngine, run: Callable[..., None]
) -> None:
    """Healthy by the image's own check, without a file of ours, confined as the line says."""
    run(RUN)
    until(lambda: engine.inspect("rightsizer")["State"]["Health"]["Status"] == "healthy", engine)
    assert until(lambda: engine.get("/-/ready"), engine).strip() == "ready"
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
    until(lambda: "rightsizer_device_up" in engine.get("/metrics"), engine)
    start = time.monotonic()
    engine.run("stop", "rightsizer")
    assert time.monotonic() - start < STOP_SECONDS
    assert engine.inspect("rightsizer")["State"]["ExitCode"] == 0
    first = logged(engine)
    assert first[-1]["event"] == "agent_stopped"
    assert {each["level"] for each in first} == {"info"}

    engine.run("rm", "rightsizer")
    run(RUN)
    until(lambda: engine.get("/-/ready"), engine)
    restored = [each["windows"] for each in first + logged(engine) if "windows" in each]
    assert restored[0] == 0 < restored[1]


def test_a_mounted_configuration_has_simulated_gpus(
    engine: DockerEngine, run: Callable[..., None]
) -> None:
    """By the options that the page adds for one, on a machine without a driver."""
    mount, flag = (
        re.search(pattern, PAGE)[1]  # type: ignore[index]
        for pattern in (r"add `(-v /etc/\S+)` before", r"and `(agent --config.file=\S+)` after")
    )
    (engine.etc / "rightsizer.yaml").write_text(SIMULATED)
    run([*WITHOUT_DRIVER[:-1], *mount.split(), WITHOUT_DRIVER[-1]], *flag.split())
    up = r"^rightsizer_device_up\{.*\} 1.0$"
    until(lambda: len(re.findall(up, engine.get("/metrics"), re.MULTILINE)) == 8, engine)


def test_without_a_driver_it_stays_up_and_says_what_to_do(
    engine: DockerEngine, run: Callable[..., None]
) -> None:
    """Healthy and not ready, with the remedy in its log."""
    run(WITHOUT_DRIVER)
    until(lambda: engine.inspect("rightsizer")["State"]["Health"]["Status"] == "healthy", engine)
    assert engine.get("/-/ready") == ""
    log = engine.run("logs", "rightsizer")
    assert "libnvidia-ml" in log
