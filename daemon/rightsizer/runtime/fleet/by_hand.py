"""What people decide of a fleet's advice while no service runs, as with a CronJob."""

from pathlib import Path

from rightsizer.advice.ledger import Ledger
from rightsizer.domain.advice import Advice, AdviceState
from rightsizer.domain.errors import HistoryError, UsageError
from rightsizer.domain.units import Nanoseconds
from rightsizer.publish.explanation.explanation import explain_advice
from rightsizer.publish.json_form import Form
from rightsizer.runtime.advice_control import why_closed, why_unknown
from rightsizer.runtime.fleet.ledger_file import opened_ledger
from rightsizer.runtime.fleet.settings import WholeSettings, ledger_path, rule_trees

__all__ = ["act_on_ledger", "explain_from_ledger"]


def act_on_ledger(  # noqa: PLR0913 - who, what, why, when and for how long.
    settings: WholeSettings,
    advice_id: str,
    *,
    state: AdviceState,
    actor: str,
    why: str,
    for_seconds: float | None,
    now: Nanoseconds,
) -> Advice:
    """Change advice in a ledger that nobody holds; the next look tells of it.

    Raises:
        UsageError: there is no such open advice.
        HistoryError: there is no ledger, a look or a service holds it, or it cannot be written.
    """
    storage = opened_ledger(_path(settings))
    try:
        ledger = storage.ledger(settings.recommender.ledger)
        found = _found(ledger, advice_id)
        if (reason := why_closed(found)) is not None:
            raise UsageError(reason)
        event = ledger.act(advice_id, state, actor, now, why=why, for_seconds=for_seconds)
        storage.save_ledger(ledger, [*storage.untold, event])
        return _found(ledger, advice_id)
    finally:
        storage.close()


def explain_from_ledger(settings: WholeSettings, advice_id: str) -> Form:
    """The reasoning behind advice that is kept, without asking the store.

    Raises:
        UsageError: there is no such advice.
        HistoryError: there is no ledger, or it cannot be read.
    """
    storage = opened_ledger(_path(settings), read_only=True)
    try:
        ledger = storage.ledger(settings.recommender.ledger)
        return explain_advice(_found(ledger, advice_id), rule_trees(settings))
    finally:
        storage.close()


def _path(settings: WholeSettings) -> Path:
    path = ledger_path(settings)
    if not path.is_file():
        raise HistoryError(
            f"there is no ledger '{path}'; keep advice with `rightsizer fleet --save`, let "
            "`rightsizer fleet --serve` run, or name the place with fleet.path"
        )
    return path


def _found(ledger: Ledger, asked: str) -> Advice:
    advice = ledger.advice()
    if (reason := why_unknown(advice, asked)) is not None:
        raise UsageError(reason)
    return next(each for each in advice if each.id == asked)
