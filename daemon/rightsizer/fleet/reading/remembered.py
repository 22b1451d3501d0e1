"""What a store remembers of a fleet's own advice, for a ledger that was lost."""

from collections.abc import Mapping
from typing import Final

from rightsizer.domain.advice import OPEN_STATES, AdviceState
from rightsizer.domain.advice_trace import Scraped
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.fleet.kept.grid import DAY, FINE_STEP
from rightsizer.fleet.store import Store

__all__ = ["scraped_last"]

_FLEET: Final = "rightsizer_fleet_coverage_ratio"
"""What only `rightsizer fleet --serve` exports, after each look that succeeded."""
_MOMENT: Final[Nanoseconds] = 15 * NANOSECONDS_PER_SECOND
_NARROWED: Final = (DAY, FINE_STEP, _MOMENT)
"""Each answer tells the next question its span: 14, 288 and 20 steps of one series."""
_SCRAPED: Final = "max(present_over_time({fleet}[{seconds}s]))"
_OPENED: Final = (
    "min by (id) (last_over_time(rightsizer_advice_opened_timestamp_seconds[{seconds}s]) "
    "and on (job, instance) last_over_time({fleet}[{seconds}s]))"
)

_STATES: Final = (
    "max by (id, state) (present_over_time(rightsizer_advice_info[{seconds}s]) "
    "and on (job, instance) present_over_time({fleet}[{seconds}s]))"
)
"""At each second of the moment, for the last state is the one that counts."""
_SECOND: Final[Nanoseconds] = NANOSECONDS_PER_SECOND


def scraped_last(store: Store, now: Nanoseconds, lookback: Nanoseconds) -> Mapping[str, Scraped]:
    """The advice that was open as the fleet was scraped last, by its id.

    What was closed before that stays closed. It takes five queries that bring little. They look
    back over samples, for a service that ran for a minute is at no step of five minutes.

    Raises:
        StoreError: the store does not answer.
    """
    last = _last_scraped(store, now, lookback)
    if last is None:
        return {}
    opened = {
        series.labels.get("id", ""): _to_the_microsecond(series.values[-1])
        for series in store.instant(_over(_OPENED, _MOMENT), last)
    }
    states, unknown = _states(store, last), (last - _MOMENT, AdviceState.ACTIVE)
    found = {}
    for key, time in opened.items():
        if key and 0 < time <= now:
            seen, state = states.get(key, unknown)
            found[key] = Scraped(key, time, state, seen)
    return found


def _states(store: Store, last: Nanoseconds) -> dict[str, tuple[Nanoseconds, AdviceState]]:
    """When each piece was surely seen in its last state, and in which."""
    found: dict[str, tuple[Nanoseconds, AdviceState]] = {}
    start = last - _MOMENT + _SECOND
    for series in store.range(_over(_STATES, _SECOND), start, last, _SECOND):
        state = series.labels.get("state", "")
        if series.times and state in OPEN_STATES:
            seen = (series.times[-1] - _SECOND, AdviceState(state))
            key = series.labels.get("id", "")
            found[key] = max(found.get(key, seen), seen)
    return found


def _last_scraped(store: Store, now: Nanoseconds, lookback: Nanoseconds) -> Nanoseconds | None:
    """The end of the moment in which the service was scraped last."""
    end, span = -(-now // NANOSECONDS_PER_SECOND) * NANOSECONDS_PER_SECOND, lookback
    for step in _NARROWED:
        steps = max(1, span // step)
        found = store.range(_over(_SCRAPED, step), end - (steps - 1) * step, end, step)
        times = [each.times[-1] for each in found if each.times]
        if not times:
            return None
        end, span = max(times), step
    return end


def _over(query: str, span: Nanoseconds) -> str:
    """A query that looks back over a span."""
    return query.format(fleet=_FLEET, seconds=span // NANOSECONDS_PER_SECOND)


def _to_the_microsecond(seconds: float) -> Nanoseconds:
    """A double of seconds knows no more; annotations are found again by the millisecond."""
    return round(nanoseconds(seconds), -3)
