"""Serving speed of a language model: TTFT, TPOT, tokens per second, best concurrency, error."""

import math
from bisect import bisect_left
from functools import lru_cache, partial
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board, OriginKind
from rightsizer.model.errors import RequirementError
from rightsizer.sizing import queueing
from rightsizer.sizing.engine import ServingEngine, engine_settings
from rightsizer.sizing.estimate import EstimateInterval, interpolated
from rightsizer.sizing.forward_pass import Adapters, ForwardPass
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.memory import available_bytes as usual_bytes
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import Parallelism, Precisions, Requirement
from rightsizer.sizing.roofline import Bound, PassCost
from rightsizer.sizing.serving_memory import ServingMemory
from rightsizer.sizing.serving_settings import ServingModelSettings
from rightsizer.sizing.site import (
    SiteAdjustment,
    SiteCorrection,
    SiteFigure,
    SiteResiduals,
    SiteSubject,
    log_deviation,
)

_HALVINGS: Final = 12
_PASSES_KEPT: Final = 4096
"""Passes by model, format, engine, adapters, board and layout that are kept for other loads.

Source: measured: a plan makes 190 to 340, a batch of 200 plans 8,417, of which this keeps all that
save time."""
_BATCH_TOKENS: Final = 8192
"""For encoders, in one pass."""
_LITTLE: Final = 0.01
_LEFT: Final = 0.02
"""Reserve below the maximum throughput: closer to it, waits grow without bound."""
_DEFAULTS: Final = ServingModelSettings()


class ErrorFactors(NamedTuple):
    """Error factors that contain measured values with a probability of 90%."""

    below: float
    """For shorter times and higher rates."""
    above: float
    first_below: float
    """For the time to the first token."""
    first_above: float

    def corrected(
        self, between: SiteCorrection | None, first: SiteCorrection | None
    ) -> "ErrorFactors":
        """Factors after a site's measurements of the times."""
        pace = 1.0 if between is None else between.deviation_ratio
        start = 1.0 if first is None else first.deviation_ratio
        return ErrorFactors(
            self.below**pace, self.above**pace, self.first_below**start, self.first_above**start
        )

    def around(self, value: float, least: float = 0.0, greatest: float = 0.0) -> EstimateInterval:
        """Interval of a time to the first token.

        `least` and `greatest` are the times by the order in which prompts arrive, if that matters.
        """
        if not (least or greatest):
            return EstimateInterval(value, value / self.first_below, value * self.first_above)
        below = math.hypot(math.log(self.first_below), math.log(value / (least or value)))
        above = math.hypot(math.log(self.first_above), math.log((greatest or value) / value))
        return EstimateInterval(value, value / math.exp(below), value * math.exp(above))


@lru_cache(_PASSES_KEPT)
def _forward_pass(  # noqa: PLR0913, PLR0917 - all that it depends on, and nothing else.
    model: Transformer,
    precision: Precisions,
    engine: ServingEngine,
    settings: ServingModelSettings,
    adapters: Adapters,
    board: Board,
    layout: Parallelism,
) -> tuple[ForwardPass, ErrorFactors]:
    """Return the passes of a model on a board in a layout, for all loads, and their errors."""
    settings = engine_settings(settings, engine, board)
    forward = ForwardPass(model, precision, board, layout, settings, adapters=adapters)
    return forward, _error_factors(forward)


def _error_factors(forward: ForwardPass) -> ErrorFactors:
    model = forward.model
    board = forward.board
    layout = forward.layout
    settings = forward.settings.errors
    group = layout.tensor * layout.expert
    is_assumed = board.origin("efficiency.weight_read.bf16").kind is OriginKind.ASSUMED
    is_spread = group * layout.pipeline > forward.links.joined
    is_small = forward.count.total < settings.small_model_parameters and not model.is_encoder
    beside = (
        settings.assumed_board_factor if is_assumed else 1.0,
        settings.slow_link_factor if layout.tensor > (board.linked_gpu_count or 1) else 1.0,
        settings.servers_factor if is_spread else 1.0,
        settings.unpacked_factor if forward.is_unpacked else 1.0,
        settings.small_model_factor if is_small else 1.0,
        settings.other_kind_factor if _is_other_kind(model) else 1.0,
        settings.assumed_shape_factor if model.assumed else 1.0,
    )
    slower = math.hypot(
        math.log(settings.other_vendor_factor) if board.vendor != "NVIDIA" else 0.0,
        math.log(settings.encoder_decoder_factor) if model.input_ratio else 0.0,
    )

    def factor(base_factor: float, of_experts: float, more: float = 0.0) -> float:
        all_factors = (base_factor, of_experts if model.experts > 1 else 1.0, *beside)
        return math.exp(math.hypot(more, *map(math.log, all_factors)))

    return ErrorFactors(
        below=factor(settings.step_factor, settings.experts_below_factor),
        above=factor(settings.step_factor, settings.experts_above_factor, slower),
        first_below=factor(settings.first_token_factor, settings.experts_below_factor),
        first_above=factor(
            settings.first_token_factor, settings.experts_first_token_factor, slower
        ),
    )


