"""Where looks for devices hang: a thread that was given up holds its place, and others pass by."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from rightsizer.domain.reading import Missing
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.library import Library

__all__ = ["PEERS", "Impasses"]

PEERS: Final = "peers"
"""The place where the ways between GPUs are asked for."""


class Impasses:
    """Which thread is at which place of its look; one that comes back opens the place again.

    Threads that look come one after another: whoever else is at a place was given up there.
    """

    def __init__(self) -> None:
        """No thread is anywhere."""
        self._places: dict[Library, Hashable] = {}

    @contextmanager
    def at(self, place: Hashable, library: Library) -> Iterator[Failure | None]:
        """Be at a place; why it has to be passed by, `None` where nobody hangs there.

        Args:
            place: The index or the address of a GPU, or `PEERS`.
            library: Of the thread that looks.
        """
        # Asked by the thread that looks, while one that was given up may come back.
        for other, held in tuple(self._places.items()):
            if other is not library and held == place:
                call = other.asking or "the driver"
                yield Failure(Missing.TIMED_OUT, call, "the look for devices hangs in it")
                return
        self._places[library] = place
        try:
            yield None
        finally:
            del self._places[library]
