"""Curve of a plan: what other rates and other latencies cost, if nothing is better for less."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.planner.candidate import PlanCandidate, preference
from rightsizer.planner.search import SearchFactory
from rightsizer.sizing.load import RequestLoad, units_per_request
from rightsizer.sizing.requirement import Requirement

_RATES: Final = (0.5, 2.0, 4.0)
"""Times the rate that is asked for. Source: assumed, what loads grow or shrink to."""
_LATENCIES: Final = (0.5, 0.7, 2.0)
"""Times the latencies that are asked for. Source: assumed, from the fastest to what reads well."""
_LIMITS: Final = ("ttft_ms", "tpot_ms", "latency_ms")


class CurvePoint(Struct, frozen=True):
    """What a rate within some latencies costs."""

    rate_ratio: float
    """Times the rate that is asked for."""
    latency_ratio: float
    """Times the latencies that are asked for; 1 without any."""
    load: RequestLoad
    requests_per_second: float | None
    """`None` where requests in flight are asked for."""
    candidate: PlanCandidate

    @property
    def limits(self) -> Mapping[str, float]:
        """Latencies that are kept, in milliseconds."""
        return {name: limit for name in _LIMITS if (limit := getattr(self.load, name)) is not None}

    @property
    def dollars_per_hour(self) -> float:
        """What it costs; only points with a price are on a curve."""
        return self.candidate.dollars_per_hour or 0.0

    def is_better(self, other: "CurvePoint") -> bool:
        """Whether it serves no less, no slower and for no more, and differs."""
        ours = (self.dollars_per_hour, -self.rate_ratio, self.latency_ratio)
        theirs = (other.dollars_per_hour, -other.rate_ratio, other.latency_ratio)
        return ours != theirs and all(one <= two for one, two in zip(ours, theirs, strict=True))


def curve_of(
    requirement: Requirement, best: PlanCandidate, boards: Sequence[Board], search: SearchFactory
) -> tuple[CurvePoint, ...]:
    """Return the points around a plan's first candidate that no other is better than, by cost.

    Latencies vary only where some are asked for, so that each point is the answer of a plan.
    Empty of training, and without a rate or a price.
    """
    load = requirement.load
    if requirement.task.trains or (load.concurrency is None and load.units_per_second is None):
        return ()
    points = [_point(requirement, (1.0, 1.0, load), best)]
    open_layout = replace(requirement, parallel=None)
    for rate, latency, asked in _around(load):
        tried = search(replace(open_layout, load=asked))
        candidate = min(map(tried.best, boards), key=preference)
        if candidate.holds:
            points.append(_point(requirement, (rate, latency, asked), candidate))
    points = [point for point in points if point.candidate.dollars_per_hour is not None]
    best_of = (point for point in points if not any(one.is_better(point) for one in points))
    return tuple(sorted(best_of, key=lambda point: point.dollars_per_hour))


def _around(load: RequestLoad) -> Iterator[tuple[float, float, RequestLoad]]:
    """Yield other rates within the latencies, and other latencies at the rate."""
    for ratio in _RATES:
        rates = {name: getattr(load, name) for name in ("concurrency", "units_per_second")}
        scaled = {name: ratio * rate for name, rate in rates.items() if rate is not None}
        yield ratio, 1.0, replace(load, **scaled)
    limits = {name: limit for name in _LIMITS if (limit := getattr(load, name)) is not None}
    for ratio in _LATENCIES if limits else ():
        scaled = {name: ratio * limit for name, limit in limits.items()}
        yield 1.0, ratio, replace(load, **scaled)


def _point(
    requirement: Requirement, asked: tuple[float, float, RequestLoad], candidate: PlanCandidate
) -> CurvePoint:
    rate, latency, load = asked
    units = load.units_per_second
    requests = None if units is None else units / units_per_request(requirement.model, load)
    return CurvePoint(rate, latency, load, requests, candidate)


def curve_boards(candidates: Iterable[PlanCandidate], cheap: int, fast: int) -> list[str]:
    """Return the boards of a plan's cheapest candidates that fit, and of its fastest."""
    fitting = [candidate for candidate in candidates if candidate.fits]

    def slowness(candidate: PlanCandidate) -> float:
        took = candidate.rate.tpot_ms or candidate.rate.ttft_ms
        return 0.0 if took is None else took.value

    chosen = (*fitting[:cheap], *sorted(fitting, key=slowness)[:fast])
    return list(dict.fromkeys(candidate.gpu for candidate in chosen))
