"""Pairs of workloads of a node that fit one GPU together, by sums of the same five minutes."""

from collections.abc import Callable, Container, Mapping
from functools import cache
from itertools import compress, repeat
from operator import add, ge, gt
from typing import Final

from rightsizer.advice.risk import rank_of, risk_of, worst
from rightsizer.model.block import Measure, Series
from rightsizer.model.finding import Case, Risk
from rightsizer.model.frozen import dataclass
from rightsizer.model.settings import setting
from rightsizer.model.state import Resource
from rightsizer.model.workload import WorkloadClass

_MEASURES: Final = {
    Resource.COMPUTE: Measure.COMPUTE,
    Resource.MEMORY_BANDWIDTH: Measure.MEMORY_BANDWIDTH,
}
_SeriesOf = Callable[[Measure], Series]
"""What a workload did, by measure."""
_MOVABLE: Final = frozenset({WorkloadClass.SERVING, WorkloadClass.NOTEBOOK})


@dataclass(frozen=True, slots=True)
class ColocationSettings:
    """What two workloads may take of one GPU together.

    Attributes:
        memory_ratio: Memory that both may hold at the same time, at most.
            Source: two contexts, and growth of a tenth
        minimum_aligned_blocks: Five minutes in which both must have been seen.
            Source: a day
        busy_ratio: Busy share of five minutes from which on a workload was at work.
            Source: docs/definitions.md, sources: busy from 1 % on
        alternating_ratio: Part of the time that both may be at work, for them to take turns.
            Source: a starting point: a quarter of an hour a day
    """

    memory_ratio: float = setting(0.9, within=(0.1, 1))
    minimum_aligned_blocks: int = setting(288, within=(20, 8640))
    busy_ratio: float = setting(0.01)
    alternating_ratio: float = setting(0.02)


@dataclass(frozen=True, slots=True)
class WorkloadPair:
    """A workload beside another one of the node."""

    partner: Case
    memory_peak_ratio: float
    """Of both at the same time, of the GPU's."""
    mean_ratios: Mapping[str, float]
    """By resource, the sums' means."""
    risks: Mapping[str, Risk]
    """That the sum of both is more than there is."""
    overlap_ratio: float
    """Part of the time in which both were at work."""
    aligned_blocks: int
    is_alternating: bool
    is_same_owner: bool
    """Whether nothing has to keep them apart."""

    @property
    def risk(self) -> Risk:
        """The greatest of them."""
        return worst(self.risks.values())


def is_movable(case: Case) -> bool:
    """Whether a workload has one GPU of its own and may be given another."""
    return (
        case.workload is not None
        and len(case.devices) == 1
        and case.devices[0].mig is None
        and case.workload.workload_class in _MOVABLE
    )


def workload_pairs(case: Case, settings: ColocationSettings) -> tuple[WorkloadPair, ...]:
    """Those that fit together in memory, the safest first; none where the node is not known."""
    if case.node is None or not is_movable(case):
        return ()
    mine = cache(case.windows[0].blocks.series)
    found = [
        pairing
        for other in case.node.cases
        if other.key != case.key
        and is_movable(other)
        and other.devices[0].uuid != case.devices[0].uuid
        and other.devices[0].board == case.devices[0].board
        for pairing in [_workload_pair(case, other, mine, settings)]
        if pairing is not None
    ]
    return tuple(sorted(found, key=_safety))


def _safety(pair: WorkloadPair) -> tuple[bool, int, float, str]:
    return not pair.is_same_owner, rank_of(pair.risk), pair.memory_peak_ratio, pair.partner.key


def _workload_pair(
    case: Case, other: Case, mine: _SeriesOf, settings: ColocationSettings
) -> WorkloadPair | None:
    own, beside = case.workload, other.workload
    if own is None or beside is None:
        return None
    total = case.devices[0].memory_total_bytes
    theirs = other.windows[0].blocks.series
    memory = _aligned(mine, theirs, Measure.MEMORY_BYTES)
    memory_peaks = list(map(add, memory[0].peaks, memory[1].peaks))
    if not total or len(memory_peaks) < settings.minimum_aligned_blocks:
        return None
    memory_ratio = max(memory_peaks) / total
    if memory_ratio > settings.memory_ratio:
        return None
    busy = _aligned(mine, theirs, Measure.BUSY)
    aligned = len(busy[0].numbers)
    if aligned < settings.minimum_aligned_blocks:
        return None
    risks, means = {}, {}
    samples = min(case.effective_samples(), other.effective_samples())
    for resource, measure in _MEASURES.items():
        one, two = _aligned(mine, theirs, measure)
        peaks = list(map(add, one.peaks, two.peaks))
        if not peaks:
            if resource is Resource.COMPUTE:
                risks[str(resource)] = Risk.UNKNOWN
            continue
        count = len(peaks)
        beyond = sum(map(gt, peaks, repeat(1.0))) / count
        risks[str(resource)] = risk_of(beyond, min(samples, count))
        means[str(resource)] = round(sum(map(add, one.means, two.means)) / count, 4)
    lesser = map(min, busy[0].means, busy[1].means)
    both = sum(map(ge, lesser, repeat(settings.busy_ratio))) / aligned
    return WorkloadPair(
        partner=other,
        memory_peak_ratio=memory_ratio,
        mean_ratios=means,
        risks=risks,
        overlap_ratio=both,
        aligned_blocks=aligned,
        is_alternating=both <= settings.alternating_ratio,
        is_same_owner=own.namespace == beside.namespace,
    )


def _aligned(mine: _SeriesOf, theirs: _SeriesOf, measure: Measure) -> tuple[Series, Series]:
    """What is known of both at the same five minutes."""
    one, two = mine(measure), theirs(measure)
    if one.numbers == two.numbers:
        return one, two
    common = set(one.numbers).intersection(two.numbers)
    return _among(one, common), _among(two, common)


def _among(series: Series, numbers: Container[int]) -> Series:
    chosen = [number in numbers for number in series.numbers]
    columns = series.known_seconds, series.means, series.peaks
    numbers = list(compress(series.numbers, chosen))
    return Series(numbers, *(list(compress(column, chosen)) for column in columns))
