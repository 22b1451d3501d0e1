"""How far back the samples of our agents go, and which names there were on each day."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.fleet.kept.grid import COARSE_STEP, DAY
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.store import Store

__all__ = ["UP", "Reach", "names_at", "reach", "some_devices"]

UP: Final = "rightsizer_device_up"
_USED: Final = 'rightsizer_state_seconds_total{state="unknown"}'
_TIER: Final = "rightsizer_device_telemetry_info"
_INFO: Final = "rightsizer_device_info"
_RECORDED_INFO: Final = "uuid:rightsizer_device_info:last5m"
_RECORDED: Final = "uuid:rightsizer_used_seconds:increase5m"
_OTHER_NAMES: Final = (
    *("rightsizer_workload_info", "workload:rightsizer_workload_info:last5m"),
    *("rightsizer_advice_info", "rightsizer_build_info"),
)
_LOOK: Final[Nanoseconds] = 600 * NANOSECONDS_PER_SECOND
_SPAN: Final = "10m"
"""Recorded samples are five minutes apart, so that a look at one moment might miss them."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What was found of the past."""

    oldest: Nanoseconds | None = None
    """To ten minutes."""
    names_by_day: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Of each UTC day that began with samples."""


def reach(store: Store, now: Nanoseconds, lookback: Nanoseconds) -> Reach:
    """What there was when each day of the lookback began: a few cheap looks a day."""
    start = now - lookback
    names, uuids = {}, some_devices(store, now)
    for day in range(now // DAY, start // DAY - 1, -1):
        # A sample at a day's very beginning belongs to the one before.
        moment = max(day * DAY, start) + _LOOK
        if moment > now:
            continue
        found = names_at(store, uuids, moment)
        if not found and _is_there(store, moment):
            uuids = some_devices(store, moment) or uuids
            found = names_at(store, uuids, moment)
        if found:
            names[day] = found
    oldest = _oldest(store, min(names, default=now // DAY), start, now)
    return Reach(oldest, names)


def some_devices(store: Store, moment: Nanoseconds) -> tuple[str, ...]:
    """A few devices that have states of their own, of each tier and model."""
    picks = [
        f"topk(2, max by (uuid) ({_latest(UP)}))",
        f"topk by (tier) (2, max by (uuid, tier) ({_latest(_TIER)}))",
    ]
    for used, info in ((_USED, _INFO), (_RECORDED, _RECORDED_INFO)):
        # Whoever has no time of its own, such as a GPU that is divided, stands for nobody.
        model = f"max by (uuid, model) ({_latest(info)}) and on (uuid) {_latest(used)}"
        picks += [f"topk(2, max by (uuid) ({_latest(used)}))", f"topk by (model) (2, {model})"]
    found = {
        series.labels.get("uuid", "") for pick in picks for series in store.instant(pick, moment)
    }
    return tuple(sorted(found - {""}))


def names_at(store: Store, uuids: Sequence[str], moment: Nanoseconds) -> frozenset[str]:
    """The names of these devices' series at a moment, and of what is no device's."""
    if not uuids:
        return frozenset()
    of_devices = frozenset(_names(store, selector("", {"uuid": uuids}), moment))
    if not of_devices:
        return of_devices
    others = selector("", {"__name__": _OTHER_NAMES})
    return of_devices.union(_names(store, others, moment))


def _names(store: Store, chosen: str, moment: Nanoseconds) -> Iterator[str]:
    query = f"count by (__name__) ({_latest(chosen)})"
    return (series.labels.get("__name__", "") for series in store.instant(query, moment))


def _oldest(
    store: Store, first_day: int, start: Nanoseconds, now: Nanoseconds
) -> Nanoseconds | None:
    """When samples begin, within the first day that has any or the one before."""
    low, high = max(start, (first_day - 1) * DAY), max(start, first_day * DAY)
    if not _is_there(store, min(now, high + COARSE_STEP)):
        low, high = max(start, first_day * DAY), now
        if not _is_there(store, now):
            return None
    while high - low > _LOOK:
        middle = (low + high) // 2
        if _is_there(store, middle):
            high = middle
        else:
            low = middle
    return low if _is_there(store, low + _LOOK) else high


def _is_there(store: Store, moment: Nanoseconds) -> bool:
    return any(store.instant(f"count({_latest(name)})", moment) for name in (UP, _RECORDED))


def _latest(name: str) -> str:
    return f"last_over_time({name}[{_SPAN}])"
