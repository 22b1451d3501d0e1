"""The complete agent, in this process at high speed: self-monitoring and shutdown."""

import contextlib
import json
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from agent_process import eventually
from profile_beside import waiting_profile
from readings import (
    DAY,
    EMPTY,
    EPOCH,
    HELD,
    HOUR,
    MINUTE,
    SECOND,
    TRAINING,
    Signals,
    gpu,
    snapshot,
    workload,
)
from rightsizer.advice.rules import RULES
from rightsizer.advice.storage import Storage
from rightsizer.agent.agent import Agent
from rightsizer.agent.reloader import Reloader
from rightsizer.agent.settings import LabelSettings, Settings
from rightsizer.config.loader import load
from rightsizer.io.clock import FastClock
from rightsizer.io.jobs import Jobs
from rightsizer.io.systemd import Notifier
from rightsizer.model.device import Device
from rightsizer.model.errors import RightsizerError
from rightsizer.model.metric_family import series_key
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import State
from rightsizer.model.window import Window
from rightsizer.model.workload import WorkloadClass
from rightsizer.web.server import WebServer

LOOPBACK: Final = "127.0.0.1:0"


class Minutes:
    """A source of an empty GPU, a reading a minute; some minutes have no device."""

    name = "minutes"

    def __init__(self, count: int, absent: range = range(0)) -> None:
        self._count = count
        self._absent = absent
        self._minute = 0
        self.is_closed = False

    def read(self) -> Snapshot | None:
        """Read the next minute."""
        minute = self._minute
        self._minute = self._minute + 1
        if minute == self._count:
            return None
        if minute in self._absent:
            seen = snapshot(minute * 60.0, [], {}, interval_seconds=60.0)
            return replace(seen, trouble="the driver is not loaded")
        device = gpu()
        return snapshot(minute * 60.0, [device], {device: EMPTY}, interval_seconds=60.0)

    def close(self) -> None:
        """Record that the source was closed."""
        self.is_closed = True


class Session:
    """A source of a GPU that a notebook holds for 90 minutes, idle by default, then releases.

    Each part ends with no more readings; the next call continues with the next part.
    """

    name = "session"

    def __init__(self, *parts: int, held: Signals = HELD) -> None:
        self._held = held
        minutes = iter(range(sum(parts)))
        self._parts = [[next(minutes) for _ in range(part)] for part in parts]

    def read(self) -> Snapshot | None:
        """Read the next minute of the part."""
        if not self._parts[0]:
            self._parts.pop(0)
            return None
        minute = self._parts[0].pop(0)
        device = gpu()
        is_held = minute <= 90
        return snapshot(
            minute * 60.0,
            [device],
            {device: self._held if is_held else EMPTY},
            interval_seconds=60.0,
            holders={device: workload("ana", WorkloadClass.NOTEBOOK)} if is_held else {},
        )

    def close(self) -> None:
        """Nothing is held."""


@contextmanager
def running(source: Minutes | Session, path: str = "", **parts: Any) -> Iterator[Agent]:
    """An agent on loopback at high speed; the caller runs and stops it."""
    settings = replace(
        Settings(),
        web=replace(Settings().web, listen_addresses=(LOOPBACK,)),
        sampling=replace(Settings().sampling, interval=60.0),
    )
    storage = Storage(path)
    agent = Agent(
        settings,
        source,
        source_name=source.name,
        clock=FastClock(EPOCH),
        storage=storage,
        **parts,
    )
    try:
        yield agent
    finally:
        storage.close()


def lived_through(source: Minutes, path: str = "", **parts: Any) -> Agent:
    """An agent after the end of its source."""
    with running(source, path, **parts) as agent:
        agent.start()
        agent.run(threading.Event())
    return agent


def test_agent_samples_to_the_end_and_closes_everything() -> None:
    """Its source, its port and its jobs."""
    source = Minutes(30)
    agent = lived_through(source)
    report = agent.accounting.latest()

    assert report is not None
    assert report.generation == 30
    assert source.is_closed
    assert agent.server.addresses == ()


def test_a_feature_file_is_written_once_settings_name_one(tmp_path: Path) -> None:
    """The job exists without a path too, so that a reload can set it."""
    file = tmp_path / "rightsizer"
    with running(Minutes(3)) as agent:
        agent.start()
        agent.run(threading.Event())
        agent.jobs.run("label")
        assert not file.exists()

        agent.settings = replace(agent.settings, labels=LabelSettings(file=str(file)))
        agent.jobs.run("label")

    assert "rightsizer.gpu-count=1\n" in file.read_text()


