"""A history on disk with a ledger, for commands that read it."""

from pathlib import Path
from typing import Any

from cases import NOW, judgement
from readings import gpu
from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.settings import LedgerSettings
from rightsizer.advice.storage import Storage
from rightsizer.model.advice import Advice
from rightsizer.model.state import State
from rightsizer.model.units import HOUR, Nanoseconds
from rightsizer.model.window import Window

__all__ = ["keep_advice", "saved_advice"]


def keep_advice(
    path: Path, now: Nanoseconds = NOW, *, is_pending: bool = False, **facts: Any
) -> str:
    """Open one recommendation in the ledger of a history that ends then; return its id.

    With `is_pending` it has not been delivered yet.
    """
    storage = Storage(str(path))
    if storage.history is None or storage.history.extent() is None:
        window = Window("GPU-0", now - HOUR, now, {State.PRODUCTIVE: HOUR})
        storage.save_windows([window], (), [DeviceRecord(gpu(0), None, now)])
    ledger = Ledger()
    (opened,) = ledger.update([judgement(**facts)], now)
    storage.save_ledger(ledger, [opened] if is_pending else ())
    storage.close()
    return opened.advice.id


def saved_advice(path: Path) -> tuple[Advice, ...]:
    """All advice in a history."""
    storage = Storage(str(path), read_only=True)
    advice = storage.ledger(LedgerSettings()).advice()
    storage.close()
    return advice
