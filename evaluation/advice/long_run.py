"""A month of a node: its advice, the outcomes, and the annotations in Grafana.

Workloads are mended, leave and come back on fixed days; a script claims and dismisses what is
open by then, as people would.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from evaluation.host_signals import with_host_signals
from evaluation.options import Options
from measured import as_rows, table
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.advice.engine import judge_all
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.lookup import open_places
from rightsizer.advice.rules import RULES
from rightsizer.advice.storage import Storage
from rightsizer.advice.verification import measure_all
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.advice import AdviceEvent, AdviceEventKind, AdviceState
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.notify.grafana.annotation import AnnotationBody, body_of
from rightsizer.notify.grafana.service import AnnotationOutbox
from rightsizer.simulator.scenario import SimulatedScenario, SimulatedTask
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource

_FILE: Final = Path(__file__).with_suffix(".yaml")
_DAY: Final = 86400 * NANOSECONDS_PER_SECOND
_DAYS: Final = 30
_GPUS: Final = 7
_TICK_SECONDS: Final = 60.0
_RUN_EVERY_SECONDS: Final = 3600.0
_FLAP: Final = 7200 * NANOSECONDS_PER_SECOND
_ACTOR: Final = "ana"
_HEALTHY: Final = "llm-pretrain"
_MENDED: Final[Mapping[str, Iterable[int]]] = {
    "image-train": range(9, 23),
    "finetune-ddp": range(18, _DAYS + 1),
}
"""The days on which a workload does what the healthy one does."""
_AWAY: Final[Mapping[str, Iterable[int]]] = {"notebook-ana": range(12, 22)}
_CLAIMED: Final[Mapping[str, int]] = {"image-train": 5, "notebook-ana": 6}
"""The days on which someone claims what is open of a workload."""
_DISMISSED: Final[Mapping[str, int]] = {"embedding-svc": 20}


@dataclass
class AnnotationStore:
    """In-memory Grafana with the API of annotations."""

    annotations: dict[tuple[tuple[str, str], Nanoseconds], AnnotationBody] = field(
        default_factory=dict
    )
    """By the tags by which they are found again, and their start."""
    twice: int = 0
    """Notes that would have made what was there already."""
    unknown: int = 0
    """Changes and ends of regions that never began."""

    def take(self, outbox: AnnotationOutbox) -> None:
        """Deliver all that waits."""
        for letter in outbox.pending():
            note = letter.body
            key = (note.key_tags, note.start)
            if note.changes_region:
                self.unknown += key not in self.annotations
            else:
                self.twice += key in self.annotations
            self.annotations[key] = note
            outbox.done([letter.number])

    @property
    def open_regions(self) -> frozenset[str]:
        """Advice with an open region."""
        kinds = (AdviceEventKind.OPENED, AdviceEventKind.DECIDED)
        return frozenset(n.advice_id for n in self.annotations.values() if n.event in kinds)


@dataclass
class Month:
    """Record of the month."""

    events: list[AdviceEvent] = field(default_factory=list)
    wall: AnnotationStore = field(default_factory=AnnotationStore)
    ledger: Ledger = field(default_factory=Ledger)
    flaps: int = 0
    """Openings within two hours of a closing of the same."""
    entity_days: float = 0.0
    runs: int = 0

    def count(self, kind: AdviceEventKind) -> int:
        """Number of events of a kind."""
        return sum(event.kind is kind for event in self.events)

    @property
    def points(self) -> int:
        """Events annotated by a point."""
        regions = (AdviceEventKind.OPENED, AdviceEventKind.CLOSED, AdviceEventKind.DECIDED)
        return sum(event.kind not in regions for event in self.events)

    def days_of(self, kind: AdviceEventKind, workload: str) -> Mapping[str, tuple[int, ...]]:
        """On which days it happened to a workload, by the first reason."""
        found: dict[str, list[int]] = {}
        for event in self.events:
            finding = event.advice.finding
            if event.kind is kind and (finding.workload or "").endswith(workload):
                day = (event.time - DEFAULT_START) // _DAY + 1
                found.setdefault(finding.reasons[0], []).append(day)
        return {reason: tuple(days) for reason, days in found.items()}


def evaluate(_: Options) -> Iterator[str]:
    """The month in full, a reading a minute."""
    started = time.perf_counter()
    month = simulate_month()
    wall = month.wall
    yield (
        f"{_DAYS} days of seven GPUs, a reading every {_TICK_SECONDS:.0f} s and a run of the rules "
        f"every hour, simulated in {time.perf_counter() - started:.0f} s.\n"
    )
    counts = [(str(kind), str(month.count(kind))) for kind in AdviceEventKind]
    flaps = month.flaps / month.entity_days
    counts += [
        ("annotations on the wall", str(len(wall.annotations))),
        ("openings and points", str(month.count(AdviceEventKind.OPENED) + month.points)),
        ("annotations made twice, or ended without a beginning", f"{wall.twice + wall.unknown}"),
        ("flaps for each entity-day", f"{flaps:.4f}"),
    ]
    yield f"{'; '.join(map(': '.join, counts)).capitalize()}.\n"
    yield as_rows(table(_rows(month), ("workload", "what", "reason", "on days")) + "\n")


def simulate_month(
    *,
    days: int = _DAYS,
    gpus: int = _GPUS,
    tick_seconds: float = _TICK_SECONDS,
    run_every_seconds: float = _RUN_EVERY_SECONDS,
) -> Month:
    """Live through it.

    Args:
        days: How many of them.
        gpus: How many of them, with the workloads that these hold.
        tick_seconds: Simulated time between two readings.
        run_every_seconds: Simulated time between two runs of the rules.
    """
    month = Month()
    accounts = NodeAccounts()
    outbox = AnnotationOutbox(Storage("").database)
    closed: dict[str, Nanoseconds] = {}
    every = nanoseconds(run_every_seconds)
    due = DEFAULT_START + every
    for day in range(1, days + 1):
        for snapshot in _snapshots(_scenario(day, gpus), day, nanoseconds(tick_seconds)):
            accounts.post(snapshot)
            accounts.drain_closed()
            if snapshot.wall_time < due:
                continue
            due += every
            events = _run(accounts, month.ledger, snapshot.wall_time)
            month.runs += 1
            month.entity_days += every / _DAY * len(accounts.snapshot(snapshot.wall_time).cases(0))
            month.flaps += _flaps(events, closed)
            _tell(month, events, outbox)
        _tell(month, _script(month.ledger, day, DEFAULT_START + day * _DAY), outbox)
    return month


def _run(accounts: NodeAccounts, ledger: Ledger, now: Nanoseconds) -> list[AdviceEvent]:
    cases = cache(lambda span: accounts.snapshot(now).cases(span))
    judgements = judge_all(cases, RULES, open_places(ledger.advice()))
    return ledger.update(judgements, now, cache(lambda span: measure_all(cases(span))))


def _tell(month: Month, events: list[AdviceEvent], outbox: AnnotationOutbox) -> None:
    month.events += events
    outbox.put(map(body_of, events))
    month.wall.take(outbox)


def _flaps(events: Iterable[AdviceEvent], closed: dict[str, Nanoseconds]) -> int:
    flaps = 0
    for event in events:
        if event.kind is AdviceEventKind.CLOSED:
            closed[event.advice.id] = event.time
        elif event.kind is AdviceEventKind.OPENED:
            flaps += event.time - closed.get(event.advice.id, -_FLAP) < _FLAP
    return flaps


def _script(ledger: Ledger, day: int, now: Nanoseconds) -> list[AdviceEvent]:
    """Claims and dismissals of people at the end of a day."""
    events = []
    for days, state in ((_CLAIMED, AdviceState.CLAIMED), (_DISMISSED, AdviceState.DISMISSED)):
        names = [name for name, then in days.items() if then == day]
        for advice in ledger.advice():
            about = (advice.finding.workload or "").rpartition("/")[2]
            if advice.is_open and about in names:
                events.append(ledger.act(advice.id, state, _ACTOR, now))
    return events


def _snapshots(scenario: SimulatedScenario, day: int, tick: Nanoseconds) -> Iterator[Snapshot]:
    start = DEFAULT_START + (day - 1) * _DAY
    source = SimulatedSource(scenario, built_in(), start=start, interval=tick, duration=_DAY)
    for snapshot in iter(source.read, None):
        yield with_host_signals(snapshot, source.node)


def _scenario(day: int, gpus: int = _GPUS) -> SimulatedScenario:
    """The node as it is on a day."""
    written = load_scenario(str(_FILE), built_in())
    healthy = next(task for task in written.tasks if task.workload.name == _HEALTHY)
    tasks = (
        _mended(task, healthy) if day in _MENDED.get(task.workload.name, ()) else task
        for task in written.tasks
        if day not in _AWAY.get(task.workload.name, ())
        and all(spot.gpu < gpus for spot in task.spots)
    )
    return replace(written, slots=written.slots[:gpus], tasks=tuple(tasks))


def _mended(task: SimulatedTask, healthy: SimulatedTask) -> SimulatedTask:
    return replace(task, phases=healthy.phases)


def _rows(month: Month) -> Iterator[tuple[str, ...]]:
    names = [task.workload.name for task in _scenario(1).tasks]
    for name in names:
        for kind in AdviceEventKind:
            for reason, days in month.days_of(kind, name).items():
                yield name, str(kind), reason, _spell(days)


def _spell(days: Iterable[int]) -> str:
    counts = Counter(days)
    return ", ".join(str(day) if times == 1 else f"{day} x{times}" for day, times in counts.items())
