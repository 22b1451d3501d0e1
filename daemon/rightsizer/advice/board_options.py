"""Alternative boards: smaller ones for workloads with room, larger ones for those without."""

from collections.abc import Callable, Container, Iterator
from typing import Final

from msgspec import Struct

from rightsizer.advice.board_status import works_on_media
from rightsizer.advice.market import Market
from rightsizer.advice.projection import costing, measured_profile, place_of, projected
from rightsizer.advice.risk import ranked, risks_beyond, worst
from rightsizer.advice.savings import replacement_savings
from rightsizer.catalogue.board import Precision
from rightsizer.model.values import Action, Case, Option, Resource
from rightsizer.sizing.place import GpuPlace
from rightsizer.sizing.projection import Projection, project, projected_time_ratio
from rightsizer.sizing.workload_profile import WorkloadProfile

_ROOM: Final = 1.2
"""Minimum memory or speed over the present board's; less would soon be used up again."""


class _BoardCandidate(Struct, frozen=True):
    place: GpuPlace
    price: float
    is_cheaper: bool
    """Than the present board."""
    capacities: dict[Resource, float]
    """Relative to the present board's."""
    profiles: tuple[WorkloadProfile, ...]
    """Profiles of all devices on the present board."""

    def projection(self) -> Projection:
        """Projection of the device with the largest slowdown, the most expensive check."""
        projections = [project(profile, self.place) for profile in self.profiles]
        return max(projections, key=lambda projection: projection.time_ratio.value)

    def is_as_good(self, slowest_ratio: float) -> bool:
        """Whether all devices fit and none slows down beyond a limit."""
        # Cheap check first: most boards are too slow for the first device.
        times = (projected_time_ratio(profile, self.place) for profile in self.profiles)
        return all(time <= slowest_ratio for time in times) and self.projection().fits is not False


def smaller_boards(case: Case, market: Market) -> tuple[Option, ...]:
    """Boards that cover the need of every device at lower cost or power, best first.

    Empty without profiling telemetry: unmeasured usage cannot be projected.
    """
    slowest = market.settings.tolerated_slowdown_ratio
    options = _cheapest(
        case,
        market,
        lambda candidate: (
            candidate.is_cheaper and _holds(case, candidate) and candidate.is_as_good(slowest)
        ),
    )
    return ranked(options)


def lighter_boards(case: Case, market: Market, slowest_ratio: float) -> tuple[Option, ...]:
    """Boards with less memory that cover the need, are hardly slower and cheaper, best first.

    `slowest_ratio`: maximum time of the same work, relative to the present board.
    """
    options = _cheapest(
        case,
        market,
        # Speed matters, not the need of other resources, which a busy GPU fills with its margin.
        lambda candidate: (
            candidate.capacities[Resource.MEMORY] < 1.0
            and _holds(case, candidate, (Resource.MEMORY,))
            and candidate.is_cheaper
            and candidate.is_as_good(slowest_ratio)
        ),
    )
    return ranked(options)


def larger_boards(case: Case, market: Market) -> tuple[Option, ...]:
    """Boards with more memory that are no slower, cheapest first."""
    return _cheapest(
        case,
        market,
        lambda candidate: (
            candidate.capacities[Resource.MEMORY] >= _ROOM
            and candidate.projection().time_ratio.value <= 1.0
        ),
    )


def faster_boards(case: Case, market: Market) -> tuple[Option, ...]:
    """Boards that are clearly faster and hold the workload's memory, cheapest first."""
    return _cheapest(
        case,
        market,
        lambda candidate: (
            candidate.capacities[Resource.MEMORY] >= 1.0
            and (there := candidate.projection()).fits is not False
            and there.time_ratio.value * _ROOM <= 1.0
        ),
    )


def _cheapest(
    case: Case, market: Market, is_wanted: Callable[[_BoardCandidate], bool]
) -> tuple[Option, ...]:
    fitting = [candidate for candidate in _candidates(case, market) if is_wanted(candidate)]
    fitting.sort(key=lambda candidate: (candidate.price, candidate.place.name))
    return tuple(
        _option(case, market, candidate) for candidate in fitting[: market.settings.most_options]
    )


def _candidates(case: Case, market: Market) -> Iterator[_BoardCandidate]:
    """Other boards, if all devices are whole GPUs of one board and all are measured."""
    if works_on_media(case):  # The catalogue does not list media engines.
        return
    places = [place_of(device, market) for device in case.devices]
    present = places[0]
    if (
        present is None
        or present.slice is not None
        or any(gpu_place != present for gpu_place in places)
    ):
        return
    profiles = [measured_profile(case, at, market) for at in range(len(case.devices))]
    workload_profiles = tuple(profile for profile in profiles if profile is not None)
    if len(workload_profiles) < len(profiles):
        return
    now = _price(present, market)
    for board in market.others(present.board):
        place = market.place(board)
        price = _price(place, market)
        yield _BoardCandidate(
            place, price, price < now, _capacities(present, place), workload_profiles
        )


def _capacities(present: GpuPlace, place: GpuPlace) -> dict[Resource, float]:
    links = present.link_bytes_per_second
    there = place.link_bytes_per_second or place.board.pcie_bytes_per_second
    return {
        Resource.COMPUTE: (place.achieved(Precision.BF16) or 0.0)
        / (present.achieved(Precision.BF16) or 1.0),
        Resource.MEMORY: place.usable_bytes / present.memory_bytes,
        Resource.MEMORY_BANDWIDTH: place.achieved_bytes_per_second
        / present.achieved_bytes_per_second,
        Resource.PCIE: place.board.pcie_bytes_per_second / present.board.pcie_bytes_per_second,
        Resource.NVLINK: there / links if links else 1.0,
    }


def _holds(
    case: Case, candidate: _BoardCandidate, resources: Container[Resource] = tuple(Resource)
) -> bool:
    return all(
        (provisioning.need or 0.0) <= candidate.capacities[resource]
        for fit in case.provisioning
        for resource, provisioning in fit.resources.items()
        if resource in resources
    )


def _price(place: GpuPlace, market: Market) -> float:
    """Dollars per hour if prices are known, else watts; boards without a price sort last."""
    if market.prices is None:
        return place.board.power_limit_watts
    cost = market.cost(place.board)
    return float("inf") if cost is None else cost.dollars_per_hour.value


def _option(case: Case, market: Market, candidate: _BoardCandidate) -> Option:
    board = candidate.place.board
    count = len(case.devices)
    cost = market.cost(board)
    dollars = None if cost is None else cost.dollars_per_hour.scaled(count)
    risks = risks_beyond(case, candidate.capacities)
    option = Option(
        description=f"{count} x {board.usual_name}" if count > 1 else board.usual_name,
        risk=worst(risks.values()),
        risks=risks,
        target=board.key,
        action=Action.CHANGE_GPU_TYPE,
        savings=replacement_savings(case, market, dollars, "" if cost is None else cost.date),
    )
    return costing(projected(option, candidate.projection()), dollars)
