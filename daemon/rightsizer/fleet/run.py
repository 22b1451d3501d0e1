"""A single fleet run: ledger, rules, answer; and recovery of a lost ledger."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final

from rightsizer.advice.ledger import Ledger
from rightsizer.advice.restoration import Restoration, restored
from rightsizer.advice.service import AdviceService, EventSink, RecommenderResult
from rightsizer.advice.storage import Storage
from rightsizer.fleet.cache.grid import DAY, FINE_STEP
from rightsizer.fleet.clusters import CLUSTER_LABELS
from rightsizer.fleet.context import store_of
from rightsizer.fleet.encoder import FleetAnswer
from rightsizer.fleet.judge import FleetJudge
from rightsizer.fleet.ledger import loss_of, opened_ledger
from rightsizer.fleet.prometheus.selector import Matchers
from rightsizer.fleet.settings import FleetConfig, FleetSettings, ledger_settings, rule_trees
from rightsizer.fleet.source import MetricStore
from rightsizer.fleet.sources.dcgm_exporter.recording_rules import (
    USUAL_METRICS,
    metrics_in,
    recorded_series,
    rules_text,
)
from rightsizer.io.clock import Clock
from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Failure
from rightsizer.model.advice import OPEN_STATES, AdviceEvent, AdviceState, Region, Scraped
from rightsizer.model.errors import StoreError, UsageError
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.notify.grafana.client import GrafanaClient
from rightsizer.notify.grafana.settings import GrafanaSettings, read_token
from rightsizer.notify.service import NotificationService
from rightsizer.report.explanation import explain_advice, explain_finding
from rightsizer.report.json_encoder import JsonObject
from rightsizer.web.advice_api import unknown_advice_message

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
    start, found = last - _MOMENT + _SECOND, {}
    opened = store.instant(_over(_OPENED, _MOMENT), last)
    for series in store.range(_over(_STATES, _SECOND), start, last, _SECOND):
        state, key = series.labels.get("state", ""), series.labels.get("id", "")
        if state in OPEN_STATES:
            at = (series.span[1] - _SECOND, AdviceState(state))
            states[key] = max(states.get(key, at), at)
    for series in opened:
        key = series.labels.get("id", "")
        # Limited by the precision of doubles; annotations are matched by the millisecond.
        opened_at = round(nanoseconds(series.value), -3)
        if key and 0 < opened_at <= now:
            seen, known = states.get(key, (last - _MOMENT, AdviceState.ACTIVE))
            found[key] = Scraped(key, opened_at, known, seen)
    return found


def _last_scraped(
    store: MetricStore, now: Nanoseconds, lookback: Nanoseconds
) -> Nanoseconds | None:
    """Return the end of the moment in which the service was last scraped."""
    end, span = -(-now // NANOSECONDS_PER_SECOND) * NANOSECONDS_PER_SECOND, lookback
    for step in _NARROWED:
        steps = max(1, span // step)
        found = store.range(_over(_SCRAPED, step), end - (steps - 1) * step, end, step)
        times = [each.span[1] for each in found]
        if not times:
            return None
        end, span = max(times), step
    return end


def _over(query: str, span: Nanoseconds) -> str:
    return query.format(fleet=_FLEET, seconds=span // NANOSECONDS_PER_SECOND)


_SPAN: Final[Nanoseconds] = nanoseconds(365 * 86400.0)
"""Decisions that last longer are rare."""
_MOST_REGIONS: Final = 2000
"""About 3 MB of an answer."""
_AGENTS: Final = "rightsizer"

Warn = Callable[[str, str], None]
Sleep = Callable[[float], object]


def restoration(judge: FleetJudge, settings: FleetConfig, warn: Warn, sleep: Sleep) -> Restoration:
    """Return what the store and Grafana know of a lost ledger, after a run of the judge.

    Raises:
        StoreError: the store does not answer.
    """
    now, fleet = judge.answer.time, settings.fleet
    scraped = {}
    for each in judge.answer.node_advice:
        if each.opened_seconds:
            opened = nanoseconds(each.opened_seconds)
            scraped[each.id] = Scraped(each.id, opened, AdviceState.ACTIVE, seen=opened)
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
    http = HttpClient(grafana.url, grafana.http, token=lambda: read_token(grafana), sleep=sleep)
    api = GrafanaClient(http)
    found = api.regions(now - _SPAN, now, _MOST_REGIONS)
    api.hang_up()
    if isinstance(found, Failure):
        warn(
            "The fleet's ledger is empty, and Grafana could not say what was claimed, snoozed "
            f"or dismissed before: {found.message}"
        )
        return []
    if len(found) >= _MOST_REGIONS:
        warn(
            "The fleet's ledger is empty, and of what Grafana knows of advice only the latest "
            f"{_MOST_REGIONS} annotations were read; older decisions may be missing."
        )
    return found


class DeduplicatingSink:
    """Passes on the fleet's own advice, without that exported by node agents."""

    def __init__(self, sink: EventSink, judge: FleetJudge) -> None:
        self._judge, self._sink = judge, sink
        self.deliver = sink.deliver

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Pass on the fleet's own events."""
        node_ids = self._judge.node_advice_ids
        if own := [event for event in events if event.advice.finding.id not in node_ids]:
            self._sink.offer(own)


