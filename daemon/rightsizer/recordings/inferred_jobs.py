"""Jobs of a recording, inferred from simultaneous activity of its GPUs.

GPUs of one log belong to one node, and several of them may run one job. Evidence, each weighted by
how unlikely it is for unrelated GPUs: memory allocated and freed at the same moments, load that
changes in step, a process on both, and simultaneous spinning, which needs a peer to wait for
(NVIDIA/nccl#968).
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from statistics import StatisticsError, correlation, fmean
from typing import Final, NamedTuple

from rightsizer.model.values import Device, Workload, WorkloadKind
from rightsizer.recordings.jobs import RecordedJob, gpu_list
from rightsizer.recordings.survey import Load, LoadSeries

_MOST_DEVICES: Final = 16
"""Limit of one node; a log with more, or with a repeated index, is of several nodes."""
_FEWEST_MOMENTS: Final = 30
"""Known moments of both GPUs: with fewer, 1 in 1000 random pairs has a correlation of .6."""
_MEMORY_STEP: Final = 0.1
"""Change of memory in use, relative to its peak, that counts as an allocation: a caching
allocator grows by less while a job runs."""
_MEMORY_AGREEMENT: Final = 0.75
"""Share of either GPU's allocations that the other has at the same moment; one of four may fall
between two readings."""
_CHANCE: Final = 0.01
"""Probability up to which simultaneous allocations are not chance: with 28 pairs of eight GPUs,
three in ten thousand nodes with two allocations each are wrong."""
_STEP_CORRELATION: Final = 0.6
"""Correlation of load changes that are in step, as of ranks that meet each step; replicas behind
one balancer stay below .3."""
_SPIN_BUSY = 0.8
_SPIN_POWER = 0.25
"""Busy share of a GPU that spins, and the power over its idle draw, of that up to the limit, below
which it does (docs/definitions.md, hidden_stall)."""
_SPIN_SHARE: Final = 0.2
"""Share of the time that GPUs must spin to count as peers."""
_SPIN_AGREEMENT: Final = 0.8
"""Share of the moments in which either spins that both must spin: peers wait for the same rank,
which may be one of them for a while."""
_ACTIVE: Final = 0.05
"""Busy share from which a GPU is active (docs/definitions.md, states)."""
_UUID: Final = "GPU-"
_MOST_SURE: Final = 0.95
_STARTED_TOGETHER: Final = 0.8
"""A single simultaneous allocation may be of several jobs started by one script."""
_SPUN_TOGETHER: Final = 0.85
_SPINNING: Final = "they spin at the same time"
_FEWEST_SPINNING: Final = 3
_ONLY_OTHER: Final = 0.9
"""Relative confidence that the only other active GPU belongs to the group."""
_RUN: Final = 5
"""Moments within which allocations in one direction count as one."""
_MOST_PAIRED: Final = 1024
"""Limit of compared moments."""
_STEP_T: Final = 6.0
"""Student's t of a correlation, which occurs by chance in less than 1 of ten million pairs."""


class JobEvidence(NamedTuple):
    """Reason why GPUs belong together, with its confidence."""

    confidence: float
    why: str


def inferred_jobs(loads: Mapping[str, LoadSeries], devices: Sequence[Device]) -> list[RecordedJob]:
    """Infer jobs from the loads of devices."""
    usable = [device for device in devices if device.uuid in loads and _is_of_a_node(device)]
    indexes = [device.index for device in usable if device.has_index]
    if not 1 < len(usable) <= _MOST_DEVICES or len({*indexes}) < len(indexes):
        return []
    compared = {device.uuid: _compared_load(loads[device.uuid], device) for device in usable}
    groups: dict[str, dict[str, JobEvidence]] = {uuid: {} for uuid in compared}
    for one, other in combinations(compared, 2):
        link = _link(compared[one], compared[other])
        if link is not None:
            groups[one][other] = groups[other][one] = link
    by_uuid = {device.uuid: device for device in usable}
    return [
        _job([by_uuid[uuid] for uuid in uuids], link, compared)
        for uuids, link in _with_awaited(list(_groups(groups)), compared)
    ]


def _is_of_a_node(device: Device) -> bool:
    """Whether it is identified as a GPU; one identified by its pod may be on any node."""
    is_named = device.has_index or bool(device.pci_bus_id) or device.uuid.startswith(_UUID)
    return is_named and device.mig is None and not device.has_mig_instances


class _ComparedLoad(NamedTuple):
    """A device's load, prepared for comparison."""

    series: LoadSeries
    busy: Sequence[float]
    changes: Sequence[float]
    """Changes of the load between moments."""
    allocations: Sequence[int]
    """Moments in which memory is allocated or freed."""
    spins: frozenset[int]
    moments: int
    """Number of known moments."""


