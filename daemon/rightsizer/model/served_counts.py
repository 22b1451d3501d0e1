"""What happened to a model in a time: counts that add up, and the load that they make."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.served_load import ServedLatency, ServedLoad
from rightsizer.model.signal import Signal

_PERCENTILE: Final = 0.95
Ratio: TypeAlias = tuple[float, float]
"""What happened, and in how many seconds, or of how many requests or tokens."""


class ServedFigure(StrEnum):
    """Figures of a model beside the signals of its engine."""

    REQUESTS = "requests"
    """Finished ones."""
    PROMPT_TOKENS = "prompt_tokens"
    OUTPUT_TOKENS = "output_tokens"
    PROMPT_TOKENS_PER_SECOND = "prompt_tokens_per_second"
    OUTPUT_TOKENS_PER_SECOND = "output_tokens_per_second"
    PREFIX_HITS = "prefix_hits"
    KV_CACHE_TOKENS = "kv_cache_tokens"
    MAXIMUM_RUNNING = "maximum_running"
    MAXIMUM_TOKENS = "maximum_tokens"
    WEIGHT_FORMAT = "weight_format"
    CACHE_FORMAT = "cache_format"
    TENSOR = "tensor"


_OF_ALL: Final = frozenset(
    (
        ServedFigure.REQUESTS,
        ServedFigure.PROMPT_TOKENS_PER_SECOND,
        ServedFigure.OUTPUT_TOKENS_PER_SECOND,
        Signal.REQUESTS_RUNNING,
        Signal.REQUESTS_WAITING,
        Signal.PREEMPTIONS,
    )
)
"""What engines side by side add up to; of all else they have a mean."""


class ServedCounts(Struct, frozen=True):
    """What happened to one model in a time; those of several times add up."""

    seconds: float = 0.0
    ratios: Mapping[str, Ratio] = {}
    """By figure or signal; levels are integrated over time."""
    buckets: Mapping[str, Mapping[float, float]] = {}
    """Number of values by upper bound, above the bound before; the rest has no bound."""

    def of(self, figure: str) -> float | None:
        """Return the mean of a figure; `None` if it is not exported, or nothing happened."""
        happened, divisor = self.ratios.get(figure, (0.0, 0.0))
        return happened / divisor if divisor > 0 else None

    def percentile(self, figure: str) -> float | None:
        """Return the 95th percentile, interpolated within its bucket."""
        counts = self.buckets.get(figure, {})
        rank = _PERCENTILE * self.ratios.get(figure, (0.0, 0.0))[1]
        lower = passed = 0.0
        for bound, count in sorted(counts.items()):
            if count and passed + count >= rank:
                return lower + (bound - lower) * (rank - passed) / count
            passed += count
            lower = bound
        return None


class ServedSample(Struct, frozen=True):
    """One model of an engine, with what happened to it since the sample before."""

    facts: ServedLoad
    """Without figures of a time."""
    counts: ServedCounts = ServedCounts()
    endpoint: str = ""
    """Name of the engine's collector, which tells engines of a model apart."""

    @property
    def load(self) -> ServedLoad:
        """Facts and figures."""
        return with_counts(self.facts, self.counts)


def summed_counts(counts: Iterable[ServedCounts]) -> ServedCounts:
    """Return what happened in several times."""
    seconds = 0.0
    ratios: dict[str, Ratio] = {}
    buckets: dict[str, dict[float, float]] = {}
    for part in counts:
        seconds += part.seconds
        for figure, (happened, divisor) in part.ratios.items():
            before = ratios.get(figure, (0.0, 0.0))
            ratios[figure] = (before[0] + happened, before[1] + divisor)
        for figure, values in part.buckets.items():
            into = buckets.setdefault(figure, {})
            for bound, count in values.items():
                into[bound] = into.get(bound, 0.0) + count
    return ServedCounts(seconds, ratios, buckets)


def side_by_side(counts: Iterable[ServedCounts], elapsed_seconds: float) -> ServedCounts:
    """Return what happened on several engines in one time, which each was there for a part of."""
    whole = summed_counts(counts)
    ratios = {
        figure: (happened, elapsed_seconds if figure in _OF_ALL else divisor)
        for figure, (happened, divisor) in whole.ratios.items()
    }
    return ServedCounts(elapsed_seconds, ratios, whole.buckets)


def with_counts(facts: ServedLoad, counts: ServedCounts) -> ServedLoad:
    """Return the load of a model in a time."""
    requests = counts.of(ServedFigure.REQUESTS)
    prompt_rate = _token_rate(counts, ServedFigure.PROMPT_TOKENS)
    output_rate = _token_rate(counts, ServedFigure.OUTPUT_TOKENS)
    return replace(
        facts,
        window_seconds=counts.seconds,
        requests_per_second=requests,
        prompt_tokens_per_second=prompt_rate,
        output_tokens_per_second=output_rate,
        prompt_tokens=_tokens(counts, ServedFigure.PROMPT_TOKENS, prompt_rate, requests),
        output_tokens=_tokens(counts, ServedFigure.OUTPUT_TOKENS, output_rate, requests),
        prompt_tokens_p95=counts.percentile(ServedFigure.PROMPT_TOKENS),
        output_tokens_p95=counts.percentile(ServedFigure.OUTPUT_TOKENS),
        requests_running=counts.of(Signal.REQUESTS_RUNNING),
        requests_waiting=counts.of(Signal.REQUESTS_WAITING),
        time_to_first_token=_latency(counts, Signal.TIME_TO_FIRST_TOKEN_SECONDS),
        time_per_output_token=_latency(counts, Signal.TIME_PER_OUTPUT_TOKEN_SECONDS),
        kv_cache_used_ratio=counts.of(Signal.KV_CACHE_USED),
        prefix_hit_ratio=_at_most_one(counts.of(ServedFigure.PREFIX_HITS)),
        preemptions_per_second=counts.of(Signal.PREEMPTIONS),
    )


def _token_rate(counts: ServedCounts, figure: ServedFigure) -> float | None:
    """Return the tokens a second, of a counter or else of a histogram's sum."""
    rate = counts.of(f"{figure}_per_second")
    if rate is not None or figure not in counts.ratios or counts.seconds <= 0:
        return rate
    return counts.ratios[figure][0] / counts.seconds


def _tokens(
    counts: ServedCounts, figure: ServedFigure, rate: float | None, requests: float | None
) -> float | None:
    """Return the tokens of a request, of a histogram or else of two rates."""
    mean = counts.of(figure)
    if mean is not None or rate is None or not requests:
        return mean
    return rate / requests


def _latency(counts: ServedCounts, signal: Signal) -> ServedLatency | None:
    mean = counts.of(signal)
    return None if mean is None else ServedLatency(mean, counts.percentile(signal))


def _at_most_one(ratio: float | None) -> float | None:
    return None if ratio is None else min(1.0, ratio)
