"""One agent under one fault, from its start to its end, as a row of the table."""

import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

from msgspec import Struct

from benchmarks.process import memory_mebibytes
from benchmarks.reliability.fault import BEGIN_SECONDS, Fault
from benchmarks.reliability.node import GPUS, Node
from benchmarks.reliability.scraper import Scrape, Scraper
from benchmarks.reliability.shim import was_struck
from rightsizer.advice.storage import Storage
from rightsizer.model.errors import RightsizerError
from rightsizer.model.units import seconds

_PATIENCE_SECONDS: Final = 45.0
_AFTERWARDS_SECONDS: Final = 3.0
"""How long a recovered agent is still watched: some recover and fall again."""
_END_MAXIMUM_SECONDS: Final = 5.5
"""Five, and a start of the process that waits for it."""
_CLOCK_STEP_SECONDS: Final = 30.0
"""Difference of two clocks from which the agent's is taken to be set."""
_WARNINGS: Final = frozenset({"warning", "error", "critical"})


class Outcome(Struct, frozen=True):
    """Result of a trial."""

    group: str
    fault: str
    scrapes: int
    unanswered: int
    longest_seconds: float
    """Of a scrape."""
    recovered_seconds: float | None
    """From the end of the fault until all GPUs were read again; `None` where they never were."""
    has_faulty_gpus: bool
    lost_seconds: tuple[float, float]
    """Without a known state: of the GPUs with the fault, and of the others, at most."""
    history_lost_seconds: float | None
    """Accounted time that is not in the history; `None` where that cannot be read."""
    logged: tuple[str, ...]
    """Events at level warning and above."""
    counted: tuple[str, ...]
    """Metrics that count trouble and grew, or that showed 0."""
    strangers: tuple[str, ...]
    """Workloads that an action was run for, though the fault is none of theirs."""
    peak_mebibytes: float
    ended_seconds: float | None
    """From SIGTERM to the end; `None` if it had to be killed."""
    exit_status: int | None
    was_planted: bool = True
    """Whether the fault has met a call, where that can be told."""
    devices: int = GPUS
    """Listed in the last scrape, without MIG instances."""
    refusal: str = ""
    """What it said where it did not start under the fault."""

    @property
    def troubles(self) -> tuple[str, ...]:
        """What must not be."""
        if self.refusal and not self.scrapes:
            return (f"it does not start: {self.refusal}",)
        troubles = {
            f"it does not start: {self.refusal}": bool(self.refusal),
            "the fault has met nothing": not self.was_planted,
            f"{self.devices} GPUs are listed": self.devices > GPUS,
            "all GPUs are not read again": self.recovered_seconds is None,
            "the history cannot be read": self.history_lost_seconds is None,
            f"acted for {', '.join(self.strangers)}": bool(self.strangers),
            "SIGTERM did not end it in time": self.ended_seconds is None
            or self.ended_seconds > _END_MAXIMUM_SECONDS,
            f"exit status {self.exit_status}": self.exit_status != 0,
        }
        return tuple(trouble for trouble, is_there in troubles.items() if is_there)


class Observation(Struct, frozen=True):
    """What was seen of an agent while it ran."""

    scrapes: Sequence[Scrape]
    recovered_seconds: float | None
    peak_mebibytes: float
    ended_seconds: float | None
    refusal: str


def attempt(fault: Fault) -> Outcome:
    """Run an agent, plant the fault, and watch it recover."""
    with tempfile.TemporaryDirectory(prefix="reliability-") as name:
        node = Node.in_folder(Path(name), fault.scenario, fault.config)
        scraper = Scraper(node)
        try:
            if fault.prepare is not None:
                fault.prepare(node)
            launched = time.monotonic()
            refusal = _start(fault, node)
            if not node.runs():
                return _outcome(fault, node, Observation((), None, 0.0, None, refusal))
            scraper.start()
            # The times of a scenario's fault begin at the launch.
            is_timed = fault.scenario and not fault.lasts and fault.plant is None
            started = launched if is_timed else time.monotonic()
            lifted = _suffer(fault, node, started)
            recovered = _recovery(scraper, lifted, fault)
            time.sleep(_AFTERWARDS_SECONDS)
            scraper.stop()
            peak = memory_mebibytes(node.pid, "VmHWM") if node.runs() else 0.0
            ended = node.end() if node.runs() else None
            observation = Observation(scraper.scrapes, recovered, peak, ended, refusal)
            return _outcome(fault, node, observation)
        finally:
            node.close()


def failed(fault: Fault, error: Exception) -> Outcome:
    """A trial that came to no end."""
    return Outcome(
        group=fault.group.name,
        fault=fault.name,
        scrapes=0,
        unanswered=0,
        longest_seconds=0.0,
        recovered_seconds=None,
        has_faulty_gpus=False,
        lost_seconds=(0.0, 0.0),
        history_lost_seconds=None,
        logged=(),
        counted=(),
        strangers=(),
        peak_mebibytes=0.0,
        ended_seconds=None,
        exit_status=None,
        refusal=f"the trial failed: {type(error).__name__}: {error}",
    )


def _start(fault: Fault, node: Node) -> str:
    """Start the agent; what it says where it refuses, and starts only without the fault."""
    try:
        node.start()
    except TimeoutError as error:
        words = node.last_words() or str(error)
        if fault.lift is not None:
            fault.lift(node)
        with suppress(TimeoutError):
            node.start()
        return words
    return ""


