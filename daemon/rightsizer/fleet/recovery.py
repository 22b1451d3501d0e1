"""Recovery of a lost ledger: what the store, the agents and Grafana know of advice."""

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import Final

from rightsizer.advice.restoration import Restoration, restored
from rightsizer.fleet.cache.grid import DAY, FINE_STEP
from rightsizer.fleet.context import store_of
from rightsizer.fleet.judge import FleetJudge
from rightsizer.fleet.settings import FleetConfig, ledger_settings
from rightsizer.fleet.source import MetricStore
from rightsizer.io.http_result import Failure
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    OPEN_STATES,
    AdviceState,
    Nanoseconds,
    Region,
    Scraped,
    nanoseconds,
)
from rightsizer.notify.grafana.client import GrafanaClient, http_client
from rightsizer.notify.grafana.settings import GrafanaSettings

_FLEET: Final = "rightsizer_fleet_coverage_ratio"
"""Exported only by `rightsizer fleet --serve`, after each successful run."""
_MOMENT: Final[Nanoseconds] = 15 * NANOSECONDS_PER_SECOND
_NARROWED: Final = (DAY, FINE_STEP, _MOMENT)
"""Each answer narrows the span of the next query: 14, 288 and 20 steps of one series."""
_SCRAPED: Final = "max(present_over_time({fleet}[{seconds}s]))"
_OPENED: Final = (
    "min by (id) (last_over_time(rightsizer_advice_opened_timestamp_seconds[{seconds}s]) "
    "and on (job, instance) last_over_time({fleet}[{seconds}s]))"
)

_STATES: Final = (
    "max by (id, state) (present_over_time(rightsizer_advice_info[{seconds}s]) "
    "and on (job, instance) present_over_time({fleet}[{seconds}s]))"
)
"""At each second of the moment, as the last state counts."""
_SECOND: Final[Nanoseconds] = NANOSECONDS_PER_SECOND
_SPAN: Final[Nanoseconds] = nanoseconds(365 * 86400.0)
"""Decisions that last longer are rare."""
_MOST_REGIONS: Final = 2000
"""About 3 MB of an answer."""

Warn = Callable[[str, str], None]
"""Takes the name of an event and a message."""
Sleep = Callable[[float], object]
"""Returns true if no more tries are to follow."""


def scraped_last(
    store: MetricStore, now: Nanoseconds, lookback: Nanoseconds
) -> Mapping[str, Scraped]:
    """Return the advice, by id, that was open when the fleet was last scraped.

    Advice closed before that stays closed. Requires five small queries. They look back over
    samples, as a service that ran for a minute may miss every five-minute step.

    Raises:
        StoreError: the store does not answer.
    """
    last = _last_scraped(store, now, lookback)
    if last is None:
        return {}
    # Last known state of each piece of advice, and its time.
    states: dict[str, tuple[Nanoseconds, AdviceState]] = {}
    start = last - _MOMENT + _SECOND
    by_id = {}
    opened = store.instant(_over(_OPENED, _MOMENT), last)
    for series in store.range(_over(_STATES, _SECOND), start, last, _SECOND):
        state = series.labels.get("state", "")
        key = series.labels.get("id", "")
        if state in OPEN_STATES:
            at = (series.span[1] - _SECOND, AdviceState(state))
            states[key] = max(states.get(key, at), at)
    for series in opened:
        key = series.labels.get("id", "")
        # Limited by the precision of doubles; annotations are matched by the millisecond.
        opened_at = round(nanoseconds(series.value), -3)
        if key and 0 < opened_at <= now:
            seen, advice_state = states.get(key, (last - _MOMENT, AdviceState.ACTIVE))
            by_id[key] = Scraped(key, opened_at, advice_state, seen)
    return by_id


def _last_scraped(
    store: MetricStore, now: Nanoseconds, lookback: Nanoseconds
) -> Nanoseconds | None:
    """Return the end of the moment in which the service was last scraped."""
    end = -(-now // NANOSECONDS_PER_SECOND) * NANOSECONDS_PER_SECOND
    span = lookback
    for step in _NARROWED:
        steps = max(1, span // step)
        series = store.range(_over(_SCRAPED, step), end - (steps - 1) * step, end, step)
        times = [sampled_series.span[1] for sampled_series in series]
        if not times:
            return None
        end = max(times)
        span = step
    return end


def _over(query: str, span: Nanoseconds) -> str:
    return query.format(fleet=_FLEET, seconds=span // NANOSECONDS_PER_SECOND)


def restoration(judge: FleetJudge, settings: FleetConfig, warn: Warn, sleep: Sleep) -> Restoration:
    """Return what the store and Grafana know of a lost ledger, after a run of the judge.

    Raises:
        StoreError: the store does not answer.
    """
    now = judge.answer.time
    fleet = settings.fleet
    scraped = {}
    for advice in judge.answer.node_advice:
        if advice.opened_seconds:
            opened = nanoseconds(advice.opened_seconds)
            scraped[advice.id] = Scraped(advice.id, opened, AdviceState.ACTIVE, seen=opened)
    with closing(store_of(fleet)) as store:
        scraped |= scraped_last(store, now, nanoseconds(fleet.lookback_seconds))
    regions = _regions(settings.grafana, now, partial(warn, "ledger_lost"), sleep)
    ledger = ledger_settings(settings)
    return restored(scraped.values(), regions, judge.devices, now, ledger)


def _regions(
    grafana: GrafanaSettings, now: Nanoseconds, warn: Callable[[str], object], sleep: Sleep
) -> list[Region]:
    if not grafana.url:
        return []
    api = GrafanaClient(http_client(grafana, sleep=sleep))
    regions = api.regions(now - _SPAN, now, _MOST_REGIONS)
    api.hang_up()
    if isinstance(regions, Failure):
        warn(
            "The fleet's ledger is empty, and Grafana could not say what was claimed, snoozed "
            f"or dismissed before: {regions.message}"
        )
        return []
    if len(regions) >= _MOST_REGIONS:
        warn(
            "The fleet's ledger is empty, and of what Grafana knows of advice only the latest "
            f"{_MOST_REGIONS} annotations were read; older decisions may be missing."
        )
    return regions
