"""An agent in trouble: no driver, an unloaded driver, a full disk, an occupied port."""

import ctypes
import os
import resource
import socket
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from agent_process import agent_process, eventually, run_rightsizer
from instrumented_library import InstrumentedLibrary
from rightsizer.advice.storage import Storage
from rightsizer.agent.agent import Agent
from rightsizer.agent.settings import Settings
from rightsizer.agent.sources import live_source
from rightsizer.catalogue.catalogue import built_in
from rightsizer.io.clock import SystemClock
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.simulator.node import SimulatedNode
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.telemetry.nvml.library import use_library
from rightsizer.web.api import unready_reason

SIMULATED: Final = ("--simulated.scenario", "t4-pair", "--web.listen-address", "127.0.0.1:0")


SCRAPE: Final = b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
TOGETHER: Final = 16
"""Fewer than the agent serves, so that none is closed for another's sake."""


def has_nvml() -> bool:
    """Whether this machine has the NVIDIA driver's library."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


@pytest.mark.skipif(has_nvml(), reason="this machine has the NVIDIA driver's library")
def test_without_the_library_it_stays_up_and_says_so_once(tmp_path: Path) -> None:
    """Healthy, not ready, with the reason, and still counting its attempts."""
    constants = tmp_path / "constants.yaml"
    constants.write_text("sources: {nvml: {retry_first: 200ms}}")
    flags = ("--web.listen-address", "127.0.0.1:0", "--history.path", "")
    with agent_process(
        tmp_path,
        *flags,
        "--constants",
        str(constants),
        config="sampling: {interval: 200ms}",
    ) as agent:
        eventually(lambda: agent.metric("rightsizer_samples_total") >= 10)
        healthy = agent.get("/-/healthy")
        ready = agent.get("/-/ready")
        page = agent.get("/")
        absences = agent.events("devices_absent")
        status = agent.end()

    assert healthy[0] == 200
    assert ready[0] == 503
    assert "NVML" in ready[1] or "libnvidia-ml" in ready[1]
    assert page[0] == 200
    assert len(absences) == 1
    assert absences[0]["reason"] in ready[1]
    assert status == 0


def test_it_resumes_when_its_driver_comes_back(tmp_path: Path) -> None:
    """Unloaded and reloaded under a running agent: not ready meanwhile, then ready by itself."""
    catalogue = built_in()
    clock = SystemClock()
    node = SimulatedNode(load_scenario("t4-pair", catalogue), catalogue, clock.wall_time())
    library = InstrumentedLibrary(node, clock.wall_time)
    base = Settings()
    settings = replace(
        base,
        sampling=replace(base.sampling, interval=0.1),
        sources=replace(base.sources, nvml=replace(base.sources.nvml, retry_first_seconds=0.2)),
        web=replace(base.web, listen_addresses=("127.0.0.1:0",)),
    )
    stop = threading.Event()
    use_library(library)
    source = live_source(settings, clock)
    agent = Agent(
        settings, source.source, source_name=source.name, clock=clock, storage=Storage("")
    )

    def unready() -> str | None:
        freshness = FreshnessSettings(stale_minimum_seconds=0.5)
        return unready_reason(agent.accounting.latest(), clock.wall_time(), freshness)

    try:
        with capture_logs() as logs:
            agent.start()
            thread = threading.Thread(target=agent.run, args=(stop,))
            thread.start()
            eventually(lambda: unready() is None)
            library.faults.unload()
            reason = eventually(unready)
            eventually(lambda: any(entry["event"] == "devices_absent" for entry in logs))
            library.faults.clear()
            eventually(lambda: unready() is None)
            eventually(lambda: any(entry["event"] == "devices_found" for entry in logs))
    finally:
        library.faults.clear()
        stop.set()
        thread.join()
        use_library(None)

    assert reason.startswith("not ready: ")
    assert agent.coordinator.failed_ticks == 0


def test_a_port_that_is_in_use_is_named(tmp_path: Path) -> None:
    """One line, exit status 1, and no traceback."""
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        place = f"127.0.0.1:{other.getsockname()[1]}"
        done = run_rightsizer(
            "agent",
            "--simulated.scenario",
            "t4-pair",
            "--web.listen-address",
            place,
            "--history.path",
            tmp_path / "history.db",
        )
    (line,) = (line for line in done.stderr.splitlines() if not line.startswith("{"))

    assert done.returncode == 1
    taken_by = f"the port is in use by process {os.getpid()} ("
    assert line.startswith(f"rightsizer: cannot listen on {place}: {taken_by}")
    assert "--web.listen-address" in line


def test_a_history_that_another_agent_writes_is_left_to_it(tmp_path: Path) -> None:
    """The other agent is named, and continues."""
    flags = (*SIMULATED, "--history.path", str(tmp_path / "history.db"))
    with agent_process(tmp_path, *flags) as agent:
        done = run_rightsizer("agent", *flags)
        ready = eventually(lambda: agent.get("/-/ready")[0] == 200)
        advised = run_rightsizer("advise", "--history.path", tmp_path / "history.db")

        assert done.returncode == 1
        assert f"is being written by process {agent.process.pid}; stop that agent" in done.stderr
        assert ready
        # Reading beside it is allowed; nothing was flushed yet.
        assert "is empty; let the agent run for a while first" in advised.stderr


def test_a_full_disk_does_not_end_it(tmp_path: Path) -> None:
    """Failures are counted and reported; once there is room again, nothing is missing."""
    config = (
        "sampling: {interval: 100ms}\nhistory: {path: history.db, flush_interval: 1s}\n"
        "sources: {simulated: {scenario: eight-gpu-node}}\n"
        "web: {listen_addresses: ['127.0.0.1:0']}\n"
    )
    failures = "rightsizer_history_write_failures_total"
    writes = "rightsizer_history_writes_total"
    with agent_process(tmp_path, config=config) as agent:
        eventually(lambda: agent.metric(writes) >= 1)
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        largest = max(file.stat().st_size for file in tmp_path.iterdir())
        resource.prlimit(agent.process.pid, resource.RLIMIT_FSIZE, (largest, hard))
        eventually(lambda: agent.metric(failures) >= 2)
        ready = agent.get("/-/ready")
        resource.prlimit(agent.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        before = agent.metric(writes)
        eventually(lambda: agent.metric(writes) > before)
        failed = [event for event in agent.events("job_failed") if event["job"] == "flush"]
        status = agent.end()

    assert ready[0] == 200
    assert failed
    assert status == 0


def answers_together(host: str, port: int) -> list[bytes]:
    """Beginnings of answers to scrapes that each need a thread at once; empty where there is none.

    One after the other they would share the threads that run from the start.
    """
    with ExitStack() as stack:
        connections = [
            stack.enter_context(closing(socket.create_connection((host, port), 30)))
            for _ in range(TOGETHER)
        ]
        answers: list[bytes] = []
        for connection in connections:
            try:
                connection.sendall(SCRAPE)
                answers.append(connection.recv(65536))
            except ConnectionError:
                answers.append(b"")
        return answers


def test_agent_goes_on_after_a_shortage_of_memory(tmp_path: Path) -> None:
    """A thread that lacks the memory to begin costs its connection alone, and no sample later."""
    history = ("--history.path", str(tmp_path / "history.db"))
    with agent_process(tmp_path, *SIMULATED, *history) as agent:
        eventually(lambda: agent.metric("rightsizer_samples_total") >= 4)
        host, _, port = agent.address.rpartition(":")
        pid = agent.process.pid
        pages = resource.getpagesize()
        held = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[0]) * pages
        _, most = resource.prlimit(pid, resource.RLIMIT_AS, (held, -1))
        end = time.monotonic() + 60.0
        was_short = False
        while time.monotonic() < end and not was_short:
            was_short = any(answer == b"" for answer in answers_together(host, int(port)))
        resource.prlimit(pid, resource.RLIMIT_AS, (most, most))
        if not was_short:
            pytest.skip("the agent found the memory for every thread within a minute")
        assert agent.process.poll() is None, agent.log_file.read_text("utf-8")[-4000:]
        assert agent.get("/-/healthy")[0] == 200
        before = agent.metric("rightsizer_samples_total")
        eventually(lambda: agent.metric("rightsizer_samples_total") >= before + 3)
        assert agent.end() == 0
