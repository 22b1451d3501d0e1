"""Search for the best that one kind of GPU can do for a requirement, over layouts."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.model.units import GIB
from rightsizer.planner.candidate import (
    CandidateFilter,
    PlanCandidate,
    PredictedRate,
    Rejection,
    preference,
)
from rightsizer.planner.rates import is_late, too_slow
from rightsizer.planner.requirement_checks import layout_fault
from rightsizer.sizing.estimate import MemoryEstimate, usable_bytes
from rightsizer.sizing.memory import available_bytes, training_memory
from rightsizer.sizing.mig import is_slice
from rightsizer.sizing.models import RecommenderModel, Transformer
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.serving_memory import ServingMemory, serving_memory
from rightsizer.sizing.settings import MemorySettings, PlanSettings

_NODE_GPUS: Final = 8
"""Of a usual server, whatever joins them."""
_PCIE_TENSOR: Final = 2
_TENSOR: Final = (1, 2, 4, 8)
_STAGES: Final = (1, 2, 4, 8, 16)


def serving_layouts(requirement: Requirement, gpu_maximum: int) -> Iterator[Parallelism]:
    """Of one replica; stages only beyond what one server holds."""
    for stages in _STAGES:
        for tensor in _TENSOR if stages == 1 else (_NODE_GPUS,):
            layout = Parallelism(tensor=tensor, pipeline=stages)
            if layout.gpus <= gpu_maximum and _is_possible(requirement, layout):
                yield layout


def training_layouts(requirement: Requirement, gpu_maximum: int) -> tuple[Parallelism, ...]:
    """By the number of GPUs; of as many, those with less traffic first.

    More replicas help memory only where state is sharded over them, and never are more than the
    sequences of a step.
    """
    training = requirement.training
    replicas = [1]
    if training.zero_stage > 0:
        while replicas[-1] * 2 <= _most_replicas(requirement, gpu_maximum):
            replicas.append(replicas[-1] * 2)
    layouts = [
        Parallelism(tensor=tensor, pipeline=stages, data=data)
        for tensor in _TENSOR
        for stages in _STAGES
        for data in replicas
    ]
    possible = (
        each for each in layouts if each.gpus <= gpu_maximum and _is_possible(requirement, each)
    )
    return tuple(sorted(possible, key=_traffic))


def link_fault(requirement: Requirement, board: Board, layout: Parallelism) -> str | None:
    """Why GPUs of a kind are not joined well enough for a layout, or `None`.

    Training in tensor parallel moves all activations twice a layer, which PCIe carries between two
    GPUs at most.
    """
    linked = max(board.linked_gpu_count or 1, _PCIE_TENSOR)
    if requirement.task.trains and layout.tensor > linked:
        return (
            f"tensor parallel over {layout.tensor} GPUs, of which {linked} are joined at most;"
            " take pipeline or data parallel"
        )
    return None


def slice_fault(requirement: Requirement, board: Board, layout: Parallelism) -> str | None:
    """Why slices cannot be joined to a layout, or `None`.

    A process sees one slice, and nothing copies between slices but the host; replicas that serve
    need nothing of each other.
    """
    replicas = layout.data if requirement.task.trains else 1
    joined = layout.tensor * layout.pipeline * replicas
    if joined > 1 and is_slice(board):
        return f"{joined} slices of MIG cannot be joined; take a larger slice, or whole GPUs"
    return None


def _traffic(layout: Parallelism) -> tuple[int, ...]:
    """Replicas exchange the least, tensor parallel ranks wait the least for one another."""
    return layout.gpus, layout.tensor * layout.pipeline, layout.pipeline


def _most_replicas(requirement: Requirement, gpu_maximum: int) -> int:
    training = requirement.training
    if training.global_batch is None:
        return gpu_maximum
    return min(gpu_maximum, max(1, training.global_batch // training.micro_batch))


def _is_possible(requirement: Requirement, layout: Parallelism) -> bool:
    model = requirement.model
    if (
        not isinstance(model, Transformer | RecommenderModel)
        and layout.tensor * layout.pipeline > 1
    ):
        # Networks for images are small; they are replicated.
        return False
    return layout_fault(model, layout) is None


Predict = Callable[[Requirement, Board, Parallelism, float | None, float], PredictedRate]
"""How fast a requirement is on so many boards: at a number of requests in flight, or at the most
that latencies and so many bytes of each board allow."""

_SPREAD: Final = 8
"""Over how many times as many replicas a load is spread at most where latencies are missed."""
_ABOUT: Final = 1.05
_LEAST_USED: Final = 1e-9
"""Tokens a second: of less, what a million of them costs is no figure any more."""
_ROUNDING: Final = 1e-9


class Search:
    """One requirement, asked for as many boards as there are."""

    def __init__(
        self,
        requirement: Requirement,
        predict: Predict,
        settings: PlanSettings,
        memory_settings: MemorySettings,
    ) -> None:
        self.requirement = requirement
        self._predict = predict
        self._settings = settings
        self._memory_settings = memory_settings
        self._serving: dict[Parallelism, ServingMemory] = {}
        self._training: dict[Parallelism, MemoryEstimate] = {}
        self._single: dict[tuple[str, Parallelism], PredictedRate] = {}
        most = settings.gpu_maximum
        self._layouts = (
            training_layouts(requirement, most)
            if requirement.task.trains
            else tuple(serving_layouts(requirement, most))
        )

    def of_more(self, requirement: Requirement) -> "Search":
        """The same for more requests or more tokens a second, all else being equal.

        What one replica needs and makes at most does not change with how many are asked for.
        """
        search = Search(requirement, self._predict, self._settings, self._memory_settings)
        search._serving, search._single = self._serving, self._single
        return search

    def best(self, board: Board, dollars_per_hour: float | None) -> PlanCandidate:
        """The layout that is asked for, or the best of those that are tried."""
        return min(self.all(board, dollars_per_hour), key=preference)

    def all(self, board: Board, dollars_per_hour: float | None) -> Sequence[PlanCandidate]:
        """Every layout that was compared; one that does not fit where none does."""
        given = self.requirement.parallel
        if given is not None:
            found = [self._given(board, given)]
        elif self.requirement.task.trains:
            found = self._trained(board)
        else:
            found = self._served(board)
        return [self._priced(each, dollars_per_hour) for each in found]

    def _given(self, board: Board, layout: Parallelism) -> PlanCandidate:
        if self.requirement.task.trains:
            return self._training_candidate(board, layout)
        return self._serving_candidate(board, layout)

    def _trained(self, board: Board) -> list[PlanCandidate]:
        """Those that fit on the fewest GPUs."""
        room = self._available(board)
        whole = self._unsliced(board)
        possible = [
            each for each in whole if not link_fault(self.requirement, board, each)
        ] or whole
        fitting = [each for each in possible if self._training_memory(each).total_bytes <= room]
        if not fitting:
            return [self._training_candidate(board, self._nearest(possible))]
        fewest = [each for each in fitting if each.gpus == fitting[0].gpus]
        compared = fewest[: self._settings.layouts_per_gpu]
        return [self._training_candidate(board, each) for each in compared]

    def _unsliced(self, board: Board) -> list[Parallelism]:
        """Those that do not join slices of MIG."""
        return [each for each in self._layouts if not slice_fault(self.requirement, board, each)]

    def _nearest(self, layouts: Sequence[Parallelism]) -> Parallelism:
        """The fewest GPUs that come about as near as any."""
        needs = [self._training_memory(each).total_bytes for each in layouts]
        near = min(needs) * _ABOUT
        return next(each for each, need in zip(layouts, needs, strict=True) if need <= near)

    def _served(self, board: Board) -> list[PlanCandidate]:
        """Those that fit on the fewest GPUs, with as many replicas as the load needs."""
        room = self._available(board)
        found: list[PlanCandidate] = []
        possible = self._unsliced(board)
        for layout in possible:
            if layout.pipeline > 1 and found:
                break
            most = self._serving_memory(layout).largest_concurrency(room)
            if most >= 1:
                found.append(self._replicated(board, layout, most))
            if len(found) >= self._settings.layouts_per_gpu:
                break
        if found:
            return found
        least = min(possible, key=lambda each: self._serving_memory(each).at(1.0).total_bytes)
        return [self._serving_candidate(board, least)]

    def _replicated(self, board: Board, layout: Parallelism, most: int) -> PlanCandidate:
        """With the replicas that memory and load ask for."""
        asked = self.requirement.load.concurrency
        if asked is not None:
            return self._sharing(board, layout, math.ceil(asked / most))
        one = self._at_most(board, layout)
        replicas = self._replicas(one)
        if replicas == 1 or replicas * layout.gpus > self._settings.gpu_maximum:
            return self._serving_candidate(board, layout, one)
        spread = replace(layout, data=replicas)
        requests = None if one.concurrency is None else one.concurrency * replicas
        return self._serving_candidate(board, spread, self._rate(board, spread, requests))

    def _sharing(self, board: Board, layout: Parallelism, least: int) -> PlanCandidate:
        """So many replicas of a load that is given, or as few more as meet the latencies.

        Where that is more than are proposed, the most that are, whose memory is too small.
        """
        proposed = max(1, self._settings.gpu_maximum // layout.gpus)
        least = min(least, proposed)
        first = self._serving_candidate(board, replace(layout, data=least))
        most = min(least * _SPREAD, proposed)
        if first.fits or most <= least:
            return first
        found = self._serving_candidate(board, replace(layout, data=most))
        if not found.fits:
            return first
        # The fewer requests a replica has, the sooner it answers each.
        late, met = least, most
        while met - late > 1:
            middle = (late + met) // 2
            tried = self._serving_candidate(board, replace(layout, data=middle))
            late, met = (late, middle) if tried.fits else (middle, met)
            found = tried if tried.fits else found
        return found

    def _replicas(self, one: PredictedRate) -> int:
        """As many as the tokens asked for take, if each makes what it can."""
        asked, made = self.requirement.load.tokens_per_second, one.tokens_per_second
        if asked is None or made is None or not made.value or is_late(self.requirement.load, one):
            return 1
        return max(1, math.ceil(asked / made.value - _ROUNDING))

    def _at_most(self, board: Board, layout: Parallelism) -> PredictedRate:
        """Of one replica, with as many requests as latencies and memory allow."""
        key = board.key, layout
        if key not in self._single:
            self._single[key] = self._rate(board, layout, None)
        return self._single[key]

    def _rate(self, board: Board, layout: Parallelism, concurrency: float | None) -> PredictedRate:
        room = self._available(board)
        return self._predict(self.requirement, board, layout, concurrency, room)

    def _serving_candidate(
        self, board: Board, layout: Parallelism, rate: PredictedRate | None = None
    ) -> PlanCandidate:
        if rate is None:
            rate = self._rate(board, layout, self.requirement.load.concurrency)
        memory = self._serving_memory(layout).at(max(1.0, rate.concurrency or 1.0))
        return self._candidate(board, layout, memory, rate)

    def _training_candidate(self, board: Board, layout: Parallelism) -> PlanCandidate:
        rate = self._rate(board, layout, None)
        return self._candidate(board, layout, self._training_memory(layout), rate)

    def _candidate(
        self, board: Board, layout: Parallelism, memory: MemoryEstimate, rate: PredictedRate
    ) -> PlanCandidate:
        usable = usable_bytes(board.memory_bytes, self._memory_settings)
        room = self._available(board)
        return PlanCandidate(
            gpu=board.key,
            layout=layout,
            memory=memory,
            usable_bytes=usable,
            rate=rate,
            rejections=tuple(self._rejections(board, layout, memory, room, rate)),
        )

    def _rejections(
        self,
        board: Board,
        layout: Parallelism,
        memory: MemoryEstimate,
        room: float,
        rate: PredictedRate,
    ) -> Iterator[Rejection]:
        fault = slice_fault(self.requirement, board, layout)
        if fault is None and self.requirement.parallel is None:
            fault = link_fault(self.requirement, board, layout)
        if fault is not None:
            yield Rejection(CandidateFilter.LAYOUT, fault)
        if memory.total_bytes > room:
            yield Rejection(
                CandidateFilter.MEMORY,
                f"needs {memory.total_bytes / GIB:.1f} GiB of each GPU, of which"
                f" {room / GIB:.1f} GiB may be filled",
            )
        if not self.requirement.task.trains:
            yield from too_slow(self.requirement.load, rate, layout)

    def _priced(self, candidate: PlanCandidate, dollars_per_hour: float | None) -> PlanCandidate:
        made = candidate.rate.tokens_per_second
        work = None
        if dollars_per_hour is not None and made is not None and made.value > 0:
            asked = self.requirement.load.tokens_per_second
            used = made.value
            if asked is not None and not self.requirement.task.trains:
                used = min(used, asked)
            work = dollars_per_hour * candidate.count * 1e6 / (max(used, _LEAST_USED) * 3600.0)
        return replace(candidate, gpu_dollars_per_hour=dollars_per_hour, work_dollars=work)

    def _available(self, board: Board) -> float:
        return available_bytes(self.requirement, board.memory_bytes, self._memory_settings)

    def _serving_memory(self, layout: Parallelism) -> ServingMemory:
        if layout not in self._serving:
            self._serving[layout] = serving_memory(self.requirement, layout, self._memory_settings)
        return self._serving[layout]

    def _training_memory(self, layout: Parallelism) -> MemoryEstimate:
        if layout not in self._training:
            self._training[layout] = training_memory(
                self.requirement, layout, self._memory_settings
            )
        return self._training[layout]
