"""Candidates of a plan: rate, rejections, bill, and their rank."""

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Self

from rightsizer.model.frozen import dataclass, replace
from rightsizer.planner.rental import Rental
from rightsizer.sizing.cost import Billing, HourlyCost, OwnedCost
from rightsizer.sizing.estimate import EstimateInterval, MemoryEstimate
from rightsizer.sizing.requirement import Parallelism
from rightsizer.sizing.roofline import BoardFormat


@dataclass(frozen=True, slots=True)
class CostAmount:
    """Dollars, kilowatt-hours or kilograms: of an hour, and of what is done in it."""

    per_hour: EstimateInterval
    per_million: EstimateInterval | None = None
    """Of a million tokens; images or samples of models that know no tokens."""
    per_image: EstimateInterval | None = None
    """Of models of images."""
    per_run: EstimateInterval | None = None
    """Of a training run whose length is given."""

    def scaled(self, by: float) -> "CostAmount":
        """The same of something that goes with it."""
        parts = (self.per_million, self.per_image, self.per_run)
        scaled = (None if part is None else part.scaled(by) for part in parts)
        return CostAmount(self.per_hour.scaled(by), *scaled)


@dataclass(frozen=True, slots=True)
class PriceOffer:
    """One way to have the GPUs of a candidate."""

    terms: HourlyCost
    """Of one GPU, with source and date."""
    dollars: CostAmount
    """Of all of them."""


@dataclass(frozen=True, slots=True)
class OwnershipCost:
    """What buying the GPUs of a candidate takes, and when it pays."""

    owned: OwnedCost
    """Of all GPUs and the servers around them."""
    break_even_hours: EstimateInterval | None
    """Used hours after which owning has cost less than renting on demand; `None` where it never
    has, or no price to rent them is known."""
    break_even_months: EstimateInterval | None
    """The same in months, used as much of the time as is usual."""
    utilization_ratio: float
    """The part of those months that they are used for."""


@dataclass(frozen=True, slots=True)
class Bill:
    """Money and energy of a candidate."""

    offers: tuple[PriceOffer, ...]
    """Clouds first; none where no price is known."""
    ownership: OwnershipCost | None
    kilowatt_hours: CostAmount
    """At the meter of the building."""
    carbon_kilograms: CostAmount | None
    """`None` where the carbon intensity of a kilowatt-hour is not known."""
    carbon_grams_per_kilowatt_hour: float | None = None
    per_million_asked: EstimateInterval | None = None
    """Dollars on demand, of a million of what the load asks for; `None` without a price."""

    @property
    def on_demand(self) -> CostAmount | None:
        """What renting costs, without commitment."""
        billing = Billing.ON_DEMAND
        return next((each.dollars for each in self.offers if each.terms.billing is billing), None)


