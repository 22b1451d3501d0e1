"""Waiting of requests that arrive when they please: mean, quantiles, by load and burstiness."""

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from rightsizer.model.frozen import dataclass
from rightsizer.sizing.estimate import EstimateInterval

_HALVINGS: Final = 50
_MOST_DEVIATIONS: Final = 8.0
_CERTAIN: Final = 1e-9
_STIFFNESS_LEAST: Final = 0.05
_TOGETHER: Final = 1 / 3
"""Prompts of its own burst that a request waits for beside its own, for each above Poisson."""


def halved(
    low: float, high: float, is_below: Callable[[float], bool], times: int = _HALVINGS
) -> tuple[float, float]:
    """The two ends between which something stops to be, halved so many times."""
    for _ in range(times):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low, high


@dataclass(frozen=True, slots=True)
class Waiting:
    """Of a first token: what every request waits, and what it waits by chance."""

    least_seconds: float
    """For a step and its own prompt."""
    mean_seconds: float
    """Beside that, for prompts before it; exponential in its tail."""
    full_ratio: float = 0.0
    """Of the requests, those that find every place taken."""
    full_seconds: float = 0.0
    """What such a request waits for a place on average."""

    @property
    def mean(self) -> float:
        """Over all requests."""
        return self.least_seconds + self.mean_seconds + self.full_ratio * self.full_seconds

    def quantile(self, ratio: float | None) -> float:
        """What so many of the requests wait at most; the mean where none is asked for."""
        if ratio is None:
            return self.mean
        late, low, high = 1.0 - ratio, 0.0, 1.0
        while self._beyond(high) > late:
            low, high = high, 2.0 * high
        return self.least_seconds + halved(low, high, lambda each: self._beyond(each) > late)[1]

    def _beyond(self, seconds: float) -> float:
        """The part of the requests that wait longer than the least and so much."""
        prompts = math.exp(-seconds / self.mean_seconds) if self.mean_seconds > 0 else 0.0
        if not self.full_ratio or not self.full_seconds:
            return prompts
        return min(1.0, prompts + self.full_ratio * math.exp(-seconds / self.full_seconds))


def first_token_waiting(
    arrivals_per_second: float,
    step_seconds: float,
    prompts_seconds: tuple[float, float],
    burstiness: float,
) -> Waiting:
    """Where each pass takes a step of all answers, and the prompts that came during the last one.

    `prompts_seconds`: of a prompt alone, and of one among those that come together.
    A request waits for what is left of the pass that it came in, and for the whole next one: a
    gated queue with vacations. `burstiness`: the squared coefficient of variation of the times
    between arrivals, 1 of Poisson's, which widens passes as it widens counts of arrivals.
    """
    alone_seconds, prompt_seconds = prompts_seconds
    busy = min(1.0 - _CERTAIN, arrivals_per_second * prompt_seconds)
    mean_pass = step_seconds / (1.0 - busy)
    spread = burstiness * busy * prompt_seconds / (1.0 - busy * busy)
    met = mean_pass + spread
    together = max(0.0, burstiness - 1.0) * _TOGETHER * prompt_seconds
    waited = met * (0.5 + busy) + together
    return Waiting(step_seconds + alone_seconds, waited)


def spread_burstiness(burstiness: float, replicas: int) -> float:
    """What arrivals at one of several replicas keep of it, when each is drawn at random."""
    return 1.0 + (burstiness - 1.0) / replicas


def running_spread(running: float, burstiness: float, stiffness: float) -> float:
    """The variance of how many requests run at once.

    `stiffness`: how much more is answered with a little more that runs, of as much more: 1 where
    requests do not slow each other down. The less, the longer a burst stays.
    """
    return burstiness * running / max(_STIFFNESS_LEAST, stiffness)


def running_seen(running: float, variance: float, ratio: float | None) -> float:
    """How many run, itself included, as so many of the requests see at most; as most see without.

    Most requests are there when many are.
    """
    seen = running + variance / max(_CERTAIN, running)
    return seen if ratio is None else seen + normal_quantile(ratio) * math.sqrt(variance)


def waiting_for_places(
    running: float, places: float, residence_seconds: float, variance: float
) -> tuple[float, float]:
    """The part of the requests that find every place taken, and how long those wait for one.

    The normal approximation of how many would run if there were places for all, and Kingman's wait
    at so many servers.
    """
    free, each = max(_CERTAIN, places - running), variance / max(_CERTAIN, running)
    late = (free - each) / math.sqrt(max(_CERTAIN, variance))
    return 1.0 - normal_part(late), residence_seconds * each / (2.0 * free)


def normal_part(deviations: float) -> float:
    """The part of a normal distribution that lies below so many deviations above its mean."""
    return math.erfc(-deviations / math.sqrt(2.0)) / 2.0


def normal_quantile(part: float) -> float:
    """The deviations that such a part lies below; `statistics` takes long to load."""
    return halved(-_MOST_DEVIATIONS, _MOST_DEVIATIONS, lambda each: normal_part(each) < part)[1]


_END_DEVIATIONS: Final = normal_quantile(0.95)
"""From the middle of an interval of 90% to its ends."""


def met_probability(figure: EstimateInterval, most: float) -> float:
    """That a figure is at most so much."""
    value, end = figure.value, figure.high if most > figure.value else figure.low
    if value <= 0.0 or end <= 0.0 or end == value:
        return 1.0 if value <= most else 0.0
    deviation = abs(math.log(end / value)) / _END_DEVIATIONS
    return normal_part(math.log(most / value) / deviation)


@cache
def _parts(count: int) -> tuple[float, ...]:
    """The middles of so many equally likely parts, in intervals of 90% from middle to end."""
    quantiles = (normal_quantile((each + 0.5) / count) for each in range(count))
    return tuple(each / _END_DEVIATIONS for each in quantiles)


def equally_likely(figure: EstimateInterval, count: int) -> Iterator[float]:
    """So many values that a figure has with the same probability, lowest first."""
    value, low, high = figure.value, figure.low, figure.high
    if min(value, low) <= 0.0:
        yield from (value,) * count
        return
    below, above = value / low, high / value
    yield from (value * (below if part < 0.0 else above) ** part for part in _parts(count))
