"""Record: one recommendation with what the ledger knows beside it.

Restored from metrics and annotations.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from rightsizer.advice.settings import LedgerSettings
from rightsizer.advice.verification import Baseline
from rightsizer.model.advice import Advice, AdviceState, Region, Scraped
from rightsizer.model.finding import Finding, Severity
from rightsizer.model.units import Nanoseconds, nanoseconds

_SEVERITIES = tuple(Severity)


@dataclass(frozen=True, slots=True)
class AdviceRecord:
    """A piece of advice with what the ledger knows of it beside."""

    advice: Advice
    key: str
    quiet_since: Nanoseconds | None = None
    """Since when nothing recent supports it."""
    seen: Nanoseconds = 0
    """When its workload was last judged."""
    confidence: float = 0.0
    """That it was opened with."""
    long_seconds: float = 0.0
    """The rule's long span when it was opened."""
    severity: Severity = Severity.LOW
    """The highest that was told."""
    severity_since: Nanoseconds = 0
    baseline: Baseline | None = None
    """How things stood before; `None` where nothing was measured."""
    baseline_since: Nanoseconds = 0
    trial_since: Nanoseconds | None = None
    """Since when it is tried out; `None` where it is not, or the verdict is in."""
    trial_seconds: float = 0.0
    """Time to compare before and after."""

    @property
    def due(self) -> Nanoseconds | None:
        """When before and after can be compared, `None` where they will not be."""
        if self.trial_since is None:
            return None
        return self.trial_since + nanoseconds(self.trial_seconds)

    def refreshed(
        self, finding: Finding, short_seconds: float, now: Nanoseconds
    ) -> tuple["AdviceRecord", bool]:
        """With what is found now, and whether it is more severe than was told before.

        It rises at most once in each short span, so that a load at the border does not nag.
        """
        is_worse = _SEVERITIES.index(finding.severity) > _SEVERITIES.index(self.severity)
        may_rise = now - self.severity_since >= nanoseconds(short_seconds)
        if is_worse and not may_rise:
            finding = replace(finding, severity=self.severity)
        has_risen = is_worse and may_rise
        advice = replace(_awake(self.advice, now), finding=finding, updated=now)
        return replace(
            self,
            advice=advice,
            seen=now,
            severity=finding.severity if has_risen else self.severity,
            severity_since=now if has_risen else self.severity_since,
        ), has_risen

    def closed(self, state: AdviceState, now: Nanoseconds, why: str = "") -> "AdviceRecord":
        """As it ends, of itself."""
        advice = replace(
            self.advice,
            state=state,
            updated=now,
            closed=now,
            expires=None,
            why=why or self.advice.why,
        )
        return replace(self, advice=advice, quiet_since=None, trial_since=None)


def _awake(advice: Advice, now: Nanoseconds) -> Advice:
    """The advice, active again where its snooze is over."""
    if advice.state is AdviceState.SNOOZED and advice.expires is not None and now >= advice.expires:
        return replace(advice, state=AdviceState.ACTIVE, expires=None)
    return advice


_SAME_MOMENT: Final[Nanoseconds] = 2_000_000
"""Annotations know milliseconds."""
_FROM_METRICS: Final = "from metrics, which tell neither who nor why"
_FROM_ANNOTATION: Final = "from an annotation, which tells neither who nor why"
_UNTIL: Final = "; until when is taken from the settings"


@dataclass(frozen=True, slots=True)
class RestoredAdvice:
    """How advice stood that was open; the rule that gives it again brings the finding."""

    opened: Nanoseconds
    state: AdviceState = AdviceState.ACTIVE
    expires: Nanoseconds | None = None
    actor: str | None = None
    why: str = ""

    def at(self, now: Nanoseconds) -> "RestoredAdvice":
        """The same, awake where its snooze is over by now."""
        is_over = self.expires is not None and self.expires <= now
        return RestoredAdvice(self.opened) if is_over else self

    def taken_up(self, finding: Finding, now: Nanoseconds) -> Advice:
        """The advice as it goes on."""
        standing = self.at(now)
        return Advice(
            finding,
            standing.state,
            min(standing.opened, now),
            updated=now,
            expires=standing.expires,
            actor=standing.actor,
            why=standing.why,
        )


