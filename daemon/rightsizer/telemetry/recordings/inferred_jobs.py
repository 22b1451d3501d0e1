"""Jobs of a recording that are inferred from what its GPUs do at the same moments.

GPUs of one log are those of one node, so that what eight of them do may be one story. What shows
that GPUs belong together, each by how unlikely it is of GPUs that do not: memory that is taken and
given back at the same moments, load that rises and falls in step, a process that is on both, and
spinning at the same time, which nothing does that has no peer to wait for (NVIDIA/nccl#968).
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from statistics import StatisticsError, correlation, fmean
from typing import Final, NamedTuple

from rightsizer.model.device import Device
from rightsizer.model.workload import Workload, WorkloadKind
from rightsizer.telemetry.recordings.jobs import RecordedJob, gpu_list
from rightsizer.telemetry.recordings.survey import Load, LoadSeries

_MOST_DEVICES: Final = 16
"""Of one node; a log of more, or with an index twice, is one of several nodes."""
_FEWEST_MOMENTS: Final = 30
"""Known of both GPUs: below it a correlation of .6 is one of chance in a thousand pairs."""
_MEMORY_STEP: Final = 0.1
"""Change of the memory in use, of its highest level, that is an allocation: a caching allocator
grows by less while a job runs."""
_MEMORY_AGREEMENT: Final = 0.75
"""Part of the allocations of either GPU that the other has at the same moment: one of four may lie
between two readings."""
_CHANCE: Final = 0.01
"""Probability up to which allocations at the same moments are not by chance: 28 pairs of eight GPUs
leave three in ten thousand nodes with two allocations each."""
_STEP_CORRELATION: Final = 0.6
"""Of the changes of two loads that are in step, as of ranks that meet each step; replicas behind
one balancer stay below .3."""
_SPIN_BUSY, _SPIN_POWER = 0.8, 0.25
"""Busy share of a GPU that spins, and the power over its idle draw, of that up to the limit, below
which it does (docs/definitions.md, hidden_stall)."""
_SPIN_SHARE: Final = 0.2
"""Part of the time that GPUs must spin to be taken for peers."""
_SPIN_AGREEMENT: Final = 0.8
"""Part of the moments in which either spins that the other spins too: peers wait for the same rank,
and one of them may be it for a while."""
_ACTIVE: Final = 0.05
"""Busy share from which on a GPU is at work (docs/definitions.md, states)."""
_UUID: Final = "GPU-"
_MOST_SURE: Final = 0.95
_STARTED_TOGETHER: Final = 0.8
"""One allocation at the same moment may be of several jobs that one script started."""
_SPUN_TOGETHER: Final = 0.85
_SPINNING: Final = "they spin at the same time"
_FEWEST_SPINNING: Final = 3
_ONLY_OTHER: Final = 0.9
"""How sure it is, if the group is, that the only other GPU at work belongs to it."""
_RUN: Final = 5
"""Moments in which allocations in one direction are one."""
_MOST_PAIRED: Final = 1024
"""Moments that are compared at most."""
_STEP_T: Final = 6.0
"""Student's t of a correlation: of chance in less than a pair in ten million."""


class JobEvidence(NamedTuple):
    """Why GPUs belong together, and how sure that is."""

    confidence: float
    why: str


def inferred_jobs(loads: Mapping[str, LoadSeries], devices: Sequence[Device]) -> list[RecordedJob]:
    """The jobs that the loads of the devices tell."""
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
    """Whether it goes by a GPU's name; one that goes by a pod's may be anywhere."""
    is_named = device.has_index or bool(device.pci_bus_id) or device.uuid.startswith(_UUID)
    return is_named and device.mig is None and not device.has_mig_instances


class _ComparedLoad(NamedTuple):
    """A device's load as it is compared with others."""

    series: LoadSeries
    busy: Sequence[float]
    changes: Sequence[float]
    """Of the load from moment to moment."""
    allocations: Sequence[int]
    """Moments in which memory is taken or given back."""
    spins: frozenset[int]
    moments: int
    """How many are known."""


def _compared_load(series: LoadSeries, device: Device) -> _ComparedLoad:
    busy, watts = series.values[Load.BUSY], series.values[Load.WATTS]
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
    known = [(at, level) for at, level in enumerate(levels) if not math.isnan(level)]
    step = _MEMORY_STEP * max((level for _, level in known), default=0.0)
    found: list[int] = []
    last: tuple[int, bool] | None = None
    for (_, before), (at, after) in pairwise(known):
        if step <= 0.0 or abs(after - before) < step:
            continue
        is_rise = after > before
        if last is None or last[1] != is_rise or at - last[0] > _RUN:
            found.append(at)
        last = at, is_rise
    return found


