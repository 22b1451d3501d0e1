"""One look at an estate whose advice is shown, and kept where that is asked for."""

from dataclasses import replace
from typing import Final

from rightsizer.advice.ledger import Ledger
from rightsizer.domain.errors import UsageError
from rightsizer.edge.clock import Clock
from rightsizer.publish.explanation.explanation import explain_advice, explain_finding
from rightsizer.publish.json_form import Form
from rightsizer.runtime.advice_control import why_unknown
from rightsizer.runtime.advice_desk import AdviceDesk
from rightsizer.runtime.fleet.answer import FleetAnswer
from rightsizer.runtime.fleet.judge import FleetJudge
from rightsizer.runtime.fleet.ledger_file import loss_of, opened_ledger
from rightsizer.runtime.fleet.restorer import Restorer
from rightsizer.runtime.fleet.settings import WholeSettings, rule_trees
from rightsizer.runtime.fleet.unrepeated import Unrepeated
from rightsizer.runtime.sinks import sinks_of

__all__ = ["explain_once", "look_once"]

_AGENTS: Final = "rightsizer"


def look_once(
    judge: FleetJudge, settings: WholeSettings, clock: Clock, *, keeps: bool = False
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


def explain_once(judge: FleetJudge, settings: WholeSettings, asked: str) -> Form:
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
    raise UsageError(why_unknown(ledger.advice(), asked) or f"there is no verdict '{asked}'")


def _askable(form: Form, answer: FleetAnswer) -> Form:
    """Without the queries where no agent exports what they ask for."""
    has_agents = any(each.devices for each in answer.sources if each.source == _AGENTS)
    return form if has_agents else form | {"queries": []}


def _ledger(judge: FleetJudge, settings: WholeSettings) -> Ledger:
    """As it was kept last, to look at."""
    if not judge.ledger_path.is_file():
        return Ledger((), settings.recommender.ledger)
    storage = opened_ledger(judge.ledger_path, read_only=True)
    try:
        return storage.ledger(settings.recommender.ledger)
    finally:
        storage.close()


def _restorer(judge: FleetJudge, settings: WholeSettings, troubles: list[str]) -> Restorer:
    return Restorer(judge, settings, troubles.append, _at_once)


def _at_once(_: float) -> bool:
    """Nobody waits here for a peer that is away: the next look tries again."""
    return True


def _kept(judge: FleetJudge, settings: WholeSettings, clock: Clock) -> FleetAnswer:
    storage, troubles = opened_ledger(judge.ledger_path), list[str]()
    try:
        ledger = storage.ledger(settings.recommender.ledger)
        sinks = sinks_of(
            settings,
            storage,
            lambda: desk.advice,
            clock=clock,
            tell=lambda _, message: troubles.append(message),
            sleep=_at_once,
        )
        told = tuple(Unrepeated(sink, judge) for sink in sinks.all)
        restorer = _restorer(judge, settings, troubles)
        desk = AdviceDesk(judge, ledger, storage, told, clock, remembered=restorer.restoration)
        desk.recommend()
        desk.deliver()
        notes = (*judge.answer.notes, *loss_of(storage), *troubles)
        return replace(judge.answer, advice=desk.advice, notes=notes)
    finally:
        storage.close()