def _compared_load(series: LoadSeries, device: Device) -> _ComparedLoad:
    busy = series.values[Load.BUSY]
    watts = series.values[Load.WATTS]
    varying = busy if series.known(Load.BUSY) else watts
    return _ComparedLoad(
        series,
        busy,
        [after - before for before, after in pairwise(varying)],
        _allocations(series.values[Load.MEMORY]),
        _spins(busy, watts, device.power_limit_watts),
        sum(not math.isnan(value) for value in varying),
    )


def _allocations(levels: Sequence[float]) -> list[int]:
    measured = [(at, level) for at, level in enumerate(levels) if not math.isnan(level)]
    step = _MEMORY_STEP * max((level for _, level in measured), default=0.0)
    allocations: list[int] = []
    last: tuple[int, bool] | None = None
    for (_, before), (at, after) in pairwise(measured):
        if step <= 0.0 or abs(after - before) < step:
            continue
        is_rise = after > before
        if last is None or last[1] != is_rise or at - last[0] > _RUN:
            allocations.append(at)
        last = at, is_rise
    return allocations


def _spins(busy: Sequence[float], watts: Sequence[float], limit: float | None) -> frozenset[int]:
    idle = min((value for value in watts if not math.isnan(value)), default=math.nan)
    if not limit or not limit > idle:
        return frozenset()
    # A GPU that always spins never shows its idle draw: about a tenth of the limit.
    idle = min(idle, limit / 8)
    below = idle + _SPIN_POWER * (limit - idle)
    return frozenset(
        at
        for at, (share, draw) in enumerate(zip(busy, watts, strict=True))
        if share >= _SPIN_BUSY and draw < below
    )


def _link(one: _ComparedLoad, other: _ComparedLoad) -> JobEvidence | None:
    if (shared := _shared_process(one.series, other.series)) is not None:
        return shared
    if min(one.moments, other.moments) < _FEWEST_MOMENTS:
        return None
    evidence = (
        _in_step(one.changes, other.changes),
        _allocated_together(one, other),
        _spin_together(one, other),
    )
    return max(filter(None, evidence), default=None)


def _shared_process(one: LoadSeries, other: LoadSeries) -> JobEvidence | None:
    for pid in one.processes.keys() & other.processes.keys():
        (first, last), (start, end) = one.processes[pid], other.processes[pid]
        # Reused pids: lifetimes that do not overlap are different processes.
        if first <= end and start <= last:
            return JobEvidence(_MOST_SURE, "a process is on several of them")
    return None


def _in_step(one: Sequence[float], other: Sequence[float]) -> JobEvidence | None:
    stride = 1 + min(len(one), len(other)) // _MOST_PAIRED
    pairs = [
        (a, b)
        for a, b in zip(one[::stride], other[::stride], strict=False)
        if not math.isnan(a) and not math.isnan(b)
    ]
    if len(pairs) < _FEWEST_MOMENTS:
        return None
    try:
        r = correlation(*zip(*pairs, strict=True))
    except StatisticsError:  # One of them never changes.
        return None
    is_sure = abs(r) >= 1.0 or r * math.sqrt((len(pairs) - 2) / (1 - r * r)) >= _STEP_T
    if r < _STEP_CORRELATION or not is_sure:
        return None
    return JobEvidence(_MOST_SURE, "their load rises and falls in step")


def _allocated_together(one: _ComparedLoad, other: _ComparedLoad) -> JobEvidence | None:
    here = one.allocations
    there = other.allocations
    matched = _matched(here, there)
    back = _matched(there, here)
    if not matched or min(matched / len(here), back / len(there)) < _MEMORY_AGREEMENT:
        return None
    share = min(1.0, 3 * len(there) / min(one.moments, other.moments))
    chance = sum(
        math.comb(len(here), hits) * share**hits * (1 - share) ** (len(here) - hits)
        for hits in range(matched, len(here) + 1)
    )
    if chance > _CHANCE:
        return None
    confidence = _MOST_SURE if matched > 1 else _STARTED_TOGETHER
    return JobEvidence(confidence, "memory is taken and given back at the same moments")


def _matched(moments: Sequence[int], others: Sequence[int]) -> int:
    """Count the moments that equal or adjoin another."""
    near = {other + step for other in others for step in (-1, 0, 1)}
    return sum(moment in near for moment in moments)


