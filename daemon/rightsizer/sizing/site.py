"""Site residuals: measured over predicted times, and what they say of other predictions.

The log of each ratio, in standard deviations of its own prediction, is the sum of parts that
predictions have in common: of the site, of an engine on a board, of a model, of one subject, and
of this load alone. Their posterior is that of normal random effects (best linear unbiased
prediction; Robinson 1991, doi:10.1214/ss/1177011926).
"""

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from rightsizer.sizing.estimate import END_DEVIATIONS, EstimateInterval

_NOISE: Final = math.log(1.03)
"""Of a measured mean: requests differ, and those in flight are a mean over the window. Assumed."""
_KEPT: Final = 500
"""Of a site. Source: measured: a second of a plan if no two are of one subject, half a file."""
_PRIOR_SAMPLES: Final = 1.0
"""Weight of the predictions' own intervals when the site's scatter is judged, in measurements."""


MOST_LOG: Final = math.log(1e4)
"""Of ratios and error factors: beyond it, something else was measured than what is predicted."""
LEAST_DEVIATION: Final = 1e-3
_Power: TypeAlias = Annotated[int, Meta(ge=0, le=64)]


class SiteFigure(StrEnum):
    """What is measured; the largest rate follows from the times."""

    TPOT = "tpot_ms"
    TTFT = "ttft_ms"
    MEMORY = "memory_bytes"
    """Of a GPU, with the cache that an engine took."""


class SiteSubject(Struct, frozen=True):
    """What runs, apart from its load and the number of its replicas."""

    model: str
    engine: str
    board: str
    layout: str
    """Of a replica."""
    weights: str


class SiteLoad(Struct, frozen=True):
    """Load of a measurement, in powers of two, so that the same one is not counted twice."""

    in_flight: _Power
    input_tokens: _Power
    output_tokens: _Power

    @classmethod
    def of(cls, in_flight: float, input_tokens: float, output_tokens: float) -> "SiteLoad":
        """Load by requests in flight of a replica, and tokens of a request."""
        loads = (in_flight, input_tokens, output_tokens)
        return cls(*(round(math.log2(max(1.0, load))) for load in loads))


class SiteResidual(Struct, frozen=True):
    """Ratio of one figure of a subject at a load: mean over its measurements."""

    subject: SiteSubject
    load: SiteLoad
    figure: SiteFigure
    log_ratio: Annotated[float, Meta(ge=-MOST_LOG, le=MOST_LOG)]
    """Natural logarithm of measured over predicted."""
    log_deviation: Annotated[float, Meta(ge=LEAST_DEVIATION, le=MOST_LOG)]
    """Standard deviation of the prediction."""
    count: Annotated[int, Meta(ge=1, le=10**6)] = 1
    counted: tuple[float, ...] = ()
    """Latest log ratios in that mean, so that the same measurement is not counted twice."""

    @property
    def latest(self) -> tuple[float, ...]:
        """Those log ratios; of a single measurement its own."""
        return self.counted or (self.log_ratio,) * (self.count == 1)

    def joined(self, other: "SiteResidual", count_maximum: int) -> "SiteResidual":
        """Mean with a later measurement of the same; old ones fade from `count_maximum` on."""
        if other.latest and set(other.latest) <= set(self.latest):
            return self
        count = min(self.count + other.count, count_maximum)
        share = min(1.0, other.count / count)
        return SiteResidual(
            self.subject,
            self.load,
            self.figure,
            self.log_ratio + share * (other.log_ratio - self.log_ratio),
            self.log_deviation + share * (other.log_deviation - self.log_deviation),
            count,
            (*self.latest, *other.latest)[-count_maximum:],
        )


