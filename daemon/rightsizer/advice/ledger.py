"""Ledger of open and closed recommendations, with their outcomes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import nlargest
from typing import Final

from msgspec.structs import replace

from rightsizer.advice.advice_index import AdviceIndex
from rightsizer.advice.lookup import find_open_advice
from rightsizer.advice.restoration import Restoration, RestoredAdvice
from rightsizer.advice.rules.rule import Judgement
from rightsizer.advice.settings import LedgerSettings
from rightsizer.advice.track_record import OutcomeCounts, TrackRecord
from rightsizer.advice.verification import Baselines, Measured, conclude
from rightsizer.model.values import (
    Action,
    Advice,
    AdviceEvent,
    AdviceEventKind,
    AdviceState,
    Finding,
    Nanoseconds,
    Severity,
    UsageError,
    nanoseconds,
)

_BY_HAND: Final = (
    AdviceState.CLAIMED,
    AdviceState.SNOOZED,
    AdviceState.DISMISSED,
    AdviceState.ACTIVE,
)
_POLICY: Final = "policy"
_DECIDED: Final = frozenset({AdviceState.CLAIMED, AdviceState.SNOOZED})
_UNDECIDED: Final = (AdviceState.ACTIVE, AdviceState.REGRESSED)
_Place = tuple[str, str]
"""Workload key and rule."""
_DISPLACED: Final = "made room for more severe advice: the ledger is full"


class Ledger:
    """All advice by id. Not thread-safe."""

    def __init__(
        self,
        advice: Iterable[Advice] = (),
        settings: LedgerSettings | None = None,
        tallies: Iterable[OutcomeCounts] = (),
    ) -> None:
        self.settings = settings or LedgerSettings()
        self._advice = AdviceIndex(advice)
        self.track_record = TrackRecord(tallies, self.settings.track_record)
        self._restored: Mapping[str, RestoredAdvice] = {}
        self.dropped: Mapping[Severity, int] = {}
        """Findings dropped by the last update for lack of room, by severity."""

    def with_settings(self, settings: LedgerSettings) -> "Ledger":
        """Copy with the same advice and track record under other settings."""
        copy = Ledger(self._advice, settings, self.track_record.tallies)
        copy._restored = self._restored
        copy.dropped = self.dropped
        return copy

    def restore(self, restoration: Restoration) -> None:
        """Restore from a lost ledger: open advice continues by id, closed advice stays closed."""
        self._restored = restoration.open_advice
        for advice in restoration.closed:
            if self._advice.get(advice.id) is None:
                self._advice.put(advice)

    def advice(self) -> tuple[Advice, ...]:
        """Open advice, oldest first; then closed advice, latest first."""
        is_open = sorted((a for a in self._advice if a.is_open), key=lambda a: (a.opened, a.id))
        closed = sorted(
            (a for a in self._advice if not a.is_open), key=lambda a: (-a.updated, a.id)
        )
        return (*is_open, *closed)

    def update(
        self, judgements: Sequence[Judgement], now: Nanoseconds, measured: Measured | None = None
    ) -> list[AdviceEvent]:
        """Open, refresh, close and verify advice by the judgements of one run; return the events.

        A finding opens once, stays open while recent time supports it, and closes only after a
        quiet period, so that it does not flap. The order of the judgements does not matter.
        Without measurements nothing is verified. If there is no room for all, the most severe
        open first, then those with the largest savings.
        """
        baselines = Baselines(
            now,
            measured,
            self._advice.keys_in_trial,
            self.settings.verification.most_peers,
        )
        events: list[AdviceEvent] = []
        ordered = sorted(
            judgements,
            key=lambda judgement: (judgement.key, judgement.finding.rule, judgement.finding.id),
        )
        single = [judgement for judgement in ordered if not judgement.incidents]
        for judgement in single:
            for advice in self._advice.open_of(judgement.key, judgement.finding.rule):
                events.extend(self._refresh_or_close(advice, judgement, baselines))
        events.extend(self._open_most_urgent(single, baselines))
        for judgement in ordered:
            if judgement.incidents:
                events.extend(self._close_folded(judgement, now))
        events.extend(self._expire_gone(now))
        if measured is not None:
            for advice in sorted(self._advice, key=lambda advice: advice.id):
                if _is_due(advice, now):
                    verified, changes = conclude(
                        advice, baselines, self.settings, self.track_record
                    )
                    self._advice.put(verified)
                    events.extend(changes)
        self._forget(now)
        return events

    def act(  # noqa: PLR0913 - who, what, when, why and for how long.
        self,
        advice_id: str,
        state: AdviceState,
        actor: str,
        now: Nanoseconds,
        *,
        why: str = "",
        for_seconds: float | None = None,
    ) -> AdviceEvent:
        """Claim, snooze or dismiss advice manually, or revert that (active); return the event.

        A snooze or a dismissal lasts for the given time, or as configured.

        Raises:
            UsageError: no such open advice, or the state cannot be set manually.
        """
        advice = find_open_advice(self.advice(), advice_id)
        if state not in _BY_HAND:
            words = ", ".join(_BY_HAND)
            raise UsageError(f"advice cannot be made '{state}' by hand; choose one of {words}")
        lasting = self._lasting(state, for_seconds)
        is_dismissed = state is AdviceState.DISMISSED
        decided = replace(
            advice,
            state=state,
            actor=actor,
            why=why,
            updated=now,
            closed=now if is_dismissed else None,
            expires=None if lasting is None else now + lasting,
            trial_since=now if state is AdviceState.CLAIMED else None,
        )
        self._advice.put(decided)
        if not is_dismissed:
            return AdviceEvent(AdviceEventKind.DECIDED, decided, now)
        self.track_record.count_end(decided, was_right=False)
        return AdviceEvent(AdviceEventKind.CLOSED, decided, now)

    def _lasting(self, state: AdviceState, for_seconds: float | None) -> Nanoseconds | None:
        usual = {
            AdviceState.DISMISSED: self.settings.dismissed_seconds,
            AdviceState.SNOOZED: self.settings.snoozed_seconds,
        }.get(state)
        if for_seconds is None:
            return None if usual is None else nanoseconds(usual)
        if usual is None:
            raise UsageError(f"advice is not {state} for a time; leave the time out")
        if not for_seconds > 0:
            raise UsageError(f"{for_seconds:g} s is no time; give more than 0")
        return nanoseconds(for_seconds)

    def _refresh_or_close(
        self, advice: Advice, judgement: Judgement, baselines: Baselines
    ) -> list[AdviceEvent]:
        """Refresh or close open advice by the same rule's judgement of its workload."""
        now = baselines.now
        if (exclusion := judgement.exclusion_of(advice.finding, now)) is not None:
            excluded = replace(advice, actor=exclusion.actor or _POLICY)
            closed = _closed(excluded, AdviceState.DISMISSED, now, str(exclusion))
            return self._put_closed(closed, now, was_right=None)
        same = judgement.finding.id == advice.id
        replaced = judgement.may_open and not same
        is_quiet = replaced or judgement.still_holds is False
        # After the clock was set back, times may be in the future.
        since = now if advice.quiet_since is None else min(now, advice.quiet_since)
        quiet_since = since if is_quiet else None
        patience = nanoseconds(judgement.conduct.close_after_seconds)
        if quiet_since is not None and now - quiet_since >= patience:
            is_over = not replaced and not judgement.has_conflict
            return self._close(advice, baselines, is_over=is_over)
        finding = judgement.finding if same else advice.finding
        fresh, has_risen = _refreshed(advice, finding, judgement.conduct.short_seconds, now)
        fresh = replace(fresh, quiet_since=quiet_since)
        if quiet_since is None:
            fresh = baselines.added_to(fresh)
        self._advice.put(fresh)
        return [AdviceEvent(AdviceEventKind.SEVERITY_UP, fresh, now)] if has_risen else []

    def _close(self, advice: Advice, baselines: Baselines, *, is_over: bool) -> list[AdviceEvent]:
        """Close quiet advice; with `is_over` its cause is gone, otherwise just not reported."""
        now = baselines.now
        was_claimed = advice.state is AdviceState.CLAIMED
        has_succeeded = was_claimed and is_over
        closed = _closed(
            advice, AdviceState.SUCCEEDED if has_succeeded else AdviceState.EXPIRED, now
        )
        has_lasted = now - advice.opened >= nanoseconds(advice.long_seconds)
        if not is_over:
            return self._put_closed(closed, now, was_right=None)
        if baselines.is_worth_verifying(advice):
            return self._put_in_trial(closed, now)
        # A problem that ended within the rule's span was probably no real one.
        was_right = True if has_succeeded else None if has_lasted else False
        return self._put_closed(closed, now, was_right=was_right)

    def _close_folded(self, judgement: Judgement, now: Nanoseconds) -> list[AdviceEvent]:
        """Close open advice that open incidents stand for; without room for those, keep it."""
        rule = judgement.finding.rule
        incidents = [
            incident.id
            for key in judgement.incidents
            for incident in self._advice.open_of(key, rule)
        ]
        events = []
        for advice in self._advice.open_of(judgement.key, rule):
            if not incidents:
                self._advice.put(replace(advice, seen=now, quiet_since=None))
                continue
            why = f"part of {', '.join(incidents)}"
            closed = _closed(advice, AdviceState.EXPIRED, now, why)
            events += self._put_closed(closed, now, was_right=None)
        return events

    def _put_closed(
        self, advice: Advice, now: Nanoseconds, *, was_right: bool | None
    ) -> list[AdviceEvent]:
        self._advice.put(advice)
        self.track_record.count_end(advice, was_right=was_right)
        return [AdviceEvent(AdviceEventKind.CLOSED, advice, now)]

    def _put_in_trial(self, advice: Advice, now: Nanoseconds) -> list[AdviceEvent]:
        """Close for now; the outcome is decided by the comparison of before and after."""
        advice = replace(advice, trial_since=now)
        self._advice.put(advice)
        return [AdviceEvent(AdviceEventKind.CLOSED, advice, now)]

    def _open_most_urgent(
        self, judgements: Sequence[Judgement], baselines: Baselines
    ) -> list[AdviceEvent]:
        """Open judgements by urgency; less severe advice makes room for more severe."""
        wanted: dict[_Place, Judgement] = {}
        for judgement in judgements:
            # Only one finding per rule and workload.
            place = judgement.key, judgement.finding.rule
            if place not in wanted and self._may_open(judgement, baselines.now):
                wanted[place] = judgement
        room = max(0, self.settings.most_records - self._advice.open_count)
        events, chosen = self._chosen(wanted, room, baselines.now)
        for place, judgement in wanted.items():
            if place in chosen:
                events += self._open(judgement, baselines)
        self.dropped = Counter(
            judgement.finding.severity for place, judgement in wanted.items() if place not in chosen
        )
        return events

    def _chosen(
        self, wanted: Mapping[_Place, Judgement], room: int, now: Nanoseconds
    ) -> tuple[list[AdviceEvent], AbstractSet[_Place]]:
        """Select the judgements to open, and close less severe advice to make room for them."""
        if len(wanted) <= room:
            return [], wanted.keys()
        ranked = sorted(wanted, key=lambda place: _urgency(wanted[place].finding))
        undecided = (advice for advice in self._advice if advice.state in _UNDECIDED)
        least_urgent = nlargest(
            len(ranked) - room, undecided, key=lambda advice: _urgency(advice.finding)
        )
        events: list[AdviceEvent] = []
        for place, least in zip(ranked[room:], least_urgent, strict=False):
            if wanted[place].finding.severity.rank <= least.finding.severity.rank:
                break  # The rest are no more severe.
            closed = _closed(least, AdviceState.EXPIRED, now, _DISPLACED)
            events += self._put_closed(closed, now, was_right=None)
            room += 1
        return events, frozenset(ranked[:room])

    def _may_open(self, judgement: Judgement, now: Nanoseconds) -> bool:
        finding = judgement.finding
        before = self._advice.get(finding.id)
        return (
            judgement.may_open
            and (before is None or not _is_in_force(before, now))
            and not self._advice.open_of(judgement.key, finding.rule)
            and not self._is_settled(judgement, now)
            and finding.confidence >= self.track_record.floor(finding.rule, finding.reasons[0])
        )

    def _is_settled(self, judgement: Judgement, now: Nanoseconds) -> bool:
        """Whether every finding that an incident stands for was dismissed."""
        folded = [self._advice.get(fold) for fold in judgement.folds]
        return bool(folded) and all(
            advice is not None and not advice.is_open and _is_in_force(advice, now)
            for advice in folded
        )

    def _with_decision(self, advice: Advice, judgement: Judgement) -> Advice:
        """Take over what was decided on all open advice that an incident stands for."""
        folded = [self._advice.get(fold) for fold in judgement.folds]
        open_advice = [item for item in folded if item is not None and item.is_open]
        if not open_advice or {item.state for item in open_advice}.isdisjoint(_DECIDED):
            return advice
        first = min(open_advice, key=lambda item: (item.opened, item.id))
        if any(item.state is not first.state for item in open_advice):
            return advice
        expires = min(
            (item.expires for item in open_advice if item.expires is not None), default=None
        )
        return replace(advice, state=first.state, actor=first.actor, why=first.why, expires=expires)

    def _open(self, judgement: Judgement, baselines: Baselines) -> list[AdviceEvent]:
        finding = judgement.finding
        now = baselines.now
        before = self._advice.get(finding.id)
        has_regressed = before is not None and self._has_regressed(before, now)
        if before is not None and before.trial_since is not None:
            self.track_record.count_end(before)
        open_advice = self._restored.get(finding.id) if before is None else None
        if open_advice is None:
            state = AdviceState.REGRESSED if has_regressed else AdviceState.ACTIVE
            advice = Advice(finding=finding, state=state, opened=now, updated=now)
            advice = self._with_decision(advice, judgement)
        else:
            advice = open_advice.continued(finding, now)
        long_seconds = judgement.conduct.long_seconds
        advice = replace(
            advice,
            seen=now,
            opening_confidence=finding.confidence,
            long_seconds=long_seconds,
            highest_severity=finding.severity,
            severity_since=now,
            # The baseline of a claim is lost with the ledger: the trial begins again.
            trial_since=now if advice.state is AdviceState.CLAIMED else None,
            trial_seconds=self.settings.verification.span_for(long_seconds),
        )
        advice = baselines.added_to(advice)
        self._advice.put(advice)
        if open_advice is not None:
            return []  # Already delivered when first opened.
        opened = AdviceEvent(AdviceEventKind.OPENED, advice, now)
        if has_regressed:
            return [opened, AdviceEvent(AdviceEventKind.REGRESSED, advice, now)]
        return [opened]

    def _has_regressed(self, advice: Advice, now: Nanoseconds) -> bool:
        within = nanoseconds(self.settings.regressed_within_seconds)
        closed = now if advice.closed is None else advice.closed
        return advice.state is AdviceState.SUCCEEDED and now - closed <= within

    def _expire_gone(self, now: Nanoseconds) -> list[AdviceEvent]:
        limit = now - nanoseconds(self.settings.gone_after_seconds)
        gone = [a for a in self._advice if a.is_open and a.seen < limit]
        for advice in [a for a in self._advice if a.seen > now]:
            self._advice.put(replace(advice, seen=now))
        events = []
        for advice in sorted(gone, key=lambda advice: advice.id):
            # Idle until it left: the advice to release was right.
            has_left = advice.finding.action in (Action.RELEASE, Action.SCALE_TO_ZERO)
            has_succeeded = has_left and advice.state is AdviceState.CLAIMED
            state = AdviceState.SUCCEEDED if has_succeeded else AdviceState.EXPIRED
            closed = _closed(advice, state, now)
            if has_succeeded and advice.baseline is not None:
                events += self._put_in_trial(closed, now)
            else:
                events += self._put_closed(closed, now, was_right=has_left or None)
        return events

    def _forget(self, now: Nanoseconds) -> None:
        limit = now - nanoseconds(self.settings.closed_kept_seconds)
        closed = [advice for advice in self.advice() if advice.closed is not None]
        beyond = max(0, len(self._advice) - self.settings.most_records)
        first_crowded_out = len(closed) - beyond
        for place, advice in enumerate(closed):
            is_old = advice.updated < limit and not _is_in_force(advice, now)
            if place >= first_crowded_out or (is_old and advice.trial_since is None):
                self._advice.remove(advice.id)