def test_agent_reports_itself_in_metrics() -> None:
    """From the first report on, so that rates and absence alerts work."""
    report = lived_through(Minutes(3)).accounting.latest()
    assert report is not None
    agent_report = report.agent

    assert agent_report.metrics["rightsizer_samples_total"] == 3
    assert agent_report.metrics["rightsizer_samples_late_total"] == 0
    assert agent_report.metrics["rightsizer_history_writes_total"] == 0
    assert (
        agent_report.metrics["rightsizer_config_last_reload_success_timestamp_seconds"]
        == EPOCH / SECOND
    )
    jobs = [job.name for job in agent_report.jobs]
    assert jobs == ["recommend", "flush", "prune", "annotate", "label"]
    assert (agent_report.started, agent_report.interval_seconds, agent_report.source) == (
        EPOCH,
        60.0,
        "minutes",
    )


def test_profiles_are_listed_counted_and_judged_by_what_a_reload_says(tmp_path: Path) -> None:
    """Over a real connection; the next report has the counts."""
    file = "profiles: {rules: {profile_host_bound: {on_ratio: 0.9}}}"
    agents: list[Agent] = []

    def reread() -> Settings:
        return replace(agents[0].settings, profiles=load(Settings, file, "test.yaml").profiles)

    path = str(tmp_path / "history.db")
    with running(Session(3, 1, held=TRAINING), path, reread=reread) as agent:
        agents.append(agent)
        agent.start()
        agent.coordinator.run(threading.Event())
        agent.profiles.take([waiting_profile(EPOCH + 30 * SECOND)])
        agent.reloader.reload()
        agent.profiles.take([waiting_profile(EPOCH + 31 * SECOND)])
        agent.coordinator.run(threading.Event())
        (address,) = agent.server.addresses
        with urllib.request.urlopen(f"http://{address}/api/v1/profiles") as answer:
            listed = json.load(answer)["profiles"]
        report = agent.accounting.latest()
        agent.stop()

    assert sorted(each["outcome"] for each in listed) == ["complaint", "fine"]
    assert report is not None
    for outcome in ("complaint", "fine"):
        key = series_key("rightsizer_profiles_total", format="pytorch", outcome=outcome)
        assert report.agent.metrics[key] == 1


def test_agent_whose_sampling_loop_hangs_asks_to_be_restarted() -> None:
    """Its health, which probes watch, depends on no driver, but on ticks that end."""
    found: list[tuple[int, bytes]] = []

    def ask() -> None:
        (address,) = agent.server.addresses
        try:
            with urllib.request.urlopen(f"http://{address}/-/healthy") as answer:
                found.append((answer.status, answer.read()))
        except HTTPError as refusal:
            found.append((refusal.code, refusal.read()))

    with running(Minutes(3)) as agent:
        agent.start()
        ask()
        agent.coordinator.run(threading.Event())
        ask()
        agent._clock.wait_until(EPOCH + 6 * 60 * SECOND, threading.Event())
        ask()
        agent.stop()
    assert found[:2] == [(200, b"healthy\n")] * 2
    assert found[2] == (503, b"hangs: no tick has ended for 4 min\n")


def test_stopping_flushes(tmp_path: Path) -> None:
    """An orderly shutdown loses no sample."""
    path = str(tmp_path / "history.db")
    lived_through(Minutes(21), path)
    storage = Storage(path, read_only=True)
    assert storage.history is not None

    assert sum(window.accounted for window in storage.history.load()) == 20 * MINUTE
    storage.close()


def test_devices_of_the_history_are_expected(tmp_path: Path) -> None:
    """So a device missing from the driver is down, and alerts need no other source."""
    path = str(tmp_path / "history.db")
    lived_through(Minutes(21), path)
    expected: list[Device] = []
    with running(Minutes(1), path, expect=expected.extend) as agent:
        agent.start()
        agent.stop()

    assert expected == [gpu()]


def test_a_restart_goes_on_with_the_day(tmp_path: Path) -> None:
    """The second agent judges with the data flushed by the first."""
    path = str(tmp_path / "history.db")
    lived_through(Minutes(61), path)
    with running(Minutes(1), path) as agent, capture_logs() as logs:
        agent.start()
        (case,) = agent.accounting.snapshot(EPOCH + HOUR).cases(2 * HOUR)
        agent.stop()

    assert case.windows[0].accounted == HOUR
    assert [entry["windows"] for entry in logs if entry["event"] == "history_restored"] == [12]


def test_windows_of_a_clock_that_was_years_ahead_take_nothing_with_them(tmp_path: Path) -> None:
    """Otherwise all other windows would be too old to be loaded."""
    path = str(tmp_path / "history.db")
    lived_through(Minutes(61), path)
    with contextlib.closing(Storage(path)) as storage:
        assert storage.history is not None
        start = EPOCH + 400 * DAY
        storage.history.save([Window("GPU-0", start, start + MINUTE, {State.UNKNOWN: MINUTE})])
    with running(Minutes(1), path) as agent:
        agent.start()
        (case,) = agent.accounting.snapshot(EPOCH + HOUR).cases(2 * HOUR)
        agent.stop()

    assert case.windows[0].accounted == HOUR


def test_the_absence_of_devices_is_reported_once_and_so_is_their_return() -> None:
    """Not once a minute."""
    with capture_logs() as logs:
        lived_through(Minutes(20, absent=range(3, 12)))
    entries = [entry for entry in logs if entry["event"].startswith("devices_")]

    assert [entry["event"] for entry in entries] == ["devices_absent", "devices_found"]
    assert entries[0]["reason"] == "the driver is not loaded"


