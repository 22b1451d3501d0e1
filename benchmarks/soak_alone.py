"""A program that runs a whole agent in fast motion, and prints its resource use.

Its argument is `hour`, at one reading a second through the driver bindings, or `week`, at one a
minute straight from the model of the node.
"""

import gc
import json
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec.structs import replace
from process import memory_mebibytes

from rightsizer.advice.storage import Storage
from rightsizer.agent.agent import Agent
from rightsizer.agent.settings import Settings
from rightsizer.agent.sources import live_source
from rightsizer.catalogue.catalogue import built_in
from rightsizer.host.settings import PathSettings
from rightsizer.io.clock import FastClock
from rightsizer.io.heap import keep_compact
from rightsizer.io.log import configure
from rightsizer.io.log_settings import LogFormat, LogLevel
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource
from rightsizer.telemetry.settings import SimulatedSettings
from rightsizer.telemetry.source import SnapshotSource

_SCENARIO: Final = "eight-gpu-node"
_HOUR: Final = 3600.0
_DAY: Final = 86400.0
_RECOMMEND_SECONDS: Final = {"hour": 600.0, "week": 7200.0}
_FLUSH_SECONDS: Final = {"hour": 60.0, "week": 1800.0}
_SCRAPE_SECONDS: Final = {"hour": 15.0, "week": 7200.0}
_REQUEST: Final = b"GET %b HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n"
_LOOK_SECONDS: Final = {"hour": 300.0, "week": 7200.0}


@dataclass
class PeriodicTask:
    """A task that runs at intervals of the agent's clock."""

    seconds: float
    run: Callable[[], object]
    due: Nanoseconds = 0

    def at(self, now: Nanoseconds) -> None:
        """Run it if it is due."""
        if not self.due:
            self.due = now
        if now >= self.due:
            self.due = now + nanoseconds(self.seconds)
            self.run()


@dataclass
class Watched:
    """A source that ends after a while, with what happens beside it at set times."""

    source: SnapshotSource
    clock: FastClock
    until: Nanoseconds
    tasks: list[PeriodicTask] = field(default_factory=list)

    def read(self) -> Snapshot | None:
        """The next snapshot, after whatever is due."""
        now = self.clock.time()
        for task in self.tasks:
            task.at(now)
        return None if now >= self.until else self.source.read()

    def close(self) -> None:
        """Close it."""
        self.source.close()


def main(span: str) -> None:
    """Live, and tell memory by hour of life, CPU and counts."""
    # As the service does.
    keep_compact()
    # What it logs is not what is measured.
    configure(LogFormat.JSON, LogLevel.ERROR, repeat_interval_seconds=0.0)
    sizes: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        agent, watched = _agent(span, Path(name))
        start = watched.clock.time()
        agent.start()
        gc.collect()
        gc.freeze()
        counts = _schedule(agent, watched, span)

        def look() -> None:
            gc.collect()
            hours = (watched.clock.time() - start) / NANOSECONDS_PER_SECOND / _HOUR
            sizes.append((hours, memory_mebibytes()))

        watched.tasks.append(PeriodicTask(_HOUR if span == "week" else 600.0, look))
        used = time.process_time()
        agent.run(threading.Event())
        used = time.process_time() - used
        samples = agent.coordinator.samples
    json.dump({"sizes": sizes, "cpu_seconds": used, "samples": samples, **counts}, sys.stdout)


def _agent(span: str, folder: Path) -> tuple[Agent, Watched]:
    settings = Settings()
    web = replace(settings.web, listen_addresses=("127.0.0.1:0",))
    simulated = SimulatedSettings(scenario=_SCENARIO)
    settings = replace(
        settings,
        web=web,
        path=PathSettings(api_socket=""),
        sources=replace(settings.sources, simulated=simulated),
        sampling=replace(settings.sampling, interval=1.0 if span == "hour" else 60.0),
    )
    start = DEFAULT_START + nanoseconds(10 * _HOUR)
    length = nanoseconds(_HOUR)
    if span == "week":
        length = nanoseconds(7 * _DAY) + NANOSECONDS_PER_SECOND
    clock = FastClock(start)
    source = Watched(_source(settings, clock, span), clock, start + length)
    storage = Storage(str(folder / "history.db"), maximum_bytes=settings.history.maximum_size_bytes)
    return Agent(settings, source, source_name=span, clock=clock, storage=storage), source


def _source(settings: Settings, clock: FastClock, span: str) -> SnapshotSource:
    if span == "hour":
        return live_source(settings, clock).source
    catalogue = built_in()
    interval = nanoseconds(settings.sampling.interval)
    scenario = load_scenario(_SCENARIO, catalogue)
    return SimulatedSource(
        scenario, catalogue, start=clock.time(), interval=interval, duration=None
    )


def _schedule(agent: Agent, watched: Watched, span: str) -> dict[str, int]:
    """Schedule jobs and readers by the agent's clock."""
    counts = {"scrapes": 0, "pages": 0, "recommended": 0}

    def get(path: str, what: str) -> None:
        host, _, port = agent.server.addresses[0].rpartition(":")
        # No client of HTTP: what it loads is none of what the agent costs.
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(_REQUEST % path.encode())
            with connection.makefile("rb") as answer:
                assert answer.read().startswith(b"HTTP/1.1 200 ")
        counts[what] += 1

    def recommend() -> None:
        agent.recommend()
        counts["recommended"] += 1

    watched.tasks += [
        PeriodicTask(_FLUSH_SECONDS[span], agent.history_service.flush),
        PeriodicTask(_RECOMMEND_SECONDS[span], recommend),
        PeriodicTask(_HOUR, agent.history_service.prune),
        PeriodicTask(_SCRAPE_SECONDS[span], lambda: get("/metrics", "scrapes")),
        PeriodicTask(_LOOK_SECONDS[span], lambda: get("/", "pages")),
    ]
    return counts


if __name__ == "__main__":
    main(sys.argv[1])
