"""Reads what is kept as bytes, and what several spans of time have in common only once."""

from functools import cache, lru_cache
from typing import Final

from rightsizer.accounting.block_ring import RememberedBlocks
from rightsizer.accounting.window_form import decode
from rightsizer.domain.window import Window

__all__ = ["Reader"]

_NOBODY: Final = ""
"""A device and a workload that has it to itself keep the same bytes; neither's name is in them."""


class Reader:
    """It keeps all that it has read, so it lives no longer than one look at the accounts."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self._windows: dict[bytes, Window] = {}
        self.blocks = cache(RememberedBlocks.between)
        """Those that begin in a span of time."""
        self.month = lru_cache(maxsize=1)(RememberedBlocks.between)
        """The same, of which only the latest are kept: a month of them takes more room than what
        is made of it, and is asked for several times running."""

    def window(self, form: bytes) -> Window:
        """A window that was kept, of no device in particular; it is not to be changed."""
        found = self._windows.get(form)
        if found is None:
            found = self._windows[form] = decode(_NOBODY, form)
        return found
