"""The configuration file as a part of a reload: what of it may change is put in force, at once."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from rightsizer.advice.node_recommender import configured_rules
from rightsizer.advice.rules.rule import Rule
from rightsizer.agent.settings import Settings
from rightsizer.config.live import live_update
from rightsizer.model.errors import ConfigurationError, RightsizerError
from rightsizer.model.units import Nanoseconds

_log: Final = structlog.get_logger(component="reload")

Apply = Callable[[Settings, Sequence[Rule[Any]]], None]
"""Puts settings in force, and the rules made of them; where it raises, nothing has changed."""


class SettingsPart:
    """Reads file, environment and flags again; what needs a restart stays, and is named."""

    def __init__(
        self,
        in_force: Settings,
        read: Callable[[], Settings],
        apply: Apply,
        wall_time: Callable[[], Nanoseconds] = time.time_ns,
    ) -> None:
        """A part that was loaded when the agent started.

        Args:
            in_force: The settings that it started with.
            read: Gives them as their operator says now.
            apply: Is told of settings in which nothing but what may change is changed.
            wall_time: The clock of the loads.
        """
        self._in_force, self._read, self._apply = in_force, read, apply
        self._wall_time = wall_time
        self._trouble: str | None = None
        self._loaded = wall_time()

    @property
    def trouble(self) -> str | None:
        """Why what the file says now is not in force; `None` where all of it is that may be."""
        return self._trouble

    @property
    def loaded(self) -> Nanoseconds:
        """When it was last read with success."""
        return self._loaded

    def prepare(self) -> Callable[[], None]:
        """Read everything, and make what follows from it.

        Raises:
            ConfigurationError: the file, the environment, or a file that is named there has faults.
        """
        try:
            settings, waiting = live_update(self._in_force, self._read())
            rules = configured_rules(settings)
        except ConfigurationError as error:
            self._trouble = str(error)
            raise
        return lambda: self._take(settings, rules, waiting)

    def _take(self, settings: Settings, rules: Sequence[Rule[Any]], waiting: Sequence[str]) -> None:
        try:
            self._apply(settings, rules)
        except RightsizerError as error:
            self._trouble = str(error)
            raise ConfigurationError(self._trouble) from None
        self._in_force, self._trouble = settings, None
        self._loaded = self._wall_time()
        if waiting:
            _log.warning(
                "restart_needed",
                keys=",".join(waiting),
                remedy="restart the agent to put them in force; all else is",
            )