def _suffer(fault: Fault, node: Node, started: float) -> float:
    """Plant and lift the fault; the time at which it was lifted."""
    if fault.plant is not None:
        time.sleep(max(0.0, started + BEGIN_SECONDS - time.monotonic()))
        fault.plant(node)
        time.sleep(fault.seconds)
        if fault.lift is not None:
            fault.lift(node)
        return time.monotonic()
    begin = 0.0 if fault.is_at_start else BEGIN_SECONDS
    end = started + begin + fault.seconds
    time.sleep(max(0.0, end - time.monotonic()))
    if fault.lift is not None:
        fault.lift(node)
    return max(end, time.monotonic())


def _recovery(scraper: Scraper, lifted: float, fault: Fault) -> float | None:
    """Time until every GPU was read again; `None` if no scrape in time shows it."""
    expected = GPUS - len(fault.gpus) if fault.lasts else GPUS
    while time.monotonic() < lifted + _PATIENCE_SECONDS:
        for scrape in list(scraper.scrapes):
            if scrape.time_seconds >= lifted and scrape.devices_up >= expected:
                return scrape.time_seconds + scrape.took_seconds - lifted
        time.sleep(0.1)
    return None


def _outcome(fault: Fault, node: Node, observation: Observation) -> Outcome:
    scrapes = observation.scrapes
    answered = [scrape for scrape in scrapes if scrape.is_answered]
    events = {str(line["event"]) for line in node.log() if line.get("level") in _WARNINGS}
    return Outcome(
        group=fault.group.name,
        fault=fault.name,
        scrapes=len(scrapes),
        unanswered=len(scrapes) - len(answered),
        longest_seconds=max((scrape.took_seconds for scrape in scrapes), default=0.0),
        recovered_seconds=observation.recovered_seconds,
        has_faulty_gpus=bool(fault.gpus),
        lost_seconds=lost_seconds(fault, answered),
        history_lost_seconds=_history_lost_seconds(node.history, answered),
        logged=tuple(sorted(events)),
        counted=_counted(answered),
        strangers=tuple(name for name in node.acted_for() if name not in fault.may_act_for),
        peak_mebibytes=observation.peak_mebibytes,
        ended_seconds=observation.ended_seconds,
        exit_status=node.exit_status,
        was_planted=was_struck(node) and not node.is_unmet,
        devices=_devices(answered),
        refusal=observation.refusal,
    )


def lost_seconds(fault: Fault, scrapes: Sequence[Scrape]) -> tuple[float, float]:
    """Seconds of no known state: of the GPUs with the fault, and of the others."""
    reads = [
        (scrape.time_seconds, device.last_read_seconds)
        for scrape in scrapes
        for device in scrape.devices.values()
        if device.last_read_seconds
    ]
    lost = {True: 0.0, False: 0.0}
    for uuid in scrapes[-1].devices if scrapes else ():
        seen = [scrape for scrape in scrapes if uuid in scrape.devices]
        samples = [scrape.devices[uuid] for scrape in seen]
        if not samples[-1].last_read_seconds:
            continue
        began, first_read = reads[0]
        passed = samples[-1].last_read_seconds - first_read
        on_our_clock = seen[-1].time_seconds - began
        if abs(passed - on_our_clock) > _CLOCK_STEP_SECONDS:
            passed = on_our_clock
        known = _increase([sample.known_seconds for sample in samples])
        is_faulty = any(samples[-1].gpu == str(gpu) for gpu in fault.gpus)
        lost[is_faulty] = max(lost[is_faulty], passed - known)
    return lost[True], lost[False]


def _increase(values: Sequence[float]) -> float:
    """Of a counter from 0; one that begins again has counted what it shows."""
    steps = [after - before if after >= before else after for before, after in pairwise(values)]
    return values[0] + sum(steps)


def _history_lost_seconds(history: Path, scrapes: Sequence[Scrape]) -> float | None:
    """Accounted time of a device that its windows in the history lack, at most."""
    kept: dict[str, float] = {}
    try:
        storage = Storage(str(history), read_only=True)
    except RightsizerError:
        return None
    assert storage.history is not None
    try:
        for window in storage.history.load():
            if window.workload_key is None:
                kept[window.uuid] = kept.get(window.uuid, 0.0) + seconds(window.accounted)
    except RightsizerError:
        return None
    finally:
        storage.close()
    lacking = [0.0]
    for uuid in scrapes[-1].devices if scrapes else ():
        samples = [scrape.devices[uuid] for scrape in scrapes if uuid in scrape.devices]
        accounted = _increase([sample.accounted_seconds for sample in samples])
        lacking.append(accounted - kept.get(uuid, 0.0))
    return max(lacking)


def _devices(scrapes: Sequence[Scrape]) -> int:
    return sum(uuid.startswith("GPU-") for uuid in scrapes[-1].devices) if scrapes else 0


def _counted(scrapes: Sequence[Scrape]) -> tuple[str, ...]:
    """Names of metrics that grew since the first scrape, or were 0 in one."""
    counters: dict[str, list[float]] = {}
    names = set()
    for scrape in scrapes:
        for name, value in scrape.counters.items():
            counters.setdefault(name, []).append(value)
        names |= {name for name, value in scrape.switches.items() if value == 0.0}
    names |= {name for name, values in counters.items() if _increase(values) > 0.0}
    return tuple(sorted(names))
