"""Ledger file of a fleet, and decisions on its advice without a running service."""

from contextlib import closing
from pathlib import Path
from typing import Final

from rightsizer.advice.lookup import find_advice
from rightsizer.advice.storage import Storage
from rightsizer.fleet.settings import FleetConfig, ledger_path, ledger_settings, rule_trees
from rightsizer.io.files import Called
from rightsizer.model.values import Advice, AdviceState, HistoryError, Nanoseconds
from rightsizer.report.explanation import Explanation, explain_advice

_CALLED: Final = Called("the fleet's ledger", "fleet.path", "run or service")


def opened_ledger(path: Path, *, read_only: bool = False) -> Storage:
    """Open the storage of advice and of pending notifications.

    Raises:
        HistoryError: it is held by another process, of a newer version, or inaccessible.
    """
    return Storage(str(path), read_only=read_only, called=_CALLED)


def loss_of(storage: Storage) -> tuple[str, ...]:
    """Return a sentence if the ledger was broken and replaced."""
    if (aside := storage.database.set_aside) is None:
        return ()
    sentence = (
        f"The fleet's ledger was broken and is now '{aside}'; a new one was begun, which knows of "
        "open advice and of decisions as far as the store and Grafana do."
    )
    return (sentence,)


def act_on_ledger(  # noqa: PLR0913 - who, what, why, when and for how long.
    settings: FleetConfig,
    advice_id: str,
    *,
    state: AdviceState,
    actor: str,
    why: str,
    for_seconds: float | None,
    now: Nanoseconds,
) -> Advice:
    """Change advice in a ledger that no process holds; the next run sends notifications.

    Raises:
        UsageError: there is no such open advice.
        HistoryError: there is no ledger, it is held by a run or service, or not writable.
    """
    with closing(opened_ledger(_path(settings))) as storage:
        ledger = storage.ledger(ledger_settings(settings))
        event = ledger.act(advice_id, state, actor, now, why=why, for_seconds=for_seconds)
        storage.save_ledger(ledger, [*storage.pending_events, event])
        return event.advice


def explain_from_ledger(settings: FleetConfig, advice_id: str) -> Explanation:
    """Explain saved advice without querying the store.

    Raises:
        UsageError: there is no such advice.
        HistoryError: there is no ledger, or it cannot be read.
    """
    with closing(opened_ledger(_path(settings), read_only=True)) as storage:
        ledger = storage.ledger(ledger_settings(settings))
        return explain_advice(find_advice(ledger.advice(), advice_id), rule_trees(settings))


def _path(settings: FleetConfig) -> Path:
    path = ledger_path(settings)
    if not path.is_file():
        raise HistoryError(
            f"there is no ledger '{path}'; keep advice with `rightsizer fleet --save`, let "
            "`rightsizer fleet --serve` run, or name the place with fleet.path"
        )
    return path
