"""Search for the best layout of one kind of GPU for a requirement."""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Final

from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.prices import Instance
from rightsizer.model.units import GIB, HOUR_SECONDS
from rightsizer.planner.candidate import (
    CandidateFilter,
    PlanCandidate,
    PredictedRate,
    Rejection,
    preference,
)
from rightsizer.planner.display import dollars
from rightsizer.planner.layouts import (
    expert_layouts,
    link_fault,
    possible_layouts,
    replicated,
    slice_fault,
)
from rightsizer.planner.rates import (
    expected_cost_ratio,
    is_load_kept,
    late,
    load_probability,
    predict_rate,
    targets_probability,
    too_slow,
)
from rightsizer.planner.rental import cheapest_rental
from rightsizer.sizing.collectives import SERVER_GPUS, joined_gpus
from rightsizer.sizing.memory import available_bytes, training_memory
from rightsizer.sizing.memory_estimate import MemoryEstimate, usable_bytes
from rightsizer.sizing.mig import is_slice
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.roofline import board_format
from rightsizer.sizing.serving_memory import ServingMemory
from rightsizer.sizing.settings import SizingSettings

_SPREAD: Final = 8
"""Maximum factor of additional replicas if latencies are missed."""
_ABOUT: Final = 1.05
_LEAST_USED: Final = 1e-9
"""Tokens per second, below which the cost per million is meaningless."""
_ROUNDING: Final = 1e-9
_TENTH: Final = 0.1


