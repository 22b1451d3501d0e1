"""LedgerRecovery: rebuilds a lost fleet ledger from the store and Grafana annotations."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from rightsizer.advice.record import Restoration, restored
from rightsizer.fleet.cache.grid import DAY, FINE_STEP
from rightsizer.fleet.context import store_of
from rightsizer.fleet.judge import FleetJudge
from rightsizer.fleet.settings import FleetConfig
from rightsizer.fleet.store import MetricStore
from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Failure
from rightsizer.model.advice import OPEN_STATES, AdviceState, Region, Scraped
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.notify.grafana.client import GrafanaClient
from rightsizer.notify.grafana.settings import read_token

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


def scraped_last(
    store: MetricStore, now: Nanoseconds, lookback: Nanoseconds
) -> Mapping[str, Scraped]:
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
    for key, opened_at in opened.items():
        if key and 0 < opened_at <= now:
            seen, state = states.get(key, unknown)
            found[key] = Scraped(key, opened_at, state, seen)
    return found


def _states(store: MetricStore, last: Nanoseconds) -> dict[str, tuple[Nanoseconds, AdviceState]]:
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


def _last_scraped(
    store: MetricStore, now: Nanoseconds, lookback: Nanoseconds
) -> Nanoseconds | None:
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


_SPAN: Final[Nanoseconds] = nanoseconds(365 * 86400.0)
"""Decisions that last for longer are rare."""
_MOST_REGIONS: Final = 2000
"""As many pieces of advice as a ledger keeps; some 3 MB of an answer."""


class LedgerRecovery:
    """Asks when it is told to: after a look, while the ledger is empty."""

    def __init__(
        self,
        judge: FleetJudge,
        settings: FleetConfig,
        tell: Callable[[str], object],
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Nobody is asked yet.

        Args:
            judge: Has looked at the estate, and knows the store.
            settings: Where Grafana is, and how long decisions last.
            tell: Is told why Grafana could not say, which costs nothing else.
            sleep: Waits between tries; where it returns true there are no more.
        """
        self._judge, self._settings = judge, settings
        self._tell, self._sleep = tell, sleep

    def restoration(self) -> Restoration:
        """What the store and Grafana know together.

        Raises:
            StoreError: the store does not answer.
        """
        now = self._judge.answer.time
        return restored(
            self._scraped(now),
            self._regions(now),
            self._judge.devices,
            now,
            self._settings.recommender.ledger,
        )

    def _scraped(self, now: Nanoseconds) -> Iterable[Scraped]:
        """What the fleet itself exported, and what the nodes' own agents do."""
        found = {}
        for each in self._judge.answer.node_advice:
            if each.opened_seconds:
                opened = nanoseconds(each.opened_seconds)
                found[each.id] = Scraped(each.id, opened, AdviceState.ACTIVE, seen=opened)
        fleet = self._settings.fleet
        store = store_of(fleet)
        try:
            found |= scraped_last(store, now, nanoseconds(fleet.lookback_seconds))
        finally:
            store.close()
        return found.values()

    def _regions(self, now: Nanoseconds) -> list[Region]:
        grafana = self._settings.grafana
        if not grafana.url:
            return []
        http = HttpClient(
            grafana.url, grafana.http, token=lambda: read_token(grafana), sleep=self._sleep
        )
        api = GrafanaClient(http)
        found = api.regions(now - _SPAN, now, _MOST_REGIONS)
        api.hang_up()
        if isinstance(found, Failure):
            self._tell(
                "The fleet's ledger is empty, and Grafana could not say what was claimed, snoozed "
                f"or dismissed before: {found.message}"
            )
            return []
        if len(found) >= _MOST_REGIONS:
            self._tell(
                "The fleet's ledger is empty, and of what Grafana knows of advice only the latest "
                f"{_MOST_REGIONS} annotations were read; older decisions may be missing."
            )
        return found
