"""The demonstration: its clock, its memory, and the addresses it prints."""

import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from readings import DAY, EPOCH, HOUR, MINUTE, SECOND
from rightsizer.advice.storage import Storage
from rightsizer.agent.agent import Agent
from rightsizer.agent.settings import Settings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.cli.demo import (
    DemoClock,
    DemoSettings,
    backfill,
    pages_text,
    run_demo,
    told_at,
)
from rightsizer.io.clock import FastClock
from rightsizer.model.errors import RightsizerError
from rightsizer.model.report import AgentReport
from rightsizer.model.state import State
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource
from rightsizer.simulator.workloads import TaskSchedule

NEVER: Final = threading.Event()
TELLER: Final = AgentReport("0", "test", EPOCH, 10.0)


class Silent:
    """A source without readings."""

    name = "silent"

    def read(self) -> None:
        """Read nothing."""

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture
def agent() -> Iterator[Agent]:
    """An agent that has not started."""
    storage = Storage("")
    yield Agent(Settings(), Silent(), source_name="test", clock=FastClock(EPOCH), storage=storage)
    storage.close()


def test_the_clock_is_fast_until_it_has_caught_up_with_the_world() -> None:
    """The demonstration shows a day in minutes, and its samples are current afterwards.

    A clock that stayed behind would raise the alert on missing samples.
    """
    world = EPOCH + DAY + SECOND // 100
    clock = DemoClock(EPOCH, 1e9, lambda: world)
    clock.wait_until(EPOCH + DAY, NEVER)
    behind = clock.speed
    stopped = threading.Event()
    stopped.set()
    clock.wait_until(world + SECOND // 100, stopped)
    in_step = clock.speed
    world += MINUTE
    clock.wait_until(world - SECOND, NEVER)

    assert (behind, in_step, clock.speed) == (1e9, 1.0, 1e9)
    assert clock.time() == world - SECOND


def test_days_before_the_demonstration_are_accounted_for(agent: Agent) -> None:
    """Rules have a past to judge, and the page still begins empty."""
    # The scenario trains from eight to eight and is empty at night.
    until = DEFAULT_START + DAY + 20 * HOUR
    demo = DemoSettings(scenario="single-h100", days_before=1.0, memory_tick_seconds=300.0)
    progress: list[tuple[str, int, int]] = []
    backfill(agent, demo, until, lambda *step: progress.append(step))
    (case,) = agent.accounting.snapshot(until).cases(DAY)
    (window,) = case.windows

    assert progress == [("history", number, 288) for number in range(289)]

    assert agent.accounting.latest() is None
    assert case.workload is not None
    assert case.workload.name == "train"
    assert window.accounted == pytest.approx(12 * HOUR, abs=600 * SECOND)
    assert window.states[State.COMPUTE_BOUND] > 11 * HOUR


def test_memory_and_first_tick_meet(agent: Agent) -> None:
    """A gap between the two would appear on the page."""
    until = DEFAULT_START + 12 * HOUR
    demo = DemoSettings(scenario="single-h100", days_before=0.125, memory_tick_seconds=300.0)
    catalogue = built_in()
    live = SimulatedSource(
        load_scenario(demo.scenario, catalogue),
        catalogue,
        start=until,
        interval=10 * SECOND,
        duration=HOUR,
    )
    backfill(agent, demo, until)
    for _ in range(7):
        seen = live.read()
        assert seen is not None
        report = agent.accounting.post(seen, (), lambda: TELLER)
    (case,) = agent.accounting.snapshot(until + MINUTE).cases(DAY)
    (device,) = report.devices
    live.close()

    assert State.UNKNOWN not in case.windows[0].states
    assert case.windows[0].accounted == pytest.approx(DAY / 8 + MINUTE, abs=SECOND)
    assert device.totals.state_seconds.get(State.UNKNOWN, 0.0) == 0.0
    assert all(State.UNKNOWN not in cell.states for cell in device.strip)


@pytest.mark.parametrize("hour", [0.0, 1.0, 9.75, 14.5, 23.9])
def test_the_story_is_the_same_at_any_hour(hour: float) -> None:
    """Of a built-in scenario; times in a file of one's own are UTC as written."""
    end = DEFAULT_START + DAY + round(hour * HOUR)
    demo = told_at(DemoSettings(), end)
    scenario = load_scenario(demo.scenario, built_in(), demo.midnight_seconds)
    notebook = next(task for task in scenario.tasks if task.workload.name == "notebook-ana")
    since_start = TaskSchedule(notebook, 1).elapsed_seconds(end)

    assert since_start == pytest.approx(6 * 3600.0)
    assert told_at(DemoSettings(scenario="mine.yaml"), end).midnight_seconds == 0.0


def test_a_demonstration_without_a_past_has_none(agent: Agent) -> None:
    """`--days-before 0` starts at once."""
    backfill(agent, DemoSettings(days_before=0.0), DEFAULT_START)

    assert agent.accounting.snapshot(DEFAULT_START).cases(DAY) == ()


def test_people_are_told_where_to_look() -> None:
    """Three clickable addresses, and how to end it."""
    text = pages_text("127.0.0.1:19400")

    assert "http://127.0.0.1:19400/\n" in text
    assert "http://127.0.0.1:19400/metrics\n" in text
    assert "http://127.0.0.1:19400/api/v1/advice\n" in text
    assert "Ctrl-C" in text


def test_command_is_named_by_its_path_where_the_environment_is_not_activated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The printed command works in the folder where `make run` was called."""
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    program = folder / "rightsizer"
    program.touch(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.chdir(tmp_path)

    monkeypatch.setenv("PATH", str(tmp_path))
    assert "  terminal  .venv/bin/rightsizer top --url " in pages_text("127.0.0.1:19400")
    monkeypatch.setenv("PATH", str(folder))
    assert "  terminal  rightsizer top --url " in pages_text("127.0.0.1:19400")


def test_port_in_use_is_reported_before_the_days_before_are_simulated() -> None:
    """The error is immediate, and names the port."""
    lines: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(
            RightsizerError, match=f"cannot listen on {address}: the port is in use"
        ):
            run_demo(DemoSettings(listen_address=address), lines.append)

    assert lines == []


def test_progress_of_the_day_is_told_by_its_latest_pace() -> None:
    """A slow beginning is corrected as the day goes on; nothing is told once it has passed."""
    world = EPOCH + DAY
    told: list[tuple[int, float]] = []
    clock = DemoClock(EPOCH, 1e9, lambda: world, lambda *progress: told.append(progress))
    for step in range(1, 9):
        clock.wait_until(EPOCH + step * 3 * HOUR, NEVER)
        world += (100 if step == 1 else 10) * SECOND
    stopped = threading.Event()
    stopped.set()
    for step in range(9, 20):
        world = EPOCH + step * 3 * HOUR
        clock.wait_until(world + SECOND, stopped)

    assert [pace for _, pace in told] == [
        pytest.approx(108, rel=0.01),
        *[pytest.approx(1080, rel=0.01)] * 6,
    ]
    assert [behind // HOUR for behind, _ in told] == [21, 18, 15, 12, 9, 6, 3]
