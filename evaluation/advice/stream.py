"""One stream of snapshots with accounts and a ledger behind it, scored as it goes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from evaluation.advice.claims import CLAIMS, Claim
from evaluation.advice.labels import Labels
from evaluation.advice.reliability import Reliability
from evaluation.advice.scores import AdviceScores, Case
from evaluation.advice.truth import BORDERLINE, FALSE, TRUE, Subject, Timeline
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.advice.engine import judge_all
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.lookup import open_places
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Judgement, Rule
from rightsizer.model.advice import AdviceEventKind
from rightsizer.model.finding import Finding, Reason
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds

_FLAP: Final = 7200 * NANOSECONDS_PER_SECOND
_BY_NAME: Final[Mapping[str, Rule[Any]]] = {rule.name: rule for rule in RULES}
_CLAIMS: Final = tuple(claim for claim in CLAIMS if claim.rule in _BY_NAME)
_OBSERVED: Final = frozenset().union(*(claim.reasons for claim in CLAIMS))
_LEAST_RUNS: Final = 2
"""Advice that is due for a single run was never worth opening."""


@dataclass
class Outcome:
    """Scores of a stream."""

    scores: AdviceScores = field(default_factory=AdviceScores)
    complaints: Reliability = field(default_factory=Reliability)
    """Of every run, opened or not."""
    openings: Reliability = field(default_factory=Reliability)

    def merge(self, other: "Outcome") -> None:
        """Add another one's."""
        self.scores.merge(other.scores)
        self.complaints.merge(other.complaints)
        self.openings.merge(other.openings)


@dataclass
class _Episode:
    """A stretch of runs in which advice is due."""

    since: Nanoseconds
    runs: int = 0
    found: Nanoseconds | None = None
    is_new: bool = True
    """Whether it began while someone looked."""