def _spins(busy: Sequence[float], watts: Sequence[float], limit: float | None) -> frozenset[int]:
    idle = min((value for value in watts if not math.isnan(value)), default=math.nan)
    if not limit or not limit > idle:
        return frozenset()
    # A GPU that spins throughout never shows what it draws at rest: a tenth of its limit or so.
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
    found = (
        _in_step(one.changes, other.changes),
        _allocated_together(one, other),
        _spin_together(one, other),
    )
    return max(filter(None, found), default=None)


def _shared_process(one: LoadSeries, other: LoadSeries) -> JobEvidence | None:
    for pid in one.processes.keys() & other.processes.keys():
        (first, last), (start, end) = one.processes[pid], other.processes[pid]
        # Of two that had a pid one after the other, neither is on both.
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
    here, there = one.allocations, other.allocations
    matched, back = _matched(here, there), _matched(there, here)
    if not matched or min(matched / len(here), back / len(there)) < _MEMORY_AGREEMENT:
        return None
    share = min(1.0, 3 * len(there) / min(one.moments, other.moments))
    chance = sum(
        math.comb(len(here), hits) * share**hits * (1 - share) ** (len(here) - hits)
        for hits in range(matched, len(here) + 1)
    )
    if chance > _CHANCE:
        return None
    most = _MOST_SURE if matched > 1 else _STARTED_TOGETHER
    return JobEvidence(most, "memory is taken and given back at the same moments")


def _matched(moments: Sequence[int], others: Sequence[int]) -> int:
    """How many moments are among others, or next to one."""
    near = {other + step for other in others for step in (-1, 0, 1)}
    return sum(moment in near for moment in moments)


def _spin_together(one: _ComparedLoad, other: _ComparedLoad) -> JobEvidence | None:
    either, both = one.spins | other.spins, one.spins & other.spins
    moments = min(one.moments, other.moments)
    if len(both) < max(_FEWEST_MOMENTS, _SPIN_SHARE * moments):
        return None
    if len(both) < _SPIN_AGREEMENT * len(either):
        return None
    return JobEvidence(_SPUN_TOGETHER, _SPINNING)


def _groups(
    links: Mapping[str, Mapping[str, JobEvidence]],
) -> Iterator[tuple[list[str], JobEvidence]]:
    """GPUs that links join, each group with the weakest of its GPUs' best links."""
    left = dict.fromkeys(links)
    while left:
        first = next(iter(left))
        group, queue = {first: None}, [first]
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
            # Two that are busy at little power may well be two that launch small kernels.
            if link.why != _SPINNING or len(uuids) >= _FEWEST_SPINNING:
                yield uuids, link


def _with_awaited(
    groups: Sequence[tuple[list[str], JobEvidence]], compared: Mapping[str, _ComparedLoad]
) -> Iterator[tuple[list[str], JobEvidence]]:
    """A group that spins waits for another GPU: the only one that is left, where it is there."""
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
    """Whether it works for half of the time that a group spins, or holds about as much memory."""
    moments = _spun_by_all(group)
    works = sum(load.busy[at] >= _ACTIVE for at in moments)
    if 2 * works >= len(moments):
        return True
    levels = [_mean(each.series.values[Load.MEMORY], moments) for each in group]
    own = _mean(load.series.values[Load.MEMORY], moments)
    return own is not None and all(level is not None and 2 * own >= level for level in levels)


def _mean(values: Sequence[float], moments: Iterable[int]) -> float | None:
    known = [values[at] for at in moments if not math.isnan(values[at])]
    return fmean(known) if known else None


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
    used = [at for each in series for at in _used(each)]
    start, step = series[0].start, series[0].step
    first, last = min(used, default=0), max(used, default=len(series[0].values[Load.BUSY]))
    return RecordedJob(
        tuple(devices), workload, link.why, start + first * step, start + (last + 1) * step
    )


def _used(series: LoadSeries) -> Iterator[int]:
    """The moments in which a device works, or holds half of the memory that it ever held."""
    levels = series.values[Load.MEMORY]
    half = max((level for level in levels if not math.isnan(level)), default=math.inf) / 2
    for at, (share, level) in enumerate(zip(series.values[Load.BUSY], levels, strict=True)):
        if share >= _ACTIVE or level >= half:
            yield at
