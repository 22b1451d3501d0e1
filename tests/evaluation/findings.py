"""The advice of a day against what the simulator's truth says should have been advised.

What is expected is worked out from the truth of each tick, by the thresholds of the rules: a
share of idle, of spinning or of nearly full time over the rule's own span. Of sizes there is no
truth in the simulator; those are listed and only those that a scenario is about are scored.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from evaluation.options import Options
from evaluation.processes import in_processes
from evaluation.stage import Truth
from measured import table
from rightsizer.accounting.accounts import Accounts
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.recommender import judge_all
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Rule
from rightsizer.catalogue.catalogue import built_in
from rightsizer.domain.advice import AdviceEventKind
from rightsizer.domain.state import IDLE_STATES, Condition, State
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds, seconds
from rightsizer.domain.workload import Workload, WorkloadClass
from rightsizer.telemetry.simulated.scenario import load_scenario, packaged_scenarios
from rightsizer.telemetry.simulated.source import DEFAULT_START, SimulatedSource

__all__ = ["evaluate"]

_DAY: Final = 86400 * NANOSECONDS_PER_SECOND
_PAST_DAYS: Final = 7
_PAST_TICK: Final = 600 * NANOSECONDS_PER_SECOND
_RUN_EVERY: Final = 1200 * NANOSECONDS_PER_SECOND
_FLAP: Final = 7200 * NANOSECONDS_PER_SECOND
_OVERSIZED: Final = frozenset({"embedding-svc"})
"""Scenarios say of it that it has a whole H100 to itself and needs a part."""
_FAULTY: Final = frozenset({"faulty-node"})
"""What goes wrong in it comes every ten minutes: a test of telemetry, and no node to advise on."""
_HEADINGS: Final = (
    "rule",
    "expected",
    "found",
    "missed",
    "false",
    "unread",
    "flaps",
    "found after",
)

Key = tuple[str, str, str]
"""Scenario with its seed, workload's name or uuid, rule."""


@dataclass
class _Tally:
    """Over all runs."""

    expected: dict[Key, Nanoseconds] = field(default_factory=dict)
    """With the time from which on it was true."""
    found: dict[Key, Nanoseconds] = field(default_factory=dict)
    """With the time of its opening."""
    flaps: Counter[Key] = field(default_factory=Counter)
    """Openings within two hours of a closing of the same."""
    blind: set[Key] = field(default_factory=set)
    """Expected on devices of which nothing is read, so that no rule can know."""

    def merge(self, other: "_Tally") -> None:
        """Add the tally of other runs."""
        self.expected |= other.expected
        self.found |= other.found
        self.flaps.update(other.flaps)
        self.blind |= other.blind


def evaluate(options: Options) -> Iterator[str]:
    """Per rule: expected, found, missed, false, flaps, and how long it took."""
    names = [name for name in packaged_scenarios() if name not in _FAULTY]
    runs = [(name, seed) for name in names for seed in range(options.seeds)]
    tally = _Tally()
    for part in in_processes(partial(_run, tick_seconds=options.tick_seconds), runs):
        tally.merge(part)
    yield table((_row(rule.name, tally) for rule in RULES), _HEADINGS)
    for title, keys in (
        ("Missed", tally.expected.keys() - tally.found.keys()),
        ("False", _false(tally)),
        ("Of sizes, not scored", _unscored(tally)),
    ):
        names = Counter((workload, rule) for _, workload, rule in keys)
        lines = (f"{rule} of {workload} ({times})" for (workload, rule), times in names.items())
        yield f"\n{title}: {', '.join(sorted(lines)) or 'none'}."
    yield ""


def _run(run: tuple[str, int], tick_seconds: int) -> _Tally:
    tally = _Tally()
    _Run(*run, tick_seconds, tally).go()
    return tally


def _row(rule: str, tally: _Tally) -> tuple[str, ...]:
    expected = {key for key in tally.expected if key[2] == rule}
    found = {key for key in tally.found if key[2] == rule}
    false = {key for key in _false(tally) if key[2] == rule}
    # What was true at midnight already has no time of its own.
    delays = sorted(
        seconds(tally.found[key] - tally.expected[key])
        for key in expected & found
        if tally.found[key] > DEFAULT_START
    )
    flaps = sum(tally.flaps[key] for key in found)
    blind = sum(key[2] == rule for key in tally.blind)
    return (
        rule,
        str(len(expected)),
        str(len(expected & found)),
        str(len(expected - found)),
        str(len(false)),
        str(blind),
        str(flaps),
        f"{delays[len(delays) // 2] / 60:.0f} min" if delays and rule != "overprovisioned" else "",
    )


def _false(tally: _Tally) -> set[Key]:
    return tally.found.keys() - tally.expected.keys() - _unscored(tally)


def _unscored(tally: _Tally) -> set[Key]:
    return {key for key in tally.found if key[2] == "overprovisioned" and key[1] not in _OVERSIZED}


