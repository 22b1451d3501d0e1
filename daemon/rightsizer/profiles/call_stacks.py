"""Call stacks of host threads: what issued each wait, and which frames launched kernels."""

import re
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from rightsizer.model.profile import FrameUse, ProductUse
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.names import is_of_a_gpu
from rightsizer.profiles.products import TensorProduct
from rightsizer.profiles.tables import short_name
from rightsizer.profiles.time_use import FrameTimes, Launches, ProductTimes
from rightsizer.profiles.timeline import (
    LATEST,
    NO_NUMBER,
    Column,
    Interval,
    Intervals,
    Numbers,
    SpanLine,
    in_order,
    is_in_time,
)

_LIBRARY_FRAME: Final = re.compile(r"<|.*[/\\](?:site|dist)-packages[/\\]")
_TOP: Final = re.compile(r"\w+")
_LIBRARIES: Final = {*sys.stdlib_module_names, "torch", "numpy"}
"""As profilers name their files, without the installation path."""
_MODULE: Final = "nn.Module: "
_TURN: Final = re.compile(r"[\s#:=_\-]*\d+(?:\(\d+\))?$")
_FRAME: Final = re.compile(r"(?:.*[/\\])?([^/\\]+\.py\(\d+\): .+)")
_DEEPEST: Final = 64
"""Maximum depth of nested calls; deeper ones are attributed to the last kept."""
_MOST_THREADS: Final = 4096
_OTHERS: Final = "(others)"
_NO_FRAME: Final = "(in no frame)"


class CallKind(IntEnum):
    """Kind of a call."""

    OPERATOR = 0
    LINE = 1
    """Line of the program, or its name of a range, which its developer can change."""
    MODULE = 2
    """Part of a network or a step, as the framework names it."""
    WAIT = 3
    """Call in which the host waits."""
    LAUNCH = 4
    """Host part of a compiled function."""
    READ_BACK = 5
    """Read of a value that a device has to compute first."""


class Call(NamedTuple):
    """One call of a thread."""

    start: Nanoseconds
    end: Nanoseconds
    kind: CallKind
    name: str


class _CallName(NamedTuple):
    kind: CallKind
    name: str
    product: TensorProduct | None = None


