"""Call stacks of host threads: what issued each wait, and which frames launched kernels."""

import re
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rightsizer.model.profile import FrameUse, ProductUse
from rightsizer.model.units import seconds
from rightsizer.profiles.columns import EventRows, Texts, Values, coded, integers
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.names import is_of_a_gpu
from rightsizer.profiles.products import TensorProduct
from rightsizer.profiles.tables import short_name
from rightsizer.profiles.time_use import CountedTimes, Launches
from rightsizer.profiles.timeline import (
    LATEST,
    NO_NUMBER,
    Column,
    Columns,
    Interval,
    Intervals,
    Numbers,
    in_order,
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
_REMEMBERED: Final = 10_000
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


class CallName(NamedTuple):
    """Name of calls, with the product that an operator computes."""

    kind: CallKind
    name: str
    product: TensorProduct | None = None


class _Calls(Columns):
    """Calls of one thread: starts, ends and names."""

    def __init__(self) -> None:
        super().__init__("i8", "i8", "i4", order=_from_outermost)

    def nested(self, numbers: Numbers | None = None) -> tuple[Numbers, Numbers, Numbers]:
        """Return calls, with some names, by start; of equal starts the longer first."""
        starts, ends, names = self.read()
        if numbers is None:
            return starts, ends, names
        is_chosen = np.zeros(max(numbers.max(initial=0), names.max(initial=0)) + 1, bool)
        is_chosen[numbers] = True
        rows = np.flatnonzero(is_chosen[names])
        return starts[rows], ends[rows], names[rows]


def _from_outermost(starts: Numbers, ends: Numbers, _: Numbers) -> Numbers:
    is_later = (starts[1:] == starts[:-1]) & (ends[1:] > ends[:-1])
    if (is_later | (starts[1:] < starts[:-1])).any():
        return np.lexsort((-ends, starts))
    return np.arange(starts.size)


class Nesting(Struct, frozen=True):
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
        if not self.starts.size:
            return places
        while (is_outside := (places >= 0) & (self.ends[places] < ends)).any():
            places[is_outside] = self.parents[places[is_outside]]
        return places

    def innermost(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return start and end of each interval with its innermost call."""
        edges = np.unique(np.append(self.starts, self.ends[self.ends != NO_NUMBER]))
        calls = self.around(edges[:-1], edges[1:])
        is_within = calls >= 0
        return edges[:-1][is_within], edges[1:][is_within], calls[is_within]

    def within(self, calls: Numbers) -> tuple["Nesting", Numbers]:
        """Return only some calls and those around them, and the places of the first, or -1."""
        is_used = np.zeros(self.starts.size + 1, bool)
        is_used[-1] = True
        inner = calls
        while (inner := inner[~is_used[inner]]).size:
            is_used[inner] = True
            inner = self.parents[inner]
        used = np.flatnonzero(is_used[:-1])
        places: NDArray[Any] = np.cumsum(is_used, dtype=np.int32) - 1
        places[-1] = -1
        part = Nesting(
            self.starts[used],
            self.ends[used],
            self.names[used],
            places[self.parents[used]],
            self.depths[used],
        )
        return part, places[calls]

    def levels(self) -> Iterator[Numbers]:
        """Yield the calls of each depth."""
        order = np.argsort(self.depths, kind="stable")
        return iter(np.split(order, np.cumsum(np.bincount(self.depths))[:-1]))


def _nesting(starts: Numbers, ends: Numbers, names: Numbers) -> Nesting:
    until = ends.data
    parents: Column = array("i")
    depths: Column = array("b")
    deep: list[int] = []
    opened = [-1]
    bounds = [LATEST]
    for row, end in enumerate(until):
        while bounds[-1] < end:
            bounds.pop()
            opened.pop()
        parents.append(opened[-1])
        depths.append(len(opened) - 1)
        if len(opened) <= _DEEPEST:
            opened.append(row)
            bounds.append(end)
        else:
            deep.append(row)
    if deep:
        ends = ends.copy()
        ends[deep] = NO_NUMBER
    return Nesting(starts, ends, names, np.asarray(parents), np.asarray(depths))


class CallStacks:
    """Operators, Python frames and waits by thread; names are bounded."""

    def __init__(self, limits: ReadLimits) -> None:
        self._names: dict[CallName, int] = {}
        self._limits = limits
        self._threads: set[int] = set()
        self._calls: defaultdict[int, _Calls] = defaultdict(_Calls)
        self._waits: defaultdict[int, _Calls] = defaultdict(_Calls)
        self._rows = EventRows(self.extend)
        self._wait_rows = EventRows(self.extend_waits)
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

    def names(self) -> Sequence[str]:
        """Return the names of calls by number."""
        return [call.name for call in self._names]

    def kinds(self) -> Numbers:
        """Return the kinds of calls by number of name."""
        return np.array([call.kind for call in self._names], np.int64)

    def nesting(self, thread: int, kinds: Collection[CallKind]) -> Nesting:
        """Return the calls of some kinds of a thread."""
        numbers = np.flatnonzero(np.isin(self.kinds(), [*kinds]))
        return _nesting(*self._calls[thread].nested(numbers))

    def chosen(self, is_chosen: Callable[[CallName], bool]) -> Intervals:
        """Return the calls of all threads with some names."""
        numbers = self._numbers(is_chosen)
        return in_order(
            *(calls.nested(numbers)[:2] for calls in self._calls.values() or (_Calls(),))
        )

    def _numbers(self, is_chosen: Callable[[CallName], bool]) -> Numbers:
        return np.flatnonzero([is_chosen(name) for name in self._names])

    def read_backs(self, is_named: Callable[[str], bool]) -> Iterator[tuple[int, int, str]]:
        """Yield start, end and origin of operators with such names, and of other read-backs."""
        names = self.names()
        wanted = self._numbers(
            lambda call: (
                call.kind is CallKind.READ_BACK
                or (call.kind is CallKind.OPERATOR and is_named(call.name))
            )
        )
        for calls in self._calls.values():
            starts, ends, numbers = calls.nested()
            rows = np.flatnonzero(np.isin(numbers, wanted))
            _, lines = self._origins(_nesting(starts, ends, numbers))
            columns = (column[rows].tolist() for column in (starts, ends, numbers, lines))
            for start, end, number, line in zip(*columns, strict=True):
                name = names[number]
                yield start, end, f"{name} in {names[line]}" if line >= 0 else name

    def _origins(self, calls: Nesting) -> tuple[Numbers, Numbers]:
        """Return outermost operator and innermost line of each call; -1 for none, and last."""
        kinds = self.kinds()
        operators = np.full(calls.depths.size + 1, -1)
        lines = np.full(calls.depths.size + 1, -1)
        for level in calls.levels():
            names = calls.names[level]
            outer = operators[calls.parents[level]]
            is_first = (outer < 0) & (kinds[names] == CallKind.OPERATOR)
            operators[level] = np.where(is_first, names, outer)
            is_line = kinds[names] == CallKind.LINE
            lines[level] = np.where(is_line, names, lines[calls.parents[level]])
        return operators, lines

    def thread(self, number: int) -> int:
        """Return the number of a thread, or -1 beyond the limit, where calls are not kept."""
        if number not in self._threads:
            if len(self._threads) >= _MOST_THREADS:
                return -1
            self._threads.add(number)
        return number

    def add(self, thread: int, kind: CallKind, name: str, span: Interval) -> None:
        """Add a call."""
        rows = self._wait_rows if kind is CallKind.WAIT else self._rows
        rows.add(thread, self.number(kind, name), *span)

    def bounded(self, threads: Numbers) -> Numbers:
        """Return the numbers of threads, -1 beyond the limit."""
        return coded(threads.tolist()).array(self.thread)

    def number(self, kind: CallKind, name: str, product: TensorProduct | None = None) -> int:
        """Return the number of a name; -1 for an empty one."""
        if not name:
            return -1
        key = CallName(kind, short_name(name, self._limits.name_maximum_characters), product)
        if key not in self._names and len(self._names) >= self._limits.kernel_names_maximum:
            key = CallName(kind, _OTHERS)
        return self._names.setdefault(key, len(self._names))

    def numbers(self, kind: CallKind, names: Texts) -> Numbers:
        """Return the numbers of several names."""
        return coded(names).array(partial(self.number, kind))

    def extend(self, threads: Values, numbers: Values, starts: Values, ends: Values) -> None:
        """Add calls that are no waits, by numbers of their names."""
        self._extend(self._calls, threads, numbers, starts, ends)

    def extend_waits(self, threads: Values, numbers: Values, starts: Values, ends: Values) -> None:
        """Add waits, by numbers of their names."""
        self._extend(self._waits, threads, numbers, starts, ends)

    def _extend(self, into: defaultdict[int, _Calls], *columns: Values) -> None:
        threads, numbers, starts, ends = map(integers, columns)
        is_kept = (numbers >= 0) & (starts > -LATEST) & (starts <= ends) & (ends < LATEST)
        kept_threads = self.bounded(threads)
        for thread in np.unique(kept_threads).tolist():
            if thread != -1 or into is self._waits:
                rows = is_kept & (kept_threads == thread)
                into[thread].extend(starts[rows], ends[rows], numbers[rows])

    def flush(self) -> None:
        """Take the calls that were given one by one."""
        self._rows.flush()
        self._wait_rows.flush()

    def frame(self, thread: int, name: str, span: Interval) -> bool:
        """Add a Python function or module; return whether it was kept."""
        call = frame_call(name)
        if call is not None:
            self.add(thread, *call, span)
        return call is not None

    def waits(self) -> Iterator[tuple[Numbers, Numbers, Sequence[str]]]:
        """Yield waits with their origin: `cudaStreamSynchronize in aten::item, train.py(9): f`."""
        names = [*self.names(), ""]
        for thread, waits in self._waits.items():
            starts, ends, numbers = waits.nested()
            calls = _nesting(*self._calls.get(thread, _Calls()).nested())
            calls, around = calls.within(calls.around(starts, ends))
            origins = (column[around].tolist() for column in self._origins(calls))
            texts: list[str] = []
            for number, *origin in zip(numbers.tolist(), *origins, strict=True):
                within = ", ".join(filter(None, (names[place] for place in origin)))
                texts.append(f"{names[number]} in {within}" if within else names[number])
            yield starts, ends, texts

    def busy(self, thread: int) -> Intervals:
        """Return operators and waits of a thread; they may overlap."""
        operators = self._numbers(lambda call: call.kind in {CallKind.OPERATOR, CallKind.WAIT})
        lines = (lines.get(thread, _Calls()) for lines in (self._calls, self._waits))
        return in_order(*(line.nested(operators)[:2] for line in lines))

    def find_launches(self, launches: Launches, tree: "FrameTree") -> None:
        """Set frame and product of each launch; none if no call is known."""
        if not self._calls or not self._limits.frames_maximum:
            return
        _, starts, ends, threads = launches.read()
        launches.frames = np.full(len(launches), -1)
        launches.product_calls = np.full(len(launches), -1)
        for thread, calls in self._calls.items():
            rows = np.flatnonzero(threads == thread)
            if rows.size and len(calls):
                nesting = _nesting(*calls.nested())
                nesting, around = nesting.within(nesting.around(starts[rows], ends[rows]))
                frames, product_calls = self._placed(nesting, tree, launches.products)
                launches.frames[rows] = frames[around]
                launches.product_calls[rows] = product_calls[around]

    def _placed(
        self, calls: Nesting, tree: "FrameTree", products: Column
    ) -> tuple[Numbers, Numbers]:
        """Return frame and product call of calls that launched something, and last -1 for none."""
        frames = np.full(calls.depths.size + 1, -1)
        product_calls = np.full(calls.depths.size + 1, -1)
        names = list(self._names)
        has_product = np.array([name.product is not None for name in names])
        for level in filter(len, calls.levels()):
            keys = frames[calls.parents[level]] * len(names) + calls.names[level]
            pairs, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
            parted = (divmod(pair, len(names)) for pair in pairs.tolist())
            within = [tree.within(parent, names[name].name) for parent, name in parted]
            for place, count in zip(within, counts.tolist(), strict=True):
                tree.calls[place] += count
            frames[level] = np.array(within)[places]
            product_calls[level] = product_calls[calls.parents[level]]
            product_rows = level[has_product[calls.names[level]]]
            product_calls[product_rows] = np.arange(product_rows.size) + len(products)
            products.extend(calls.names[product_rows].tolist())
        return frames, product_calls

    def products(self, product_times: CountedTimes) -> tuple[ProductUse, ...]:
        """Return the products by operator and shape, longest first."""
        names = list(self._names)
        uses = (
            ProductUse(
                *product[:3],
                product_times.counts[number],
                seconds(time),
                float(product.flops * product_times.counts[number]),
                float(product.bytes * product_times.counts[number]),
            )
            for number, time in product_times.times.items()
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
    match = None if _is_of_library(name) else _FRAME.fullmatch(name)
    return match and (CallKind.LINE, match[1])


@lru_cache(_REMEMBERED)
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

    def uses(self, frame_times: CountedTimes) -> tuple[FrameUse, ...]:
        """Return frames, each before its children, longest first; empty if none has a kernel."""
        keys = list(self._places)
        times = Counter[int]()
        kernels = Counter[int]()
        for frame, time in frame_times.times.items():
            place = frame
            while place >= 0:
                times[place] += time
                kernels[place] += frame_times.counts[frame]
                place = keys[place][0]
        within: defaultdict[int, list[int]] = defaultdict(list)
        for place in sorted(times, key=lambda place: (times[place], keys[place][1])):
            within[keys[place][0]].append(place)
        uses: list[FrameUse] = []
        waiting: list[tuple[int, int | None]] = [(place, None) for place in within[-1]]
        while waiting:
            place, parent = waiting.pop()
            waiting += ((child, len(uses)) for child in within[place])
            own_time = frame_times.times[place]
            calls = self.calls[place] or None
            lengths = seconds(times[place]), seconds(own_time)
            uses.append(FrameUse(keys[place][1], parent, *lengths, kernels[place], calls))
        if uses and frame_times.counts[-1]:
            rest = seconds(frame_times.times[-1])
            uses.append(FrameUse(_NO_FRAME, None, rest, rest, frame_times.counts[-1], None))
        return tuple(uses)
