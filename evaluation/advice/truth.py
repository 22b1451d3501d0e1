"""Due advice by the simulator's truth of each tick, independent of the rules' arithmetic.

Whether advice is due follows from how a rule is defined: its share of time, over its long and
its short span, of time that is known. Where the share is within a tenth of the threshold a
mistake says nothing, and no one is blamed.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Struct

from evaluation.advice.claims import CLAIMS, Claim
from evaluation.simulated_day import Truth
from rightsizer.advice.rules.rule import Rule
from rightsizer.model.state import ACTIVE_STATES, State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds, seconds
from rightsizer.model.workload import Workload

_BORDER: Final = 0.1
"""Of what is left to the nearer end of the scale: too near to the threshold to blame anyone."""
_GAP: Final[Nanoseconds] = 600 * NANOSECONDS_PER_SECOND
"""A holder that is away for less has not left (docs/definitions.md)."""
_LEAST_ACTIVE: Final = 600.0
_LEAST_OF_ALL = 0.1
_ENOUGH_OF_ALL = 0.3
"""Of all time, for a limit to matter; what it costs is not in the truth, between them who knows."""

TRUE: Final = "true"
FALSE: Final = "false"
BORDERLINE: Final = "borderline"
"""Too near to the threshold, or too little known, to blame anyone."""


class Subject(Struct, frozen=True):
    """Subject of advice: a workload with its devices, or an unheld device."""

    key: str
    workload: Workload | None
    devices: tuple[str, ...]

    @property
    def name(self) -> str:
        """For labels and reports."""
        return self.key if self.workload is None else self.workload.name


@dataclass
class _Course:
    """One device's truth, added up."""

    ends: list[Nanoseconds] = field(default_factory=list)
    known: list[Nanoseconds] = field(default_factory=list)
    active: list[Nanoseconds] = field(default_factory=list)
    held: list[list[Nanoseconds]] = field(default_factory=lambda: [[] for _ in CLAIMS])
    """For each claim, the time in which it held."""
    holder: Workload | None = None
    since: Nanoseconds = 0
    empty_since: Nanoseconds | None = None

    def add(self, truth: Truth, start: Nanoseconds, end: Nanoseconds) -> None:
        """Add the truth of an interval."""
        is_known = truth[0] is not State.UNKNOWN
        self.ends.append(end)
        _more(self.known, (end - start) * is_known)
        _more(self.active, (end - start) * (truth[0] in ACTIVE_STATES))
        for claim, sums in zip(CLAIMS, self.held, strict=True):
            _more(sums, (end - start) * (is_known and claim.holds(*truth)))

    def hold(self, holder: Workload | None, start: Nanoseconds, end: Nanoseconds) -> None:
        """Who held it over a stretch."""
        if holder is not None:
            if self.holder is None or self.holder.key != holder.key:
                self.since = start
            self.holder = holder
            self.empty_since = None
            return
        self.empty_since = start if self.empty_since is None else self.empty_since
        if self.holder is not None and end - self.empty_since >= _GAP:
            self.holder = None
            self.since = self.empty_since

    def seconds(self, sums: list[Nanoseconds], start: Nanoseconds, end: Nanoseconds) -> float:
        """Seconds of a sum within a span."""
        first, last = (bisect_right(self.ends, time) for time in (start, end))
        return seconds((sums[last - 1] if last else 0) - (sums[first - 1] if first else 0))


class Share(Struct, frozen=True):
    """In how much of a span a claim held."""

    ratio: float
    """Of the known time, or of the active time where the claim is about that."""
    known_seconds: float
    """Of the device that is known least of."""
    of_all_ratio: float
    """Of the known time."""


class Timeline:
    """The truth of a node, tick by tick."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._courses: dict[str, _Course] = {}
        self._before: dict[str, Nanoseconds] = {}

    def add(
        self,
        time: Nanoseconds,
        truths: Mapping[str, Truth],
        holders: Mapping[str, Workload],
    ) -> None:
        """Go on to a tick; what is true then was so since the one before."""
        for uuid, truth in truths.items():
            start = self._before.get(uuid)
            self._before[uuid] = time
            if start is None:
                continue
            course = self._courses.setdefault(uuid, _Course())
            course.add(truth, start, time)
            if truth[0] is not State.UNKNOWN:
                course.hold(holders.get(uuid), start, time)

    def subjects(self) -> tuple[Subject, ...]:
        """Current subjects of advice."""
        groups: dict[str, list[str]] = {}
        workloads: dict[str, Workload | None] = {}
        for uuid, course in self._courses.items():
            key = uuid if course.holder is None else course.holder.key
            groups.setdefault(key, []).append(uuid)
            workloads[key] = course.holder
        return tuple(Subject(key, workloads[key], tuple(group)) for key, group in groups.items())

    def share(self, claim: Claim, subject: Subject, span: float, begin: Nanoseconds) -> Share:
        """In how much of the last seconds a claim held.

        Args:
            claim: Of what.
            subject: Of whom; no further back than its holder goes.
            span: In seconds.
            begin: Before this no one looked.
        """
        at = CLAIMS.index(claim)
        shares = []
        knowns = []
        of_all = []
        for course in (self._courses[uuid] for uuid in subject.devices):
            end = course.ends[-1]
            start = max(end - nanoseconds(span), course.since, begin)
            known = course.seconds(course.known, start, end)
            held = course.seconds(course.held[at], start, end)
            of_all.append(held / known if known else 0.0)
            knowns.append(known)
            if claim.is_of_active:
                active = course.seconds(course.active, start, end)
                shares.append(held / active if active >= _LEAST_ACTIVE else 0.0)
        choose = min if claim.is_of_all else max
        return Share(choose(shares or of_all), min(knowns), choose(of_all))

    def verdict(self, claim: Claim, rule: Rule[Any], subject: Subject, begin: Nanoseconds) -> str:
        """Whether advice is due by the rule's own definition."""
        if _is_excused(claim, subject):
            return FALSE
        conduct = rule.conduct(subject.workload)
        on = float(rule.settings.on_ratio)
        long = self.share(claim, subject, conduct.long_seconds, begin)
        short = self.share(claim, subject, conduct.short_seconds, begin)
        border = _BORDER * min(on, 1.0 - on)
        share = min(long.ratio, short.ratio)
        if share < on - border or (claim.is_of_active and long.of_all_ratio < _LEAST_OF_ALL):
            return FALSE
        is_sure = share >= on + border and long.known_seconds >= conduct.minimum_known_seconds
        matters = not claim.is_of_active or long.of_all_ratio >= _ENOUGH_OF_ALL
        return TRUE if is_sure and matters else BORDERLINE

    def is_so(self, claim: Claim, rule: Rule[Any], subject: Subject, begin: Nanoseconds) -> bool:
        """Whether the finding itself is true: the share over the rule's long span."""
        if _is_excused(claim, subject):
            return False
        long_seconds = rule.conduct(subject.workload).long_seconds
        return self.share(claim, subject, long_seconds, begin).ratio >= rule.settings.on_ratio


def _is_excused(claim: Claim, subject: Subject) -> bool:
    return subject.workload is not None and subject.workload.workload_class in claim.excused


def _more(sums: list[Nanoseconds], added: Nanoseconds) -> None:
    sums.append((sums[-1] if sums else 0) + added)
