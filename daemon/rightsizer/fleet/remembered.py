"""What a store remembers of a fleet's own advice, for a ledger that was lost."""

from collections.abc import Mapping
from typing import Final

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.fleet.grid import COARSE_STEP, DAY, FINE_STEP
from rightsizer.fleet.store import Store

__all__ = ["opened_before"]

_FLEET: Final = "max by (job, instance) (rightsizer_fleet_coverage_ratio)"
"""What only `rightsizer fleet --serve` exports, after each look that succeeded."""
_OPENED: Final = (
    "min by (id) (rightsizer_advice_opened_timestamp_seconds "
    "and on (job, instance) rightsizer_fleet_coverage_ratio)"
)


def opened_before(
    store: Store, now: Nanoseconds, lookback: Nanoseconds
) -> Mapping[str, Nanoseconds]:
    """When the advice was opened that was open as the fleet was scraped last, by its id.

    What was closed before that stays closed. It takes a handful of queries that bring little.

    Raises:
        StoreError: the store does not answer.
    """
    last = _last_scraped(store, now, lookback)
    if last is None:
        return {}
    found = {
        series.labels.get("id", ""): _to_the_microsecond(series.values[-1])
        for series in store.instant(_OPENED, last)
    }
    return {key: opened for key, opened in found.items() if key and 0 < opened <= now}


def _last_scraped(store: Store, now: Nanoseconds, lookback: Nanoseconds) -> Nanoseconds | None:
    """To five minutes where that was within a day, to an hour before that."""
    if store.instant(_FLEET, now):
        return now
    for step, span in ((FINE_STEP, min(DAY, lookback)), (COARSE_STEP, lookback)):
        whole = now // NANOSECONDS_PER_SECOND * NANOSECONDS_PER_SECOND
        found = store.range(_FLEET, whole - span // step * step, whole, step)
        times = [each.times[-1] for each in found if each.times]
        if times:
            return max(times)
    return None


def _to_the_microsecond(seconds: float) -> Nanoseconds:
    """A double of seconds knows no more; annotations are found again by the millisecond."""
    return round(nanoseconds(seconds), -3)
