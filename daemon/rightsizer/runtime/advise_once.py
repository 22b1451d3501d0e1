"""One recommender run whose advice is kept and told, over a history that no agent holds."""

from pathlib import Path

from rightsizer.domain.advice import Advice
from rightsizer.domain.errors import HistoryError
from rightsizer.domain.finding import Finding
from rightsizer.edge.clock import FastClock, SystemClock
from rightsizer.runtime.accountant import Accountant
from rightsizer.runtime.chores import Chores
from rightsizer.runtime.market_rules import rules_of
from rightsizer.runtime.profile_desk import ProfileDesk
from rightsizer.runtime.settings import Settings
from rightsizer.runtime.sinks import sinks_of
from rightsizer.runtime.storage import Storage

__all__ = ["advise_and_keep"]


def advise_and_keep(
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
        chores = _chores(storage, settings, path)
        chores.recommend()
        chores.annotate()
    finally:
        storage.close()
    return tuple(judgement.finding for judgement in chores.judgements), chores.advice


def _chores(storage: Storage, settings: Settings, path: Path) -> Chores:
    history = storage.history
    windows = () if history is None else tuple(history.load())
    if history is None or not windows:
        raise HistoryError(f"history '{path}' is empty; let the agent run for a while first")
    accountant = Accountant(settings.accounting, settings.policies_here)
    accountant.restore(history.devices(), windows)
    ledger = storage.ledger(settings.recommender.ledger)
    # What was seen last is what is judged, however long ago that was.
    clock = FastClock(max(window.end for window in windows))
    sinks = sinks_of(
        settings,
        storage,
        ledger.advice,
        clock=SystemClock(),
        tell=lambda *_: None,
        # Nobody waits here for a peer that is away: the next run tries again.
        sleep=lambda _: True,
    )
    return Chores(
        accountant=accountant,
        storage=storage,
        ledger=ledger,
        rules=rules_of(settings),
        sinks=sinks.all,
        policies=settings.policies_here,
        profiles=ProfileDesk(accountant, storage, clock, settings.profiles),
        clock=clock,
        retention_seconds=settings.history.retention,
        fine_seconds=settings.history.fine_retention,
    )
