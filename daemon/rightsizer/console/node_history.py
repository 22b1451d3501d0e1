"""The last readings of each GPU of a node, as a terminal draws them."""

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from rightsizer.console.node_frame import NodeFrame, node_rows
from rightsizer.model.signal import Signal

_SIGNALS: Final = (Signal.GPU_BUSY, Signal.MEMORY_USED, Signal.POWER)
_MOST_READINGS: Final = 1000
"""Columns of the widest terminal."""


class Figures(NamedTuple):
    """Shares of a GPU's time, memory and power; `None` if unknown."""

    busy: float | None
    memory: float | None
    power: float | None


class NodeHistory:
    """The last readings of each GPU."""

    def __init__(self) -> None:
        self._figures: defaultdict[str, deque[Figures]] = defaultdict(
            lambda: deque(maxlen=_MOST_READINGS)
        )
        self._generation: object = None

    def add(self, frame: NodeFrame) -> None:
        """Add the readings of a frame, unless they were added already."""
        if frame.report["generation"] == self._generation:
            return
        self._generation = frame.report["generation"]
        for row in node_rows(frame):
            self._figures[row.uuid].append(Figures(*map(row.readings.get, _SIGNALS)))

    def of(self, uuid: str) -> Sequence[Figures]:
        """Return the readings of a GPU, oldest first."""
        return tuple(self._figures[uuid])
