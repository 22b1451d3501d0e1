"""The settings of the file as a whole, and where a fleet keeps what it reads and advises."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rightsizer.fleet.settings import FleetSettings
from rightsizer.runtime.settings import Settings

__all__ = ["WholeSettings", "ledger_path", "rule_trees", "shelf_path"]

_NAME: Final = "fleet.db"


@dataclass(frozen=True, slots=True)
class WholeSettings(Settings):
    """Everything that an operator may set, for the agent or for the fleet."""

    fleet: FleetSettings = field(default_factory=FleetSettings)


def rule_trees(settings: WholeSettings) -> Mapping[str, object]:
    """The settings of a node's rules and of the estate's own, by their keys in the file."""
    return {"recommender.rules": settings.recommender.rules, "fleet.rules": settings.fleet.rules}


def shelf_path(settings: WholeSettings) -> Path:
    """The file of days that were read; all of it can be read again.

    Where the service's own folder is out of reach, as for whoever tries it out, it lies in the
    user's cache.
    """
    if settings.fleet.path:
        return Path(settings.fleet.path)
    state = Path(settings.history.path).parent if settings.history.path else None
    if state is not None and os.access(state, os.W_OK):
        return state / _NAME
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "rightsizer"
    cache.mkdir(parents=True, exist_ok=True)
    return cache / _NAME


def ledger_path(settings: WholeSettings) -> Path:
    """The file of the ledger and of what is still to be told."""
    days = shelf_path(settings)
    return days.with_name(f"{days.stem}-advice{days.suffix}")