class SiteShares(Struct, frozen=True):
    """Parts of the variance of a prediction's error that predictions have in common.

    The rest is the load's own, which no other measurement makes smaller. The defaults make the
    measurements of fifty sources likeliest (evaluation/RESULTS.md, engines that run).
    """

    site: float = 0.0
    engine_board: float = 0.1
    model: float = 0.3
    subject: float = 0.4

    @property
    def own(self) -> float:
        """Part of one load."""
        return 1.0 - self.site - self.engine_board - self.model - self.subject

    def common(self, one: SiteSubject, other: SiteSubject) -> float:
        """Correlation of the errors of two subjects, at different loads."""
        # What names no engine may be any of the site's.
        is_alike = one.engine == other.engine or not (one.engine and other.engine)
        is_same_engine = one.board == other.board and is_alike
        return (
            self.site
            + self.engine_board * is_same_engine
            + self.model * (one.model == other.model and bool(one.model))
            + self.subject * (one == other)
        )


class SiteCorrection(Struct, frozen=True):
    """What a site's measurements change of a prediction."""

    shift: float
    """Of the logarithm of the value, in its standard deviations."""
    deviation_ratio: float
    """Of the standard deviation of its logarithm."""
    count: int
    """Measurements behind it."""

    def factor(self, deviation: float) -> float:
        """Factor of a value whose logarithm has a standard deviation."""
        return math.exp(self.shift * deviation)


class SiteAdjustment(Struct, frozen=True):
    """Factors by which a prediction was corrected, and the measurements behind them."""

    tpot_factor: float
    ttft_factor: float
    memory_factor: float
    count: int

    @property
    def is_felt(self) -> bool:
        """Whether any factor differs from 1 as it is shown."""
        return any(f"{factor:.2f}" != "1.00" for factor in self._factors.values())

    def __str__(self) -> str:
        """`adjusted by 12 measurements of this site: TPOT x1.08, TTFT x0.97, memory x1.01`."""
        factors = ", ".join(f"{name} x{factor:.2f}" for name, factor in self._factors.items())
        return f"adjusted by {_measurements(self.count)} of this site: {factors}"

    @property
    def _factors(self) -> Mapping[str, float]:
        times = {"TPOT": self.tpot_factor, "TTFT": self.ttft_factor}
        return times if self.memory_factor == 1.0 else {**times, "memory": self.memory_factor}


class _Evidence(Struct, frozen=True):
    """All measurements of one subject, in standard deviations."""

    subject: SiteSubject
    mean: float
    noise: float
    """Variance of that mean, beside what subjects have in common."""
    count: int


class SiteResiduals(Struct, frozen=True, dict=True):
    """All residuals of a site."""

    residuals: tuple[SiteResidual, ...] = ()
    shares: SiteShares = SiteShares()

    def __bool__(self) -> bool:
        """Whether anything was measured."""
        return bool(self.residuals)

    def with_(self, others: Sequence[SiteResidual], count_maximum: int = 30) -> "SiteResiduals":
        """Return these and later ones; beyond what is kept, without those not seen for longest."""
        residual_by_key: dict[tuple[object, ...], SiteResidual] = {}
        for residual in (*self.residuals, *others):
            key = (residual.subject, residual.load, residual.figure)
            former = residual_by_key.pop(key, None)
            residual_by_key[key] = (
                residual if former is None else former.joined(residual, count_maximum)
            )
        return SiteResiduals(tuple(residual_by_key.values())[-_KEPT:], self.shares)

    def correction(self, subject: SiteSubject, figure: SiteFigure) -> SiteCorrection | None:
        """Return the correction of a figure; `None` if it was not measured."""
        posterior = self._posteriors.get(figure)
        return None if posterior is None else posterior.of(subject)

    @cached_property
    def _posteriors(self) -> "Mapping[SiteFigure, _Posterior]":
        figures = {residual.figure for residual in self.residuals}
        return {figure: _Posterior(self._evidence(figure), self.shares) for figure in figures}

    def _evidence(self, figure: SiteFigure) -> tuple[_Evidence, ...]:
        by_subject: dict[SiteSubject, list[SiteResidual]] = {}
        for residual in self.residuals:
            if residual.figure is figure and residual.log_deviation > 0.0:
                by_subject.setdefault(residual.subject, []).append(residual)
        local_variance = self.shares.own
        evidence = []
        for subject, residuals in by_subject.items():
            values = [residual.log_ratio / residual.log_deviation for residual in residuals]
            loads = len(values)
            mean = sum(values) / loads
            scatter = sum((value - mean) ** 2 for value in values) / max(1, loads - 1)
            errors = [
                local_variance + (_NOISE / residual.log_deviation) ** 2 for residual in residuals
            ]
            noise = max(scatter, sum(errors) / loads) / loads
            count = sum(residual.count for residual in residuals)
            evidence.append(_Evidence(subject, mean, noise, count))
        return tuple(evidence)


