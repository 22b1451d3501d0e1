"""Search for the best layout of one kind of GPU for a requirement."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Final

from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.prices import Instance
from rightsizer.model.units import GIB, HOUR_SECONDS, percent_text
from rightsizer.planner.candidate import (
    CandidateFilter,
    PlanCandidate,
    PredictedRate,
    Rejection,
    preference,
)
from rightsizer.planner.display import dollars, number
from rightsizer.planner.layouts import (
    expert_layouts,
    link_fault,
    possible_layouts,
    replicated,
    slice_fault,
)
from rightsizer.planner.rates import (
    is_load_kept,
    late,
    least_servers,
    load_probability,
    predict_rate,
    serving_rate,
    targets_probability,
    too_slow,
)
from rightsizer.planner.rental import Rental, cheapest_rental
from rightsizer.sizing.collectives import SERVER_GPUS, joined_gpus
from rightsizer.sizing.load import EVEN_ODDS
from rightsizer.sizing.memory import available_bytes, training_memory
from rightsizer.sizing.memory_estimate import MemoryEstimate, usable_bytes
from rightsizer.sizing.mig import is_slice
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.roofline import board_format
from rightsizer.sizing.serving import Server
from rightsizer.sizing.serving_memory import ServingMemory
from rightsizer.sizing.settings import SizingSettings
from rightsizer.sizing.site import SiteResiduals

_DEAREST: Final = 8
"""Times the GPUs that even odds take, beyond which certainty is not bought: a candidate only almost
idle is sure to be in time."""
_ABOUT: Final = 1.05
_LEAST_USED: Final = 1e-9
"""Tokens per second, below which the cost per million is meaningless."""
_TENTH: Final = 0.1


class Search:
    """Search of one requirement over any number of boards."""

    def __init__(  # noqa: PLR0913, PLR0917 - data and settings of a planner.
        self,
        requirement: Requirement,
        settings: SizingSettings,
        price: Callable[[Board], float | None],
        instances: Mapping[str, Sequence[Instance]] | None = None,
        site: SiteResiduals | None = None,
        servers: dict[tuple[str, Parallelism], Server] | None = None,
    ) -> None:
        self.requirement = requirement
        self._site = site
        self._likely: Search | None = None
        self._price = price
        self._instances = instances
        self._sizing = settings
        self._settings = settings.plan
        self._headroom = settings.serving.latency_headroom_ratio
        self._expert_layouts = expert_layouts(requirement, settings.plan.gpu_maximum)
        self._node_gpus = settings.training.node_gpus
        gpu_maximum = settings.plan.gpu_maximum
        self._layouts = cache(partial(possible_layouts, requirement, gpu_maximum, self._node_gpus))
        memory = settings.memory
        self._serving_memory = cache(partial(ServingMemory, requirement, settings=memory))
        self._training_memory = cache(partial(training_memory, requirement, settings=memory))
        self._training_bytes = cache(self._needed_bytes)
        is_of_tokens = isinstance(requirement.model, Transformer)
        self._has_tokens = is_of_tokens and not requirement.task.trains
        self._servers = {} if servers is None else servers
        """Of one replica each, by board and layout; shared by searches that differ in certainty."""
        self._rates: dict[tuple[str, Parallelism, float | None], PredictedRate] = {}

    def best(self, board: Board) -> PlanCandidate:
        """Return the requested layout, or the best of those tried."""
        return min(self.all(board, is_best_enough=True), key=preference)

    def surest(self, board: Board) -> PlanCandidate:
        """Return the best that holds as surely as asked, on however many GPUs."""
        return min(self.compared(board, is_best_enough=True), key=preference)

    def all(self, board: Board, *, is_best_enough: bool = False) -> Sequence[PlanCandidate]:
        """Return every compared layout; an unsuitable one if none fits.

        Only the best must be among them if that is enough. If none fits as surely as asked, or only
        on many times the GPUs, those that are as likely to fit as not.
        """
        candidates = self.compared(board, is_best_enough=is_best_enough)
        load = self.requirement.load
        fewest = _fewest_gpus(candidates)
        if load.certainty <= EVEN_ODDS or fewest <= _DEAREST:
            return candidates
        if self._likely is None:
            even = replace(load, sure_ratio=EVEN_ODDS)
            requirement = replace(self.requirement, load=even)
            self._likely = Search(
                requirement,
                self._sizing,
                self._price,
                self._instances,
                self._site,
                self._servers,
            )
        if math.isfinite(fewest) and not self._likely.may_take(board, fewest / _DEAREST):
            return candidates
        likely = self._likely.compared(board)
        if fewest <= _DEAREST * min(
            (candidate.count for candidate in likely if candidate.fits), default=0
        ):
            return candidates
        return [replace(candidate, is_sure=False) for candidate in likely]

    def may_take(self, board: Board, gpus: float) -> bool:
        """Whether fewer GPUs might do: a fast check, which only a load of tokens can fail."""
        layouts = (*self._layouts(joined_gpus(board, self._node_gpus)), *self._expert_layouts)
        fewer = math.ceil(gpus) - 1
        return self.requirement.parallel is not None or any(
            self._is_kept(board, layout, fewer // layout.gpus)
            for layout in layouts
            if layout.gpus <= fewer
        )

    def compared(self, board: Board, *, is_best_enough: bool = False) -> Sequence[PlanCandidate]:
        """Return every compared layout with the certainty of the load, or only the best ones.

        Work at a rate costs as much as the GPUs that do it, so that more of them are not better.
        """
        requirement = self.requirement
        trains = self.requirement.task.trains
        layouts = self._layouts(joined_gpus(board, self._node_gpus))
        if is_slice(board.key):
            faultless = [
                layout for layout in layouts if not slice_fault(requirement, board, layout)
            ]
            layouts = faultless or layouts
        if requirement.parallel is not None:
            candidate = self._training_candidate if trains else self._serving_candidate
            candidates = [candidate(board, requirement.parallel)]
        elif trains:
            candidates = self._trained(board, layouts)
        else:
            is_priced_by_count = requirement.load.units_per_second is not None
            is_bounded = is_best_enough and is_priced_by_count and self._instances is None
            candidates = self._served(board, layouts, is_bounded=is_bounded)
        price = self._price(board)
        return [
            self._priced(self._rented(board, plan_candidate), price)
            for plan_candidate in candidates
        ]

    def _trained(self, board: Board, possible: Sequence[Parallelism]) -> list[PlanCandidate]:
        """Return those that fit on the fewest GPUs, or the smallest that come nearest."""
        linked = [
            parallelism
            for parallelism in possible
            if not link_fault(self.requirement, board, parallelism)
        ]
        needs = {
            parallelism: self._training_bytes(parallelism) for parallelism in linked or possible
        }
        room = self._available(board)
        usable = usable_bytes(board.memory_bytes, self._sizing.memory)
        fitting = [
            parallelism
            for parallelism, (total, surely) in needs.items()
            if total <= room and surely <= usable
        ]
        if self.requirement.training.is_fully_sharded:
            # Sharding does not split layers, unless a GPU cannot hold its sequences otherwise.
            fitting = [
                parallelism for parallelism in fitting if parallelism.gpus == parallelism.data
            ] or fitting
        if fitting:
            fewest = [parallelism for parallelism in fitting if parallelism.gpus == fitting[0].gpus]
            compared = fewest[: self._settings.layouts_per_gpu]
        else:
            near = _ABOUT * min(total for total, _ in needs.values())
            compared = [next(parallelism for parallelism in needs if needs[parallelism][0] <= near)]
        return [self._timely(board, parallelism) for parallelism in compared]

    def _timely(self, board: Board, layout: Parallelism) -> PlanCandidate:
        """Add the replicas that end a run in time; all that may be proposed if none do."""
        unreplicated = self._training_candidate(board, layout)
        training = self.requirement.training
        if training.hours is None or not unreplicated.fits_memory:
            return unreplicated
        replica_maximum = self._settings.gpu_maximum // layout.gpus
        if training.global_batch is not None:
            replica_maximum = min(
                replica_maximum, training.global_batch // (training.micro_batch * layout.data)
            )

        def spread(times: int) -> PlanCandidate:
            return self._training_candidate(board, replicated(layout, times))

        return spread(
            _fewest(1, max(1, replica_maximum), lambda times: spread(times).fits)
            or max(1, replica_maximum)
        )

    def _served(
        self, board: Board, possible: Sequence[Parallelism], *, is_bounded: bool
    ) -> list[PlanCandidate]:
        """Return those that fit on the fewest GPUs, with the replicas that the load needs.

        `is_bounded`: without those that take more GPUs than an earlier one.
        Experts are shared if links join the GPUs of a server: each token is sent to the GPUs of its
        experts and back in every layer, which was only measured there.
        """
        linked = board.linked_gpu_count or 1
        shared = [
            layout
            for layout in self._expert_layouts
            if linked >= min(layout.data * layout.tensor, SERVER_GPUS)
            and not slice_fault(self.requirement, board, layout)
        ]
        candidates = self._fitting(board, possible, is_bounded=is_bounded)
        gpu_maximum = _fewest_gpus(candidates) if is_bounded else math.inf
        candidates += self._fitting(board, shared, gpu_maximum, is_bounded=is_bounded)
        if candidates:
            return candidates
        least = min(
            possible, key=lambda parallelism: self._serving_memory(parallelism).at(1.0).total_bytes
        )
        return [self._serving_candidate(board, least)]

    def _fitting(
        self,
        board: Board,
        layouts: Sequence[Parallelism],
        gpu_maximum: float = math.inf,
        *,
        is_bounded: bool,
    ) -> list[PlanCandidate]:
        """Return the first whose memory holds a request per replica; stages only if needed.

        Further ones are tried until one is fast enough, or takes more than `gpu_maximum`.
        """
        candidates: list[PlanCandidate] = []
        compared = 0
        for layout in layouts:
            is_compared = compared >= self._settings.layouts_per_gpu
            is_enough = is_compared and any(candidate.fits for candidate in candidates)
            if is_enough or (layout.pipeline > 1 and compared) or layout.gpus > gpu_maximum:
                break
            largest_concurrency = self._serving_memory(layout).largest_concurrency(
                self._available(board)
            )
            if largest_concurrency < layout.data:
                continue
            compared += 1
            candidate = self._replicated(board, layout, largest_concurrency, gpu_maximum)
            if candidate is not None:
                candidates.append(candidate)
                gpu_maximum = min(gpu_maximum, _fewest_gpus(candidates)) if is_bounded else math.inf
        return candidates

    def _replicated(
        self, board: Board, layout: Parallelism, largest_concurrency: int, gpu_maximum: float
    ) -> PlanCandidate | None:
        """Add the fewest replicas that hold the load as surely as asked.

        `largest_concurrency`: requests that fit in the memory of one. If no number suffices: one
        replica if it is late with any load, otherwise as many as may be proposed; `None` if
        `gpu_maximum`, which is finite if another layout needs no more, is the only reason.
        """
        load = self.requirement.load
        if load.concurrency is None and load.units_per_second is None:
            return self._serving_candidate(board, layout)
        is_bounded = math.isfinite(gpu_maximum)
        proposed = int(min(gpu_maximum, self._settings.gpu_maximum) // layout.gpus)
        least = math.ceil((load.concurrency or 1.0) / largest_concurrency)
        if load.concurrency is None:
            least = max(least, self._least_replicas(board, layout))
        if is_bounded and least > proposed:
            return None
        proposed = max(1, proposed)
        least = min(proposed, least)

        @cache
        def spread(replicas: int) -> PlanCandidate:
            return self._serving_candidate(board, replicated(layout, replicas))

        # The first check is fast and slightly optimistic.
        kept = _fewest(least, proposed, partial(self._is_kept, board, layout))
        if kept is None and is_bounded:
            return None
        fewest = _fewest(kept or proposed, proposed, lambda replicas: spread(replicas).fits)
        if fewest is not None:
            return spread(fewest)
        if is_bounded:
            return None
        is_late = any(late(load, spread(proposed).rate, self._headroom))
        return spread(1 if is_late else proposed)

    def _least_replicas(self, board: Board, layout: Parallelism) -> int:
        """Return a number of replicas below which the rate is not reached in any time."""
        load = self.requirement.load
        server = self._server(board, layout) if self._has_tokens else None
        if server is not None and server.is_causal and load.is_open:
            return least_servers(self.requirement, server)
        made = self._rate(board, layout, None).units_per_second
        return 1 if made is None else load.least_shares(made)

    def _is_kept(self, board: Board, layout: Parallelism, replicas: int) -> bool:
        if not self._has_tokens:
            return True
        return is_load_kept(self.requirement, self._server(board, replicated(layout, replicas)))

    def _rate(self, board: Board, layout: Parallelism, concurrency: float | None) -> PredictedRate:
        key = board.key, layout, concurrency
        if key not in self._rates:
            room = self._available(board)
            if self._has_tokens:
                server = self._server(board, layout)
                self._rates[key] = serving_rate(self.requirement, server, concurrency)
            else:
                self._rates[key] = predict_rate(
                    self.requirement, board, layout, concurrency, room, settings=self._sizing
                )
        return self._rates[key]

    def _server(self, board: Board, layout: Parallelism) -> Server:
        """Return the server of a layout, which shares what is known of one of its replicas."""
        one = replace(layout, data=layout.expert)
        key = board.key, one
        if key not in self._servers:
            memory = self._serving_memory(one)
            room = self._available(board)
            self._servers[key] = Server(memory, board, room, self._sizing.serving, self._site)
        return self._servers[key].spread(layout.data, self.requirement.load)

    def _serving_candidate(self, board: Board, layout: Parallelism) -> PlanCandidate:
        rate = self._rate(board, layout, self.requirement.load.concurrency)
        memory = self._serving_memory(layout)
        load = self.requirement.load
        is_filled = load.concurrency is None and load.units_per_second is None
        estimate = memory.at(max(1.0, rate.concurrency or 1.0))
        least = memory.at(1.0)
        server = self._server(board, layout) if self._site and self._has_tokens else None
        if server is not None and server.memory_correction is not None:
            estimate = estimate.corrected(server.memory_correction)
            least = least.corrected(server.memory_correction)
        if is_filled:
            largest = max(self._available(board), least.total.high)
            estimate = replace(estimate, filled_maximum_bytes=largest)
        candidate = self._candidate(board, layout, estimate, rate)
        if server is not None:
            candidate = replace(candidate, adjustment=server.adjustment)
        # Without a load as many requests run as memory allows, on any GPU.
        return self._surely(replace(candidate, least_memory=least) if is_filled else candidate)

    def _training_candidate(self, board: Board, layout: Parallelism) -> PlanCandidate:
        rate = self._rate(board, layout, None)
        return self._surely(self._candidate(board, layout, self._training_memory(layout), rate))

    def _surely(self, candidate: PlanCandidate) -> PlanCandidate:
        """Reject a candidate whose memory fits less surely than asked."""
        sure = candidate.memory_probability
        if not candidate.fits or sure >= self.requirement.load.certainty:
            return candidate
        why = f"fits with {percent_text(sure)}"
        return replace(candidate, rejections=(Rejection(CandidateFilter.MEMORY, why, 1.0),))

    def _needed_bytes(self, layout: Parallelism) -> tuple[float, float]:
        """Return the memory of training, as estimated and as surely as asked."""
        memory = self._training_memory(layout)
        return memory.total_bytes, memory.total.quantile(self.requirement.load.certainty)

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
            rejections.append(Rejection(CandidateFilter.MEMORY, why, memory.total_bytes / room))
        hours = self.requirement.training.hours
        if trains and hours is not None and rate.training_hours is not None:
            took = rate.training_hours
            rate = replace(rate, targets_probability=took.met_probability(hours))
            if self.requirement.load.is_late(took, hours, 0.0):
                why = f"trains {number(took.value)} hours, of {number(hours)} at most"
                lack = took.value / hours
                rejections.append(Rejection(CandidateFilter.COMPUTE, why, lack))
        if not trains:
            gpu_maximum = self._settings.gpu_maximum
            rejections += too_slow(self.requirement, rate, layout, self._headroom, gpu_maximum)
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
        if rental is not None and rental.dollars_per_hour is not None:
            dollars_per_hour = rental.dollars_per_hour / rental.gpus
        priced = replace(candidate, gpu_dollars_per_hour=dollars_per_hour)
        throughput = candidate.rate.units_per_second
        if throughput is not None and throughput.value > 0:
            surely = throughput.quantile(1.0 - self.requirement.load.certainty)
            priced = replace(
                priced,
                dollars_per_million=self._dollars_per_million(priced, throughput.value),
                sure_dollars_per_million=self._dollars_per_million(priced, surely),
            )
        return self._within_budget(priced)

    def _dollars_per_million(self, candidate: PlanCandidate, rate: float) -> float | None:
        """Return the price per million of the requested work at a rate; `None` if unknown."""
        hourly = candidate.dollars_per_hour
        if hourly is None:
            return None
        demand = self.requirement.load.units_per_second
        if demand is not None and not self.requirement.task.trains:
            rate = min(rate, demand)
        return hourly * 1e6 / (max(rate, _LEAST_USED) * HOUR_SECONDS)

    def _within_budget(self, candidate: PlanCandidate) -> PlanCandidate:
        """Reject a candidate above the budget, or without a price."""
        hourly = candidate.dollars_per_hour
        budget = self.requirement.budget
        if budget is None or (hourly is not None and hourly <= budget):
            return candidate
        price = "no price is known" if hourly is None else f"${dollars(hourly)} an hour"
        lack = math.inf if hourly is None else hourly / budget
        why = f"{price}, of ${dollars(budget)} at most"
        rejection = Rejection(CandidateFilter.PRICE, why, lack)
        return replace(candidate, rejections=(*candidate.rejections, rejection))

    def _rented(self, board: Board, candidate: PlanCandidate) -> PlanCandidate:
        """Rent whole instances of the named clouds, including standby, and use all of them."""
        layout = candidate.layout
        spares = self.requirement.spares
        if self._instances is None or is_slice(candidate.gpu):
            return replace(candidate, spare_gpus=spares * layout.tensor * layout.pipeline)
        offered = self._instances.get(candidate.gpu, ())
        trains = self.requirement.task.trains
        rental = cheapest_rental(offered, layout, spares, trains=trains)
        if rental is not None:
            filling = self._filled(board, candidate, rental)
            return replace(filling, rental=replace(rental, used_gpus=filling.count))
        joined = f" with {layout.tensor} in one server" if layout.tensor > 1 else ""
        why = f"no instance of {self.requirement.provider} has {candidate.gpu}{joined}"
        rejection = Rejection(CandidateFilter.OFFER, why)
        return replace(candidate, rejections=(rejection, *candidate.rejections))

    def _filled(self, board: Board, candidate: PlanCandidate, rental: Rental) -> PlanCandidate:
        """Add the replicas for which the paid instances have GPUs; none to a requested layout."""
        requirement = self.requirement
        layout = candidate.layout
        training = requirement.training
        one = replace(layout, data=layout.expert)
        trains = requirement.task.trains
        times = rental.working_gpus // (layout.gpus if trains else one.gpus)
        if trains and training.global_batch is not None:
            sequences = training.micro_batch * layout.data
            times = min(times, training.global_batch // sequences)
        filling = replicated(layout if trains else one, max(1, times))
        if requirement.parallel is not None or not candidate.fits or filling.gpus <= layout.gpus:
            return candidate
        filled = (self._training_candidate if trains else self._serving_candidate)(board, filling)
        return filled if filled.fits else candidate

    def _available(self, board: Board) -> float:
        return available_bytes(self.requirement, board.memory_bytes, self._sizing.memory)


def _fewest(least: int, largest: int, is_enough: Callable[[int], bool]) -> int | None:
    """Return the smallest sufficient number; `None` if even the largest is too small."""
    if is_enough(least):
        return least
    if not is_enough(largest):
        return None
    short = least
    step = 1
    while (enough := min(largest, short + step)) < largest and not is_enough(enough):
        short = enough
        step *= 2
    return short + 1 + bisect_left(range(short + 1, enough), True, key=is_enough)


def _fewest_gpus(candidates: Iterable[PlanCandidate]) -> float:
    return min((candidate.count for candidate in candidates if candidate.fits), default=math.inf)


SearchFactory = Callable[[Requirement], Search]
"""Starts the search of a requirement."""
