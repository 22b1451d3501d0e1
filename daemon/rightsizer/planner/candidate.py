"""Plan candidates: rate, rejections, bill, and ranking."""

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Self

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.units import HOUR_SECONDS
from rightsizer.planner.rental import Rental
from rightsizer.sizing.cost import Billing, HourlyCost, OwnedCost
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.memory_estimate import MemoryEstimate
from rightsizer.sizing.requirement import Parallelism
from rightsizer.sizing.roofline import BoardFormat
from rightsizer.sizing.site import SiteAdjustment

_RENTED: Final = frozenset({Billing.ON_DEMAND, Billing.SPOT})


class CostAmount(Struct, frozen=True, gc=False):
    """Dollars, kilowatt-hours or kilograms: per hour, and per unit of work."""

    per_hour: EstimateInterval
    per_million: EstimateInterval | None = None
    """Per million tokens; images or samples of models without tokens."""
    per_image: EstimateInterval | None = None
    """For image models."""
    per_run: EstimateInterval | None = None
    """For a training run of given length."""

    def scaled(self, by: float) -> "CostAmount":
        """Return all amounts multiplied by a factor."""
        parts = (self.per_million, self.per_image, self.per_run)
        scaled = (None if part is None else part.scaled(by) for part in parts)
        return CostAmount(self.per_hour.scaled(by), *scaled)


class PriceOffer(Struct, frozen=True, gc=False):
    """One way to obtain the GPUs of a candidate."""

    terms: HourlyCost
    """Of one GPU, with source and date."""
    dollars: CostAmount
    """For all of them."""


class OwnershipCost(Struct, frozen=True, gc=False):
    """Cost of buying the GPUs of a candidate, and when it breaks even."""

    owned: OwnedCost
    """For all GPUs and their servers."""
    break_even_hours: EstimateInterval | None
    """Used hours after which owning is cheaper than renting on demand; `None` if never, or if no
    rental price is known."""
    break_even_months: EstimateInterval | None
    """The same in months, at the usual utilization."""
    utilization_ratio: float
    """Share of those months in which they are used."""


class Bill(Struct, frozen=True, gc=False):
    """Cost and energy of a candidate."""

    offers: tuple[PriceOffer, ...]
    """Clouds first; empty if no price is known."""
    ownership: OwnershipCost | None
    kilowatt_hours: CostAmount
    """At the building's meter."""
    carbon_kilograms: CostAmount | None
    """`None` if the carbon intensity of electricity is unknown."""
    carbon_grams_per_kilowatt_hour: float | None = None
    per_million_asked: EstimateInterval | None = None
    """On-demand dollars per million of the requested work; `None` without a price."""

    @property
    def price_basis(self) -> str:
        """What kind of price `on_demand` is."""
        return "list prices" if self.rented is None else self.rented.terms.basis

    @property
    def rented(self) -> PriceOffer | None:
        """Offer without commitment; of spot capacity if there is no other."""
        return next((offer for offer in self.offers if offer.terms.billing in _RENTED), None)

    @property
    def on_demand(self) -> CostAmount | None:
        """Cost of renting without commitment, as of `rented`."""
        return None if self.rented is None else self.rented.dollars


class CandidateFilter(StrEnum):
    """Filters for candidates, in order of application."""

    lack: str
    """What a rejected candidate lacks."""

    def __new__(cls, name: str, lack: str) -> Self:
        """Create a filter by its name."""
        self = str.__new__(cls, name)
        self._value_ = name
        self.lack = lack
        return self

    OFFER = "offer", "the cloud does not offer it"
    FORMAT = "format", "the number format is missing"
    LAYOUT = "layout", "links are too few"
    MEMORY = "memory", "memory is too small"
    COMPUTE = "compute", "compute is too slow"
    BANDWIDTH = "bandwidth", "memory bandwidth is too low"
    THROUGHPUT = "throughput", "throughput is too low"
    PRICE = "price", "the price is above the budget"


