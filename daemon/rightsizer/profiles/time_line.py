"""What ran on one device and when, in columns: 25 bytes a kernel."""

from array import array
from collections.abc import Iterator, Sequence
from typing import Final

from rightsizer.domain.units import Nanoseconds
from rightsizer.profiles.columns import Column, order
from rightsizer.profiles.intervals import Interval

__all__ = ["KernelLine", "SpanLine"]

_NO_CORRELATION: Final = -(2**63)
"""In a column, which holds no `None`."""


class KernelLine:
    """The kernels and graphs of a device."""

    __slots__ = ("_collective", "_correlations", "_ends", "_order", "_starts", "collectives")

    def __init__(self) -> None:
        self._starts: Column = array("q")
        self._ends: Column = array("q")
        self._correlations: Column = array("q")
        self._collective = bytearray()
        self._order: Sequence[int] | None = None
        self.collectives = 0

    def __len__(self) -> int:
        return len(self._starts)

    def add(
        self,
        start: Nanoseconds,
        end: Nanoseconds,
        correlation: int | None,
        *,
        is_collective: bool = False,
    ) -> None:
        """One run."""
        self._starts.append(start)
        self._ends.append(end)
        self._correlations.append(_NO_CORRELATION if correlation is None else correlation)
        self._collective.append(is_collective)
        self.collectives += is_collective
        self._order = None

    def span(self) -> Interval:
        """From the first start to the last end."""
        return min(self._starts), max(self._ends)

    def intervals(self) -> Iterator[Interval]:
        """All of them by start."""
        rows = self._rows()
        return zip(
            map(self._starts.__getitem__, rows), map(self._ends.__getitem__, rows), strict=True
        )

    def collective_intervals(self, *, is_collective: bool) -> Iterator[Interval]:
        """The collectives by start, or all but them."""
        for row in self._rows():
            if self._collective[row] == is_collective:
                yield self._starts[row], self._ends[row]

    def launched(self) -> Iterator[tuple[Nanoseconds, Nanoseconds, int | None]]:
        """Start, end and the number of the launch, by start."""
        for row in self._rows():
            correlation = self._correlations[row]
            known = None if correlation == _NO_CORRELATION else correlation
            yield self._starts[row], self._ends[row], known

    def _rows(self) -> Sequence[int]:
        if self._order is None:
            self._order = order(self._starts)
        return self._order


class SpanLine:
    """The copies of a device, or spans of the host."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: Column = array("q")
        self._ends: Column = array("q")

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, start: Nanoseconds, end: Nanoseconds) -> None:
        """One of them."""
        self._starts.append(start)
        self._ends.append(end)

    def intervals(self) -> Iterator[Interval]:
        """All of them by start."""
        rows = order(self._starts)
        return zip(
            map(self._starts.__getitem__, rows), map(self._ends.__getitem__, rows), strict=True
        )