class Search:
    """Search of one requirement over any number of boards."""

    def __init__(
        self,
        requirement: Requirement,
        settings: SizingSettings,
        price: Callable[[Board], float | None],
        instances: Mapping[str, Sequence[Instance]] | None = None,
    ) -> None:
        self.requirement = requirement
        self._price = price
        self._instances = instances
        self._sizing = settings
        self._settings = settings.plan
        self._headroom = settings.serving.latency_headroom_ratio
        self._expert_layouts = expert_layouts(requirement, settings.plan.gpu_maximum)
        self._node_gpus = settings.training.node_gpus
        most = settings.plan.gpu_maximum
        self._layouts = cache(partial(possible_layouts, requirement, most, self._node_gpus))
        memory = settings.memory
        self._serving_memory = cache(partial(ServingMemory, requirement, settings=memory))
        self._training_memory = cache(partial(training_memory, requirement, settings=memory))
        self._single: dict[tuple[str, Parallelism], PredictedRate] = {}
        self._rates: dict[tuple[str, Parallelism, float | None], PredictedRate] = {}

    def of_more(self, requirement: Requirement) -> "Search":
        """Return the same for more requests or more tokens per second.

        Memory and maximum rate of one replica do not depend on the total load.
        """
        search = Search(requirement, self._sizing, self._price, self._instances)
        search._serving_memory = self._serving_memory
        search._single = self._single
        return search

    def best(self, board: Board) -> PlanCandidate:
        """Return the requested layout, or the best of those tried."""
        return min(self.all(board), key=preference)

    def all(self, board: Board) -> Sequence[PlanCandidate]:
        """Return every compared layout; an unsuitable one if none fits."""
        requirement = self.requirement
        trains = self.requirement.task.trains
        layouts = self._layouts(joined_gpus(board, self._node_gpus))
        whole = [each for each in layouts if not slice_fault(requirement, board, each)]
        whole = whole or [*layouts]
        if requirement.parallel is not None:
            candidate = self._training_candidate if trains else self._serving_candidate
            found = [candidate(board, requirement.parallel)]
        else:
            found = (self._trained if trains else self._served)(board, whole)
        price = self._price(board)
        return [self._priced(self._rented(each), price) for each in found]

    def _trained(self, board: Board, whole: Sequence[Parallelism]) -> list[PlanCandidate]:
        """Return those that fit on the fewest GPUs, or the smallest that come nearest."""
        linked = [each for each in whole if not link_fault(self.requirement, board, each)]
        needs = {each: self._training_memory(each).total_bytes for each in linked or whole}
        fitting = [each for each, need in needs.items() if need <= self._available(board)]
        if self.requirement.training.is_fully_sharded:
            # Sharding does not split layers, unless a GPU cannot hold its sequences otherwise.
            fitting = [each for each in fitting if each.gpus == each.data] or fitting
        if fitting:
            fewest = [each for each in fitting if each.gpus == fitting[0].gpus]
            compared = fewest[: self._settings.layouts_per_gpu]
        else:
            near = min(needs.values()) * _ABOUT
            compared = [next(each for each, need in needs.items() if need <= near)]
        return [self._training_candidate(board, each) for each in compared]

    def _served(self, board: Board, possible: Sequence[Parallelism]) -> list[PlanCandidate]:
        """Return those that fit on the fewest GPUs, with the replicas that the load needs.

        Experts are shared if links join the GPUs of a server: each token is sent to the GPUs of its
        experts and back in every layer, which was only measured there.
        """
        linked = board.linked_gpu_count or 1
        shared = [
            each
            for each in self._expert_layouts
            if linked >= min(each.data * each.tensor, SERVER_GPUS)
            and not slice_fault(self.requirement, board, each)
        ]
        found = [*self._fitting(board, possible), *self._fitting(board, shared)]
        if found:
            return found
        least = min(possible, key=lambda each: self._serving_memory(each).at(1.0).total_bytes)
        return [self._serving_candidate(board, least)]

    def _fitting(self, board: Board, layouts: Sequence[Parallelism]) -> list[PlanCandidate]:
        """Return the first whose memory holds a request per replica; stages only if needed.

        Further ones are tried until one is fast enough.
        """
        found: list[PlanCandidate] = []
        for layout in layouts:
            is_compared = len(found) >= self._settings.layouts_per_gpu
            is_enough = is_compared and any(each.fits for each in found)
            if is_enough or (layout.pipeline > 1 and found):
                break
            most = self._serving_memory(layout).largest_concurrency(self._available(board))
            if most >= layout.data:
                found.append(self._replicated(board, layout, most))
        return found

    def _replicated(self, board: Board, layout: Parallelism, most: int) -> PlanCandidate:
        """Add the replicas that memory and load require, if each reaches its maximum."""
        load = self.requirement.load
        if load.concurrency is not None:
            return self._sharing(board, layout, math.ceil(load.concurrency / most))
        key = board.key, layout
        if key not in self._single:
            self._single[key] = self._rate(board, layout, None)
        one = self._single[key]
        replicas = 1
        demand = load.units_per_second
        throughput = one.units_per_second
        # Waiting is shortened by replicas, work is not.
        is_late = any(late(load, replace(one, batches_waited=0.0), self._headroom))
        if demand is not None and throughput is not None and throughput.value and not is_late:
            replicas = max(1, math.ceil(demand / throughput.value - _ROUNDING))
        is_beyond = replicas * layout.gpus > self._settings.gpu_maximum
        if load.is_open and not is_beyond:
            return self._in_time(board, layout, replicas, is_late=is_late)
        if load.is_open or is_beyond or replicas == 1:
            return self._serving_candidate(board, layout, None if load.is_open else one)
        spread = replicated(layout, replicas)
        requests = None if one.concurrency is None else one.concurrency * replicas
        return self._serving_candidate(board, spread, self._rate(board, spread, requests))

    def _in_time(
        self, board: Board, layout: Parallelism, replicas: int, *, is_late: bool
    ) -> PlanCandidate:
        """Answer an open load in time: with several replicas, each share of it is smoother."""
        fewest = self._fewest_in_time(board, layout, replicas)
        found = self._serving_candidate(board, replicated(layout, fewest))
        if not found.fits and fewest < replicas:
            found = self._fewest(board, layout, fewest, replicas)
        most = min(replicas * _SPREAD, self._settings.gpu_maximum // layout.gpus)
        if found.fits or is_late or most <= replicas:
            return found
        spread = self._fewest(board, layout, replicas, most)
        return spread if spread.fits else found

    def _fewest(self, board: Board, layout: Parallelism, short: int, enough: int) -> PlanCandidate:
        """Return the fewest sufficient replicas, between too few and enough, if enough suffice."""
        found = self._serving_candidate(board, replicated(layout, enough))
        while found.fits and enough - short > 1:
            middle = (short + enough) // 2
            tried = self._serving_candidate(board, replicated(layout, middle))
            short, enough = (short, middle) if tried.fits else (middle, enough)
            found = tried if tried.fits else found
        return found

    def _fewest_in_time(self, board: Board, layout: Parallelism, enough: int) -> int:
        """Return the fewest replicas that meet latencies at the load's rate, fitting or not."""
        room = self._available(board)

        def is_kept(replicas: int) -> bool:
            spread = replicated(layout, replicas)
            return is_load_kept(self.requirement, board, spread, room, self._sizing)

        return 1 + bisect_left(range(1, enough), True, key=is_kept)

    def _sharing(self, board: Board, layout: Parallelism, least: int) -> PlanCandidate:
        """Return this many replicas for a given load, or as many more as latencies need.

        Beyond the maximum number proposed, return that maximum, which lacks memory.
        """
        proposed = max(1, self._settings.gpu_maximum // layout.gpus)
        least = min(least, proposed)
        first = self._serving_candidate(board, replicated(layout, least))
        most = min(least * _SPREAD, proposed)
        if first.fits or most <= least:
            return first
        # The fewer requests per replica, the faster each is answered.
        found = self._fewest(board, layout, least, most)
        return found if found.fits else first

    def _rate(self, board: Board, layout: Parallelism, concurrency: float | None) -> PredictedRate:
        key = board.key, layout, concurrency
        if key not in self._rates:
            room = self._available(board)
            self._rates[key] = predict_rate(
                self.requirement, board, layout, concurrency, room, settings=self._sizing
            )
        return self._rates[key]

    def _serving_candidate(
        self, board: Board, layout: Parallelism, rate: PredictedRate | None = None
    ) -> PlanCandidate:
        if rate is None:
            rate = self._rate(board, layout, self.requirement.load.concurrency)
        memory = self._serving_memory(layout)
        load = self.requirement.load
        is_filled = load.concurrency is None and load.units_per_second is None
        found = self._candidate(board, layout, memory.at(max(1.0, rate.concurrency or 1.0)), rate)
        # Without a load as many requests run as memory allows, on any GPU.
        return replace(found, least_memory=memory.at(1.0)) if is_filled else found

    def _training_candidate(self, board: Board, layout: Parallelism) -> PlanCandidate:
        rate = self._rate(board, layout, None)
        return self._candidate(board, layout, self._training_memory(layout), rate)

    def _candidate(
        self, board: Board, layout: Parallelism, memory: MemoryEstimate, rate: PredictedRate
    ) -> PlanCandidate:
        rejections = []
        room = self._available(board)
        weights = self.requirement.precision.weights
        trains = self.requirement.task.trains
        runs_in = board_format(board, weights, trains=trains)
        if runs_in.fault:
            rejections.append(Rejection(CandidateFilter.FORMAT, runs_in.fault))
        fault = slice_fault(self.requirement, board, layout)
        if fault is None and self.requirement.parallel is None:
            fault = link_fault(self.requirement, board, layout)
        if fault is not None:
            rejections.append(Rejection(CandidateFilter.LAYOUT, fault))
        if memory.total_bytes > room:
            needed = memory.total_bytes / GIB
            free = room / GIB
            digits = 1 if needed - free >= _TENTH else 2
            needs = f"needs {needed:.{digits}f} GiB of each GPU"
            why = f"{needs}, of which {free:.{digits}f} GiB may be filled"
            rejections.append(Rejection(CandidateFilter.MEMORY, why))
        if not self.requirement.task.trains:
            most = self._settings.gpu_maximum
            rejections += too_slow(self.requirement, rate, layout, self._headroom, most)
            load = self.requirement.load
            sure = targets_probability(load, rate)
            enough = load_probability(load, rate)
            rate = replace(rate, targets_probability=sure, load_probability=enough)
        usable = usable_bytes(board.memory_bytes, self._sizing.memory)
        other = runs_in if runs_in.note else None
        return PlanCandidate(board.key, layout, memory, usable, rate, tuple(rejections), other)

    def _priced(self, candidate: PlanCandidate, dollars_per_hour: float | None) -> PlanCandidate:
        """Add the price of one GPU, of the work, and of the work over the possible rates."""
        rental = candidate.rental
        layout = candidate.layout
        if rental is not None and rental.dollars_per_hour is not None:
            dollars_per_hour = rental.dollars_per_hour / rental.gpus
        priced = replace(candidate, gpu_dollars_per_hour=dollars_per_hour)
        million = self._dollars_per_million(priced)
        if million is not None:
            load = self.requirement.load
            replicas = layout.data // layout.expert
            one = layout.gpus // replicas
            fits = candidate.memory_probability

            def paid(count: int) -> float:
                return candidate.paid_gpus(count * one)

            ratio = expected_cost_ratio(load, candidate.rate, replicas, fits, paid)
            expected = million * ratio
            priced = replace(
                priced, dollars_per_million=million, expected_dollars_per_million=expected
            )
        return self._within_budget(priced)

    def _dollars_per_million(self, candidate: PlanCandidate) -> float | None:
        """Return the price per million of the requested work; `None` if unknown."""
        hourly = candidate.dollars_per_hour
        throughput = candidate.rate.units_per_second
        if hourly is None or throughput is None or throughput.value <= 0:
            return None
        used = throughput.value
        demand = self.requirement.load.units_per_second
        if demand is not None and not self.requirement.task.trains:
            used = min(used, demand)
        return hourly * 1e6 / (max(used, _LEAST_USED) * HOUR_SECONDS)

    def _within_budget(self, candidate: PlanCandidate) -> PlanCandidate:
        """Reject a candidate above the budget, or without a price."""
        hourly = candidate.dollars_per_hour
        budget = self.requirement.budget
        if budget is None or (hourly is not None and hourly <= budget):
            return candidate
        price = "no price is known" if hourly is None else f"${dollars(hourly)} an hour"
        rejection = Rejection(CandidateFilter.PRICE, f"{price}, of ${dollars(budget)} at most")
        return replace(candidate, rejections=(*candidate.rejections, rejection))

    def _rented(self, candidate: PlanCandidate) -> PlanCandidate:
        """Rent whole instances of the named clouds, including standby."""
        layout = candidate.layout
        spares = self.requirement.spares
        if self._instances is None or is_slice(candidate.gpu):
            return replace(candidate, spare_gpus=spares * layout.tensor * layout.pipeline)
        offered = self._instances.get(candidate.gpu, ())
        trains = self.requirement.task.trains
        rental = cheapest_rental(offered, layout, spares, trains=trains)
        if rental is not None:
            return replace(candidate, rental=rental)
        joined = f" with {layout.tensor} in one server" if layout.tensor > 1 else ""
        why = f"no instance of {self.requirement.provider} has {candidate.gpu}{joined}"
        rejection = Rejection(CandidateFilter.LAYOUT, why)
        return replace(candidate, rejections=(*candidate.rejections, rejection))

    def _available(self, board: Board) -> float:
        return available_bytes(self.requirement, board.memory_bytes, self._sizing.memory)


SearchFactory = Callable[[Requirement], Search]
"""Starts the search of a requirement."""
