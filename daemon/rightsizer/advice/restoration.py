"""Restoration of a lost ledger from metrics and annotations."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.settings import LedgerSettings
from rightsizer.model.values import (
    Advice,
    AdviceState,
    Finding,
    Nanoseconds,
    Region,
    Scraped,
    nanoseconds,
)

_SAME_MOMENT: Final[Nanoseconds] = 2_000_000
"""Annotations have a resolution of milliseconds."""
_FROM_METRICS: Final = "from metrics, which tell neither who nor why"
_FROM_ANNOTATION: Final = "from an annotation, which tells neither who nor why"
_UNTIL: Final = "; until when is taken from the settings"


class RestoredAdvice(Struct, frozen=True):
    """State of formerly open advice; the rule supplies the finding when it fires again."""

    opened: Nanoseconds
    state: AdviceState = AdviceState.ACTIVE
    expires: Nanoseconds | None = None
    actor: str | None = None
    why: str = ""

    def at(self, now: Nanoseconds) -> "RestoredAdvice":
        """State at a time, with an expired snooze removed."""
        is_over = self.expires is not None and self.expires <= now
        return RestoredAdvice(self.opened) if is_over else self

    def continued(self, finding: Finding, now: Nanoseconds) -> Advice:
        """Advice continued from this state."""
        open_advice = self.at(now)
        return Advice(
            finding,
            open_advice.state,
            min(open_advice.opened, now),
            updated=now,
            expires=open_advice.expires,
            actor=open_advice.actor,
            why=open_advice.why,
        )


class Restoration(Struct, frozen=True):
    """Recoverable part of a ledger."""

    open_advice: Mapping[str, RestoredAdvice] = {}
    """State of open advice by id."""
    closed: tuple[Advice, ...] = ()
    """Closed advice that must not be repeated yet."""


def restored(
    scraped: Iterable[Scraped],
    regions: Iterable[Region],
    devices: AbstractSet[str],
    now: Nanoseconds,
    settings: LedgerSettings,
) -> Restoration:
    """Merge metrics and annotations; the later source wins.

    Each open recommendation has one sample, and any number of regions in any order, one per
    opening. Closed advice on devices other than the given uuids is omitted.
    """
    seen = {sample.id: sample for sample in scraped if sample.opened <= now}
    latest: dict[str, Region] = {}
    # Later regions sort last; `repr` makes the order of equal ones deterministic.
    for later in sorted(
        (region for region in regions if region.advice.opened <= now),
        key=lambda region: (region.advice.opened, region.end, region.decided or 0, repr(region)),
    ):
        latest[later.advice.id] = later
    open_advice = {}
    closed = list[Advice]()
    for advice_id in sorted(seen.keys() | latest.keys()):
        metric, region = _of_one_opening(seen.get(advice_id), latest.get(advice_id))
        if region is None or region.advice.is_open:
            open_advice[advice_id] = _restored(metric, region, settings).at(now)
        elif not devices.isdisjoint(region.advice.finding.devices):
            advice = _closed(region, settings)
            closed += [advice] if (advice.expires or 0) > now else []
    return Restoration(open_advice, tuple(closed))


def _of_one_opening(
    metric: Scraped | None, region: Region | None
) -> tuple[Scraped | None, Region | None]:
    """Return both if they describe the same opening, else only the later one."""
    if metric is None or region is None:
        return metric, region
    was_open_later = not region.advice.is_open and region.end < metric.seen
    if was_open_later or region.advice.opened < metric.opened - _SAME_MOMENT:
        return metric, None
    return (None if region.advice.opened > metric.opened + _SAME_MOMENT else metric), region


def _restored(
    metric: Scraped | None, region: Region | None, settings: LedgerSettings
) -> RestoredAdvice:
    """State by the later of the two; at least one is given."""
    opened = metric.opened if metric is not None else region.advice.opened if region else 0
    usual = nanoseconds(settings.snoozed_seconds)
    if region is not None and region.decided is not None:
        advice = region.advice
        if metric is None or region.decided > metric.seen or advice.state is metric.state:
            is_snoozed = advice.state is AdviceState.SNOOZED
            expires = (advice.expires or region.decided + usual) if is_snoozed else None
            return RestoredAdvice(opened, advice.state, expires, advice.actor, advice.why)
    if metric is None:
        return RestoredAdvice(opened)
    if metric.state is AdviceState.SNOOZED:
        why = _FROM_METRICS + _UNTIL
        return RestoredAdvice(opened, metric.state, metric.seen + usual, why=why)
    why = _FROM_METRICS if metric.state is AdviceState.CLAIMED else ""
    return RestoredAdvice(opened, metric.state, why=why)


def _closed(region: Region, settings: LedgerSettings) -> Advice:
    """Restore closed advice from a region; it expires when it may be repeated."""
    advice = region.advice
    closed = region.end
    if region.decided is None and advice.state is AdviceState.DISMISSED:
        # Annotation of an earlier version, without decisions.
        expires = closed + nanoseconds(settings.dismissed_seconds)
        advice = replace(advice, expires=expires, why=_FROM_ANNOTATION + _UNTIL)
    return replace(
        advice,
        updated=closed,
        closed=closed,
        seen=closed,
        highest_severity=advice.finding.severity,
        severity_since=closed,
    )
