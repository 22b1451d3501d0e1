"""An agent's data on disk after an orderly end or a kill, and its next start."""

import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Final

import pytest

from agent_process import AgentProcess, agent_process, eventually
from rightsizer.advice.storage import Storage
from rightsizer.model.units import seconds

CONFIG: Final = """\
sampling: {interval: 200ms}
history: {path: history.db, flush_interval: 1s}
web: {listen_addresses: ["127.0.0.1:0"]}
sources: {simulated: {scenario: eight-gpu-node}}
"""
JITTER: Final = 1_000_000
"""Nanoseconds: the wall and the monotonic clock are not read at once."""


def accounted(folder: Path) -> dict[str, float]:
    """Seconds in the history, by device; no window holds more than its span."""
    storage = Storage(str(folder / "history.db"), read_only=True)
    assert storage.history is not None
    found: dict[str, float] = {}
    for window in storage.history.load():
        if window.workload_key is not None:
            continue  # The same seconds by holder.
        assert window.accounted <= window.end - window.start + JITTER
        found[window.uuid] = found.get(window.uuid, 0.0) + seconds(window.accounted)
    storage.close()
    return found


def exported(agent: AgentProcess) -> dict[str, float]:
    """Seconds in the metrics, by device, since the agent started."""
    found: dict[str, float] = {}
    for (_, labels), value in agent.metrics("rightsizer_state_seconds_total").items():
        uuid = dict(labels)["uuid"]
        found[uuid] = found.get(uuid, 0.0) + value
    return found


def flushed(agent: AgentProcess) -> dict[str, float]:
    """Seconds by device that were certainly flushed."""
    eventually(lambda: sum(exported(agent).values()) > 8)
    certain = exported(agent)
    writes = agent.metric("rightsizer_history_writes_total")
    # The next flush may have begun before; the one after it has not.
    eventually(lambda: agent.metric("rightsizer_history_writes_total") >= writes + 2)
    return certain


def is_in(least: Mapping[str, float], found: Mapping[str, float]) -> bool:
    """Whether every device has at least as much."""
    return bool(least) and all(found.get(uuid, 0.0) >= time - 1e-6 for uuid, time in least.items())


def keep_scraping(agent: AgentProcess, stop: threading.Event) -> None:
    """Load, until there is no response."""
    while not stop.is_set():
        with suppress(OSError, HTTPException):
            agent.get("/metrics")
            agent.get("/")


def test_a_kill_under_load_costs_no_more_than_the_last_flush(tmp_path: Path) -> None:
    """The history opens again, its sums agree, and the next agent adds to them."""
    stop = threading.Event()
    with agent_process(tmp_path, config=CONFIG) as agent:
        loads = [threading.Thread(target=keep_scraping, args=(agent, stop)) for _ in range(3)]
        for load in loads:
            load.start()
        certain = flushed(agent)
        agent.end(signal.SIGKILL)
        stop.set()
        for load in loads:
            load.join()
    after_kill = accounted(tmp_path)
    assert len(after_kill) == 8
    assert is_in(certain, after_kill)

    with agent_process(tmp_path, config=CONFIG) as agent:
        (restored,) = agent.events("history_restored")
        more = flushed(agent)
        assert agent.end() == 0
    both = {uuid: after_kill[uuid] + more[uuid] for uuid in after_kill}

    assert restored["windows"] >= 8
    assert is_in(both, accounted(tmp_path))


def test_a_history_that_is_deleted_under_an_agent_is_there_at_the_next_start(
    tmp_path: Path,
) -> None:
    """With its whole contents; the metric and the log report the loss."""
    with agent_process(tmp_path, config=CONFIG) as agent:
        before = flushed(agent)
        for file in tmp_path.glob("history.db*"):
            file.unlink()
        eventually(lambda: agent.metric("rightsizer_history_breaks_total") == 1)
        after = flushed(agent)
        (entry,) = agent.events("history_lost")
        agent.end(signal.SIGKILL)

    assert "deleted" in entry["reason"]
    assert (tmp_path / "history.db").stat().st_mode & 0o777 == 0o600
    assert is_in(before, accounted(tmp_path))
    assert is_in(after, accounted(tmp_path))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_orderly_end_loses_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """The last exported data is on disk, whenever the last flush was."""
    config = CONFIG.replace("flush_interval: 1s", "flush_interval: 1h")
    with agent_process(tmp_path, config=config) as agent:
        eventually(lambda: sum(exported(agent).values()) > 8)
        last = exported(agent)
        status = agent.end(number)
        (ended,) = agent.events("agent_stopped")

    assert (status, ended["level"]) == (0, "info")
    assert is_in(last, accounted(tmp_path))


def test_counters_start_at_0_with_the_process(tmp_path: Path) -> None:
    """A restart is a counter reset, which Prometheus handles."""
    with agent_process(tmp_path, config=CONFIG) as agent:
        before = flushed(agent)
        agent.end()
    with agent_process(tmp_path, config=CONFIG) as agent:
        first = exported(agent)
        agent.end()

    assert sum(first.values()) < sum(before.values())
