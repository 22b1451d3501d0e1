"""Queueing of independently arriving requests: mean and quantiles, by load and burstiness."""

import math
from typing import Final

from msgspec import Struct

from rightsizer.sizing.estimate import halved, normal_part, normal_quantile

_CERTAIN: Final = 1e-9
_STIFFNESS_LEAST: Final = 0.05
_TOGETHER: Final = 1 / 3
"""Prompts of the same burst to wait for besides its own, per unit of burstiness above Poisson."""


class Waiting(Struct, frozen=True, gc=False):
    """Waiting time for a first token: fixed part and random part."""

    least_seconds: float
    """Time for a step and its own prompt."""
    mean_seconds: float
    """Additional wait for earlier prompts, with an exponential tail."""
    full_ratio: float = 0.0
    """Fraction of requests that find all slots taken."""
    full_seconds: float = 0.0
    """Average wait of such a request for a slot."""

    @property
    def mean(self) -> float:
        """Mean over all requests."""
        return self.least_seconds + self.mean_seconds + self.full_ratio * self.full_seconds

    def quantile(self, ratio: float | None) -> float:
        """Quantile of waiting times; the mean if no ratio is given."""
        if ratio is None:
            return self.mean
        late = 1.0 - ratio
        low = 0.0
        high = 1.0
        while self._beyond(high) > late:
            low = high
            high = 2.0 * high
        return (
            self.least_seconds + halved(low, high, lambda seconds: self._beyond(seconds) > late)[1]
        )

    def _beyond(self, seconds: float) -> float:
        """Fraction of requests that wait longer than the minimum plus this time."""
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
    """Waiting time if each pass computes a step of all answers and the prompts since the last pass.

    `prompts_seconds`: for a prompt alone, and for one computed together with others. A request
    waits for the rest of the pass in which it arrived, and for all of the next one: a gated queue
    with vacations. `burstiness`: squared coefficient of variation of interarrival times, 1 for
    Poisson; it widens the distribution of passes as it widens that of arrival counts.
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
    """Burstiness at one of several replicas: bursts are spread at random, the rest in turn."""
    return min(burstiness, 1.0 + (burstiness - 1.0) / replicas)


def running_spread(running: float, burstiness: float, stiffness: float) -> float:
    """Variance of the number of running requests.

    `stiffness`: relative increase of throughput per relative increase of running requests: 1 if
    requests do not slow each other down. The lower, the longer a burst lasts.
    """
    return burstiness * running / max(_STIFFNESS_LEAST, stiffness)


def running_seen(running: float, variance: float, ratio: float | None) -> float:
    """Quantile of running requests as seen by a request, including itself; the mean if no ratio.

    Weighted by requests: most of them are present when many run.
    """
    seen = running + variance / max(_CERTAIN, running)
    return seen if ratio is None else seen + normal_quantile(ratio) * math.sqrt(variance)


def waiting_for_places(
    running: float, places: float, residence_seconds: float, variance: float
) -> tuple[float, float]:
    """Fraction of requests that find all slots taken, and their average wait.

    Uses the normal approximation of the number running with unlimited slots, and Kingman's formula
    for that many servers.
    """
    free = max(_CERTAIN, places - running)
    variance_ratio = variance / max(_CERTAIN, running)
    late = (free - variance_ratio) / math.sqrt(max(_CERTAIN, variance))
    return 1.0 - normal_part(late), residence_seconds * variance_ratio / (2.0 * free)


def services_waited(servers: int, busy_ratio: float, burstiness: float, ratio: float) -> float:
    """Quantile of the wait for the first free of several servers, in times of one service.

    Every service takes the same time. Allen and Cunneen's exponential tail, with Sakasegawa's
    approximation of Erlang's C; bursts fill as many servers as the burstiness says, so that there
    are fewer groups of them. Infinite at full load.
    """
    if busy_ratio >= 1.0:
        return math.inf
    groups = max(1.0, servers / max(_CERTAIN, burstiness))
    waiting = math.pow(busy_ratio, math.sqrt(2.0 * (groups + 1.0)) - 1.0)
    if waiting <= 1.0 - ratio:
        return 0.0
    mean = burstiness / (2.0 * servers * (1.0 - busy_ratio))
    return mean * math.log(waiting / (1.0 - ratio))