class CandidateFilter(StrEnum):
    """The filters that candidates pass, in their order."""

    lack: str
    """What a candidate lacks that does not pass it."""

    def __new__(cls, name: str, lack: str) -> Self:
        """A filter by its name."""
        self = str.__new__(cls, name)
        self._value_, self.lack = name, lack
        return self

    FORMAT = "format", "the number format is missing"
    LAYOUT = "layout", "links are too few"
    MEMORY = "memory", "memory is too small"
    COMPUTE = "compute", "compute is too slow"
    BANDWIDTH = "bandwidth", "memory bandwidth is too low"
    THROUGHPUT = "throughput", "throughput is too low"
    PRICE = "price", "the price is above the budget"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a candidate is none."""

    by: CandidateFilter
    why: str

    def __str__(self) -> str:
        """`memory: needs 141.2 GiB of each GPU, ...`."""
        return f"{self.by}: {self.why}"


@dataclass(frozen=True, slots=True)
class PredictedRate:
    """How fast a candidate is, all of its GPUs together."""

    tokens_per_second: EstimateInterval | None = None
    """Output tokens, trained tokens, or images and samples of models that know no tokens."""
    concurrency: float | None = None
    """Requests in flight; of training, sequences or images of one step."""
    ttft_ms: EstimateInterval | None = None
    tpot_ms: EstimateInterval | None = None
    targets_probability: float | None = None
    """That all latencies that are asked for are kept; `None` where none is."""
    load_probability: float | None = None
    """That it makes as much as is asked for; `None` where no rate is."""
    training_hours: EstimateInterval | None = None
    mfu_ratio: float | None = None
    bound: str = ""
    """The limit that it comes up against first."""
    missing: str = ""


@dataclass(frozen=True, slots=True)
class PlanCandidate:
    """Some GPUs of one kind in one layout, and what they would do."""

    gpu: str
    layout: Parallelism
    memory: MemoryEstimate
    usable_bytes: float
    """What processes can have of one GPU."""
    rate: PredictedRate = PredictedRate()
    rejections: tuple[Rejection, ...] = ()
    format: BoardFormat | None = None
    """What it runs the weights in, where that is not what was asked for."""
    gpu_dollars_per_hour: float | None = None
    work_dollars: float | None = None
    """For a million of the tokens that the load asks for, which may be fewer than it could make."""
    expected_dollars: float | None = None
    """The same on average over what its rate may be, and by how likely latencies are kept."""
    rental: Rental | None = None
    """The instances that it comes in, where a cloud is named."""
    spare_gpus: int = 0
    """That stand by for failures, where no cloud is named."""
    rank: int | None = None
    bill: Bill | None = None
    """All forms of its cost; `None` before they are computed."""

    def __str__(self) -> str:
        """`2 x L40S`."""
        return f"{self.count} x {self.gpu}"

    @property
    def fits(self) -> bool:
        """Whether it meets everything that is asked for."""
        return not self.rejections

    @property
    def fits_memory(self) -> bool:
        """Whether it meets what is asked for of memory."""
        lacking = {CandidateFilter.LAYOUT, CandidateFilter.MEMORY}
        return lacking.isdisjoint(each.by for each in self.rejections)

    @property
    def is_memory_tight(self) -> bool:
        """Whether memory may turn out short, by the upper end of what is predicted."""
        return self.memory.total.high > self.usable_bytes

    @property
    def count(self) -> int:
        """How many GPUs."""
        return self.layout.gpus

    @property
    def paid_count(self) -> int:
        """How many GPUs are paid: whole instances, and those that stand by."""
        return self.count + self.spare_gpus if self.rental is None else self.rental.gpus

    @property
    def memory_headroom_ratio(self) -> float:
        """What stays free of what processes can have; below 0 where it does not fit."""
        return 1.0 - self.memory.total_bytes / self.usable_bytes if self.usable_bytes else -1.0

    @property
    def dollars_per_hour(self) -> float | None:
        """Of all GPUs."""
        dollars = self.gpu_dollars_per_hour
        return None if dollars is None else dollars * self.paid_count

    @property
    def rented(self) -> CostAmount | None:
        """What renting costs, without commitment; `None` without a price."""
        return None if self.bill is None else self.bill.on_demand

    @property
    def hourly_dollars(self) -> EstimateInterval | None:
        """Where the price of an hour lies; `None` without one."""
        return None if self.rented is None else self.rented.per_hour

    @property
    def million_dollars(self) -> EstimateInterval | None:
        """Where the cost of a million of what is asked for lies; `None` without a price."""
        return None if self.bill is None else self.bill.per_million_asked

    @property
    def dollars_per_million_tokens(self) -> float | None:
        """Of the tokens that it can make."""
        dollars, rate = self.dollars_per_hour, self.rate.tokens_per_second
        if dollars is None or rate is None or not rate.value:
            return None
        return dollars * 1e6 / (rate.value * 3600.0)


def preference(candidate: PlanCandidate) -> tuple[float, ...]:
    """The smaller, the better.

    Of candidates that meet what is asked for: those whose work has a price first, the least
    expected cost before the others; then the fewest GPUs, the fastest, the cheapest hour. Of the
    rest, those that fail least: with memory enough, then by how much of it is short, then the
    cheapest where that is above a budget.
    """
    rate = candidate.rate.tokens_per_second
    speed = 0.0 if rate is None else rate.value
    if not candidate.fits:
        shortage = min(0.0, candidate.memory_headroom_ratio)
        is_dear = any(each.by is CandidateFilter.PRICE for each in candidate.rejections)
        price = (candidate.dollars_per_hour or math.inf) if is_dear else 0.0
        return (2.0, not candidate.fits_memory, -shortage, price, candidate.count, -speed)
    if candidate.expected_dollars is None:
        dollars = candidate.dollars_per_hour
        return (1.0, candidate.count, -speed, math.inf if dollars is None else dollars)
    return (0.0, candidate.expected_dollars, candidate.count, -speed)


def rejected(candidates: Iterable[PlanCandidate]) -> dict[CandidateFilter, list[PlanCandidate]]:
    """Those that do not fit, by the filter that each failed first, in the order of filters."""
    found: dict[CandidateFilter, list[PlanCandidate]] = {by: [] for by in CandidateFilter}
    for each in candidates:
        if not each.fits:
            found[each.rejections[0].by].append(each)
    return {by: failed for by, failed in found.items() if failed}


def ranked(candidates: Iterable[PlanCandidate]) -> tuple[PlanCandidate, ...]:
    """Best first and numbered from 1; those that do not fit follow without a number."""
    ordered = sorted(candidates, key=lambda each: (preference(each), each.gpu))
    placed = enumerate(ordered, 1)
    return tuple(replace(each, rank=place if each.fits else None) for place, each in placed)