def _spin_together(one: _ComparedLoad, other: _ComparedLoad) -> JobEvidence | None:
    either = one.spins | other.spins
    both = one.spins & other.spins
    moments = min(one.moments, other.moments)
    if len(both) < max(_FEWEST_MOMENTS, _SPIN_SHARE * moments):
        return None
    if len(both) < _SPIN_AGREEMENT * len(either):
        return None
    return JobEvidence(_SPUN_TOGETHER, _SPINNING)


def _groups(
    links: Mapping[str, Mapping[str, JobEvidence]],
) -> Iterator[tuple[list[str], JobEvidence]]:
    """Yield groups of linked GPUs, each with the weakest of its GPUs' best links."""
    left = dict.fromkeys(links)
    while left:
        first = next(iter(left))
        group = {first: None}
        queue = [first]
        while queue:
            for other in links[queue.pop()]:
                if other not in group:
                    group[other] = None
                    queue.append(other)
        for uuid in group:
            del left[uuid]
        uuids = [uuid for uuid in links if uuid in group]
        if len(uuids) > 1:
            link = min(max(links[uuid].values()) for uuid in uuids)
            # Two GPUs busy at low power may just launch small kernels.
            if link.why != _SPINNING or len(uuids) >= _FEWEST_SPINNING:
                yield uuids, link


def _with_awaited(
    groups: Sequence[tuple[list[str], JobEvidence]], compared: Mapping[str, _ComparedLoad]
) -> Iterator[tuple[list[str], JobEvidence]]:
    """Add to a group that spins the only other GPU, if it is active meanwhile."""
    grouped = {uuid for uuids, _ in groups for uuid in uuids}
    spinning = [uuids for uuids, _ in groups if _all_spin([compared[uuid] for uuid in uuids])]
    for uuids, link in groups:
        others: list[str] = []
        if uuids in spinning and len(spinning) == 1:
            group = [compared[uuid] for uuid in uuids]
            left = (uuid for uuid in compared if uuid not in grouped)
            others = [uuid for uuid in left if _is_there(compared[uuid], group)]
        if len(others) == 1:
            joined = [uuid for uuid in compared if uuid in {*uuids, *others}]
            why = f"{link.why}, and one other GPU is in use meanwhile"
            yield joined, JobEvidence(link.confidence * _ONLY_OTHER, why)
        else:
            yield uuids, link


def _all_spin(group: Sequence[_ComparedLoad]) -> bool:
    shortest = min(load.moments for load in group)
    return len(_spun_by_all(group)) >= max(_FEWEST_MOMENTS, _SPIN_SHARE * shortest)


def _spun_by_all(group: Sequence[_ComparedLoad]) -> frozenset[int]:
    return frozenset.intersection(*(load.spins for load in group))


def _is_there(load: _ComparedLoad, group: Sequence[_ComparedLoad]) -> bool:
    """Whether it works half of the time that a group spins, or holds about as much memory."""
    moments = _spun_by_all(group)
    works = sum(load.busy[at] >= _ACTIVE for at in moments)
    if 2 * works >= len(moments):
        return True
    levels = [_mean(compared_load.series.values[Load.MEMORY], moments) for compared_load in group]
    load_memory = _mean(load.series.values[Load.MEMORY], moments)
    return load_memory is not None and all(
        level is not None and 2 * load_memory >= level for level in levels
    )


def _mean(values: Sequence[float], moments: Iterable[int]) -> float | None:
    measured = [values[at] for at in moments if not math.isnan(values[at])]
    return fmean(measured) if measured else None


def _job(
    devices: Sequence[Device], link: JobEvidence, compared: Mapping[str, _ComparedLoad]
) -> RecordedJob:
    key = gpu_list(devices)
    workload = Workload(
        f"recorded:inferred job {key}",
        WorkloadKind.RECORDED,
        f"inferred job {key}",
        confidence_ratio=round(link.confidence, 2),
    )
    series = [compared[device.uuid].series for device in devices]
    used = [at for load_series in series for at in _used(load_series)]
    start = series[0].start
    step = series[0].step
    first = min(used, default=0)
    last = max(used, default=len(series[0].values[Load.BUSY]))
    return RecordedJob(
        tuple(devices), workload, link.why, start + first * step, start + (last + 1) * step
    )


def _used(series: LoadSeries) -> Iterator[int]:
    """Yield the moments in which a device works, or holds half of its peak memory."""
    levels = series.values[Load.MEMORY]
    half = max((level for level in levels if not math.isnan(level)), default=math.inf) / 2
    for at, (share, level) in enumerate(zip(series.values[Load.BUSY], levels, strict=True)):
        if share >= _ACTIVE or level >= half:
            yield at