def _is_other_kind(model: Transformer) -> bool:
    has_mixers = bool(model.layer_kinds) or model.state_elements > 0.0
    return has_mixers or model.is_encoder or model.indexer is not None


def _capacity(memory: ServingMemory, available_bytes: float) -> float:
    """Concurrent requests per replica in the given memory of each GPU; at least one.

    Engines allocate the cache as tokens arrive, so on average it holds as many requests as fit when
    half done. If not even one fits, one is assumed to run.
    """
    replicas = memory.layout.data
    load = memory.requirement.load
    surely = memory.largest_concurrency(available_bytes) / replicas
    request_bytes = memory.cache.request_bytes(load.input_tokens + load.output_tokens / 2.0)
    if not surely or not request_bytes:
        return max(1.0, surely)
    fullest = memory.at(surely * replicas)
    left = available_bytes - (fullest.total_bytes - fullest.kv_cache_bytes)
    return max(surely, left / request_bytes)


def site_subject(requirement: Requirement, layout: Parallelism, board: str) -> SiteSubject:
    """What runs in a layout, as measurements of a site know it."""
    degrees = {"tensor": layout.tensor, "pipeline": layout.pipeline, "expert": layout.expert}
    split = " ".join(f"{name} {degree}" for name, degree in degrees.items() if degree > 1)
    weights = str(requirement.precision.weights)
    name = requirement.model.name
    return SiteSubject(name, str(requirement.engine), board, split, weights)


class Serving(Struct, frozen=True, gc=False):
    """Performance for users, at a number of requests in flight."""

    ttft_ms: EstimateInterval
    """Time to first token; for an encoder to the answer."""
    tpot_ms: EstimateInterval
    """Time between two tokens; 0 for an encoder, which has only one answer."""
    tokens_per_second: EstimateInterval
    """Output tokens of all GPUs together; for an encoder input tokens."""
    cost: PassCost
    """Time by what limits it."""
    running: float
    """Requests in flight that fit in memory; the others wait."""

    @property
    def bound(self) -> Bound:
        """Largest part of the time."""
        return self.cost.bound


class AnswerRound(Struct, frozen=True, gc=False):
    """Work of one replica while each running request gets its answer."""

    step: PassCost
    prompt: PassCost
    """One of the prompts computed together."""
    beside: float
    """Prompts computed together with a step."""
    seconds: float

    @property
    def cost(self) -> PassCost:
        """Of a step with its prompts."""
        return self.step.plus(self.prompt, self.beside)


