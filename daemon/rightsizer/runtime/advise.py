"""One recommender run over a history on disk, which stays as it is."""

from pathlib import Path

from rightsizer.accounting.accounts import Accounts
from rightsizer.advice.recommender import judge_all
from rightsizer.domain.advice import Advice
from rightsizer.domain.errors import HistoryError
from rightsizer.domain.finding import Finding
from rightsizer.domain.units import Nanoseconds
from rightsizer.edge.clock import FastClock
from rightsizer.runtime.accountant import Accountant
from rightsizer.runtime.market_rules import rules_of
from rightsizer.runtime.policy import Guidance
from rightsizer.runtime.profile_desk import ProfileDesk
from rightsizer.runtime.rule_faults import RuleFaults
from rightsizer.runtime.settings import Settings
from rightsizer.runtime.storage import Storage

__all__ = ["advise"]


def advise(path: Path, settings: Settings) -> tuple[tuple[Finding, ...], tuple[Advice, ...]]:
    """Every rule's verdict at the end of the history, and the ledger as it would then stand.

    Raises:
        HistoryError: there is no history, or it holds nothing.
    """
    storage = Storage(str(path), read_only=True)
    try:
        if storage.history is None:
            raise HistoryError("no history is kept; set history.path or give --history.path")
        accounts = Accounts(settings.accounting)
        for known in storage.history.devices():
            accounts.restore_device(known)
        now: Nanoseconds = 0
        for window in storage.history.load():
            accounts.restore(window)
            now = max(now, window.end)
        ledger = storage.ledger(settings.recommender.ledger)
        accountant = Accountant(settings.accounting, ())
        profiles = ProfileDesk(accountant, storage, FastClock(now), settings.profiles)
    finally:
        storage.close()
    if not now:
        raise HistoryError(f"history '{path}' is empty; let the agent run for a while first")
    guidance = Guidance(settings.policies_here)
    open_now = ledger.open_now()
    judgements = judge_all(
        lambda span: accounts.cases(span, now),
        rules_of(settings),
        open_now,
        guidance.tuned,
        RuleFaults().note,
    )
    judgements = profiles.beside(judgements, open_now, now, ledger.advice())
    judgements = guidance.withheld(judgements, now)
    ledger.update(judgements, now)
    return tuple(judgement.finding for judgement in judgements), ledger.advice()
