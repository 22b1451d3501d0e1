"""What a device did in each stretch, as the accounts' own measures, from means and peaks.

`accounting.usage` says what each measure is of a single reading; here it is bounded by what the
means and peaks of a stretch can say.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import gt, lt, sub
from typing import Final, TypeAlias

from rightsizer.accounting.classification_settings import UsageSettings
from rightsizer.fleet.cache.day_frame import DayColumn
from rightsizer.fleet.sources.agent.time_columns import TimePresence
from rightsizer.model.block import Measure
from rightsizer.model.device import Device
from rightsizer.model.state import Tier
from rightsizer.model.topology import link_bytes_per_second

_PLAIN: Final = (
    (Measure.BUSY, "busy"),
    (Measure.MEMORY_BANDWIDTH, "dram"),
    (Measure.MEMORY_BYTES, "memory_bytes"),
)

_NOTHING: Final = 0.0
_MEANS: Final = {measure: DayColumn.mean(measure) for measure in Measure}
_PEAKS: Final = {measure: DayColumn.peak(measure) for measure in Measure}

Values: TypeAlias = "Sequence[float]"
Columns: TypeAlias = "Mapping[str, Values]"


@dataclass(frozen=True, slots=True)
class MeasureInputs:
    """What a store said of one device's day, by the names of the figures."""

    means: Columns
    peaks: Columns
    links: Columns
    power: Columns
    totals: Columns


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What compute cannot have been above."""

    stand_in: Values | None
    """Without profiling."""
    used: Values | None
    """Work counts as used, and so may more."""


def needs_power(means: Columns) -> bool:
    """Whether some stretch is known without profiling, so that its power has to tell."""
    busy, work = means.get("busy"), means.get("sm_work")
    if busy is None:
        return False
    if work is None or _is_whole(work):
        return work is None
    pairs = zip(work, busy, strict=True)
    return any(math.isnan(share) and not math.isnan(time) for share, time in pairs)


def measure_columns(
    figures: MeasureInputs, presence: TimePresence, device: Device, settings: UsageSettings
) -> dict[DayColumn, array[float]]:
    """Means and peaks of the measures, and the seconds that each tier of telemetry was there.

    Args:
        figures: What the store said.
        presence: In which stretches the device was there.
        device: Whose capacities count.
        settings: What counts as all of a resource.
    """
    power, stand_in = figures.power, None
    used = _used(figures.totals.get("seconds"), presence.known_seconds)
    if _lacks_work(figures.means):
        stand_in = _stand_in(figures.means.get("busy"), power.get("power"), used, settings)
    means = _measures(figures.means, figures, "mean", device, _Bounds(stand_in, used))
    stand_in = None
    if _lacks_work(figures.peaks):
        stand_in = _stand_in_peak(figures.peaks.get("busy"), power.get("power_peak"), settings)
    peaks = _measures(figures.peaks, figures, "peak", device, _Bounds(stand_in, None))
    found: dict[DayColumn, array[float]] = {}
    for measure, values in means.items():
        found[_MEANS[measure]] = presence.masked(values)
        if measure in peaks:
            # A gauge sees one second of each scrape: what the distribution knows was there too.
            found[_PEAKS[measure]] = presence.masked(_larger_of(peaks[measure], values))
    return found | _tier_columns(figures, presence.known_seconds)


def _lacks_work(columns: Columns) -> bool:
    """Whether something has to stand for the work of the SMs."""
    work = columns.get("sm_work")
    return work is None or not _is_whole(work)


def _measures(
    columns: Columns,
    figures: MeasureInputs,
    part: str,
    device: Device,
    bounds: _Bounds,
) -> dict[Measure, Values]:
    found = {measure: columns[name] for measure, name in _PLAIN if name in columns}
    total = device.memory_total_bytes
    if total and Measure.MEMORY_BYTES in found:
        held = found[Measure.MEMORY_BYTES]
        found[Measure.MEMORY] = [used / total for used in held]
    at_least = _at_least(columns.get("tensor"), figures.means.get("clock"), device)
    if at_least is not None and bounds.used is not None:
        # The mean of what is cut off at 1 is less than the mean cut off at 1.
        at_least = _lesser_of(at_least, bounds.used)
    if at_least is not None:
        found[Measure.COMPUTE_AT_LEAST] = at_least
    compute = _compute(columns.get("sm_work"), at_least, bounds.stand_in)
    if compute is not None:
        found[Measure.COMPUTE] = compute
    return found | _links(figures.links, part, device)


def _at_least(tensor: Values | None, clock: Values | None, device: Device) -> Values | None:
    """The pipe that is exported, of what is achievable, at the clock that ran."""
    if tensor is None or clock is None:
        return None
    achievable = device.achievable_compute_ratio
    if not any(tensor):
        return tensor
    if _is_whole(tensor, clock) and max(tensor) <= achievable and max(clock) <= 1.0:
        scale = 1.0 / achievable
        return [pipe * ratio * scale for pipe, ratio in zip(tensor, clock, strict=True)]
    # While the SMs rest there is no clock to speak of, and nothing in the pipes.
    return [
        (1.0 if pipe > achievable else pipe / achievable) * (min(ratio, 1.0)) if pipe > 0 else pipe
        for pipe, ratio in zip(tensor, clock, strict=True)
    ]


def _compute(
    work: Values | None, at_least: Values | None, stand_in: Values | None
) -> Values | None:
    """The upper bound: SM work where there is profiling, what stands for it elsewhere."""
    if work is None:
        return stand_in
    bound = work if at_least is None else _larger_of(work, at_least)
    return (
        bound if stand_in is None or _is_whole(bound) else list(map(_first_known, bound, stand_in))
    )


def _stand_in(
    busy: Values | None,
    power: Values | None,
    used: Values | None,
    settings: UsageSettings,
) -> Values | None:
    """The most that busy share times power can have come to in the mean.

    A product of shares is at most either of them. And without profiling it is what counts as
    used, unless a link was used more.
    """
    if busy is None:
        return None
    bound = busy
    if power is not None:
        full = settings.working_power_ratio
        bound = _lesser_of(bound, [draw / full for draw in power])
    return bound if used is None else _lesser_of(bound, used)


def _stand_in_peak(
    busy: Values | None, power: Values | None, settings: UsageSettings
) -> Values | None:
    """The most that it can have come to at one moment: no product is above that of the peaks."""
    if busy is None or power is None:
        return busy
    full = settings.working_power_ratio
    # Where the power is not known, the busy share alone bounds it.
    return [
        share if math.isnan(draw) else share * min(1.0, draw / full)
        for share, draw in zip(busy, power, strict=True)
    ]


def _used(seconds: Values | None, known: Values) -> Values | None:
    if seconds is None:
        return None
    pairs = zip(seconds, known, strict=True)
    return [part / whole if whole > 0 else math.nan for part, whole in pairs]


def _links(links: Columns, part: str, device: Device) -> dict[Measure, Values]:
    generation, width = device.pcie_generation_maximum, device.pcie_width_maximum
    pcie = link_bytes_per_second(generation, width) if generation and width else None
    found: dict[Measure, Values] = {}
    for measure, rate in ((Measure.PCIE, pcie), (Measure.NVLINK, device.nvlink_bytes_per_second)):
        busier = links.get(f"{measure.value}_{part}")
        if rate and busier is not None:
            found[measure] = [1.0 if carried > rate else carried / rate for carried in busier]
    return found


def _tier_columns(figures: MeasureInputs, known: Values) -> dict[DayColumn, array[float]]:
    """The tier is told by what there is, as the agent tells it too."""
    means, power = figures.means, figures.power.get("power")
    ladder = (
        (Tier.PROFILING, means.get("sm_work")),
        (Tier.POWER, power),
        (Tier.BASIC, means.get("busy")),
        (Tier.NONE, known),
    )
    left = known
    found: dict[DayColumn, array[float]] = {}
    for tier, told in ladder:
        if told is None or not any(map(_NOTHING.__lt__, left)):
            continue
        taken = left if _is_whole(told) else list(map(_where_known, left, told))
        if any(map(_NOTHING.__lt__, taken)):
            found[DayColumn.tier(tier)] = array("f", taken)
        if taken is left:
            break
        left = list(map(sub, left, taken))
    return found


def _where_known(part: float, told: float) -> float:
    """The seconds of a stretch if somebody told of it; none, or unknown ones, otherwise."""
    return 0.0 if math.isnan(told) and not math.isnan(part) else part


def _larger_of(one: Values, other: Values) -> Values:
    """The larger at each place; of two of which one is unknown, the other."""
    if not _is_whole(one, other):
        return list(map(_larger, one, other))
    # Hardly ever is a peak below a mean: to see that takes half the time of taking the larger.
    return list(map(max, one, other)) if any(map(lt, one, other)) else one


def _lesser_of(one: Values, other: Values) -> Values:
    """The lesser at each place; where either is unknown, the one."""
    return list(map(min, one, other)) if any(map(gt, one, other)) else one


def _is_whole(*columns: Values) -> bool:
    """Whether nothing in them is unknown: then it goes quicker."""
    return not math.isnan(sum(map(sum, columns)))


def _larger(one: float, other: float) -> float:
    """The larger of two of which either may be unknown."""
    return one if one >= other or math.isnan(other) else other


def _first_known(one: float, other: float) -> float:
    return other if math.isnan(one) else one
