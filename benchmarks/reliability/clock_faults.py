# ruff: noqa: E501 - a table, one fault a line.
"""A wall clock that jumps; the monotonic clock stays as it is."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from benchmarks.reliability import shim
from benchmarks.reliability.fault import LENGTH_SECONDS, Fault, Group
from benchmarks.reliability.node import Node

_HOUR: Final = 3600
_DAY: Final = 86400
_DECADE: Final = 10 * 365 * _DAY
_JUMPS: Final = (
    ("an hour ahead", _HOUR),
    ("an hour back", -_HOUR),
    ("a month ahead", 30 * _DAY),
    ("a month back", -30 * _DAY),
    ("twelve years ahead, past 2038", _DECADE + 2 * 365 * _DAY),
    ("five decades back", -5 * _DECADE),
)  # fmt: skip


def clock_faults() -> Iterator[Fault]:
    """Each jump is undone after the fault."""
    for name, shift in _JUMPS:
        rule = f"clock * 1 0 shift {shift}"
        yield Fault(
            Group.CLOCK,
            f"the clock jumps {name}",
            prepare=shim.load,
            plant=shim.strike(rule),
            lift=shim.spare,
        )
    yield Fault(
        Group.CLOCK,
        "the clock is an hour ahead, as the agent starts",
        prepare=_shifted(_HOUR),
        lift=shim.spare,
        is_at_start=True,
    )
    yield Fault(
        Group.CLOCK,
        "the clock is in 1970, as the agent starts",
        prepare=_shifted(-int(time.time()) + _HOUR),
        lift=shim.spare,
        is_at_start=True,
    )
    yield Fault(Group.CLOCK, "the clock jumps 2 s to and fro, twice a second", prepare=shim.load, plant=_jitter, lift=shim.spare, seconds=LENGTH_SECONDS + 1)  # fmt: skip


def _shifted(shift: int) -> Callable[[Node], None]:
    def prepare(node: Node) -> None:
        shim.load(node)
        shim.strike(f"clock * 1 0 shift {shift}")(node)

    return prepare


def _jitter(node: Node) -> None:
    def swing() -> None:
        for half_seconds in range(int(LENGTH_SECONDS * 2)):
            shim.strike(f"clock * 1 0 shift {-2 if half_seconds % 2 else 2}")(node)
            time.sleep(0.5)

    threading.Thread(target=swing, daemon=True).start()
