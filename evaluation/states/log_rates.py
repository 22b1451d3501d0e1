"""Stalls and culprits of logs at several rates, with and without owners, a column missing each."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from evaluation.options import Options
from evaluation.processes import in_processes
from evaluation.states.missing_columns import (
    COLUMNS,
    ColumnScore,
    is_whole_log,
    log_of,
    may_be_held,
    together,
)
from measured import summarized
from rightsizer.agent.replay import replay
from rightsizer.agent.settings import Settings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.device import Device
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import State
from rightsizer.model.units import nanoseconds
from rightsizer.model.window import Entry
from rightsizer.recordings.inferred_jobs import inferred_jobs
from rightsizer.recordings.jobs import RecordedJobs
from rightsizer.recordings.row import RecordingRow
from rightsizer.recordings.survey import LoadSeriesBuilder
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource

_START: Final = DEFAULT_START + nanoseconds(3600 * 8 + 600)
"""Ten past eight: the first jobs with a straggler wait for it."""
_USUAL_RATE: Final = "1 Hz, 5 min"
_RATES: Final = (("10 Hz, 90 s", 0.1, 90), (_USUAL_RATE, 1, 300), ("15 s, 1 h", 15, 3600))
_LOGS: Final = (*(name for name in COLUMNS if name.startswith("nvidia-smi")), "dcgmi dmon")
_RULES: Final = {"hidden_stall", "rank_imbalance"}
_STALLED: Final = 0.2
_OWNERS: Final = ("", ", owners")
_HOW: Final = """\
The labeled scenarios from ten past eight as logs of other rates and columns, with all rules. Named
and right: states, as above. Stalls: share of the labeled and of the claimed time. Culprits: right
ones of those named, in logs without and with owners, and how many there are.
"""
_HEADINGS: Final = (
    "columns",
    "log",
    "named",
    "right",
    "stalls found",
    "right",
    "culprits",
    "with owners",
    "there are",
)


@dataclass
class _Score:
    states: ColumnScore = field(default_factory=ColumnScore)
    counts: Counter[str] = field(default_factory=Counter)

    def merge(self, other: "_Score") -> None:
        self.states.merge(other.states)
        self.counts.update(other.counts)

    def row(self) -> tuple[str, ...]:
        counts = self.counts
        shares = (
            f"{counts['found'] / counts[whole]:.1%}" if counts[whole] else ""
            for whole in ("stalled", "claimed")
        )
        culprits = (f"{counts[f'right{who}']} of {counts[f'named{who}']}" for who in _OWNERS)
        return (*self.states.row("")[1:3], *shares, *culprits, str(counts["awaited"]))


class _Recorded:
    """A source that repeats snapshots."""

    def __init__(self, snapshots: list[Snapshot]) -> None:
        self.name = ""
        self._left = iter(snapshots)

    def read(self) -> Snapshot | None:
        return next(self._left, None)

    def close(self) -> None:
        """Nothing is open."""


def evaluate(options: Options) -> Iterator[str]:
    """A row for each rate, set of columns, and with and without owners."""
    total: dict[tuple[str, str], _Score] = {}
    for process in in_processes(_scores, sorted(options.scenarios.glob("*.yaml"))):
        for key, score in process.items():
            total.setdefault(key, _Score()).merge(score)
    yield _HOW
    lines = ((columns, rate, *score.row()) for (rate, columns), score in total.items())
    yield summarized(together(lines), _HEADINGS, sums_up=_is_shown)
    yield ""


def _is_shown(line: Sequence[str]) -> bool:
    return is_whole_log(line) and line[1] == _USUAL_RATE


def _scores(file: Path) -> dict[tuple[str, str], _Score]:
    scenario = load_scenario(str(file), built_in())
    scores = {}
    for rate, seconds, span in _RATES:
        source = SimulatedSource(
            scenario,
            built_in(),
            start=_START,
            interval=nanoseconds(seconds),
            duration=nanoseconds(span),
        )
        snapshots = []
        labels = []
        for snapshot in iter(source.read, None):
            snapshots.append(snapshot)
            labels.append(_labels(source, snapshot))
        awaited = _awaited(snapshots, labels)
        for columns in _LOGS:
            scores[rate, columns] = _score(snapshots, labels, awaited, COLUMNS[columns])
    return scores


def _labels(source: SimulatedSource, snapshot: Snapshot) -> dict[str, State]:
    whole = (device.uuid for device in snapshot.devices if not device.has_mig_instances)
    return {uuid: source.node.truth(uuid, snapshot.time)[0] for uuid in whole}


def _awaited(snapshots: list[Snapshot], labels: list[dict[str, State]]) -> set[str]:
    """The GPUs of jobs that others of them wait for, for long enough to be worth a word."""
    counts: dict[str, int] = {}
    for snapshot, label in zip(snapshots, labels, strict=True):
        jobs: dict[str, list[str]] = {}
        for uuid, holdings in snapshot.holdings.items():
            for holding in holdings:
                jobs.setdefault(holding.workload.key, []).append(uuid)
        for uuids in jobs.values():
            spinning = [uuid for uuid in uuids if label.get(uuid) is State.HIDDEN_STALL]
            if spinning:
                for uuid in set(uuids) - set(spinning):
                    counts[uuid] = counts.get(uuid, 0) + 1
    return {uuid for uuid, count in counts.items() if count >= _STALLED * len(snapshots)}


def _jobs(log: list[Snapshot]) -> RecordedJobs:
    loads = LoadSeriesBuilder()
    devices: dict[str, Device] = {}
    for snapshot in log:
        devices |= {device.uuid: device for device in snapshot.devices}
        for uuid, reading in snapshot.readings.items():
            loads.add(RecordingRow(snapshot.wall_time, uuid, reading.values))
    return RecordedJobs(inferred_jobs(loads.series(log[0].interval), list(devices.values())))


def _score(
    snapshots: list[Snapshot],
    labels: list[dict[str, State]],
    awaited: set[str],
    columns: tuple[Signal, ...],
) -> _Score:
    score = _Score(counts=Counter(awaited=len(awaited)))
    at = {snapshot.time: label for snapshot, label in zip(snapshots, labels, strict=True)}
    is_vague = may_be_held(columns)

    def see(entry: Entry) -> None:
        label = at.get(entry.end, {}).get(entry.uuid)
        if label is None or label is State.UNKNOWN:
            return
        score.states.add(label, entry.state, entry.duration, may_be_held=is_vague)
        for name, of in (
            ("stalled", {label}),
            ("claimed", {entry.state}),
            ("found", {label, entry.state}),
        ):
            score.counts[name] += entry.duration if of == {State.HIDDEN_STALL} else 0

    for owners in _OWNERS:
        log = [log_of(snapshot, columns, keeps_owners=bool(owners)) for snapshot in snapshots]
        if not owners:
            jobs = _jobs(log)
            log = [
                replace(each, holdings=jobs.holdings_at(each.wall_time, each.holdings))
                for each in log
            ]
        result = replay(_Recorded(log), Settings(), sinks=() if owners else [see])
        named = {
            uuid
            for finding in result.findings
            if finding.is_actionable and finding.rule in _RULES
            for uuid in finding.culprits
        }
        score.counts[f"named{owners}"] += len(named)
        score.counts[f"right{owners}"] += len(named & awaited)
    return score