class AdviceStream:
    """Advice to one node with one kind of telemetry."""

    def __init__(
        self, scenario: str, timeline: Timeline, begin: Nanoseconds, *, has_history: bool
    ) -> None:
        """A stream of which nothing was read yet.

        Args:
            scenario: Its name, for labels.
            timeline: What is true, shared with others.
            begin: Before this nothing is read.
            has_history: Whether there are days enough to judge sizes.
        """
        self.outcome = Outcome()
        self._scenario = scenario
        self._labels = Labels.load()
        self._timeline = timeline
        self._begin = begin
        self._has_history = has_history
        self._accounts = NodeAccounts()
        self._ledger = Ledger()
        self._closed: dict[str, Nanoseconds] = {}
        self._episodes: dict[tuple[str, int], _Episode] = {}
        self._labeled: dict[tuple[str, str], bool] = {}
        self._before: Nanoseconds | None = None

    def read(self, snapshot: Snapshot) -> None:
        """Account for a snapshot."""
        self._accounts.post(snapshot)

    def judge(self, now: Nanoseconds) -> None:
        """Run the recommender once, and score it."""
        judgements = judge_all(
            lambda span: self._accounts.snapshot(now).cases(span),
            RULES,
            open_places(self._ledger.advice()),
        )
        subjects = {subject.key: subject for subject in self._timeline.subjects()}
        self._update(judgements, subjects, now)
        for judgement in judgements:
            subject = subjects.get(judgement.key)
            if subject is not None:
                self._sample(judgement, subject, self.outcome.complaints)
                self._check_silence(judgement, subject)
        self._follow(subjects, now)
        if self._before is not None:
            days = (now - self._before) / (86400 * NANOSECONDS_PER_SECOND)
            self.outcome.scores.entity_days += days * len(subjects)
        self._before = now

    def finish(self) -> None:
        """Close what is still going on."""
        for key in tuple(self._episodes):
            self._end(key)
        for (subject, reason), was_found in self._labeled.items():
            case = Case("labeled", self._scenario, subject, reason)
            self.outcome.scores.expected[case] += 1
            self.outcome.scores.missed[case] += not was_found

    def _update(
        self, judgements: tuple[Judgement, ...], subjects: dict[str, Subject], now: Nanoseconds
    ) -> None:
        by_id = {judgement.finding.id: judgement for judgement in judgements}
        for event in self._ledger.update(judgements, now):
            finding = event.advice.finding
            if event.kind is AdviceEventKind.CLOSED:
                self._closed[finding.id] = now
            elif event.kind is AdviceEventKind.OPENED:
                judgement = by_id[finding.id]
                self._opened(finding, subjects.get(judgement.key), now)
                if judgement.key in subjects:
                    self._sample(judgement, subjects[judgement.key], self.outcome.openings)

    def _opened(self, finding: Finding, subject: Subject | None, now: Nanoseconds) -> None:
        scores = self.outcome.scores
        name = subject.name if subject else finding.workload or finding.devices[0]
        case = Case(finding.rule, self._scenario, name, finding.reasons[0])
        closed = self._closed.get(finding.id)
        scores.flaps[case] += closed is not None and now - closed < _FLAP
        verdict = FALSE if subject is None else self._verdict(finding, subject)
        counts = {TRUE: scores.right, FALSE: scores.false, BORDERLINE: scores.unjudged}
        counts[verdict][case] += 1

    def _verdict(self, finding: Finding, subject: Subject) -> str:
        """Whether an opening is right."""
        reason = finding.reasons[0]
        rule = _BY_NAME[finding.rule]
        verdicts = {
            self._timeline.verdict(claim, rule, subject, self._begin)
            for claim in CLAIMS
            if reason in claim.reasons
        }
        label = self._labels.label(self._scenario, subject.name)
        if TRUE in verdicts or reason in label.expected:
            return TRUE
        return BORDERLINE if BORDERLINE in verdicts or reason in label.tolerated else FALSE

    def _sample(self, judgement: Judgement, subject: Subject, into: Reliability) -> None:
        finding = judgement.finding
        if not finding.is_actionable:
            return
        reason = finding.reasons[0]
        rule = _BY_NAME[finding.rule]
        label = self._labels.label(self._scenario, subject.name)
        claims = [claim for claim in CLAIMS if reason in claim.reasons]
        if reason in label.tolerated or not (claims or self._has_history):
            return
        is_true = reason in label.expected or any(
            self._timeline.is_so(claim, rule, subject, self._begin) for claim in claims
        )
        tier = _worst_tier(finding)
        into.add(f"{finding.rule} {tier}", finding.confidence, is_true=is_true)

    def _check_silence(self, judgement: Judgement, subject: Subject) -> None:
        """Whether a rule answers where it can know, and is silent where it cannot."""
        finding = judgement.finding
        scores = self.outcome.scores
        claim = next((each for each in _CLAIMS if each.rule == finding.rule), None)
        if claim is None or not (finding.abstained or finding.confidence_factors):
            return  # What follows from the class or the number of GPUs takes no telemetry.
        tiers = {Tier(each) for each in _evidence(finding, "tier")}
        is_silent = finding.abstained is not None
        if tiers and tiers <= claim.blind | {Tier.NONE}:
            scores.silences[claim.rule, is_silent] += 1
        elif not tiers & claim.blind and self._is_due(claim, subject) is TRUE:
            scores.answers[claim.rule, not is_silent] += 1

    def _is_due(self, claim: Claim, subject: Subject) -> str:
        return self._timeline.verdict(claim, _BY_NAME[claim.rule], subject, self._begin)

    def _follow(self, subjects: Mapping[str, Subject], now: Nanoseconds) -> None:
        """Note since when advice is due, and when it came."""
        reasons = self._open_reasons()
        for at, claim in enumerate(_CLAIMS):
            for key, subject in subjects.items():
                if self._is_due(claim, subject) is not TRUE or self._is_blind(claim, subject, now):
                    continue
                episode = self._episodes.setdefault(
                    (key, at), _Episode(now, is_new=self._before is not None)
                )
                episode.runs += 1
                said = reasons.get(key, frozenset())
                if episode.found is None and said & (claim.reasons | claim.instead):
                    episode.found = now
        for key, at in tuple(self._episodes):
            present = subjects.get(key)
            if present is None or self._is_due(_CLAIMS[at], present) is FALSE:
                self._end((key, at), present)
        self._follow_labels(subjects, reasons)

    def _follow_labels(
        self, subjects: Mapping[str, Subject], reasons: Mapping[str, frozenset[Reason]]
    ) -> None:
        if not self._has_history:
            return
        for key, subject in subjects.items():
            expected = self._labels.label(self._scenario, subject.name).expected
            if expected:
                about = (subject.name, min(expected))
                found = bool(reasons.get(key, frozenset()) & expected)
                self._labeled[about] = self._labeled.get(about, False) or found

    def _end(self, key: tuple[str, int], subject: Subject | None = None) -> None:
        episode = self._episodes.pop(key)
        if episode.runs < _LEAST_RUNS:
            return
        claim = _CLAIMS[key[1]]
        scores = self.outcome.scores
        name = subject.name if subject else key[0].rpartition("/")[2]
        case = Case(claim.rule, self._scenario, name, min(claim.reasons))
        scores.expected[case] += 1
        if episode.found is None:
            scores.missed[case] += 1
        elif episode.is_new:
            delay = (episode.found - episode.since) / NANOSECONDS_PER_SECOND
            scores.delays.setdefault(claim.rule, []).append(delay)

    def _is_blind(self, claim: Claim, subject: Subject, now: Nanoseconds) -> bool:
        """Whether too few signals of the devices are read for a verdict."""
        conduct = _BY_NAME[claim.rule].conduct(subject.workload)
        start = now - nanoseconds(conduct.long_seconds)
        for uuid in subject.devices:
            window = self._accounts.device(uuid).windows.rollups.window_query().window(start, now)
            last = self._accounts.device(uuid).last
            if window.known_seconds < conduct.minimum_known_seconds:
                return True
            if last is not None and last.tier in claim.blind:
                return True
        return False

    def _open_reasons(self) -> dict[str, frozenset[Reason]]:
        reasons: dict[str, frozenset[Reason]] = {}
        for advice in self._ledger.advice():
            if advice.is_open:
                said = frozenset(advice.finding.reasons)
                key = advice.finding.key
                reasons[key] = reasons.get(key, frozenset()) | said
        return reasons


def _worst_tier(finding: Finding) -> str:
    tiers = [Tier(each) for each in _evidence(finding, "tier")]
    return str(max(tiers, key=list(Tier).index, default=Tier.NONE))


def _evidence(finding: Finding, name: str) -> list[str]:
    found = finding.evidence.get(name, [])
    return [str(each) for each in found] if isinstance(found, list) else []
