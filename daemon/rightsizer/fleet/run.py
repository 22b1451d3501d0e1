"""A single fleet run: ledger, rules, answer; and the recording rules for its store."""

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Final

from msgspec.structs import replace

from rightsizer.advice.ledger import Ledger
from rightsizer.advice.lookup import find_advice
from rightsizer.advice.service import AdviceService, EventSink
from rightsizer.advice.storage import Storage
from rightsizer.advice.verdict import names_of
from rightsizer.fleet.clusters import CLUSTER_LABELS, label_names
from rightsizer.fleet.context import store_of
from rightsizer.fleet.encoder import FleetAnswer
from rightsizer.fleet.judge import FleetJudge
from rightsizer.fleet.ledger import loss_of, opened_ledger
from rightsizer.fleet.prometheus.selector import Matchers
from rightsizer.fleet.recovery import Sleep, Warn, restoration
from rightsizer.fleet.settings import FleetConfig, FleetSettings, ledger_settings, rule_trees
from rightsizer.fleet.sources.figures import (
    USUAL_METRICS,
    metrics_in,
    recorded_series,
    rules_text,
)
from rightsizer.io.clock import Clock
from rightsizer.model.values import AdviceEvent, Nanoseconds, StoreError
from rightsizer.notify.service import NotificationService
from rightsizer.report.explanation import Explanation, explain_advice, explain_finding

_AGENTS: Final = "rightsizer"
"""Name of the source of our own agents."""


class DeduplicatingSink:
    """Passes on the fleet's own advice, without that exported by node agents."""

    def __init__(self, sink: EventSink, judge: FleetJudge) -> None:
        self._judge = judge
        self._sink = sink
        self.deliver = sink.deliver

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Pass on the fleet's own events."""
        node_ids = self._judge.node_advice_ids
        if advice_events := [event for event in events if event.advice.finding.id not in node_ids]:
            self._sink.offer(advice_events)


def advice_service(  # noqa: PLR0913, PLR0917 - the outside world comes in as arguments.
    judge: FleetJudge,
    settings: FleetConfig,
    storage: Storage,
    clock: Clock,
    warn: Warn,
    sleep: Sleep,
) -> tuple[AdviceService, NotificationService]:
    """Return the ledger's service for a judge, and its notification service."""
    notifications = NotificationService(
        settings,
        storage.database,
        lambda: service.advice,
        clock=clock,
        warn=warn,
        sleep=sleep,
        claim="rightsizer claim --fleet",
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
        ledger, troubles = _unsaved(judge, settings)
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


def explain_once(judge: FleetJudge, settings: FleetConfig, asked: str) -> Explanation:
    """Return the reasoning behind a recommendation, or behind a verdict without one.

    Raises:
        AbsentError: there is no verdict with that id.
        StoreError: the store does not answer, or not wholly.
    """
    ledger, _ = _unsaved(judge, settings)
    trees = rule_trees(settings)
    view = judge.answer.view
    pooled = (device for pool in view.pools for device in pool.devices)
    # What has disappeared is in no pool.
    devices = chain((lost.device for lost in view.lost), pooled)
    names = {device.device.uuid: names_of([device.device]) for device in devices}
    advice = ledger.advice()
    findings = judge.answer.findings
    verdict = next((finding for finding in findings if finding.id == asked), None)
    if verdict is None or any(open_advice.id == asked for open_advice in advice):
        explanation = explain_advice(find_advice(advice, asked), trees, names=names)
    else:
        explanation = explain_finding(verdict, judge.answer.time, trees, names=names)
    has_agents = any(source.devices for source in judge.answer.sources if source.source == _AGENTS)
    # Queries apply to metrics exported by agents.
    return explanation if has_agents else replace(explanation, queries=())


def _unsaved(judge: FleetJudge, settings: FleetConfig) -> tuple[Ledger, list[str]]:
    """Return the ledger as a run would leave it, and faults."""
    ledger = Ledger((), ledger_settings(settings))
    troubles = list[str]()
    if judge.ledger_path.is_file():
        with closing(opened_ledger(judge.ledger_path, read_only=True)) as storage:
            ledger = storage.ledger(ledger_settings(settings))
    update = judge.run(ledger.advice())
    if not ledger.advice():
        ledger.restore(
            restoration(judge, settings, lambda _, message: troubles.append(message), _at_once)
        )
    ledger.update(*update)
    return ledger, troubles


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
        matched = Matchers.parse(settings.matchers)
        metrics = USUAL_METRICS
    else:
        with closing(store_of(settings)) as store:
            matched = store.matchers
            metrics = metrics_in(store, now)
        if not recorded_series(metrics):
            raise StoreError(f"the store at {settings.store.url} has no metrics of dcgm-exporter")
    labels = (*CLUSTER_LABELS, *label_names(settings.cluster_label), *matched.names)
    return rules_text(metrics, dict.fromkeys(labels))
