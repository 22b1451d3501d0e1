"""Load of a served model, and the units of its work."""

import math
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import astuple, replace

from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.models import Diffusion, Model, RecommenderModel, Transformer

EVEN_ODDS: Final = 0.5
"""Certainty of what is as likely as not."""
_ROUNDING: Final = 1e-9
_BATCHES_WAITED: Final = 1.0
"""Batches before its own that an answer waits for on a busy GPU, in 99 of 100 cases."""


class RequestLoad(Struct, frozen=True):
    """Load of a served model."""

    input_tokens: float = 1024.0
    output_tokens: float = 256.0
    concurrency: float | None = None
    """Requests in flight; by default the maximum allowed by memory and latency."""
    units_per_second: float | None = None
    """Required total throughput in the model's unit: output tokens, or for models without token
    output sequences, images, samples or seconds of audio (`WorkUnit`)."""
    ttft_ms: float | None = None
    """Maximum time to first token."""
    tpot_ms: float | None = None
    """Maximum time between two tokens."""
    latency_ms: float | None = None
    """Maximum time to the complete answer."""
    ttft_percentile: float | None = None
    """Percentage of requests that must meet it; by default the mean must. Likewise for the next
    two."""
    tpot_percentile: float | None = None
    latency_percentile: float | None = None
    burstiness: float | None = None
    """For open arrivals: squared coefficient of variation of interarrival times, 1 for
    Poisson; by default from the settings."""
    is_closed: bool = False
    """Whether each request follows the answer to another one, although a rate is given."""
    chunk_seconds: float | None = None
    """New audio per request of speech models; by default their maximum."""
    prefix_cache_ratio: float = 0.0
    """Fraction of prompt tokens already in an engine's prefix cache."""
    is_prefilled: bool = False
    """Whether prompts arrive with their cache, computed on other GPUs."""
    speculative_tokens: float = 0.0
    """Tokens that a draft head proposes in each step, for the model to verify together."""
    acceptance_ratio: float | None = None
    """Accepted fraction of all proposed tokens, as engines count it; by default from the
    settings."""
    adapters: float = 0.0
    """LoRA adapters in memory beside the model; requests choose among them evenly."""
    sure_ratio: float | None = None
    """Probability with which each latency, the rate and the memory must hold; by default from the
    settings of a plan, and even odds without one."""

    @property
    def is_open(self) -> bool:
        """Whether requests arrive at a rate, regardless of the number in flight."""
        is_rate = self.units_per_second is not None and self.concurrency is None
        return is_rate and not self.is_closed

    @property
    def tokens_per_step(self) -> float:
        """Mean number of tokens that a step adds to an answer.

        Raises:
            ValueError: tokens are proposed, and `accepting` was not asked how many are accepted.
        """
        if not self.speculative_tokens:
            return 1.0
        if self.acceptance_ratio is None:
            raise ValueError("the acceptance of proposed tokens is not set")
        return 1.0 + self.speculative_tokens * self.acceptance_ratio

    def accepting(self, token_acceptance_ratio: float) -> "RequestLoad":
        """Load in which each token has this chance if those before it are accepted.

        A load keeps an acceptance of its own (arXiv:2211.17192, equation 1).
        """
        proposed = self.speculative_tokens
        if not proposed or self.acceptance_ratio is not None:
            return self
        refused = 1.0 - token_acceptance_ratio
        made = (1.0 - math.pow(token_acceptance_ratio, proposed + 1.0)) / refused
        return replace(self, acceptance_ratio=(made - 1.0) / proposed)

    @property
    def has_targets(self) -> bool:
        """Whether there is a latency limit."""
        return any((self.ttft_ms, self.tpot_ms, self.latency_ms))

    @property
    def certainty(self) -> float:
        """Probability with which its targets must be met."""
        return EVEN_ODDS if self.sure_ratio is None else self.sure_ratio

    def is_late(self, took: EstimateInterval, most_ms: float, headroom_ratio: float) -> bool:
        """Whether a latency exceeds its target: less the headroom, or with the certainty."""
        return self.lateness(took, most_ms, headroom_ratio) > 1.0

    def lateness(self, took: EstimateInterval, most_ms: float, headroom_ratio: float) -> float:
        """A latency relative to its target: less the headroom, or with the certainty."""
        likely = took.value / (1.0 - headroom_ratio + _ROUNDING)
        return max(likely, took.quantile(self.certainty) / (1.0 + _ROUNDING)) / most_ms

    def is_short(self, throughput: EstimateInterval) -> bool:
        """Whether a throughput is below the rate with its certainty; never without a rate."""
        demand = self.units_per_second
        return demand is not None and throughput.quantile(1.0 - self.certainty) < demand * (
            1.0 - _ROUNDING
        )

    def least_shares(self, throughput: EstimateInterval) -> int:
        """Least number of equal throughputs that is not short; at least 1."""
        surely = throughput.quantile(1.0 - self.certainty)
        demand = self.units_per_second or 0.0
        return max(1, math.ceil(demand / surely * (1.0 - 2.0 * _ROUNDING))) if surely > 0.0 else 1

    def answer_interval(
        self,
        first: EstimateInterval,
        between: EstimateInterval | None,
        batches_waited: float = _BATCHES_WAITED,
    ) -> EstimateInterval:
        """Interval of `answer_ms`, end by end."""
        after = (None, None, None) if between is None else astuple(between)
        return EstimateInterval(
            *(
                self.answer_ms(*end, batches_waited)
                for end in zip(astuple(first), after, strict=True)
            )
        )

    def answer_ms(
        self, first_ms: float, between_ms: float | None, batches_waited: float = _BATCHES_WAITED
    ) -> float:
        """Time to a complete answer, from the times to the first token and between tokens.

        An answer from a single pass, without time between tokens, waits for batches before its own.
        """
        if between_ms is None:
            return (1.0 + batches_waited) * first_ms
        return first_ms + between_ms * max(0.0, self.output_tokens - 1.0)


class WorkUnit(StrEnum):
    """Unit of a model's work."""

    TOKENS = "tokens"
    """Output tokens."""
    SEQUENCES = "sequences"
    """Read by an encoder: a text to embed, classify or rank."""
    IMAGES = "images"
    VIDEOS = "videos"
    SAMPLES = "samples"
    AUDIO_SECONDS = "audio-seconds"


def work_unit(model: Model) -> WorkUnit:
    """Unit of work of a served model."""
    if isinstance(model, Transformer):
        if model.sound_seconds:
            return WorkUnit.AUDIO_SECONDS
        return WorkUnit.SEQUENCES if model.is_encoder else WorkUnit.TOKENS
    if isinstance(model, Diffusion) and model.frames > 1:
        return WorkUnit.VIDEOS
    return WorkUnit.SAMPLES if isinstance(model, RecommenderModel) else WorkUnit.IMAGES


def units_per_request(model: Model, load: RequestLoad) -> float:
    """Work per request in that unit."""
    match work_unit(model):
        case WorkUnit.TOKENS:
            return max(1.0, load.output_tokens)
        case WorkUnit.AUDIO_SECONDS if isinstance(model, Transformer):
            return load.chunk_seconds or model.sound_seconds
        case _:
            return 1.0


def units_per_token(model: Model, load: RequestLoad) -> float:
    """Work per counted token in that unit: output tokens, or input tokens of an encoder."""
    if not isinstance(model, Transformer):
        return 1.0
    tokens = load.input_tokens if model.is_encoder else load.output_tokens
    return units_per_request(model, load) / max(1.0, tokens)