class _Run:
    """One scenario with one seed, for a day after a week of history."""

    def __init__(self, name: str, seed: int, tick_seconds: int, tally: _Tally) -> None:
        self._catalogue = built_in()
        scenario = load_scenario(name, self._catalogue)
        self._scenario = replace(scenario, seed=scenario.seed + seed)
        self._label, self._tally = f"{name} {seed}", tally
        self._tick = tick_seconds * NANOSECONDS_PER_SECOND
        self._accounts, self._ledger = Accounts(), Ledger()
        self._closed: dict[str, Nanoseconds] = {}
        self._truths: list[Mapping[str, Truth]] = []
        self._holders: list[Mapping[str, Workload]] = []
        """Tick by tick, of the devices that could be read."""

    def go(self) -> None:
        """Live through it."""
        past = self._source(DEFAULT_START - _PAST_DAYS * _DAY, _PAST_TICK, _PAST_DAYS * _DAY)
        for snapshot in iter(past.read, None):
            self._accounts.post(snapshot)
        self._judge(DEFAULT_START)
        day = self._source(DEFAULT_START, self._tick, _DAY)
        due = DEFAULT_START + _RUN_EVERY
        for snapshot in iter(day.read, None):
            self._accounts.post(snapshot)
            self._truths.append(
                {
                    uuid: day.node.truth(uuid, reading.time)
                    for uuid, reading in snapshot.readings.items()
                }
            )
            self._holders.append(
                {uuid: held[0].workload for uuid, held in snapshot.holdings.items()}
            )
            if snapshot.wall_time >= due:
                due += _RUN_EVERY
                self._judge(snapshot.wall_time)
        self._expect()

    def _source(self, start: Nanoseconds, tick: Nanoseconds, span: Nanoseconds) -> SimulatedSource:
        return SimulatedSource(
            self._scenario, self._catalogue, start=start, interval=tick, duration=span
        )

    def _judge(self, now: Nanoseconds) -> None:
        judgements = judge_all(
            lambda span: self._accounts.cases(span, now), RULES, self._ledger.open_now()
        )
        for event in self._ledger.update(judgements, now):
            finding = event.advice.finding
            if event.kind is AdviceEventKind.CLOSED:
                self._closed[finding.id] = now
            elif event.kind is AdviceEventKind.OPENED:
                owner = (finding.workload or finding.devices[0]).rpartition("/")[2]
                key = (self._label, owner, finding.rule)
                self._tally.found.setdefault(key, now)
                closed = self._closed.get(finding.id)
                self._tally.flaps[key] += closed is not None and now - closed < _FLAP

    def _expect(self) -> None:
        for owner, (workload, uuids) in self._subjects().items():
            for rule in RULES:
                since = self._true_since(rule, workload, uuids)
                if since is None:
                    continue
                key = (self._label, owner, rule.name)
                if all(self._accounts.whole(uuid).known for uuid in uuids):
                    self._tally.expected[key] = since
                else:
                    self._tally.blind.add(key)

    def _subjects(self) -> Mapping[str, tuple[Workload | None, tuple[str, ...]]]:
        """Workloads with their devices, and devices by themselves while nobody holds them."""
        held: dict[str, tuple[Workload, set[str]]] = {}
        for holders in self._holders:
            for uuid, holder in holders.items():
                held.setdefault(holder.name, (holder, set()))[1].add(uuid)
        subjects: dict[str, tuple[Workload | None, tuple[str, ...]]] = {
            name: (holder, tuple(sorted(uuids))) for name, (holder, uuids) in held.items()
        }
        read = {uuid for truths in self._truths for uuid in truths}
        subjects.update({uuid: (None, (uuid,)) for uuid in sorted(read)})
        return subjects

    def _true_since(
        self, rule: Rule[Any], workload: Workload | None, uuids: tuple[str, ...]
    ) -> Nanoseconds | None:
        """The end of the first span, while it was held, over which the rule's share was reached."""
        if rule.name == "overprovisioned":
            is_oversized = workload is not None and workload.name in _OVERSIZED
            return DEFAULT_START if is_oversized else None
        if workload is not None and workload.workload_class is WorkloadClass.STANDBY:
            return None
        length = nanoseconds(rule.conduct(workload).long_seconds) // self._tick
        together = all if rule.name == "idle" else any
        run, kept = 0, list[bool]()
        for at, (truths, holders) in enumerate(zip(self._truths, self._holders, strict=True)):
            if any(uuid not in truths or holders.get(uuid) != workload for uuid in uuids):
                run, kept = 0, []
                continue
            kept.append(together(_is_so(rule.name, *truths[uuid]) for uuid in uuids))
            run += 1
            recent = kept[-length:]
            if run >= length and sum(recent) >= rule.settings.on_ratio * length:
                return DEFAULT_START + at * self._tick
        return None


def _is_so(rule: str, state: State, conditions: frozenset[Condition]) -> bool:
    if rule == "idle":
        return state in IDLE_STATES
    if rule == "hidden_stall":
        return state is State.HIDDEN_STALL
    return Condition.NEAR_OUT_OF_MEMORY in conditions
