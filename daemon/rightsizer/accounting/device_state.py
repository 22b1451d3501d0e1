"""State of one device between readings: pressure, load cycles, PCIe link, energy."""

from collections import deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from rightsizer.accounting.classification import StateMatch
from rightsizer.accounting.definitions import MEMORY_SHORT, USERS_WAIT
from rightsizer.accounting.float_interpreter import FloatInterpreter, closed
from rightsizer.accounting.power import EnergyMeter
from rightsizer.accounting.settings import (
    EntrySettings,
    LoadCycleSettings,
    PcieLinkSettings,
    PressureSettings,
)
from rightsizer.accounting.signals import DeviceUsage, StateEvidence
from rightsizer.model.members import members
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    Condition,
    LoadCycle,
    Nanoseconds,
    Resource,
    Signal,
    XidLog,
    nanoseconds,
    seconds,
)

_Signal = members(Signal)
_Resource = members(Resource)
_Condition = members(Condition)


_PRESSURE_NAMES: Final = frozenset(
    {
        "has_preempted",
        "requests_waiting",
        "kv_cache_used",
        "is_late",
        "is_out_of_memory",
        "is_near_out_of_memory",
    }
)


class PressureDetector:
    """Application pressure on one device over time; preemptions and Xids are counters."""

    def __init__(self, settings: PressureSettings | None = None) -> None:
        self._settings = settings or PressureSettings()
        # Promised latencies, by the signal that measures them.
        promises = (
            (_Signal.TIME_TO_FIRST_TOKEN_SECONDS, "time_to_first_token_maximum_seconds"),
            (_Signal.TIME_PER_OUTPUT_TOKEN_SECONDS, "time_per_output_token_maximum_seconds"),
            (_Signal.REQUEST_LATENCY_SECONDS, "request_latency_maximum_seconds"),
        )
        values = ((signal, getattr(self._settings, name)) for signal, name in promises)
        self._promises = [(signal, value) for signal, value in values if value is not None]
        compiler = FloatInterpreter(self._settings, _PRESSURE_NAMES)
        self._do_users_wait = closed(compiler.test(USERS_WAIT))
        self._is_memory_short = closed(compiler.test(MEMORY_SHORT))
        self._preemptions = _Growth(nanoseconds(self._settings.preemption_hold_seconds))
        self._xids = _Growth(nanoseconds(self._settings.memory_xid_hold_seconds))

    def update(
        self,
        now: Nanoseconds,
        signals: Mapping[Signal, float],
        saturated: AbstractSet[Resource],
        conditions: AbstractSet[Condition],
        xids: XidLog | None = None,
    ) -> frozenset[Resource]:
        """Resources short in the interval that ends now (monotonic time)."""
        # Update both counters every time, or a step would be missed.
        counts = xids.counts if xids else {}
        codes = self._settings.memory_xids
        errors = sum(counts.get(code, 0) for code in codes) if xids else None
        is_out_of_memory = self._xids.update(now, errors)
        has_preempted = self._preemptions.update(now, signals.get(_Signal.PREEMPTIONS))
        values = {
            "has_preempted": has_preempted,
            "requests_waiting": signals.get(_Signal.REQUESTS_WAITING),
            "kv_cache_used": signals.get(_Signal.KV_CACHE_USED),
            "is_late": any(
                signals.get(signal, 0.0) > maximum for signal, maximum in self._promises
            ),
            "is_out_of_memory": is_out_of_memory,
            "is_near_out_of_memory": _Condition.NEAR_OUT_OF_MEMORY in conditions,
        }
        short = set(saturated) - {_Resource.MEMORY} if self._do_users_wait(values) else set()
        if self._is_memory_short(values):
            short.add(_Resource.MEMORY)
        return frozenset(short)


class _Growth:
    """Whether a counter increased recently; a decrease is a restart of the counter."""

    def __init__(self, hold: Nanoseconds) -> None:
        self._hold = hold
        self._last: float | None = None
        self._grown: Nanoseconds | None = None

    def update(self, now: Nanoseconds, count: float | None) -> bool:
        if count is not None:
            if self._last is not None and count > (self._last if count >= self._last else 0):
                self._grown = now
            self._last = count
        return self._grown is not None and now - self._grown <= self._hold


_PARTS: Final = 6


@dataclass(slots=True)
class _LinkPart:
    number: int
    loaded: Nanoseconds = 0
    highest: float = 0.0


