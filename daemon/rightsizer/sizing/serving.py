"""How fast a language model serves: time to the first token, between tokens, tokens a second.

A decode step reads the weights once and the cache of every request that runs. Meanwhile prompts of
others take their turns, so that each step carries its share of them. An encoder has no steps: each
request is one pass.
"""

from dataclasses import dataclass
from typing import Final, Self

from rightsizer.catalogue.board import Board
from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.estimate import Interval
from rightsizer.sizing.forward_pass import ForwardPass
from rightsizer.sizing.memory import available_bytes as usual_bytes
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.pass_cost import Bound, PassCost
from rightsizer.sizing.queueing import Capacity, Running, bunch
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.serving_error import ServingError, serving_error
from rightsizer.sizing.serving_memory import ServingMemory, serving_memory
from rightsizer.sizing.serving_settings import ServingSettings

__all__ = ["Server", "Serving", "serve"]

_DEFAULTS: Final = ServingSettings()


@dataclass(frozen=True, slots=True)
class Serving:
    """What those who ask see, with so many requests in flight."""

    ttft_ms: Interval
    """To the first token; of an encoder to the answer."""
    tpot_ms: Interval
    """Between two tokens; 0 for an encoder, which has no second."""
    tokens_per_second: Interval
    """Output tokens of all GPUs together; of an encoder input tokens."""
    bound: Bound
    """What most of the time goes to."""
    running: float
    """Requests that the memory holds at a time, of those in flight; the others wait."""


def serve(  # noqa: PLR0913 - the planner's question, and two things that a site may know better.
    requirement: Requirement,
    board: Board,
    layout: Parallelism,
    concurrency: float,
    *,
    available_bytes: float | None = None,
    settings: ServingSettings = _DEFAULTS,
) -> Serving:
    """What is seen with exactly so many requests in flight on all GPUs together.

    Args:
        requirement: The model and its load.
        board: One of the GPUs.
        layout: How the model is spread over them.
        concurrency: Requests in flight. Those that the memory does not hold wait.
        available_bytes: Of each GPU, headroom taken off; the usual part of the board's memory
            where it is not given.
        settings: What is taken for granted of the engine.

    Raises:
        RequirementError: the model is no transformer of tokens.
    """
    memory = serving_memory(requirement, layout)
    return Server.of(memory, board, available_bytes, settings).at(concurrency)


@dataclass(frozen=True, slots=True)
class Server:
    """One model on boards of one kind in one layout; made once, asked for every concurrency."""

    memory: ServingMemory
    forward: ForwardPass
    prompt: PassCost
    """One prompt through the model, less what the prefix cache holds of it."""
    available_bytes: float
    capacity: Capacity
    settings: ServingSettings
    error: ServingError

    @classmethod
    def of(
        cls,
        memory: ServingMemory,
        board: Board,
        available_bytes: float | None = None,
        settings: ServingSettings = _DEFAULTS,
    ) -> Self:
        """The server whose memory that is.

        Raises:
            RequirementError: the model is no transformer of tokens.
        """
        requirement = memory.requirement
        model = requirement.model
        if not isinstance(model, Transformer):
            raise RequirementError(
                "model.kind: only a transformer serves tokens; ask for images or samples instead"
            )
        if available_bytes is None:
            available_bytes = usual_bytes(requirement, board.memory_bytes)
        forward = ForwardPass.of(model, requirement.precision, board, memory.layout, settings)
        load = requirement.load
        cached_ratio = load.prefix_cache_ratio if forward.attention.is_causal else 0.0
        return cls(
            memory=memory,
            forward=forward,
            prompt=forward.prompts(
                load.input_tokens, cached_tokens=cached_ratio * load.input_tokens
            ),
            available_bytes=available_bytes,
            capacity=Capacity.of(memory, available_bytes),
            settings=settings,
            error=serving_error(model, board),
        )

    def at(self, concurrency: float) -> Serving:
        """With so many requests in flight on all GPUs together."""
        replicas = self.memory.layout.data
        running = self.capacity.share(concurrency / replicas)
        served = min(concurrency, running.running * replicas)
        if self.forward.attention.is_causal:
            return self._generating(running, served)
        return self._encoding(running, served)

    def _generating(self, running: Running, served: float) -> Serving:
        load, requests = self.memory.requirement.load, running.running
        answer = max(1.0, load.output_tokens)
        step = self.forward.decode(requests, load.input_tokens + answer / 2.0)
        prompt = self.prompt
        beside = (requests - 1.0) / answer / self.memory.layout.pipeline
        cycle = step.plus(prompt, beside)
        # What the GPUs do for one round of answers, however prompts arrive: that is conserved.
        residence = answer * step.seconds + (1.0 + answer * beside) * prompt.seconds
        before = max(bunch(running.asked, self.settings.bunching_ratio), 1.0 + beside)
        first = step.seconds + before * prompt.seconds
        rate = served * answer / residence
        between = self._between(step, prompt.seconds * beside)
        return Serving(
            ttft_ms=_milliseconds(first + running.queue_seconds(residence), self.error.first_token),
            tpot_ms=between,
            tokens_per_second=Interval(
                rate, rate * between.value / between.high, rate * between.value / between.low
            ),
            bound=cycle.bound,
            running=served,
        )

    def _between(self, step: PassCost, prompts_seconds: float) -> Interval:
        """Between two tokens; prompts are surer to be cheaper than to be dearer."""
        error = self.error
        low = (step.seconds + prompts_seconds / error.prompts) / error.step
        whole = step.seconds + prompts_seconds
        return Interval(1e3 * whole, 1e3 * low, 1e3 * whole * error.step)

    def _encoding(self, running: Running, served: float) -> Serving:
        tokens = self.memory.requirement.load.input_tokens
        each = max(1.0, running.running / self.memory.layout.pipeline)
        batch = self.forward.prompts(tokens, each)
        rate = served * tokens / batch.seconds
        seconds = batch.seconds + running.queue_seconds(batch.seconds)
        return Serving(
            ttft_ms=_milliseconds(seconds, self.error.first_token),
            tpot_ms=Interval(0.0, 0.0, 0.0),
            tokens_per_second=Interval.around(rate, self.error.step),
            bound=batch.bound,
            running=served,
        )


def _milliseconds(seconds: float, factor: float) -> Interval:
    return Interval.around(1e3 * seconds, factor)
