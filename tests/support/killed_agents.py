"""Kills agents with -9 at random moments under load, and reads their data on disk."""

import json
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from agent_process import eventually
from forked_command import RIGHTSIZER, ForkedCommand, forked_command
from rightsizer.advice.storage import MIGRATIONS, Storage
from rightsizer.io.database import Database
from rightsizer.model.units import Nanoseconds, nanoseconds, seconds
from rightsizer.model.window import Window

__all__ = ["FLUSH_SECONDS", "Killed", "kill_agents"]

FLUSH_SECONDS: Final = 1.0
_CONFIG: Final = f"""\
sampling: {{interval: 200ms}}
history: {{path: history.db, flush_interval: {FLUSH_SECONDS:g}s}}
web: {{listen_addresses: ["127.0.0.1:0"], metrics: {{level: full}}}}
sources: {{simulated: {{scenario: t4-pair}}}}
path: {{api_socket: ""}}
"""
_PAUSE_SECONDS: Final = 0.05
_LONGEST_LIFE_SECONDS: Final = 2.5
"""Longest life after the first flush."""


class _Glance(Struct, frozen=True):
    """One scrape."""

    until: Nanoseconds
    """Wall time at its end; its values were accounted for before."""
    accounted: Mapping[str, float]
    """Seconds by device."""
    flushed_from: Nanoseconds
    """Start of the last completed flush, or 0."""


class Killed(Struct, frozen=True):
    """The data left by one agent."""

    certain: Mapping[str, float]
    """Seconds by device that a completed flush must have saved."""
    kept: Mapping[str, float]
    """Seconds by device in the history."""
    unbalanced_seconds: float
    """Largest difference between a device's states and its wall time, first to last window."""
    apart_seconds: float
    """Largest gap between consecutive windows."""
    missing_seconds: float
    """From the end of the saved data to the kill."""
    verdict: str
    """SQLite's integrity check of the whole file; `ok` without errors."""
    was_set_aside: bool

    @property
    def is_complete(self) -> bool:
        """Whether all flushed data is there."""
        return bool(self.certain) and all(
            self.kept.get(uuid, 0.0) >= time - 1e-6 for uuid, time in self.certain.items()
        )


def kill_agents(folder: Path, count: int, seed: int) -> list[Killed]:
    """Run agents in parallel, constantly scraped; kill each at a random time."""
    folders = [folder / str(number) for number in range(count)]
    for path in folders:
        path.mkdir(parents=True)
        (path / "rightsizer.yaml").write_text(_CONFIG)
    chance = random.Random(seed)
    with _agents(folders) as agents:
        victims = [
            _Victim(each, agent, chance.uniform(0.0, _LONGEST_LIFE_SECONDS), bool(number % 2))
            for number, (each, agent) in enumerate(zip(folders, agents, strict=True))
        ]
        for victim in victims:
            victim.start()
        for victim in victims:
            victim.join()
            victim.raise_trouble()
    return [victim.autopsy() for victim in victims]


class _Victim(threading.Thread):
    """An agent, and its scraper until its death."""

    def __init__(
        self,
        folder: Path,
        agent: ForkedCommand,
        life_seconds: float,
        in_a_write: bool,  # noqa: FBT001
    ) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._agent = agent
        self._life_seconds = life_seconds
        self._in_a_write = in_a_write
        self._glances: list[_Glance] = []
        self._killed: Nanoseconds = 0
        self._trouble: Exception | None = None

    def run(self) -> None:
        try:
            self._live()
        except Exception as error:  # noqa: BLE001 - told by the one who waits for the thread.
            self._trouble = error

    def raise_trouble(self) -> None:
        """Raise the reason why the kill was impossible, with the agent's output."""
        if self._trouble is not None:
            raise AssertionError((self._folder / "log").read_text()) from self._trouble

    def _live(self) -> None:
        address = eventually(self._address, 60.0)
        # Only devices present before can be required of a flush.
        while not self._glances or not self._glances[-1].flushed_from > self._glances[0].until:
            self._glance(address)
        end = time.monotonic() + self._life_seconds
        while time.monotonic() < end:
            self._glance(address)
        if self._in_a_write:
            self._wait_for_a_write()
        self._killed = time.time_ns()
        self._agent.kill()

    def autopsy(self) -> Killed:
        """The data left by the agent."""
        last = self._glances[-1]
        certain = [glance for glance in self._glances if glance.until < last.flushed_from]
        path = self._folder / "history.db"
        with closing(Database(path, MIGRATIONS)) as database, database.transaction() as connection:
            (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            was_set_aside = database.set_aside is not None
        windows = _windows(path)
        assert windows, (self._folder / "log").read_text()
        return Killed(
            certain=certain[-1].accounted if certain else {},
            kept={uuid: seconds(_accounted(window)) for uuid, window in windows.items()},
            unbalanced_seconds=max(
                abs(seconds(_accounted(window) - (window[-1].end - window[0].start)))
                for window in windows.values()
            ),
            apart_seconds=max(
                (
                    abs(seconds(after.start - before.end))
                    for window in windows.values()
                    for before, after in pairwise(window)
                ),
                default=0.0,
            ),
            missing_seconds=max(
                seconds(self._killed - window[-1].end) for window in windows.values()
            ),
            verdict=str(verdict),
            was_set_aside=was_set_aside,
        )

    def _address(self) -> str:
        log = self._folder / "log"
        for line in log.read_text().splitlines() if log.exists() else ():
            if '"agent_started"' in line:
                return str(json.loads(line)["addresses"])
        return ""

    def _glance(self, address: str) -> None:
        with urlopen(f"http://{address}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        until = time.time_ns()
        accounted: dict[str, float] = {}
        flushed_from = 0
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == "rightsizer_state_seconds_total":
                    uuid = sample.labels["uuid"]
                    accounted[uuid] = accounted.get(uuid, 0.0) + sample.value
                elif (
                    sample.name == "rightsizer_job_last_start_timestamp_seconds"
                    and sample.labels["name"] == "flush"
                ):
                    flushed_from = nanoseconds(sample.value)
        if accounted:
            self._glances.append(_Glance(until, accounted, flushed_from))
        time.sleep(_PAUSE_SECONDS)

    def _wait_for_a_write(self) -> None:
        """Wait until the log grows, so that a change is in progress."""
        log = self._folder / "history.db-wal"
        before = log.stat().st_mtime_ns
        while log.stat().st_mtime_ns == before:
            time.sleep(0)


@contextmanager
def _agents(folders: Sequence[Path]) -> Iterator[list[ForkedCommand]]:
    with ExitStack() as stack:
        agents = []
        for folder in folders:
            with (folder / "log").open("wb") as log, Path(os.devnull).open("rb") as nothing:
                agent = forked_command(
                    [*RIGHTSIZER, "agent", "--config.file", "rightsizer.yaml"],
                    (nothing, log, log),
                    folder=folder,
                    environment=dict(os.environ),
                )
            stack.callback(agent.wait)
            stack.callback(agent.kill)
            agents.append(agent)
        yield agents


def _windows(path: Path) -> dict[str, list[Window]]:
    storage = Storage(str(path), read_only=True)
    assert storage.history is not None
    windows: dict[str, list[Window]] = {}
    for window in storage.history.load():
        if window.workload_key is None:
            windows.setdefault(window.uuid, []).append(window)
    storage.close()
    return windows


def _accounted(windows: Sequence[Window]) -> Nanoseconds:
    return sum(window.accounted for window in windows)