class Server:
    """One model on equal boards in one layout; created once, used for every concurrency."""

    def __init__(
        self,
        memory: ServingMemory,
        board: Board,
        available_bytes: float | None = None,
        settings: ServingModelSettings = _DEFAULTS,
        site: SiteResiduals | None = None,
    ) -> None:
        requirement = memory.requirement
        model = requirement.model
        if not isinstance(model, Transformer):
            raise RequirementError(
                "model.kind: only a transformer serves tokens; ask for images or samples instead"
            )
        layout = memory.layout
        if available_bytes is None:
            available_bytes = usual_bytes(requirement, board.memory_bytes)
        if model.is_encoder and settings.chunk_tokens is None:
            # Their batches contain no answers beside prompts.
            settings = replace(settings, chunk_tokens=_BATCH_TOKENS)
        adapters = Adapters(requirement.load.adapters, memory.adapter_bytes)
        self.forward, self.errors = _forward_pass(
            model, requirement.precision, requirement.engine, settings, adapters, board, layout
        )
        self.settings = settings = self.forward.settings
        self.memory = memory
        self.replicas = layout.data
        self.available_bytes = available_bytes
        self.load = requirement.load.accepting(settings.token_acceptance_ratio)
        self.is_causal = self.forward.attention.is_causal
        tokens = self.load.input_tokens
        cached_tokens = (self.load.prefix_cache_ratio if self.is_causal else 0.0) * tokens
        computed = partial(self.forward.prompts, tokens, cached_tokens=cached_tokens)
        self._prompts = _no_prompts if self.load.is_prefilled else computed
        self.prompt = self._prompts()
        """One prompt, without the part in the prefix cache."""
        chunk = settings.chunk_tokens or math.inf
        self._prompts_together = chunk / max(1.0, tokens - cached_tokens)
        self._answer = max(1.0, self.load.output_tokens)
        self._tokens_per_step = self.load.tokens_per_step
        self.capacity = _capacity(memory, available_bytes)
        """Requests per replica that fit in its KV cache; others wait for one to end."""
        request_maximum = settings.requests_maximum
        self.places = (
            self.capacity if request_maximum is None else min(self.capacity, float(request_maximum))
        )
        """Maximum number of concurrent requests per replica."""
        self.adjustment: SiteAdjustment | None = None
        """How the measurements of a site change times and memory; `None` without any."""
        self.memory_correction: SiteCorrection | None = None
        self._pace = 1.0
        self._first = 1.0
        if site and self.is_causal:
            self._correct(site, site_subject(requirement, layout, board.key))
        self._rounds: dict[float, AnswerRound] = {}

    def _correct(self, site: SiteResiduals, subject: SiteSubject) -> None:
        """Shift times and narrow their errors by what a site has measured."""
        between = site.correction(subject, SiteFigure.TPOT)
        first = site.correction(subject, SiteFigure.TTFT)
        errors = self.errors
        if between is not None:
            self._pace = between.factor(log_deviation(errors.below, errors.above))
        start = 1.0
        if first is not None:
            start = first.factor(log_deviation(errors.first_below, errors.first_above))
        # Prompts run at the pace of steps; first tokens have a factor of their own.
        self._first = start / self._pace
        self.errors = errors.corrected(between, first)
        self.prompt = self._paced(self.prompt)
        self.memory_correction = taken = site.correction(subject, SiteFigure.MEMORY)
        estimate = self.memory.at(1.0)
        filled = estimate if taken is None else estimate.corrected(taken)
        corrections = (between, first, taken)
        counts = (correction.count for correction in corrections if correction is not None)
        count = max(counts, default=0)
        if count:
            self.adjustment = SiteAdjustment(self._pace, start, filled.site_factor, count)

    def _paced(self, cost: PassCost) -> PassCost:
        return cost if self._pace == 1.0 else PassCost().plus(cost, self._pace)

    def spread(self, replicas: int, load: RequestLoad) -> "Server":
        """Return the same with another number of replicas, or another certainty of the load.

        Each replica works alike: what one was asked need not be computed again.
        """
        # The module `copy` loads five others, for one line of a plan.
        spread = object.__new__(Server)
        spread.__dict__.update(vars(self))
        spread.replicas = replicas
        spread.load = load.accepting(self.settings.token_acceptance_ratio)
        return spread

    def at(self, concurrency: float) -> Serving:
        """Performance at a concurrency over all GPUs."""
        replicas = self.replicas
        asked = max(1.0, concurrency / replicas)
        running = min(asked, self.capacity)
        served = min(concurrency, running * replicas)
        if not self.is_causal:
            return self._encoding(asked, running, served)
        return self._generating(asked, running, served)

    def busy_with(self, running: float, requests_per_second: float | None = None) -> Serving:
        """Performance with random arrivals, by the average of requests in flight per replica.

        The arrival rate defaults to the rate at which they are answered.
        """
        load = self.load
        data = self.replicas
        at_work = min(max(1.0, running), self.capacity)
        generated = self._round(at_work)
        made = self._made(generated, min(running, at_work) * data)
        if requests_per_second is None:
            requests_per_second = made.value / self._answer
        replica_rate = requests_per_second / data
        stated = self.settings.burstiness if load.burstiness is None else load.burstiness
        burstiness = queueing.spread_burstiness(stated, data)
        step = generated.step.seconds
        chunk = self.settings.chunk_tokens or load.input_tokens
        passes = max(1, math.ceil(load.input_tokens / chunk))
        pipeline = self.memory.layout.pipeline
        later = (passes - 1) * step
        prompt = self.prompt.seconds / pipeline + later
        # Prompts that arrive during one step are computed together, in less time per prompt.
        together = generated.prompt.seconds / pipeline + later
        waiting = queueing.first_token_waiting(replica_rate, step, (prompt, together), burstiness)
        residence = running / replica_rate if replica_rate else self._answer * step
        stiffness = self._stiffness(running, made.value)
        variance = queueing.running_spread(running, burstiness, stiffness)
        ratio, seconds = queueing.waiting_for_places(running, self.places, residence, variance)
        waiting = replace(waiting, full_ratio=ratio, full_seconds=seconds)
        first = 1e3 * waiting.quantile(_part(load.ttft_percentile or load.latency_percentile))
        between = _part(load.tpot_percentile or load.latency_percentile)
        running_maximum = min(self.places, queueing.running_seen(running, variance, between))
        slowest = self._between_ms(self._round(max(1.0, running_maximum)))
        ttft = self.errors.around(first * self._first)
        return Serving(ttft, slowest, made, generated.cost, running * data)

    def answered(self, running: float) -> float:
        """Requests per second of all replicas at a concurrency per replica."""
        return running * self.replicas / self._round(max(1.0, running)).seconds

    def running_at(self, requests_per_second: float) -> float:
        """Requests in flight per replica at an arrival rate that is also answered."""
        return self.ends_at(requests_per_second)[1]

    def ends_at(self, requests_per_second: float) -> tuple[float, float]:
        """Bracket of `running_at`."""
        arrivals_per_second = requests_per_second / self.replicas

        def excess(running: float) -> float:
            # By Little's law; almost linear, as the time of an answer is.
            return running - arrivals_per_second * self._round(max(1.0, running)).seconds

        return interpolated(0.0, self.places, excess, _HALVINGS)

    def _stiffness(self, running: float, made: float) -> float:
        """Relative increase of throughput per relative increase of running requests."""
        if running < 1.0:
            return 1.0
        then = self._answer * self.answered(min(running * (1.0 + _LITTLE), self.capacity))
        return max(0.0, (then / made - 1.0) / _LITTLE)

    def _round(self, running: float) -> AnswerRound:
        if running not in self._rounds:
            self._rounds[running] = self._round_of(running)
        return self._rounds[running]

    def _round_of(self, running: float) -> AnswerRound:
        steps = max(1.0, self._answer / self._tokens_per_step)
        context_tokens = self.load.input_tokens + self._answer / 2.0
        proposed = self.load.speculative_tokens
        step = self._paced(self.forward.decode(running, context_tokens, proposed))
        beside = (running - 1.0) / steps / self.memory.layout.pipeline
        prompt = self._prompt_beside(beside)
        # Total work of the GPUs for a round of answers, independent of when prompts arrive.
        residence = steps * step.seconds + (1.0 + steps * beside) * prompt.seconds
        return AnswerRound(step, prompt, beside, residence)

    def _prompt_beside(self, others: float) -> PassCost:
        """One prompt at an arrival rate per step; prompts that fit are computed together."""
        together = min(others, self._prompts_together)
        if together <= 1.0:
            return self.prompt
        return self._paced(PassCost().plus(self._prompts(together), 1.0 / together))

    def _pass(self, generated: AnswerRound) -> EstimateInterval:
        """Seconds of a step with its prompts.

        These may be cheaper than modeled, but hardly more expensive.
        """
        errors = self.errors
        step = generated.step.seconds
        prompts = generated.prompt.seconds * generated.beside
        low = step + prompts / self.settings.errors.prompts_factor
        return EstimateInterval(step + prompts, low / errors.below, (step + prompts) * errors.above)

    def _between_ms(self, generated: AnswerRound) -> EstimateInterval:
        return self._pass(generated).scaled(1e3 / self._tokens_per_step)

    def _made(self, generated: AnswerRound, served: float) -> EstimateInterval:
        """Tokens per second of so many running requests of all replicas."""
        rate = served * self._answer / generated.seconds
        seconds = self._pass(generated)
        return seconds.inverse().scaled(rate * seconds.value)

    def _generating(self, asked: float, running: float, served: float) -> Serving:
        generated = self._round(running)
        step = generated.step
        prompt = generated.prompt
        beside = generated.beside
        residence = generated.seconds
        # Prompts ahead, including its own. Requests that started together end together, and their
        # successors start together again; different lengths and ending bursts spread them, so that
        # a bunch grows with the square root of their number.
        bunch = 1.0 + self.settings.bunching_ratio * (math.sqrt(max(1.0, asked)) - 1.0)
        alone = self.prompt.seconds
        first = step.seconds + max(bunch * alone, alone + beside * prompt.seconds)
        # As if each came at random (Pollaczek-Khinchine), and as if all came at once.
        decoding = max(1.0, self._answer / self._tokens_per_step) * step.seconds
        waited = alone / 2.0 * (residence - decoding) / decoding
        apart = min(first, step.seconds + alone + waited)
        together = max(first, step.seconds + (running + 1.0) / 2.0 * prompt.seconds)
        between = self._between_ms(generated)
        made = self._made(generated, served)
        queue = max(0.0, asked / running - 1.0) * residence  # Little's law.
        ends = (1e3 * self._first * (seconds + queue) for seconds in (first, apart, together))
        return Serving(self.errors.around(*ends), between, made, generated.cost, served)

    def _encoding(self, asked: float, running: float, served: float) -> Serving:
        tokens = self.load.input_tokens
        batch = self.forward.prompts(tokens, max(1.0, running / self.memory.layout.pipeline))
        rate = served * tokens / batch.seconds
        first = self.errors.around(1e3 * batch.seconds * max(1.0, asked / running))
        made = EstimateInterval(rate, rate / self.errors.above, rate * self.errors.below)
        return Serving(first, EstimateInterval.exactly(0.0), made, batch, served)