class _Posterior:
    """Posterior of one figure, given all evidence."""

    def __init__(self, evidence: Sequence[_Evidence], shares: SiteShares) -> None:
        self._evidence = evidence
        self._shares = shares
        covariance = [
            [
                shares.common(one.subject, other.subject) + (one.noise if one is other else 0.0)
                for other in evidence
            ]
            for one in evidence
        ]
        self._root = _root(covariance)
        self._count = sum(item.count for item in evidence)
        white = _solved(self._root, [item.mean for item in evidence])
        self._white = white
        squares = sum(value * value for value in white)
        scatter = (_PRIOR_SAMPLES + squares) / (_PRIOR_SAMPLES + len(evidence))
        # Predictions of a site that misses its intervals are less sure than these say, never more.
        self._scatter = max(1.0, scatter)

    def of(self, subject: SiteSubject) -> SiteCorrection:
        """Return the correction of a subject at a load of its own."""
        common = [self._shares.common(evidence.subject, subject) for evidence in self._evidence]
        white = _solved(self._root, common)
        mean = sum(one * other for one, other in zip(white, self._white, strict=True))
        variance = max(self._shares.own, 1.0 - sum(value * value for value in white))
        return SiteCorrection(mean, math.sqrt(self._scatter * variance), self._count)


def _root(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the lower Cholesky factor of a positive definite matrix."""
    root: list[list[float]] = []
    for place, row in enumerate(matrix):
        made: list[float] = []
        for column in range(place):
            other = root[column]
            rest = row[column] - sum(made[k] * other[k] for k in range(column))
            made.append(rest / other[column])
        made.append(math.sqrt(row[place] - sum(value * value for value in made)))
        root.append(made)
    return root


def _solved(root: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Return the solution of a lower triangular system."""
    solution: list[float] = []
    for row, value in zip(root, values, strict=True):
        rest = value - sum(part * solved for part, solved in zip(row, solution, strict=False))
        solution.append(rest / row[len(solution)])
    return solution


def time_between_boards(
    times: EstimateInterval,
    boards: tuple[str, str],
    site: SiteResiduals | None,
    engine: str = "",
) -> tuple[EstimateInterval, str]:
    """Return how many times as long the second board takes as the first, and what a site changed.

    What engines take on each board beside their predictions shifts and narrows the ratio, whose
    error is taken as that of two predictions, alike in size. Empty if nothing is changed.
    Without an engine it is any of the site.
    """
    if not site:
        return times, ""
    subjects = (SiteSubject("", engine, board, "", "") for board in boards)
    before, after = (site.correction(subject, SiteFigure.TPOT) for subject in subjects)
    if before is None or after is None or min(times.low, times.value) <= 0.0:
        return times, ""
    below = times.value / times.low
    above = times.high / times.value
    factor = math.exp((after.shift - before.shift) * log_deviation(below, above) / math.sqrt(2.0))
    if f"{factor:.2f}" == "1.00":
        return times, ""
    power = math.hypot(before.deviation_ratio, after.deviation_ratio) / math.sqrt(2.0)
    value = factor * times.value
    note = f"adjusted by {_measurements(before.count)} of this site: x{factor:.2f} as long"
    return EstimateInterval(value, value / below**power, value * above**power), note


def _measurements(count: int) -> str:
    return f"{count} {'measurement' if count == 1 else 'measurements'}"


def log_deviation(below: float, above: float) -> float:
    """Standard deviation of a logarithm from the error factors of a 90% interval."""
    return math.log(below * above) / (2.0 * END_DEVIATIONS)