def advice_service(  # noqa: PLR0913, PLR0917 - the outside world comes in as arguments.
    judge: FleetJudge,
    settings: FleetConfig,
    storage: Storage,
    clock: Clock,
    warn: Warn,
    sleep: Sleep,
) -> tuple[AdviceService, NotificationService]:
    """Return the ledger's service for a judge, and its notification service.

    `warn` receives the name of an event and a message; no more tries follow once `sleep` returns
    true.
    """
    notifications = NotificationService(
        settings, storage.database, lambda: service.advice, clock=clock, warn=warn, sleep=sleep
    )
    service = AdviceService(
        judge,
        storage.ledger(ledger_settings(settings)),
        storage,
        (DeduplicatingSink(notifications, judge),),
        clock,
        restore=partial(restoration, judge, settings, warn, sleep),
    )
    return service, notifications


def run_once(
    judge: FleetJudge, settings: FleetConfig, clock: Clock, *, keeps: bool = False
) -> FleetAnswer:
    """Run once, and return the answer with the resulting ledger.

    Only with `keeps` is the ledger saved, and are Grafana and webhooks notified.

    Raises:
        StoreError: the store does not answer, or not wholly.
        HistoryError: the ledger is held by a service, or cannot be written.
    """
    if not keeps:
        ledger, _, troubles = _unsaved(judge, settings)
        notes = (*judge.answer.notes, *troubles)
        return replace(judge.answer, advice=ledger.advice(), notes=notes)
    troubles = []
    with closing(opened_ledger(judge.ledger_path)) as storage:
        service, _ = advice_service(
            judge, settings, storage, clock, lambda _, message: troubles.append(message), _at_once
        )
        service.recommend()
        service.deliver()
        notes = (*judge.answer.notes, *loss_of(storage), *troubles)
        return replace(judge.answer, advice=service.advice, notes=notes)


def explain_once(judge: FleetJudge, settings: FleetConfig, asked: str) -> JsonObject:
    """Return the reasoning behind a recommendation, or behind a verdict without one.

    Raises:
        UsageError: there is no verdict with that id.
        StoreError: the store does not answer, or not wholly.
    """
    ledger, found, _ = _unsaved(judge, settings)
    trees = rule_trees(settings)
    forms = chain(
        (explain_advice(each, trees) for each in ledger.advice() if each.id == asked),
        (
            explain_finding(each.finding, found.time, trees)
            for each in found.judgements
            if each.finding.id == asked
        ),
    )
    document = next(forms, None)
    if document is None:
        reason = unknown_advice_message(ledger.advice(), asked)
        raise UsageError(reason or f"there is no verdict '{asked}'")
    has_agents = any(each.devices for each in judge.answer.sources if each.source == _AGENTS)
    # Queries apply to metrics exported by agents.
    return document if has_agents else document | {"queries": []}


def _unsaved(
    judge: FleetJudge, settings: FleetConfig
) -> tuple[Ledger, RecommenderResult, list[str]]:
    """Return the ledger as a run would leave it, the run's verdicts, and faults."""
    ledger, troubles = Ledger((), ledger_settings(settings)), list[str]()
    if judge.ledger_path.is_file():
        with closing(opened_ledger(judge.ledger_path, read_only=True)) as storage:
            ledger = storage.ledger(ledger_settings(settings))
    found = judge.run(ledger.open_now())
    if not ledger.records:
        ledger.remember(
            restoration(judge, settings, lambda _, message: troubles.append(message), _at_once)
        )
    ledger.update(found.judgements, found.time, found.measured)
    return ledger, found, troubles


def _at_once(_: float) -> bool:
    """Do not wait for an unavailable peer: the next run tries again."""
    return True


def dcgm_rules(settings: FleetSettings, now: Nanoseconds) -> str:
    """Return the recording rules for dcgm-exporter's metrics, of a store or all usual ones.

    Recorded series keep the labels that distinguish clusters, and those matched by every query.

    Raises:
        StoreError: the store does not answer, or has none of them.
        ConfigurationError: its address or credentials are at fault.
    """
    if not settings.store.url:
        matched, metrics = Matchers.parse(settings.matchers), USUAL_METRICS
    else:
        with closing(store_of(settings)) as store:
            matched, metrics = store.matchers, metrics_in(store, now)
        if not recorded_series(metrics):
            raise StoreError(f"the store at {settings.store.url} has no metrics of dcgm-exporter")
    labels = (*CLUSTER_LABELS, settings.cluster_label, *matched.names)
    return rules_text(metrics, dict.fromkeys(filter(None, labels)))
