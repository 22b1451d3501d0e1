"""An agent with and without captures: its jobs, counters, API answers, and how it stops."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from msgspec.structs import replace

from readings import EMPTY, EPOCH, gpu, snapshot
from rightsizer.advice.storage import Storage
from rightsizer.agent.agent import Agent
from rightsizer.agent.settings import Settings
from rightsizer.config.live_update import live_update
from rightsizer.io.clock import FastClock
from rightsizer.model.snapshot import Snapshot
from rightsizer.profiler.capture.settings import CaptureKind, CaptureSettings, DropFolderSettings
from rightsizer.profiler.settings import ProfileSettings


class Minutes:
    """A source of an empty GPU, with some readings a minute apart."""

    name = "minutes"

    def __init__(self, count: int) -> None:
        self._left = list(range(count))

    def read(self) -> Snapshot | None:
        """The next reading."""
        if not self._left:
            return None
        device = gpu()
        at = self._left.pop(0) * 60.0
        return snapshot(at, [device], {device: EMPTY}, interval_seconds=60.0)

    def close(self) -> None:
        """No resource is held."""


def settings_of(profiles: ProfileSettings) -> Settings:
    """Settings of an agent on loopback."""
    base = Settings()
    return replace(
        base,
        web=replace(base.web, listen_addresses=("127.0.0.1:0",)),
        sampling=replace(base.sampling, interval=60.0),
        profiles=profiles,
    )


def capturing(folder: Path) -> ProfileSettings:
    """Settings with a capture program."""
    return ProfileSettings(
        drop_folder=DropFolderSettings(str(folder)),
        capture=CaptureSettings(kind=CaptureKind.COMMAND, command=("true",)),
    )


@contextmanager
def running(profiles: ProfileSettings) -> Iterator[Agent]:
    """An agent that is started, and stopped at the end."""
    storage = Storage("")
    agent = Agent(
        settings_of(profiles),
        Minutes(3),
        source_name="minutes",
        clock=FastClock(EPOCH),
        storage=storage,
    )
    agent.start()
    try:
        yield agent
    finally:
        agent.run(threading.Event())
        storage.close()


def capture_status(agent: Agent) -> Any:
    """Captures in the API's status."""
    with urlopen(f"http://{agent.server.addresses[0]}/api/v1/captures", timeout=10) as answer:
        return json.loads(answer.read())


def jobs(agent: Agent) -> list[str]:
    """Jobs beside sampling."""
    return [report.name for report in agent.jobs.reports()]


def test_an_agent_that_nobody_asked_captures_nothing() -> None:
    """It has no job and no counter, and its API says that captures are off."""
    with running(ProfileSettings()) as agent:
        assert capture_status(agent) == {
            "kind": "none",
            "captures": [],
            "candidates": [],
            "files": [],
        }
    report = agent.accounting.latest()
    assert report is not None
    assert not {"profiles", "capture"} & set(jobs(agent))
    assert not any("captures" in name for name in report.agent.metrics)


def test_a_drop_folder_alone_is_read(tmp_path: Path) -> None:
    """No capture program is called for it."""
    with running(ProfileSettings(drop_folder=DropFolderSettings(str(tmp_path)))) as agent:
        assert capture_status(agent)["kind"] == "none"
        assert set(jobs(agent)) >= {"profiles"}
        assert "capture" not in jobs(agent)


def test_an_agent_that_captures_counts_every_outcome_from_the_start(tmp_path: Path) -> None:
    """Rates and alerts therefore work from the first capture on."""
    with running(capturing(tmp_path)) as agent:
        assert capture_status(agent)["kind"] == "command"
        assert set(jobs(agent)) >= {"profiles", "capture"}
    report = agent.accounting.latest()
    assert report is not None
    outcomes = {name: value for name, value in report.agent.metrics.items() if "captures" in name}
    assert outcomes == {
        f'rightsizer_captures_total{{outcome="{each}"}}': 0.0
        for each in ("landed", "empty", "failed", "timed_out", "interrupted")
    }


def test_captures_change_with_a_restart_alone(tmp_path: Path) -> None:
    """A reload logs that, and applies the rest of the section."""
    before = settings_of(ProfileSettings())
    wanted = replace(capturing(tmp_path), valid_for=7200.0)
    after, waiting = live_update(before, settings_of(wanted))
    assert after.profiles == ProfileSettings(valid_for=7200.0)
    assert set(waiting) == {
        "profiles.drop_folder.path",
        "profiles.capture.kind",
        "profiles.capture.command",
    }