def _no_prompts(_: float = 1.0) -> PassCost:
    return PassCost()


def _part(percentile: float | None) -> float | None:
    return None if percentile is None else percentile / 100.0


def lateness(server: Server, serving: Serving) -> float:
    """The latest latency of the load relative to its target less the headroom: late beyond 1."""
    load = server.load
    headroom = server.settings.latency_headroom_ratio
    first = serving.ttft_ms
    between = serving.tpot_ms
    latest = 0.0
    if load.tpot_ms:
        latest = load.lateness(between, load.tpot_ms, headroom)
    if load.ttft_ms:
        latest = max(latest, load.lateness(first, load.ttft_ms, headroom))
    if load.latency_ms:
        answer = load.answer_interval(first, between if server.is_causal else None)
        latest = max(latest, load.lateness(answer, load.latency_ms, headroom))
    return latest


def most_running(server: Server) -> float:
    """Maximum average of requests in flight per replica that meets latencies; 0 if none does."""
    # Throughput increases with requests in flight, so bisection can use the latter.
    largest = server.running_at((1.0 - _LEFT) * server.answered(server.places))
    if not server.load.has_targets:
        return largest

    def late(running: float) -> float:
        # Between -1 and 1, also of a latency without bound.
        return 1.0 - 2.0 / (1.0 + lateness(server, server.busy_with(running)))

    return interpolated(0.0, largest, late, _HALVINGS)[0]