def test_a_driver_that_hangs_ever_longer_is_reported_once() -> None:
    """A longer hang is the same trouble."""

    class Hanging(Minutes):
        def read(self) -> Snapshot | None:
            seen = super().read()
            if seen is None or seen.trouble is None:
                return seen
            return replace(seen, trouble=f"NVML hangs in nvmlInit for {seen.time / 1e9:.1f} s")

    with capture_logs() as logs:
        lived_through(Hanging(20, absent=range(3, 12)))
    events = [entry["event"] for entry in logs if entry["event"].startswith("devices_")]

    assert events == ["devices_absent", "devices_found"]


def test_the_service_manager_hears_that_it_is_ready_alive_and_stopping(tmp_path: Path) -> None:
    """Ready only with the first sample; the watchdog follows the heartbeat."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(5)
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": str(300 * 10**6)}
        lived_through(Minutes(6), notifier=Notifier(environ))
        manager.setblocking(False)
        heard = []
        while True:
            try:
                heard.append(manager.recv(4096).decode())
            except BlockingIOError:
                break

    assert heard[0] == "READY=1"
    assert heard.count("WATCHDOG=1") == 2
    assert "STATUS=Devices sampled: 1; open advice: 0" in heard
    assert heard[-1] == "STOPPING=1"


def test_a_history_that_was_broken_is_reported(tmp_path: Path) -> None:
    """With the path of the damaged file."""
    path = tmp_path / "history.db"
    path.write_bytes(b"no database" * 1000)
    with running(Minutes(1), str(path)) as agent, capture_logs() as logs:
        agent.start()
        agent.stop()
    (lost,) = (entry for entry in logs if entry["event"] == "history_set_aside")

    assert Path(lost["moved_to"]).read_bytes().startswith(b"no database")


def test_a_port_that_is_in_use_is_named() -> None:
    """With possible owners, and the flag for another port."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        settings = Settings()
        web = replace(settings.web, listen_addresses=(f"127.0.0.1:{port}",))
        agent = Agent(
            replace(settings, web=web),
            Minutes(1),
            source_name="test",
            clock=FastClock(EPOCH),
            storage=Storage(""),
        )
        with pytest.raises(RightsizerError, match=rf"127.0.0.1:{port}: the port is in use"):
            agent.start()


def test_a_start_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread, no port, no locked history: another agent can start at once."""
    path = str(tmp_path / "history.db")
    source = Minutes(1)
    before = set(threading.enumerate())
    with running(source, path) as agent:
        monkeypatch.setattr(agent.jobs, "start", _raise)
        with pytest.raises(OSError, match="no more threads"):
            agent.start()
        assert source.is_closed
        assert agent.server.addresses == ()
        Storage(path).close()
    assert eventually(lambda: set(threading.enumerate()) <= before)


def test_a_part_that_cannot_be_closed_keeps_no_other_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reported; samples are on disk, and a second close is harmless."""
    path = str(tmp_path / "history.db")
    source = Minutes(3)
    for kind in (Jobs, WebServer, Reloader):
        monkeypatch.setattr(kind, "stop", _raise)
    with running(source, path) as agent, capture_logs() as logs:
        agent.start()
        agent.run(threading.Event())
        agent.close()
        parts = [entry["part"] for entry in logs if entry["event"] == "close_failed"]
        assert parts == ["reloader", "jobs", "server"]
        assert logs[-1]["event"] == "agent_stopped"
        assert source.is_closed
        storage = Storage(path)
        assert storage.history is not None
        assert len(list(storage.history.load())) == 1
        storage.close()
        monkeypatch.undo()
        for part in (agent.jobs, agent.server, agent.reloader):
            part.stop()


def _raise(*_: object) -> None:
    raise OSError("no more threads")


def test_every_rule_judges() -> None:
    """After an hour's run each has a verdict on the only device."""
    with running(Minutes(61)) as agent:
        agent.start()
        agent.coordinator.run(threading.Event())
        agent.jobs.run("recommend")
        judged = [judgement.finding.rule for judgement in agent.recommender.judgements]
        agent.stop()

    assert judged == [rule.name for rule in RULES]


def test_the_outcome_of_advice_is_reported() -> None:
    """A counter by reason and outcome, in the first report after the advice closed."""
    with running(Session(91, 120, 1)) as agent:
        agent.start()
        for _ in range(2):
            agent.coordinator.run(threading.Event())
            agent.jobs.run("recommend")
        agent.coordinator.run(threading.Event())
        report = agent.accounting.latest()
        agent.stop()
    name = "rightsizer_advice_outcomes_total"

    assert report is not None
    assert {key: count for key, count in report.agent.metrics.items() if key.startswith(name)} == {
        series_key(name, reason="IdleHeld", outcome="expired"): 1
    }
