"""Whether somebody was short of a resource: what use alone never tells.

A batch job at the limit is well used. A serving engine whose requests wait there is short.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from rightsizer.domain.settings import setting
from rightsizer.domain.signal import Signal
from rightsizer.domain.state import Condition, Resource
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.domain.xid import XidLog

__all__ = ["Pressure", "PressureSettings"]


@dataclass(frozen=True, slots=True)
class PressureSettings:
    """What an application says when it is short of GPU, and how long that counts."""

    requests_waiting: float = setting(
        1.0,
        help="Requests in a serving engine's queue from which on its users wait.",
        minimum=1,
        source="docs/definitions.md, provisioning; an engine that keeps up has no queue",
    )
    kv_cache_ratio: float = setting(
        0.9,
        help="Key-value cache in use from which on a serving engine is short.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, provisioning",
    )
    preemption_hold_seconds: float = setting(
        60.0,
        help="How long a request that was put back counts as pressure.",
        unit="seconds",
        minimum=0,
        source="engines are asked every 5 s, and what was put back has to be computed again",
    )
    time_to_first_token_maximum_seconds: float | None = setting(
        None,
        help="Mean time to the first token that was promised; null where nothing was.",
        unit="seconds",
        minimum=0,
    )
    time_per_output_token_maximum_seconds: float | None = setting(
        None,
        help="Mean time between two tokens that was promised; null where nothing was.",
        unit="seconds",
        minimum=0,
    )
    request_latency_maximum_seconds: float | None = setting(
        None,
        help="Mean time of a whole request that was promised; null where nothing was.",
        unit="seconds",
        minimum=0,
    )
    memory_xids: tuple[int, ...] = setting(
        (),
        help="Xids that say that memory ran out.",
        source="none by itself: CUDA tells the program alone; vGPUs are known for 31 and 43",
    )
    memory_xid_hold_seconds: float = setting(
        300.0,
        help="How long such an Xid counts as pressure.",
        unit="seconds",
        minimum=0,
        source="a block of five minutes, in which risk is counted too",
    )


class Pressure:
    """One device's applications, over time: preemptions and Xids are counters."""

    def __init__(self, settings: PressureSettings | None = None) -> None:
        """Nobody is short yet."""
        self._settings = settings or PressureSettings()
        self._promises = _promises(self._settings)
        self._preemptions = _Growth(nanoseconds(self._settings.preemption_hold_seconds))
        self._xids = _Growth(nanoseconds(self._settings.memory_xid_hold_seconds))

    def see(
        self,
        now: Nanoseconds,
        signals: Mapping[Signal, float],
        saturated: AbstractSet[Resource],
        conditions: AbstractSet[Condition],
        xids: XidLog | None = None,
    ) -> frozenset[Resource]:
        """The resources that were short over the stretch that ends now.

        Args:
            now: On the source's steady clock.
            signals: All signals of the stretch, the serving engine's among them.
            saturated: The resources at their limit; others were not what was waited for.
            conditions: What held beside the state.
            xids: The Xids so far, `None` where nobody listens.
        """
        # Both counters are looked at in every stretch, or they would miss a step.
        is_out_of_memory = self._xids.see(now, self._memory_errors(xids))
        has_preempted = self._preemptions.see(now, signals.get(Signal.PREEMPTIONS))
        found: set[Resource] = set()
        if saturated and (has_preempted or self._is_waited_for(signals)):
            found = set(saturated) - {Resource.MEMORY}
        if is_out_of_memory or Condition.NEAR_OUT_OF_MEMORY in conditions:
            found.add(Resource.MEMORY)
        return frozenset(found)

    def _memory_errors(self, xids: XidLog | None) -> int | None:
        if xids is None:
            return None
        return sum(xids.counts.get(code, 0) for code in self._settings.memory_xids)

    def _is_waited_for(self, signals: Mapping[Signal, float]) -> bool:
        settings = self._settings
        return (
            signals.get(Signal.REQUESTS_WAITING, 0.0) >= settings.requests_waiting
            or signals.get(Signal.KV_CACHE_USED, 0.0) >= settings.kv_cache_ratio
            or any(signals.get(signal, 0.0) > promised for signal, promised in self._promises)
        )


class _Growth:
    """Whether a counter has grown of late; one that fell has begun anew."""

    def __init__(self, hold: Nanoseconds) -> None:
        self._hold = hold
        self._last: float | None = None
        self._grown: Nanoseconds | None = None

    def see(self, now: Nanoseconds, count: float | None) -> bool:
        if count is not None:
            if self._last is not None and count > (self._last if count >= self._last else 0):
                self._grown = now
            self._last = count
        return self._grown is not None and now - self._grown <= self._hold


def _promises(settings: PressureSettings) -> tuple[tuple[Signal, float], ...]:
    """The latencies that were promised, by the signal that tells of them."""
    promises = (
        (Signal.TIME_TO_FIRST_TOKEN_SECONDS, settings.time_to_first_token_maximum_seconds),
        (Signal.TIME_PER_OUTPUT_TOKEN_SECONDS, settings.time_per_output_token_maximum_seconds),
        (Signal.REQUEST_LATENCY_SECONDS, settings.request_latency_maximum_seconds),
    )
    return tuple((signal, promised) for signal, promised in promises if promised is not None)
