"""One tick of eight H100 with everything on: CPU, driver calls, and time with a slow driver."""

import gc
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from benchmarks.bare_bindings import BareBindings
from benchmarks.options import Options
from canned_driver import CannedLibrary
from instrumented_library import measured_latency
from measured import Figure, quantile
from whole_node import WholeNode, whole_node

LISTENING: Final = "nvmlEventSetWait_v2"
"""Of the thread that waits for errors, at no particular tick."""
_MOST_MILLISECONDS: Final = 15.0
_MOST_RATIO: Final = 8.0
_TICKS: Final = 240
"""Four looks for devices, and 24 rounds of slow readings."""
_WARM: Final = 20
_SLOW_DRIVER_TICKS: Final = 60


class _Cpu(Struct, frozen=True):
    """Milliseconds of a tick."""

    total: float
    coordinator: float
    """On the thread that ticks: accounts, and waiting for the others."""


def measure(_: Options) -> Iterator[Figure]:
    """Cost of the agent, of the bare bindings for the same calls, and their number."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        yield from _cpu_figures(_cpu(root), _bare_milliseconds(root))
        yield from _call_figures(root)
        yield from _wall_figures(root)


def _cpu_figures(cpu: _Cpu, bare: float) -> Iterator[Figure]:
    what = "CPU of the agent for a tick, with a driver that answers at once"
    yield Figure(what, cpu.total, "ms", _MOST_MILLISECONDS)
    yield Figure("of it on the thread that ticks", cpu.coordinator, "ms", note="mostly accounting")
    yield Figure("the bindings alone, with the same calls", bare, "ms")
    yield Figure("ratio of the two", cpu.total / bare, ceiling=_MOST_RATIO)


def _cpu(root: Path) -> _Cpu:
    with whole_node(root, around=CannedLibrary) as node:
        _warm(node.tick)
        process = time.process_time()
        thread = time.thread_time()
        for _ in range(_TICKS):
            node.tick()
        return _Cpu(
            1e3 * (time.process_time() - process) / _TICKS,
            1e3 * (time.thread_time() - thread) / _TICKS,
        )


def _bare_milliseconds(root: Path) -> float:
    with whole_node(root, around=CannedLibrary) as node, BareBindings() as bare:
        _warm(lambda: _round(node, bare))
        started = time.process_time()
        for _ in range(_TICKS):
            _round(node, bare)
        return 1e3 * (time.process_time() - started) / _TICKS


def _round(node: WholeNode, bare: BareBindings) -> None:
    node.pass_second()
    bare.round()


def _warm(tick: Callable[[], object]) -> None:
    for _ in range(_WARM):
        tick()
    # As the agent does once it has started.
    gc.collect()
    gc.freeze()


def fast_calls(node: WholeNode) -> Counter[str]:
    """The calls of a tick without slow readings, by function."""
    ticks = []
    for _ in range(2 * _WARM):
        before = node.calls
        node.tick()
        calls = node.calls - before
        del calls[LISTENING]
        ticks.append(calls)
    return min(ticks[2:], key=Counter.total)


def _call_figures(root: Path) -> Iterator[Figure]:
    with whole_node(root, counts_calls=True) as node:
        fast = fast_calls(node)
        before = node.calls
        for _ in range(_TICKS):
            node.tick()
        calls = node.calls - before
    yield Figure("driver calls of a tick without slow readings", fast.total())
    yield Figure("driver calls of a tick, all together, on average", calls.total() / _TICKS)
    for name, count in fast.most_common():
        yield Figure(name, count, note=f"{calls[name] / _TICKS:.2f} on average", is_row=True)


def _wall_figures(root: Path) -> Iterator[Figure]:
    times = []
    with whole_node(root, latency=measured_latency, counts_calls=True) as node:
        _warm(node.tick)
        for _ in range(_SLOW_DRIVER_TICKS):
            started = time.perf_counter()
            node.tick()
            times.append(1e3 * (time.perf_counter() - started))
    bare_times = []
    with whole_node(root, latency=measured_latency) as node, BareBindings() as bare:
        for _ in range(_WARM):
            started = time.perf_counter()
            _round(node, bare)
            bare_times.append(1e3 * (time.perf_counter() - started))
    p50 = quantile(times, 0.5)
    bare_p50 = quantile(bare_times, 0.5)
    yield Figure("a tick with the times of a real driver (H100), p50", p50, "ms")
    yield Figure("the same, p99", quantile(times, 0.99), "ms")
    yield Figure("the bindings alone, one GPU after the other, p50", bare_p50, "ms")
    yield Figure("ratio of the two", p50 / bare_p50, note="below 1: the GPUs are asked together")
