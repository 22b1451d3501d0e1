"""One run of the fleet recommender: shown, explained, or saved and delivered."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rightsizer.advice.ledger import Ledger
from rightsizer.advice.service import AdviceService, EventSink
from rightsizer.fleet.answer import FleetAnswer
from rightsizer.fleet.judge import FleetJudge
from rightsizer.fleet.ledger import loss_of, opened_ledger
from rightsizer.fleet.ledger_recovery import LedgerRecovery
from rightsizer.fleet.settings import FleetConfig, rule_trees
from rightsizer.io.clock import Clock
from rightsizer.model.advice import AdviceEvent
from rightsizer.model.errors import UsageError
from rightsizer.notify.service import NotificationService
from rightsizer.report.explanation import explain_advice, explain_finding
from rightsizer.report.json_encoder import Form
from rightsizer.web.advice_api import unknown_advice_message


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
            storage,
            lambda: desk.advice,
            clock=clock,
            tell=lambda _, message: troubles.append(message),
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