class _Calls(SpanLine):
    """Calls of one thread, in columns."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Column = array("q")

    def nested(self) -> Iterator[tuple[Nanoseconds, Nanoseconds, int]]:
        """Yield calls by start; of equal starts the longer first."""
        # Not as lists, which take four times the memory.
        return zip(*(array("q", column.tobytes()) for column in self._nested()), strict=True)

    def _nested(self) -> tuple[Numbers, Numbers, Numbers]:
        starts, ends, names = (
            np.array(column) for column in (self._starts, self._ends, self.names)
        )
        rows = np.lexsort((-ends, starts))
        return starts[rows], ends[rows], names[rows]

    def nesting(self) -> "_Nesting":
        """Return which call encloses which."""
        starts, ends, names = self._nested()
        until = array("q", ends.tobytes())
        parents: Column = array("q")
        depths: Column = array("q")
        opened: list[int] = []
        for row, end in enumerate(until):
            while opened and until[opened[-1]] < end:
                opened.pop()
            parents.append(opened[-1] if opened else -1)
            depths.append(len(opened))
            if len(opened) < _DEEPEST:
                opened.append(row)
            else:
                ends[row] = NO_NUMBER
        return _Nesting(starts, ends, names, np.array(parents), np.array(depths))

    def chosen(self, numbers: Sequence[int]) -> Intervals:
        """Return the calls with some names."""
        is_chosen = np.isin(np.array(self.names), numbers)
        return np.array(self._starts)[is_chosen], np.array(self._ends)[is_chosen]


class _Nesting(Struct, frozen=True):
    """Calls of one thread by start, each after those around it."""

    starts: Numbers
    ends: Numbers
    """Before all time for calls that are nested too deep."""
    names: Numbers
    parents: Numbers
    """Call around each; -1 for none."""
    depths: Numbers

    def around(self, begins: Numbers, ends: Numbers) -> Numbers:
        """Return the innermost call around each interval; -1 for none."""
        places = np.searchsorted(self.starts, begins, side="right") - 1
        while (is_outside := (places >= 0) & (self.ends[places] < ends)).any():
            places[is_outside] = self.parents[places[is_outside]]
        return places


@dataclass(slots=True)
class _OpenCall:
    name: int
    end: Nanoseconds


class _Nest:
    """Open calls of a thread, during one walk in time order."""

    def __init__(self, calls: _Calls | None) -> None:
        self._rest = iter(()) if calls is None else calls.nested()
        self._next = next(self._rest, None)
        self._open: list[_OpenCall] = []

    def around(self, start: Nanoseconds, end: Nanoseconds) -> list[_OpenCall]:
        """Return the calls that enclose an interval, outermost first."""
        while self._next is not None and self._next[0] <= start:
            begin, until, name = self._next
            self._close(begin)
            if len(self._open) < _DEEPEST:
                self._open.append(_OpenCall(name, until))
            self._next = next(self._rest, None)
        self._close(start)
        return [call for call in self._open if call.end >= end]

    def _close(self, now: Nanoseconds) -> None:
        while self._open and self._open[-1].end < now:
            self._open.pop()


class CallStacks:
    """Operators, Python frames and waits by thread; names are bounded."""

    def __init__(self, limits: ReadLimits) -> None:
        self._names: dict[_CallName, int] = {}
        self._limits = limits
        self._threads: set[int] = set()
        self._calls: defaultdict[int, _Calls] = defaultdict(_Calls)
        self._waits: defaultdict[int, _Calls] = defaultdict(_Calls)
        self.are_frames_own = True
        """Whether library frames are omitted."""

    @property
    def threads(self) -> tuple[int, ...]:
        """Threads with calls."""
        return tuple(self._calls)

    @property
    def has_operators(self) -> bool:
        """Whether any operator is known, and none that runs only on a GPU."""
        names = [name.name for name in self._names if name.kind is CallKind.OPERATOR]
        return bool(names) and not any(map(is_of_a_gpu, names))

    def calls(self, thread: int, kinds: Collection[CallKind]) -> Iterator[Call]:
        """Yield calls of some kinds of a thread, by start; of equal starts the longer first."""
        names = list(self._names)
        for start, end, number in self._calls[thread].nested():
            if names[number].kind in kinds:
                yield Call(start, end, *names[number][:2])

    def read_backs(self, is_named: Callable[[str], bool]) -> Iterator[tuple[int, int, str]]:
        """Yield start, end and origin of operators with such names, and of other read-backs."""
        names = list(self._names)
        wanted = {
            number
            for number, call_name in enumerate(names)
            if call_name.kind is CallKind.READ_BACK
            or (call_name.kind is CallKind.OPERATOR and is_named(call_name.name))
        }
        for calls in self._calls.values():
            nest = _Nest(calls)
            for start, end, number in calls.nested():
                if number in wanted:
                    around = [names[call.name] for call in nest.around(start, end)]
                    lines = [
                        call_name.name for call_name in around if call_name.kind is CallKind.LINE
                    ]
                    name = names[number].name
                    yield start, end, f"{name} in {lines[-1]}" if lines else name

    def thread(self, number: int) -> int:
        """Return the number of a thread, or -1 beyond the limit, where calls are not kept."""
        if number not in self._threads:
            if len(self._threads) >= _MOST_THREADS:
                return -1
            self._threads.add(number)
        return number

    def add(
        self,
        thread: int,
        kind: CallKind,
        name: str,
        span: Interval,
        product: TensorProduct | None = None,
    ) -> None:
        """Add a call, and the product that an operator computes."""
        thread = self.thread(thread)
        is_kept = thread != -1 or kind is CallKind.WAIT
        if not (name and is_kept and is_in_time(*span)):
            return
        into = (self._waits if kind is CallKind.WAIT else self._calls)[thread]
        into.add(*span)
        into.names.append(self.number(kind, name, product))

    def number(self, kind: CallKind, name: str, product: TensorProduct | None = None) -> int:
        """Return the number of a name; -1 for an empty one."""
        if not name:
            return -1
        key = _CallName(kind, short_name(name, self._limits.name_maximum_characters), product)
        if key not in self._names and len(self._names) >= self._limits.kernel_names_maximum:
            key = _CallName(kind, _OTHERS)
        return self._names.setdefault(key, len(self._names))

    def add_all(self, threads: Numbers, numbers: Numbers, starts: Numbers, ends: Numbers) -> None:
        """Add calls that are no waits, by numbers of their names."""
        is_kept = (numbers >= 0) & (starts > -LATEST) & (starts <= ends) & (ends < LATEST)
        for thread in np.unique(threads).tolist():
            if self.thread(thread) != -1:
                rows = is_kept & (threads == thread)
                self._calls[thread].extend(starts[rows], ends[rows])
                self._calls[thread].names.frombytes(numbers[rows].tobytes())

    def frame(self, thread: int, name: str, span: Interval) -> bool:
        """Add a Python function or module; return whether it was kept."""
        call = frame_call(name)
        if call is not None:
            self.add(thread, *call, span)
        return call is not None

    def waits(self) -> Iterator[tuple[str, Interval]]:
        """Yield waits with their origin: `cudaStreamSynchronize in aten::item, train.py(9): f`."""
        call_names = list(self._names)
        for thread, waits in self._waits.items():
            nest = _Nest(self._calls.get(thread))
            for start, end, number in waits.nested():
                calls = [call_names[call.name] for call in nest.around(start, end)]
                operators = [call.name for call in calls if call.kind is CallKind.OPERATOR]
                lines = [call.name for call in calls if call.kind is CallKind.LINE]
                origin = ", ".join((*operators[:1], *lines[-1:]))
                name = call_names[number].name
                yield f"{name} in {origin}" if origin else name, (start, end)

    def busy(self, thread: int) -> Intervals:
        """Return operators and waits of a thread; they may overlap."""
        operators = [
            number
            for number, name in enumerate(self._names)
            if name.kind in {CallKind.OPERATOR, CallKind.WAIT}
        ]
        lines = (self._calls.get(thread), self._waits.get(thread))
        return in_order(*((line or _Calls()).chosen(operators) for line in lines))

    def find_launches(self, launches: Launches, tree: "FrameTree") -> None:
        """Set frame and product of each launch; none if no call is known."""
        if not self._calls or not self._limits.frames_maximum:
            return
        _, starts, ends, threads = launches.columns
        launches.frames = np.full(len(launches), -1)
        launches.product_calls = np.full(len(launches), -1)
        for thread, calls in self._calls.items():
            rows = np.flatnonzero(threads == thread)
            if rows.size and len(calls):
                nesting = calls.nesting()
                around = nesting.around(starts[rows], ends[rows])
                frames, product_calls = self._placed(nesting, around, tree, launches.products)
                launches.frames[rows] = frames[around]
                launches.product_calls[rows] = product_calls[around]

    def _placed(
        self, calls: "_Nesting", around: Numbers, tree: "FrameTree", products: Column
    ) -> tuple[Numbers, Numbers]:
        """Return frame and product call of calls that launched anything, and last -1 for none."""
        frames = np.full(calls.depths.size + 1, -1)
        product_calls = np.full(calls.depths.size + 1, -1)
        is_used = np.zeros(calls.depths.size + 1, bool)
        is_used[around] = True
        is_used[-1] = False
        depths = range(int(calls.depths[np.flatnonzero(is_used)].max(initial=-1)) + 1)
        for depth in reversed(depths):
            is_used[calls.parents[is_used[:-1] & (calls.depths == depth)]] = True
        names = list(self._names)
        has_product = np.array([name.product is not None for name in names])
        for depth in depths:
            level = np.flatnonzero(is_used[:-1] & (calls.depths == depth))
            keys = np.stack((frames[calls.parents[level]], calls.names[level]))
            pairs, places, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
            within = [tree.within(parent, names[name].name) for parent, name in pairs.T.tolist()]
            for place, count in zip(within, counts.tolist(), strict=True):
                tree.calls[place] += count
            frames[level] = np.array(within)[places.ravel()]
            product_calls[level] = product_calls[calls.parents[level]]
            own = level[has_product[calls.names[level]]]
            product_calls[own] = np.arange(own.size) + len(products)
            products.extend(calls.names[own].tolist())
        return frames, product_calls

    def products(self, found: ProductTimes) -> tuple[ProductUse, ...]:
        """Return the products by operator and shape, longest first."""
        names = list(self._names)
        uses = (
            ProductUse(
                *product[:3],
                found.calls[number],
                seconds(time),
                float(product.flops * found.calls[number]),
                float(product.bytes * found.calls[number]),
            )
            for number, time in found.times.items()
            if (product := names[number].product) is not None
        )
        return tuple(sorted(uses, key=lambda use: (-use.seconds, use.name, use.shape)))


def _is_of_library(frame: str) -> bool:
    top = _TOP.match(frame)
    return (top is not None and top[0] in _LIBRARIES) or _LIBRARY_FRAME.match(frame) is not None


def frame_call(name: str) -> tuple[CallKind, str] | None:
    """Return the call of a Python function or module; `None` for what users never change."""
    if name.startswith(_MODULE):
        return CallKind.MODULE, without_turn(name.removeprefix(_MODULE))
    found = None if _is_of_library(name) else _FRAME.fullmatch(name)
    return found and (CallKind.LINE, found[1])


def without_turn(name: str) -> str:
    """Remove the trailing number of a name, which counts iterations, layers or instances."""
    return _TURN.sub("", name) or name


class FrameTree:
    """Tree of frames, bounded in number: beyond, time counts for the enclosing frame."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._places: dict[tuple[int, str], int] = {}
        self.calls: Counter[int] = Counter()
        """Calls of each frame that launched anything; -1 is meaningless."""

    def within(self, parent: int, name: str) -> int:
        """Return the frame of this name within another; -1 is the root."""
        if (place := self._places.get((parent, name))) is None:
            place = len(self._places)
            if place >= self._limits.frames_maximum:
                return parent
            self._places[parent, name] = place
        return place

    def path(self, names: Iterable[str]) -> int:
        """Return the innermost of nested frames, named from the outermost."""
        place = -1
        for _, name in zip(range(_DEEPEST), names, strict=False):
            place = self.within(place, short_name(name, self._limits.name_maximum_characters))
        return place

    def uses(self, found: FrameTimes) -> tuple[FrameUse, ...]:
        """Return frames, each before its children, longest first; empty if none has a kernel."""
        keys = list(self._places)
        times = Counter[int]()
        kernels = Counter[int]()
        for frame, time in found.times.items():
            place = frame
            while place >= 0:
                times[place] += time
                kernels[place] += found.kernels[frame]
                place = keys[place][0]
        within: defaultdict[int, list[int]] = defaultdict(list)
        for place in sorted(times, key=lambda place: (times[place], keys[place][1])):
            within[keys[place][0]].append(place)
        uses: list[FrameUse] = []
        waiting: list[tuple[int, int | None]] = [(place, None) for place in within[-1]]
        while waiting:
            place, parent = waiting.pop()
            waiting += ((each, len(uses)) for each in within[place])
            own = found.times[place]
            calls = self.calls[place] or None
            lengths = seconds(times[place]), seconds(own)
            uses.append(FrameUse(keys[place][1], parent, *lengths, kernels[place], calls))
        if uses and found.kernels[-1]:
            rest = seconds(found.times[-1])
            uses.append(FrameUse(_NO_FRAME, None, rest, rest, found.kernels[-1], None))
        return tuple(uses)
