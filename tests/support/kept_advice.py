"""A history on disk that holds a ledger, for commands that look at it."""

from pathlib import Path
from typing import Any

from cases import NOW, judgement
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.storage import Storage
from rightsizer.model.units import Nanoseconds

__all__ = ["keep_advice"]


def keep_advice(path: Path, now: Nanoseconds = NOW, **facts: Any) -> str:
    """Open one piece of advice in a history's ledger; its id."""
    storage = Storage(str(path))
    ledger = Ledger()
    (opened,) = ledger.update([judgement(**facts)], now)
    storage.save_ledger(ledger)
    storage.close()
    return opened.advice.id