@dataclass(frozen=True, slots=True)
class Restoration:
    """What there is to take over."""

    standing: Mapping[str, RestoredAdvice] = field(default_factory=dict)
    """Of advice that was open, by its id."""
    quiet: tuple[AdviceRecord, ...] = ()
    """Advice that was closed, and is not to be repeated for a while."""


def restored(
    scraped: Iterable[Scraped],
    regions: Iterable[Region],
    devices: AbstractSet[str],
    now: Nanoseconds,
    settings: LedgerSettings,
) -> Restoration:
    """What metrics and annotations tell together, whichever is the later.

    Args:
        scraped: Open advice, each piece once.
        regions: Several of a piece that was opened more than once; in any order.
        devices: UUIDs that the ledger is about: what was closed elsewhere stays away.
        now: Wall time; what expired by then is not restored.
        settings: How long decisions last that nobody tells the end of.
    """
    seen = {each.id: each for each in scraped if each.opened <= now}
    latest: dict[str, Region] = {}
    for region in sorted(regions, key=_age):
        if region.opened <= now:
            latest[region.id] = region
    standing, quiet = {}, []
    for advice_id in sorted(seen.keys() | latest.keys()):
        metric, mark = _of_one_time(seen.get(advice_id), latest.get(advice_id))
        if mark is None or mark.is_open:
            standing[advice_id] = _standing(metric, mark, settings).at(now)
        elif not devices.isdisjoint(mark.finding.devices):
            quiet += [each for each in _closed(mark, settings) if _expiry(each) > now]
    return Restoration(standing, tuple(quiet))


def _age(region: Region) -> tuple[Nanoseconds, Nanoseconds, Nanoseconds, str]:
    """What came later sorts later, in an order of its own where all is the same."""
    return region.opened, region.end, region.decided or 0, repr(region)


def _expiry(record: AdviceRecord) -> Nanoseconds:
    return record.advice.expires or 0


def _of_one_time(
    metric: Scraped | None, mark: Region | None
) -> tuple[Scraped | None, Region | None]:
    """Both, where they tell of the same opening, and the later one alone otherwise."""
    if metric is None or mark is None:
        return metric, mark
    was_open_later = not mark.is_open and mark.end < metric.seen
    if was_open_later or mark.opened < metric.opened - _SAME_MOMENT:
        return metric, None
    return (None if mark.opened > metric.opened + _SAME_MOMENT else metric), mark


def _standing(
    metric: Scraped | None, mark: Region | None, settings: LedgerSettings
) -> RestoredAdvice:
    """As the later of the two tells; at least one is there."""
    opened = metric.opened if metric is not None else 0 if mark is None else mark.opened
    usual = nanoseconds(settings.snoozed_seconds)
    if mark is not None and mark.decided is not None:
        is_snoozed = mark.state is AdviceState.SNOOZED
        if metric is None or mark.decided > metric.seen or mark.state is metric.state:
            expires = (mark.expires or mark.decided + usual) if is_snoozed else None
            return RestoredAdvice(opened, mark.state, expires, mark.actor, mark.why)
    if metric is None:
        return RestoredAdvice(opened)
    if metric.state is AdviceState.SNOOZED:
        why = _FROM_METRICS + _UNTIL
        return RestoredAdvice(opened, metric.state, metric.seen + usual, why=why)
    why = _FROM_METRICS if metric.state is AdviceState.CLAIMED else ""
    return RestoredAdvice(opened, metric.state, why=why)


def _closed(mark: Region, settings: LedgerSettings) -> list[AdviceRecord]:
    """A region that was closed as the ledger had it, where its end says when it may be repeated."""
    if mark.decided is None and mark.state is AdviceState.DISMISSED:
        # Written before annotations told of decisions.
        expires = mark.end + nanoseconds(settings.dismissed_seconds)
        mark = replace(mark, expires=expires, why=_FROM_ANNOTATION + _UNTIL)
    if mark.expires is None:
        return []
    finding, closed = mark.finding, mark.end
    advice = Advice(
        finding,
        mark.state,
        mark.opened,
        updated=closed,
        expires=mark.expires,
        closed=closed,
        actor=mark.actor,
        why=mark.why,
    )
    return [
        AdviceRecord(advice, key="", seen=closed, severity=finding.severity, severity_since=closed)
    ]