class Rejection(Struct, frozen=True, gc=False):
    """Why a candidate is rejected."""

    by: CandidateFilter
    why: str
    lack_ratio: float = math.inf
    """What is needed, relative to what there is; infinite if no amount would do."""

    def __str__(self) -> str:
        """`memory: needs 141.2 GiB of each GPU, ...`."""
        return f"{self.by}: {self.why}"


class PredictedRate(Struct, frozen=True, gc=False):
    """Speed of a candidate, over all of its GPUs."""

    units_per_second: EstimateInterval | None = None
    """Output tokens, trained tokens, or images and samples of models without tokens."""
    concurrency: float | None = None
    """Requests in flight; in training, sequences or images per step."""
    ttft_ms: EstimateInterval | None = None
    tpot_ms: EstimateInterval | None = None
    batches_waited: float = 1.0
    """Batches before its own that an answer of a single pass waits for."""
    targets_probability: float | None = None
    """Probability that all requested latencies are met; `None` without any."""
    load_probability: float | None = None
    """Probability that the requested rate is reached; `None` without one."""
    training_hours: EstimateInterval | None = None
    mfu_ratio: float | None = None
    bound: str = ""
    """First limit that it reaches."""
    missing: str = ""


class PlanCandidate(Struct, frozen=True, gc=False):
    """GPUs of one kind in one layout, and their predicted performance."""

    gpu: str
    layout: Parallelism
    memory: MemoryEstimate
    usable_bytes: float
    """Memory of one GPU available to processes."""
    rate: PredictedRate = PredictedRate()
    rejections: tuple[Rejection, ...] = ()
    format: BoardFormat | None = None
    """Format of the weights, if not the requested one."""
    gpu_dollars_per_hour: float | None = None
    dollars_per_million: float | None = None
    """Per million units of the requested work, which may be less than it could do."""
    sure_dollars_per_million: float | None = None
    """The same at the rate that is reached with the requested certainty."""
    is_sure: bool = True
    """Whether memory, latencies and rate hold with the requested certainty."""
    rental: Rental | None = None
    """Instances that contain it, if a cloud is named."""
    spare_gpus: int = 0
    """Standby for failures, if no cloud is named."""
    sole_cloud: str = ""
    """Cloud without which no price is known, if none was named."""
    least_memory: MemoryEstimate | None = None
    """With a single request in flight; `None` if all of `memory` is needed."""
    adjustment: SiteAdjustment | None = None
    """By measurements of the site; `None` without any."""
    rank: int | None = None
    bill: Bill | None = None
    """Cost on all terms; `None` before it is computed."""

    def __str__(self) -> str:
        """`2 x L40S`."""
        return f"{self.count} x {self.gpu}"

    @property
    def with_spares(self) -> str:
        """`2 x L40S (1 + 1 spare)`: the GPUs that its price is of; instances are named beside."""
        if not self.spare_gpus:
            return str(self)
        taken = self.count + self.spare_gpus
        return f"{taken} x {self.gpu} ({self.count} + {self.spare_gpus} spare)"

    @property
    def fits(self) -> bool:
        """Whether it meets all requirements."""
        return not self.rejections

    @property
    def holds(self) -> bool:
        """Whether it meets all requirements as surely as asked."""
        return self.fits and self.is_sure

    @property
    def fits_memory(self) -> bool:
        """Whether it meets the memory requirements."""
        lacking = {CandidateFilter.LAYOUT, CandidateFilter.MEMORY}
        return lacking.isdisjoint(rejection.by for rejection in self.rejections)

    @property
    def is_memory_tight(self) -> bool:
        """Whether memory may be insufficient, by the upper end of the prediction."""
        return self.memory.total.high > self.usable_bytes

    @property
    def memory_probability(self) -> float:
        """Probability that memory is sufficient."""
        needed = self.memory if self.least_memory is None else self.least_memory
        return needed.total.met_probability(self.usable_bytes)

    @property
    def certainty(self) -> float:
        """Probability that all of it holds: the least of those of its parts.

        Latencies and rate are slow together, by the same error.
        """
        rate = self.rate
        parts = (self.memory_probability, rate.targets_probability, rate.load_probability)
        return min(part for part in parts if part is not None)

    @property
    def lack_ratio(self) -> float:
        """Distance from fitting: the greatest of what its rejections lack; 1 if it fits."""
        return max((rejection.lack_ratio for rejection in self.rejections), default=1.0)

    @property
    def count(self) -> int:
        """Number of GPUs."""
        return self.layout.gpus

    @property
    def paid_count(self) -> int:
        """Number of paid GPUs: whole instances, and standby."""
        return self.paid_gpus(self.count)

    def paid_gpus(self, used: int) -> int:
        """Number of paid GPUs for so many used ones."""
        return used + self.spare_gpus if self.rental is None else self.rental.paid_gpus(used)

    @property
    def memory_headroom_ratio(self) -> float:
        """Free ratio of the memory available to processes; negative if it does not fit."""
        return 1.0 - self.memory.total_bytes / self.usable_bytes if self.usable_bytes else -1.0

    @property
    def dollars_per_hour(self) -> float | None:
        """For all GPUs."""
        dollars = self.gpu_dollars_per_hour
        return None if dollars is None else dollars * self.paid_count

    @property
    def rented(self) -> CostAmount | None:
        """Cost of renting without commitment; `None` without a price."""
        return None if self.bill is None else self.bill.on_demand

    @property
    def hourly_range(self) -> EstimateInterval | None:
        """Interval of `dollars_per_hour`; `None` without a price."""
        return None if self.rented is None else self.rented.per_hour

    @property
    def million_range(self) -> EstimateInterval | None:
        """Interval of `dollars_per_million`; `None` without a price."""
        return None if self.bill is None else self.bill.per_million_asked

    @property
    def full_load_dollars_per_million(self) -> float | None:
        """Per million units of the work that it can do."""
        dollars = self.dollars_per_hour
        rate = self.rate.units_per_second
        if dollars is None or rate is None or not rate.value:
            return None
        return dollars * 1e6 / (rate.value * HOUR_SECONDS)


