"""What a device did in each interval, as the accounts' own measures, from means and peaks.

`accounting.usage` says what each measure is of a single reading; here it is bounded by what the
means and peaks of an interval can say.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from operator import gt, lt, sub
from typing import Final, TypeAlias

from rightsizer.accounting.classification_settings import UsageSettings
from rightsizer.fleet.cache.day_frame import ColumnKind
from rightsizer.fleet.sources.agent.time_columns import Columns, DeviceAnswers, TimePresence
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
_UNKNOWN: Final = (math.nan,)

Values: TypeAlias = "Sequence[float]"


def needs_power(means: Columns) -> bool:
    """Whether some interval is known without profiling, so that its power is needed."""
    busy, work = means.get("busy"), means.get("sm_work")
    if busy is None or work is None or _is_whole(work):
        return busy is not None and work is None
    pairs = zip(work, busy, strict=True)
    return any(math.isnan(share) and not math.isnan(time) for share, time in pairs)


def measure_columns(
    answers: DeviceAnswers, presence: TimePresence, device: Device, settings: UsageSettings
) -> dict[str, array[float]]:
    """Means and peaks of the measures, and the seconds that each tier of telemetry was there."""
    full, used = settings.working_power_ratio, None
    if "seconds" in answers.totals:
        pairs = zip(answers.totals["seconds"], presence.known_seconds, strict=True)
        used = [part / whole if whole > 0 else math.nan for part, whole in pairs]
    means, peaks, power, substitute, most = answers.means, answers.peaks, answers.power, None, None
    if not _is_whole(means.get("sm_work", _UNKNOWN)):
        substitute = _substitute(means.get("busy"), power.get("power"), used, full)
    if not _is_whole(peaks.get("sm_work", _UNKNOWN)):
        most = _peak_substitute(peaks.get("busy"), power.get("power_peak"), full)
    lower = _measures(means, answers, "mean", device, substitute, used)
    upper = _measures(peaks, answers, "peak", device, most, None)
    found: dict[str, array[float]] = {}
    for measure, values in lower.items():
        found[ColumnKind.MEAN.column(measure)] = presence.masked(values)
        if measure in upper:
            # A gauge sees one second of each scrape: what the distribution knows was there too.
            peak = presence.masked(_larger_of(upper[measure], values))
            found[ColumnKind.PEAK.column(measure)] = peak
    return found | _tier_columns(answers, presence.known_seconds)


def _measures(  # noqa: PLR0913, PLR0917 - one for each bound.
    columns: Columns,
    answers: DeviceAnswers,
    part: str,
    device: Device,
    substitute: Values | None,
    used: Values | None,
) -> dict[Measure, Values]:
    """The measures, from their means or from their peaks, which `part` says.

    `substitute` is compute without profiling; `used`, the share of the time that counts as used, is
    an upper bound of the tensor pipe's.
    """
    found: dict[Measure, Values] = {
        measure: columns[name] for measure, name in _PLAIN if name in columns
    }
    total = device.memory_total_bytes
    if total and Measure.MEMORY_BYTES in found:
        found[Measure.MEMORY] = [held / total for held in found[Measure.MEMORY_BYTES]]
    at_least = _at_least(columns.get("tensor"), answers.means.get("clock"), device)
    if at_least is not None:
        # The mean of what is cut off at 1 is less than the mean cut off at 1.
        at_least = at_least if used is None else _lesser_of(at_least, used)
        found[Measure.COMPUTE_AT_LEAST] = at_least
    compute: Values | None = columns.get("sm_work")
    if compute is None:
        compute = substitute
    else:
        # The upper bound: SM work where there is profiling, its substitute elsewhere.
        compute = compute if at_least is None else _larger_of(compute, at_least)
        if substitute is not None and not _is_whole(compute):
            pairs = zip(compute, substitute, strict=True)
            compute = [b if math.isnan(a) else a for a, b in pairs]
    if compute is not None:
        found[Measure.COMPUTE] = compute
    return found | _links(answers.links, part, device)


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


def _substitute(
    busy: Values | None, power: Values | None, used: Values | None, full: float
) -> Values | None:
    """The most that busy share times power can have come to in the mean.

    A product of shares is at most either of them. And without profiling it is what counts as
    used, unless a link was used more.
    """
    if busy is None:
        return None
    bound = busy if power is None else _lesser_of(busy, [draw / full for draw in power])
    return bound if used is None else _lesser_of(bound, used)


def _peak_substitute(busy: Values | None, power: Values | None, full: float) -> Values | None:
    """The most that it can have come to at one moment: no product is above that of the peaks."""
    if busy is None or power is None:
        return busy
    # Where the power is not known, the busy share alone bounds it.
    return [
        share if math.isnan(draw) else share * min(1.0, draw / full)
        for share, draw in zip(busy, power, strict=True)
    ]


def _links(links: Columns, part: str, device: Device) -> dict[Measure, Values]:
    generation, width = device.pcie_generation_maximum, device.pcie_width_maximum
    pcie = link_bytes_per_second(generation, width) if generation and width else None
    found: dict[Measure, Values] = {}
    for measure, rate in ((Measure.PCIE, pcie), (Measure.NVLINK, device.nvlink_bytes_per_second)):
        busier = links.get(f"{measure.value}_{part}")
        if rate and busier is not None:
            found[measure] = [1.0 if carried > rate else carried / rate for carried in busier]
    return found


def _tier_columns(answers: DeviceAnswers, known: Values) -> dict[str, array[float]]:
    """Seconds by tier, which follows from what there is, as in the agent."""
    left: Values = known
    found: dict[str, array[float]] = {}
    for tier, values in (
        (Tier.PROFILING, answers.means.get("sm_work")),
        (Tier.POWER, answers.power.get("power")),
        (Tier.BASIC, answers.means.get("busy")),
        (Tier.NONE, known),
    ):
        if values is None or not any(map(_NOTHING.__lt__, left)):
            continue
        taken = left
        if not _is_whole(values):
            pairs = zip(left, values, strict=True)
            # What is itself unknown stays so.
            taken = [0.0 if math.isnan(v) and not math.isnan(part) else part for part, v in pairs]
        if any(map(_NOTHING.__lt__, taken)):
            found[ColumnKind.TIER.column(tier)] = array("f", taken)
        if taken is left:
            break
        left = list(map(sub, left, taken))
    return found


def _larger_of(one: Values, other: Values) -> Values:
    """The larger at each place; of two of which one is unknown, the other."""
    if not _is_whole(one, other):
        pairs = zip(one, other, strict=True)
        return [a if a >= b or math.isnan(b) else b for a, b in pairs]
    # Hardly ever is a peak below a mean: to see that takes half the time of taking the larger.
    return list(map(max, one, other)) if any(map(lt, one, other)) else one


def _lesser_of(one: Values, other: Values) -> Values:
    """The lesser at each place; where either is unknown, the one."""
    return list(map(min, one, other)) if any(map(gt, one, other)) else one


def _is_whole(*columns: Values) -> bool:
    """Whether nothing in them is unknown: then it goes quicker."""
    return not math.isnan(sum(map(sum, columns)))