class PcieLinkMonitor:
    """PCIe link of one GPU over the recent window."""

    def __init__(self, settings: PcieLinkSettings | None = None) -> None:
        settings = settings or PcieLinkSettings()
        self._length = max(1, nanoseconds(settings.window_seconds) // _PARTS)
        self._needed = nanoseconds(settings.loaded_seconds)
        self._parts: deque[_LinkPart] = deque(maxlen=_PARTS)

    def update(
        self, now: Nanoseconds, duration: Nanoseconds, generation: float | None, *, is_loaded: bool
    ) -> float | None:
        """Highest recent generation under load; `None` before sufficient load."""
        number = now // self._length
        while self._parts and self._parts[0].number <= number - _PARTS:
            self._parts.popleft()
        if is_loaded and generation:
            if not self._parts or self._parts[-1].number != number:
                self._parts.append(_LinkPart(number))
            part = self._parts[-1]
            part.loaded += duration
            part.highest = max(part.highest, generation)
        if not self._parts or sum(part.loaded for part in self._parts) < self._needed:
            return None
        return max(part.highest for part in self._parts)


_CYCLES_REMEMBERED: Final = 8
"""Number of cycles that the next one is compared with."""
_CYCLES_ALIKE: Final = 0.75
"""Share of those that must be similar in length."""
_READING_JITTER: Final = 0.1
"""Tolerated delay of a reading, relative to the interval."""
_SWING_HYSTERESIS: Final = 0.1
"""Share of the swing by which a load must cross its middle."""


class LoadCycleDetector:
    """Load cycles of one device over time.

    A cycle lasts from one rise of the load above the middle of its recent range to the next. It is
    reported only if previous cycles took about as long, which random requests do not.
    """

    def __init__(self, settings: LoadCycleSettings | None = None) -> None:
        self._settings = settings or LoadCycleSettings()
        self._longest = nanoseconds(self._settings.longest_seconds)
        self._coarsest = nanoseconds(self._settings.coarsest_seconds * (1 + _READING_JITTER))
        self._lengths: deque[Nanoseconds] = deque(maxlen=_CYCLES_REMEMBERED)
        self._lowest = self._highest = 0.0
        self._is_high: bool | None = None
        self._length: Nanoseconds = 0
        self._busy = 0.0

    def resolves(self, duration: Nanoseconds) -> bool:
        """Whether an interval is short enough to resolve cycles."""
        return duration <= self._coarsest

    def update(self, duration: Nanoseconds, busy: float | None) -> LoadCycle | None:
        """Add an interval; return the cycle that ended before it, if it is one of several alike."""
        if busy is None or not self.resolves(duration):
            self._lengths.clear()
            self._is_high = None
            self._length = 0
            self._busy = 0.0
            return None
        cycle = self._close() if self._rises(duration, busy) else None
        self._length += duration
        self._busy += busy * seconds(duration)
        return cycle

    def _rises(self, duration: Nanoseconds, busy: float) -> bool:
        """Track the range of the load, with the longest cycle as time constant; detect a rise."""
        if self._is_high is None:
            self._lowest = self._highest = busy
            self._is_high = False
            return False
        forgotten = duration / (self._longest + duration)
        self._lowest += forgotten * (busy - self._lowest)
        self._highest += forgotten * (busy - self._highest)
        self._lowest = min(self._lowest, busy)
        self._highest = max(self._highest, busy)
        if (swing := self._highest - self._lowest) < self._settings.swing_ratio:
            self._length = 0
            self._busy = 0.0
            self._is_high = False
            self._lengths.clear()
            return False
        middle = self._lowest + swing / 2
        was_high = self._is_high
        if abs(busy - middle) > _SWING_HYSTERESIS * swing:
            self._is_high = busy > middle
        return self._is_high and not was_high

    def _close(self) -> LoadCycle | None:
        length = self._length
        busy = self._busy
        self._length = 0
        self._busy = 0.0
        if not 0 < length <= self._longest:
            self._lengths.clear()
            return None
        self._lengths.append(length)
        tolerance = self._settings.tolerance_ratio * length
        alike = sum(abs(length - other) <= tolerance for other in self._lengths)
        if len(self._lengths) < _CYCLES_REMEMBERED or alike < _CYCLES_ALIKE * _CYCLES_REMEMBERED:
            return None
        return LoadCycle(length / NANOSECONDS_PER_SECOND, busy)


class DeviceState:
    """State of one device; dropped when the device disappears."""

    __slots__ = (
        "accounted",
        "cycles",
        "has_dead_counters",
        "judged",
        "link",
        "meter",
        "pressure",
        "read",
    )

    def __init__(self, settings: EntrySettings) -> None:
        self.accounted: Nanoseconds | None = None
        """Monotonic time accounted for so far; `None` before the first reading."""
        self.has_dead_counters = False
        self.read: tuple[tuple[Any, ...], StateEvidence] | None = None
        """Last inputs that affect the evidence, and the evidence derived from them."""
        self.judged: tuple[StateEvidence, bool, StateMatch, DeviceUsage] | None = None
        """Last evidence with its peer stall flag, and the match and usage derived from it."""
        self.pressure = PressureDetector(settings.pressure)
        self.link = PcieLinkMonitor(settings.link)
        self.meter = EnergyMeter(settings.energy)
        self.cycles = LoadCycleDetector(settings.cycles)