def preference(candidate: PlanCandidate) -> tuple[float, ...]:
    """Return the sort key; smaller is better.

    Candidates that meet all requirements: those that surely do first, the others by their
    certainty in tenths; of equals, those with a price for the work, by that price to three digits,
    those with a `sole_cloud` last; then fewest paid GPUs, highest certainty in thousandths (without
    a price only at a requested rate), fastest, cheapest hour. Of the rest: the nearest to fitting,
    then those on the fewest GPUs.
    """
    rate = candidate.rate
    speed = 0.0 if rate.units_per_second is None else rate.units_per_second.value
    if not candidate.fits:
        return (2.0, candidate.lack_ratio, candidate.count, -speed)
    certainty = candidate.certainty
    doubt = 0.0 if candidate.is_sure else 1.0 - math.floor(certainty * 10.0) / 10.0
    surest = -round(certainty, 3)
    cost = candidate.sure_dollars_per_million
    if cost is None:
        dollars = candidate.dollars_per_hour
        cheapest = math.inf if dollars is None else dollars
        surest = 0.0 if rate.load_probability is None else surest
        return (doubt, 1.0, candidate.paid_count, surest, -speed, cheapest)
    seldom = 0.5 if candidate.sole_cloud else 0.0
    return (doubt, seldom, float(f"{cost:.3g}"), candidate.paid_count, surest, -speed)


def rejected(candidates: Iterable[PlanCandidate]) -> dict[CandidateFilter, list[PlanCandidate]]:
    """Return unsuitable candidates by the first filter each failed, in order of filters."""
    failures: dict[CandidateFilter, list[PlanCandidate]] = {by: [] for by in CandidateFilter}
    for candidate in candidates:
        if not candidate.fits:
            failures[candidate.rejections[0].by].append(candidate)
    return {by: failed for by, failed in failures.items() if failed}


def ranked(candidates: Iterable[PlanCandidate]) -> tuple[PlanCandidate, ...]:
    """Return candidates best first, numbered from 1; unsuitable ones follow without a number."""
    ordered = sorted(candidates, key=lambda candidate: (preference(candidate), candidate.gpu))
    placed = enumerate(ordered, 1)
    return tuple(
        replace(candidate, rank=place if candidate.fits else None) for place, candidate in placed
    )