def _urgency(finding: Finding) -> tuple[int, float, float, str]:
    """Sort key of opening: most severe first, then largest savings."""
    savings = finding.savings
    return (
        -finding.severity.rank,
        -(savings.dollars_per_hour_low or 0.0),
        -(savings.gpus_low or 0.0),
        finding.id,
    )


def _is_due(advice: Advice, now: Nanoseconds) -> bool:
    """Whether a trial is to be concluded."""
    since = advice.trial_since
    return since is not None and now >= since + nanoseconds(advice.trial_seconds)


def _refreshed(
    advice: Advice, finding: Finding, short_seconds: float, now: Nanoseconds
) -> tuple[Advice, bool]:
    """Update with the present finding; return also whether the severity increased.

    The severity increases at most once per short span, so that borderline loads do not flap.
    """
    is_worse = finding.severity.rank > advice.highest_severity.rank
    has_risen = is_worse and now - advice.severity_since >= nanoseconds(short_seconds)
    if has_risen:
        advice = replace(advice, highest_severity=finding.severity, severity_since=now)
    elif is_worse:
        finding = replace(finding, severity=advice.highest_severity)
    is_over = advice.expires is not None and now >= advice.expires
    if is_over and advice.state is AdviceState.SNOOZED:
        advice = replace(advice, state=AdviceState.ACTIVE, expires=None)
    return replace(advice, finding=finding, updated=now, seen=now), has_risen


def _closed(advice: Advice, state: AdviceState, now: Nanoseconds, why: str = "") -> Advice:
    """Close automatically in the given state."""
    return replace(
        advice,
        state=state,
        updated=now,
        closed=now,
        expires=None,
        why=why or advice.why,
        quiet_since=None,
        trial_since=None,
    )


def _is_in_force(advice: Advice, now: Nanoseconds) -> bool:
    """Whether advice is open, or closed and not yet to be repeated."""
    return advice.is_open or (advice.expires is not None and now < advice.expires)
