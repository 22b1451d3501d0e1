"""A week of people who want GPUs of one node: who, when, how many, for how long.

Shapes are those of the pods of Alibaba's cluster-trace-gpu-v2023 (Weng et al., USENIX ATC '23), as
far as it tells: durations are lognormal with a standard deviation of the logarithm of 1.88 for
best-effort pods and 1.78 for latency-sensitive ones, whose median is 896 s; at the busiest hour
of the day there are about four times as many arrivals as at the quietest. The sizes are not: 99 of
100 pods there want one GPU, which asks nothing of a broker.
"""

import math
from collections.abc import Iterator
from random import Random
from typing import Final

from msgspec import Struct

from readings import GIBIBYTE
from rightsizer.broker.lease import GpuRequest, LeaseOwner, Ticket

WEEK_SECONDS: Final = 7 * 86400.0
_SIZES: Final = (1, 1, 1, 2, 4, 8)
_BATCH_MEDIAN_SECONDS: Final = 241.0
_BATCH_SIGMA: Final = 1.88
_INTERACTIVE_MEDIAN_SECONDS: Final = 896.0
_INTERACTIVE_SIGMA: Final = 1.78
_INTERACTIVE_RATIO: Final = 0.4
_LONGEST_SECONDS: Final = 43200.0
_SHORTEST_SECONDS: Final = 20.0
_DIURNAL: Final = 0.6
"""(1 + .6) / (1 - .6) is four."""
_OVERRUN_RATIO: Final = 0.05
"""Of those that take longer than they said; a starting point."""
_BATCH_USERS: Final = ("ada", "bo", "cy", "di")
_INTERACTIVE_USERS: Final = ("eve", "flo", "gus", "hal", "ida", "jo")


class Arrival(Struct, frozen=True):
    """One piece of work and what is true of it."""

    at_seconds: float
    ticket: Ticket
    lasts_seconds: float
    memory_bytes: float
    """That it really holds on each GPU."""
    demand: float
    """Of compute and of bandwidth, of a whole GPU."""
    gives_back: bool
    """Whether it tells, or just ends."""

    @property
    def gpus(self) -> int:
        """Number of requested GPUs."""
        return self.ticket.request.gpus


def arrivals(count: int, seed: int, span_seconds: float = WEEK_SECONDS) -> tuple[Arrival, ...]:
    """Arrivals of a week, earliest first."""
    chance = Random(f"broker {seed}")
    moments = sorted(_moments(count, span_seconds, chance))
    return tuple(_arrival(number, at, chance) for number, at in enumerate(moments))


def _moments(count: int, span_seconds: float, chance: Random) -> Iterator[float]:
    while count:
        at = chance.uniform(0, span_seconds)
        # Most come at 16 o'clock, fewest twelve hours later.
        rate = 1 + _DIURNAL * math.cos(2 * math.pi * (at / 86400 - 16 / 24))
        if chance.uniform(0, 1 + _DIURNAL) < rate:
            count -= 1
            yield at


def _arrival(number: int, at_seconds: float, chance: Random) -> Arrival:
    if chance.random() < _INTERACTIVE_RATIO:
        return _interactive(number, at_seconds, chance)
    gpus = chance.choice(_SIZES)
    lasts = _duration(_BATCH_MEDIAN_SECONDS, _BATCH_SIGMA, chance)
    request = GpuRequest(gpus, None if chance.random() < 0.5 else 30 * GIBIBYTE)
    ticket = _ticket(number, chance.choice(_BATCH_USERS), request, lasts, chance)
    return Arrival(at_seconds, ticket, lasts, 40 * GIBIBYTE, 0.7, chance.random() < 0.9)


def _interactive(number: int, at_seconds: float, chance: Random) -> Arrival:
    lasts = _duration(_INTERACTIVE_MEDIAN_SECONDS, _INTERACTIVE_SIGMA, chance)
    budget = chance.choice((6, 8, 12, 16, 24)) * GIBIBYTE
    request = GpuRequest(1, budget, may_share=True)
    ticket = _ticket(number, chance.choice(_INTERACTIVE_USERS), request, lasts, chance)
    used = budget * (1.3 if chance.random() < 0.03 else chance.uniform(0.3, 1.0))
    demand = chance.uniform(0.03, 0.2)
    return Arrival(at_seconds, ticket, lasts, used, demand, chance.random() < 0.7)


def _duration(median_seconds: float, sigma: float, chance: Random) -> float:
    found = median_seconds * math.exp(chance.gauss(0, sigma))
    return min(_LONGEST_SECONDS, max(_SHORTEST_SECONDS, found))


def _ticket(number: int, user: str, request: GpuRequest, lasts: float, chance: Random) -> Ticket:
    """Limits are whole half hours, mostly generous, now and then too short."""
    factor = 0.7 if chance.random() < _OVERRUN_RATIO else chance.uniform(1.0, 4.0)
    limit = max(1800.0, math.ceil(lasts * factor / 1800) * 1800.0)
    client = LeaseOwner(1000 + sum(user.encode()), user, 10_000 + number, number)
    return Ticket(f"job-{number:04}", client, request, 0, 0, min(limit, 6 * 86400.0))
