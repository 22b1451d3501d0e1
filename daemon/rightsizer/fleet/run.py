"""A single run of the fleet: ledger, rules, answer; and what a lost ledger can be told."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from rightsizer.advice.ledger import Ledger
from rightsizer.advice.restoration import Restoration, restored
from rightsizer.advice.service import AdviceService, EventSink
from rightsizer.fleet.cache.day_frame import DAY, FINE_STEP
from rightsizer.fleet.context import store_of
from rightsizer.fleet.encoder import FleetAnswer
from rightsizer.fleet.judge import FleetJudge
from rightsizer.fleet.ledger import loss_of, opened_ledger
from rightsizer.fleet.settings import FleetConfig, rule_trees
from rightsizer.fleet.source import MetricStore
from rightsizer.io.clock import Clock
from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Failure
from rightsizer.model.advice import OPEN_STATES, AdviceEvent, AdviceState, Region, Scraped
from rightsizer.model.errors import UsageError
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.notify.grafana.client import GrafanaClient
from rightsizer.notify.grafana.settings import read_token
from rightsizer.notify.service import NotificationService
from rightsizer.report.explanation import explain_advice, explain_finding
from rightsizer.report.json_encoder import Form
from rightsizer.web.advice_api import unknown_advice_message

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


class DeduplicatingSink:
    """A sink that is not told of advice which a node's own agent exports, and tells of itself."""

    def __init__(self, sink: EventSink, judge: FleetJudge) -> None:
        self._sink, self._judge = sink, judge

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Pass on what is the fleet's own."""
        told = self._judge.told_by_nodes
        own = [event for event in events if event.advice.finding.id not in told]
        if own:
            self._sink.offer(own)

    def deliver(self) -> object:
        """Let it send what waits."""
        return self._sink.deliver()


_AGENTS: Final = "rightsizer"


def run_once(
    judge: FleetJudge, settings: FleetConfig, clock: Clock, *, keeps: bool = False
) -> FleetAnswer:
    """Look, and give the ledger as it is after that.

    Args:
        judge: Looks at the estate.
        settings: Everything that an operator may set.
        clock: The look's.
        keeps: Save the ledger and tell Grafana and webhooks; otherwise nothing is changed.

    Raises:
        StoreError: the store does not answer, or not wholly.
        HistoryError: the ledger is held by a service, or cannot be written.
    """
    if keeps:
        return _kept(judge, settings, clock)
    ledger = _ledger(judge, settings)
    found = judge.run(ledger.open_now())
    troubles: list[str] = []
    if not ledger.records:
        ledger.remember(_restorer(judge, settings, troubles).restoration())
    ledger.update(found.judgements, found.time, found.measured)
    notes = (*judge.answer.notes, *troubles)
    return replace(judge.answer, advice=ledger.advice(), notes=notes)


def explain_once(judge: FleetJudge, settings: FleetConfig, asked: str) -> Form:
    """The reasoning behind a piece of advice, or behind a verdict that is none.

    Raises:
        UsageError: there is no verdict of that id.
        StoreError: the store does not answer, or not wholly.
    """
    ledger = _ledger(judge, settings)
    found = judge.run(ledger.open_now())
    if not ledger.records:
        ledger.remember(_restorer(judge, settings, []).restoration())
    ledger.update(found.judgements, found.time, found.measured)
    trees = rule_trees(settings)
    for advice in ledger.advice():
        if advice.id == asked:
            return _askable(explain_advice(advice, trees), judge.answer)
    for judgement in found.judgements:
        if judgement.finding.id == asked:
            form = explain_finding(judgement.finding, found.time, trees)
            return _askable(form, judge.answer)
    raise UsageError(
        unknown_advice_message(ledger.advice(), asked) or f"there is no verdict '{asked}'"
    )


def _askable(form: Form, answer: FleetAnswer) -> Form:
    """Without the queries where no agent exports what they ask for."""
    has_agents = any(each.devices for each in answer.sources if each.source == _AGENTS)
    return form if has_agents else form | {"queries": []}


def _ledger(judge: FleetJudge, settings: FleetConfig) -> Ledger:
    """As it was kept last, to look at."""
    if not judge.ledger_path.is_file():
        return Ledger((), settings.recommender.ledger)
    storage = opened_ledger(judge.ledger_path, read_only=True)
    try:
        return storage.ledger(settings.recommender.ledger)
    finally:
        storage.close()


def _restorer(judge: FleetJudge, settings: FleetConfig, troubles: list[str]) -> LedgerRecovery:
    return LedgerRecovery(judge, settings, troubles.append, _at_once)


def _at_once(_: float) -> bool:
    """Nobody waits here for a peer that is away: the next look tries again."""
    return True


def _kept(judge: FleetJudge, settings: FleetConfig, clock: Clock) -> FleetAnswer:
    storage, troubles = opened_ledger(judge.ledger_path), list[str]()
    try:
        ledger = storage.ledger(settings.recommender.ledger)
        sinks = NotificationService(
            settings,
            storage.database,
            lambda: desk.advice,
            clock=clock,
            warn=lambda _, message: troubles.append(message),
            sleep=_at_once,
        )
        told = (DeduplicatingSink(sinks, judge),)
        restorer = _restorer(judge, settings, troubles)
        desk = AdviceService(judge, ledger, storage, told, clock, restore=restorer.restoration)
        desk.recommend()
        desk.deliver()
        notes = (*judge.answer.notes, *loss_of(storage), *troubles)
        return replace(judge.answer, advice=desk.advice, notes=notes)
    finally:
        storage.close()
