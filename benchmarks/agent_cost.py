"""An agent at 1 Hz on eight simulated H100, in a process of its own, scraped every 15 seconds."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from agent_process import AgentProcess, agent_process, eventually
from benchmarks.month_history import SCENARIO, fill
from benchmarks.options import Options
from benchmarks.process import cpu_seconds, memory_mebibytes
from benchmarks.simulator_cost import simulator_cost
from measured import Figure

_MOST_MEBIBYTES: Final = 45.0
_MOST_CPU_PERCENT: Final = 0.6
_SCRAPE_EVERY_SECONDS: Final = 15.0
_DAYS: Final = 30
_TICKS: Final = 5


def measure(options: Options) -> Iterator[Figure]:
    """CPU and memory of the agent, and what of it is the simulator's."""
    with tempfile.TemporaryDirectory() as name, _agent(Path(name)) as agent:
        _live(agent, options.seconds / 4)
        cpu = cpu_seconds(agent.process.pid)
        ticks = agent.metric("rightsizer_samples_total")
        started = time.monotonic()
        _live(agent, options.seconds)
        elapsed = time.monotonic() - started
        used = cpu_seconds(agent.process.pid) - cpu
        ticks = agent.metric("rightsizer_samples_total") - ticks
        resident = memory_mebibytes(agent.process.pid)
    simulator = simulator_cost(options)
    own = used / ticks - simulator.cpu_seconds_per_tick
    yield Figure(
        "CPU of the agent, of one core", 100 * own * ticks / elapsed, "%", _MOST_CPU_PERCENT
    )
    yield Figure("the same with the simulated driver in it", 100 * used / elapsed, "%", is_row=True)
    yield Figure("CPU of a tick, the driver's part apart", 1e3 * own, "ms")
    inside = 1e3 * simulator.cpu_seconds_per_tick
    yield Figure("CPU of a tick inside the simulated driver", inside, "ms", is_row=True)
    yield Figure("driver calls of a tick", simulator.calls_per_tick)
    own = resident - simulator.mebibytes
    yield Figure("memory of the agent (RSS)", own, "MiB", _MOST_MEBIBYTES)
    yield Figure("the same with the simulated driver in it", resident, "MiB", is_row=True)
    yield from _after_thirty_days(simulator.mebibytes)


def _after_thirty_days(simulator_mebibytes: float) -> Iterator[Figure]:
    """Cost with a full history, then with a configuration, a recommender and a page too."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder / "history.db", _DAYS)
        with _agent(folder) as agent:
            eventually(lambda: agent.metric("rightsizer_samples_total") >= _TICKS)
            restored = memory_mebibytes(agent.process.pid)
            agent.end()
        with _agent(folder, "recommender: {interval: 10s, jitter: 0}") as agent:
            ran = eventually(lambda: _recommender_seconds(agent), 60)
            agent.get("/")
            eventually(lambda: agent.metric("rightsizer_job_runs_total", name="recommend") > 1, 60)
            everything = memory_mebibytes(agent.process.pid)
            agent.end()
    yield Figure("memory with thirty days of history", restored - simulator_mebibytes, "MiB")
    yield Figure(
        "the same with a configuration file, a page and a run of the recommender",
        everything - simulator_mebibytes,
        "MiB",
    )
    yield Figure("a run of the recommender over thirty days", 1e3 * ran, "ms")


def _recommender_seconds(agent: AgentProcess) -> float:
    return agent.metric("rightsizer_job_last_duration_seconds", name="recommend")


def _agent(folder: Path, config: str = "") -> AbstractContextManager[AgentProcess]:
    return agent_process(
        folder,
        "--simulated.scenario",
        SCENARIO,
        "--web.listen-address",
        "127.0.0.1:0",
        "--history.path",
        str(folder / "history.db"),
        config=config,
        is_measured=True,
    )


def _live(agent: AgentProcess, duration_seconds: float) -> None:
    """Let time pass, and scrape now and then as Prometheus would."""
    end = time.monotonic() + duration_seconds
    while (left := end - time.monotonic()) > 0:
        agent.get("/metrics")
        time.sleep(min(left, _SCRAPE_EVERY_SECONDS))