def servers_needed(server: Server, requests_per_second: float) -> int:
    """Number of equal servers below which a rate is not answered, regardless of latencies."""
    return math.ceil(_surely(server, requests_per_second) / _capacity_rate(server))


def keeps_up(server: Server, requests_per_second: float) -> bool:
    """Whether a rate of random arrivals is answered in time, up to rounding, as surely as asked."""
    demand = _surely(server, requests_per_second)
    if demand > _capacity_rate(server):
        return False
    return lateness(server, server.busy_with(server.ends_at(demand)[0], demand)) <= 1.0


def _surely(server: Server, requests_per_second: float) -> float:
    """Rate to predict for one that must be reached with the certainty of the load."""
    rate = EstimateInterval(1.0, 1.0 / server.errors.above, 1.0)
    return requests_per_second / rate.quantile(1.0 - server.load.certainty)


def _capacity_rate(server: Server) -> float:
    """Rate with a reserve, up to the rounding of bisections."""
    return (1.0 - _LEFT) * server.answered(server.places) * (1.0 + 2.0 ** (1 - _HALVINGS))


def best_concurrency(server: Server) -> int:
    """Maximum number of requests in flight on all GPUs within memory and latencies of the load.

    0 if not even one per replica is. Throughput increases with every request, so this is also the
    optimum without latencies.
    """
    memory = server.memory
    replicas = server.replicas
    by_memory = memory.largest_concurrency(server.available_bytes) // memory.layout.data
    request_maximum = min(by_memory, server.settings.requests_maximum or by_memory)
    if not server.load.has_targets:
        return request_maximum * replicas

    def late(requests: int) -> bool:
        return lateness(server, server.at(requests * replicas)) > 1.0

    return bisect_left(range(1, request_maximum + 1), True, key=late) * replicas
