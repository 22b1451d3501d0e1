"""Messages below a level are dropped, and the level may change while they are logged."""

import logging
from typing import Any

import structlog
from structlog.types import EventDict


class Threshold:
    """A processor that drops what is less severe than its level.

    A bound logger that filters by itself would do, but it is kept by whoever has logged once.
    """

    def __init__(self, level: int) -> None:
        self.level = level

    def __call__(self, _wrapped: Any, name: str, event: EventDict) -> EventDict:
        """Pass a message on, or drop it.

        Raises:
            structlog.DropEvent: it is not severe enough.
        """
        if logging.getLevelNamesMapping()[name.upper()] < self.level:
            raise structlog.DropEvent
        return event
