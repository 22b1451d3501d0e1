"""Advice without a running agent.

One run over a history on disk, printed or saved; decisions, explanations.
"""

from functools import partial
from pathlib import Path

from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.accounting.service import AccountingService
from rightsizer.advice.engine import judge_all
from rightsizer.advice.policy import PolicySet, apply_policies
from rightsizer.advice.recommender import configured_rules
from rightsizer.advice.service import RuleFailures
from rightsizer.agent.node_jobs import NodeJobs
from rightsizer.agent.settings import Settings
from rightsizer.agent.storage import Storage
from rightsizer.io.clock import FastClock, SystemClock
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.errors import HistoryError, UsageError
from rightsizer.model.finding import Finding
from rightsizer.model.units import Nanoseconds
from rightsizer.notify.service import configured_sinks
from rightsizer.profiler.service import ProfileService
from rightsizer.report.explanation import explain_advice, explain_finding
from rightsizer.report.json_encoder import Form
from rightsizer.web.advice_api import closed_advice_message, unknown_advice_message


def advise(path: Path, settings: Settings) -> tuple[tuple[Finding, ...], tuple[Advice, ...]]:
    """Every rule's verdict at the end of the history, and the ledger as it would then stand.

    Raises:
        HistoryError: there is no history, or it holds nothing.
    """
    storage = Storage(str(path), read_only=True)
    try:
        if storage.history is None:
            raise HistoryError("no history is kept; set history.path or give --history.path")
        accounts = NodeAccounts(settings.accounting)
        for known in storage.history.devices():
            accounts.restore_record(known)
        now: Nanoseconds = 0
        for window in storage.history.load():
            accounts.restore(window)
            now = max(now, window.end)
        ledger = storage.ledger(settings.recommender.ledger)
        accountant = AccountingService(settings.accounting)
        profiles = ProfileService(accountant, storage, FastClock(now), settings.profiles)
    finally:
        storage.close()
    if not now:
        raise HistoryError(f"history '{path}' is empty; let the agent run for a while first")
    guidance = PolicySet(settings.policies_here)
    open_now = ledger.open_now()
    judgements = judge_all(
        lambda span: accounts.look(now).cases(span),
        configured_rules(settings),
        open_now,
        guidance.tuned,
        RuleFailures().note,
    )
    judgements = profiles.combined_with(judgements, open_now, now, ledger.advice())
    judgements = guidance.withheld(judgements, now)
    ledger.update(judgements, now)
    return tuple(judgement.finding for judgement in judgements), ledger.advice()


def advise_and_save(
    path: Path, settings: Settings
) -> tuple[tuple[Finding, ...], tuple[Advice, ...]]:
    """Every rule's verdict at the end of the history, and the ledger, which is saved as it is then.

    Raises:
        HistoryError: an agent holds the history, or there is none, or it holds nothing.
    """
    if not path.is_file():
        raise HistoryError(
            f"there is no history '{path}'; name it with --history.path, or let an agent run first"
        )
    storage = Storage(str(path), maximum_bytes=settings.history.maximum_size_bytes)
    try:
        chores = _jobs_of(storage, settings, path)
        chores.recommend()
        chores.annotate()
    finally:
        storage.close()
    return tuple(judgement.finding for judgement in chores.judgements), chores.advice


def _jobs_of(storage: Storage, settings: Settings, path: Path) -> NodeJobs:
    history = storage.history
    windows = () if history is None else tuple(history.load())
    if history is None or not windows:
        raise HistoryError(f"history '{path}' is empty; let the agent run for a while first")
    accountant = AccountingService(
        settings.accounting, partial(apply_policies, policies=settings.policies_here)
    )
    accountant.restore(history.devices(), windows)
    ledger = storage.ledger(settings.recommender.ledger)
    # What was seen last is what is judged, however long ago that was.
    clock = FastClock(max(window.end for window in windows))
    sinks = configured_sinks(
        settings,
        storage,
        ledger.advice,
        clock=SystemClock(),
        tell=lambda *_: None,
        # Nobody waits here for a peer that is away: the next run tries again.
        sleep=lambda _: True,
    )
    return NodeJobs(
        accountant=accountant,
        storage=storage,
        ledger=ledger,
        rules=configured_rules(settings),
        sinks=sinks.all,
        policies=settings.policies_here,
        profiles=ProfileService(accountant, storage, clock, settings.profiles),
        clock=clock,
        retention_seconds=settings.history.retention,
        fine_seconds=settings.history.fine_retention,
    )


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
        sinks = configured_sinks(
            settings,
            storage,
            ledger.advice,
            clock=clock,
            tell=lambda *_: None,
            sleep=lambda _: True,
        )
        chores = NodeJobs(
            accountant=AccountingService(
                settings.accounting, partial(apply_policies, policies=settings.policies_here)
            ),
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


def saved_advice(path: Path, settings: Settings) -> tuple[Advice, ...]:
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
    advice = saved_advice(path, settings)
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
    raise UsageError(unknown_advice_message(would_be or advice, asked) or "")


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
    if (reason := unknown_advice_message(advice, asked)) is not None:
        raise UsageError(reason)
    (found,) = (each for each in advice if each.id == asked)
    if (reason := closed_advice_message(found)) is not None:
        raise UsageError(reason)
