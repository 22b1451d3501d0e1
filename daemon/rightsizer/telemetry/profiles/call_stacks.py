"""Calls of a host's threads, which tell what issued a wait: an operator, a line, a range."""

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from rightsizer.model.units import Nanoseconds
from rightsizer.telemetry.profiles.time_line import Column, Interval, order

_LIBRARY_FRAME: Final = re.compile(r"<|nn\.Module|torch[/\\]|.*[/\\](?:site|dist)-packages[/\\]")
_TURN: Final = re.compile(r"[\s#:=_\-]*\d+$")
_FRAME: Final = re.compile(r"(?:.*[/\\])?([^/\\]+\.py\(\d+\): .+)")


class _Calls:
    """One thread's calls of one kind, in columns."""

    __slots__ = ("_ends", "_names", "_starts")

    def __init__(self) -> None:
        self._starts: Column = array("q")
        self._ends: Column = array("q")
        self._names: Column = array("q")

    def add(self, name: int, span: Interval) -> None:
        self._starts.append(span[0])
        self._ends.append(span[1])
        self._names.append(name)

    def in_order(self) -> Iterator[tuple[Nanoseconds, Nanoseconds, int]]:
        """By rising start, the longer of two that begin together first."""
        by_end = sorted(range(len(self._ends)), key=self._ends.__getitem__, reverse=True)
        starts = array("q", map(self._starts.__getitem__, by_end))
        for row in order(starts):
            at = by_end[row]
            yield self._starts[at], self._ends[at], self._names[at]


class _Nest:
    """Which calls of a thread are open, in one walk over rising times."""

    __slots__ = ("_next", "_open", "_rest")

    def __init__(self, calls: _Calls | None) -> None:
        self._rest = calls.in_order() if calls is not None else iter(())
        self._next = next(self._rest, None)
        self._open: list[tuple[Nanoseconds, int]] = []

    def around(self, start: Nanoseconds, end: Nanoseconds) -> list[int]:
        """Names of the calls that hold this time, the outermost first."""
        while self._next is not None and self._next[0] <= start:
            begin, until, name = self._next
            self._close(begin)
            self._open.append((until, name))
            self._next = next(self._rest, None)
        self._close(start)
        return [name for until, name in self._open if until >= end]

    def _close(self, now: Nanoseconds) -> None:
        while self._open and self._open[-1][0] < now:
            self._open.pop()


class CallStacks:
    """Operators, frames of Python and waits by a thread's number; bounded in names."""

    def __init__(self, names_maximum: int) -> None:
        self._names: dict[str, int] = {}
        self._names_maximum = names_maximum
        self._operators: defaultdict[int, _Calls] = defaultdict(_Calls)
        self._frames: defaultdict[int, _Calls] = defaultdict(_Calls)
        self._waits: defaultdict[int, _Calls] = defaultdict(_Calls)

    def operator(self, thread: int, name: str, span: Interval) -> None:
        """A call of an operator."""
        self._add(self._operators, thread, name, span)

    def frame(self, thread: int, name: str, span: Interval) -> None:
        """A function of Python; those of libraries are not what a person can change."""
        if not _LIBRARY_FRAME.match(name) and (found := _FRAME.fullmatch(name)):
            self._add(self._frames, thread, found[1], span)

    def range(self, thread: int, name: str, span: Interval) -> None:
        """A range that the program named; without a number at its end, which counts its turns."""
        if plain := _TURN.sub("", name):
            self._add(self._frames, thread, plain, span)

    def wait(self, thread: int, name: str, span: Interval) -> None:
        """A call in which the host waits."""
        self._add(self._waits, thread, name, span)

    def waits(self) -> Iterator[tuple[str, Interval]]:
        """Every wait with what issued it: `cudaStreamSynchronize in aten::item, train.py(9): f`."""
        names = list(self._names)
        for thread, waits in self._waits.items():
            operators = _Nest(self._operators.get(thread))
            frames = _Nest(self._frames.get(thread))
            for start, end, name in waits.in_order():
                issued = [*operators.around(start, end)[:1], *frames.around(start, end)[-1:]]
                told = ", ".join(names[each] for each in issued)
                yield f"{names[name]} in {told}" if told else names[name], (start, end)

    def _add(self, into: defaultdict[int, _Calls], thread: int, name: str, span: Interval) -> None:
        known = self._names.get(name)
        if known is None:
            if len(self._names) >= self._names_maximum:
                name = "(others)"
            known = self._names.setdefault(name, len(self._names))
        into[thread].add(known, span)
