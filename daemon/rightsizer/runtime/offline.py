"""The ledger of a machine on which no agent runs: looked at, or changed under the agent's lock."""

from pathlib import Path

from rightsizer.domain.advice import Advice, AdviceState
from rightsizer.domain.errors import HistoryError, UsageError
from rightsizer.domain.units import Nanoseconds
from rightsizer.edge.clock import SystemClock
from rightsizer.publish.explanation.explanation import explain_advice, explain_finding
from rightsizer.publish.json_form import Form
from rightsizer.runtime.accountant import Accountant
from rightsizer.runtime.advice_control import why_closed, why_unknown
from rightsizer.runtime.advise import advise
from rightsizer.runtime.chores import Chores
from rightsizer.runtime.settings import Settings
from rightsizer.runtime.sinks import sinks_of
from rightsizer.runtime.storage import Storage

__all__ = ["act_offline", "explain_offline", "kept_advice"]


def act_offline(  # noqa: PLR0913 - who, what, why, for how long, and where.
    path: Path,
    settings: Settings,
    advice_id: str,
    *,
    state: AdviceState,
    actor: str,
    why: str,
    for_seconds: float | None,
) -> Advice:
    """Change advice in a history that no agent holds; what is to be told waits for the next one.

    Raises:
        UsageError: there is no such open advice.
        HistoryError: an agent holds it, or it cannot be written.
    """
    _must_exist(path)
    storage = Storage(str(path), maximum_bytes=settings.history.maximum_size_bytes)
    try:
        ledger = storage.ledger(settings.recommender.ledger)
        _must_be_open(ledger.advice(), advice_id)
        clock = SystemClock()
        sinks = sinks_of(
            settings,
            storage,
            ledger.advice,
            clock=clock,
            tell=lambda *_: None,
            sleep=lambda _: True,
        )
        chores = Chores(
            accountant=Accountant(settings.accounting, settings.policies_here),
            storage=storage,
            ledger=ledger,
            rules=(),
            sinks=sinks.all,
            clock=clock,
            retention_seconds=settings.history.retention,
        )
        return chores.act(advice_id, state, actor, why, for_seconds)
    finally:
        storage.close()


def kept_advice(path: Path, settings: Settings) -> tuple[Advice, ...]:
    """All advice that a history keeps, which stays as it is; beside a running agent too.

    Raises:
        HistoryError: there is no history, or it cannot be read.
    """
    _must_exist(path)
    storage = Storage(str(path), read_only=True)
    try:
        return storage.ledger(settings.recommender.ledger).advice()
    finally:
        storage.close()


def explain_offline(path: Path, settings: Settings, asked: str) -> Form:
    """The reasoning behind advice, or behind what the rules say of the history now.

    Raises:
        UsageError: nothing has that id.
        HistoryError: there is no history, or it cannot be read.
    """
    rules = settings.rule_trees
    advice = kept_advice(path, settings)
    for each in advice:
        if each.id == asked:
            return explain_advice(each, rules)
    findings, would_be = advise(path, settings)
    for each in would_be:
        if each.id == asked:
            return explain_advice(each, rules)
    for finding in findings:
        if finding.id == asked:
            return explain_finding(finding, _end_of(path), rules)
    raise UsageError(why_unknown(would_be or advice, asked) or "")


def _end_of(path: Path) -> Nanoseconds:
    """When the last that the history tells of was over."""
    storage = Storage(str(path), read_only=True)
    try:
        history = storage.history
        return 0 if history is None else max((each.end for each in history.load()), default=0)
    finally:
        storage.close()


def _must_exist(path: Path) -> None:
    if not path.exists():
        raise HistoryError(
            f"there is no history '{path}'; name it with --history.path, or let an agent run first"
        )


def _must_be_open(advice: tuple[Advice, ...], asked: str) -> None:
    if (reason := why_unknown(advice, asked)) is not None:
        raise UsageError(reason)
    (found,) = (each for each in advice if each.id == asked)
    if (reason := why_closed(found)) is not None:
        raise UsageError(reason)
