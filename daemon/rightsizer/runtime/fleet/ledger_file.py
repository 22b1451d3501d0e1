"""The file of a fleet's ledger, beside the days that were read."""

from pathlib import Path
from typing import Final

from rightsizer.edge.ownership import Called
from rightsizer.runtime.storage import Storage

__all__ = ["loss_of", "opened_ledger"]

_CALLED: Final = Called("the fleet's ledger", "fleet.path", "look or service")


def opened_ledger(path: Path, *, read_only: bool = False) -> Storage:
    """What is kept of advice, and of what is still to be told.

    Raises:
        HistoryError: it is held by another process, of a newer program, or out of reach.
    """
    return Storage(str(path), read_only=read_only, called=_CALLED)


def loss_of(storage: Storage) -> tuple[str, ...]:
    """A sentence where the ledger was broken, and a new one was begun."""
    if storage.set_aside is None:
        return ()
    sentence = (
        f"The fleet's ledger was broken and is now '{storage.set_aside}'; a new one was begun, "
        "which knows of open advice and of decisions as far as the store and Grafana do."
    )
    return (sentence,)
