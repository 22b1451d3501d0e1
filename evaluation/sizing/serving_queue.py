"""Waits of the queueing formula beside a discrete-event simulation of an engine's passes."""

import math
import random
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache
from heapq import heappop, heappush
from itertools import accumulate
from statistics import fmean
from typing import Final

from msgspec import Struct

from measured import quantile, summarized
from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.serving import Server
from rightsizer.sizing.serving_memory import ServingMemory

_REQUESTS: Final = 4000
_WARM: Final = 0.1
_GAPS_SEED: Final = 11


class Simulated(Struct, frozen=True):
    """Times of the requests of a run."""

    first_seconds: Sequence[float]
    between_seconds: Sequence[float]


def gaps(rate: float, burstiness: float, count: int, seed: int = _GAPS_SEED) -> Iterator[float]:
    """Times between arrivals: gamma distributed, as load generators of engines draw them."""
    drawn = random.Random(seed)
    for _ in range(count):
        if burstiness <= 0.0:
            yield 1.0 / rate
        else:
            yield drawn.gammavariate(1.0 / burstiness, burstiness / rate)


def simulated(
    server: Server, rate: float, burstiness: float, requests: int = _REQUESTS
) -> Simulated:
    """One replica, pass by pass: a token of each that runs, and a chunk of prompts beside them.

    A request takes a place when one is free, first come first served, and has its first token when
    the last chunk of its prompt has passed.
    """
    load = server.memory.requirement.load
    answer = round(server.memory.requirement.load.output_tokens)
    context = load.input_tokens + answer / 2.0
    steps: dict[int, float] = {}
    arrivals = deque(accumulate(gaps(rate, burstiness, requests)))
    now = 0.0
    passes = 0
    running = 0
    ends: list[tuple[int, float, float]] = []
    prompts = deque[tuple[float, float]]()
    first = list[float]()
    between = list[float]()
    per_token = server.prompt.seconds / load.input_tokens
    while arrivals or prompts or ends:
        if not prompts and not ends and arrivals[0] > now:
            now = arrivals[0]
        while arrivals and arrivals[0] <= now and running < int(server.places):
            prompts.append((arrivals.popleft(), load.input_tokens))
            running += 1
        done, used = _chunk(prompts, float(server.settings.chunk_tokens or math.inf))
        writing = max(1, len(ends))
        if writing not in steps:
            steps[writing] = server.forward.decode(float(writing), context).seconds
        now += steps[writing] + used * per_token
        passes += 1
        while ends and ends[0][0] <= passes:
            _, came, began = heappop(ends)
            running -= 1
            between.append((now - began) / max(1, answer - 1))
        for came in done:
            first.append(now - came)
            heappush(ends, (passes + answer - 1, came, now))
    skipped = int(_WARM * requests)
    return Simulated(first[skipped:], between[skipped:])


def _chunk(prompts: deque[tuple[float, float]], tokens: float) -> tuple[list[float], float]:
    """Take so many tokens off the first prompts: which are through, and how many were taken."""
    done = list[float]()
    left = tokens
    while prompts and left > 0.0:
        came, rest = prompts.popleft()
        taken = min(rest, left)
        left -= taken
        if rest > taken:
            prompts.appendleft((came, rest - taken))
        else:
            done.append(came)
    return done, tokens - left


_MODEL: Final = Transformer(
    layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256, name="Llama-3.1-8B"
)
_LARGE: Final = Transformer(
    layers=64, hidden=5120, heads=64, kv_heads=8, head_dim=128, ffn=25600, vocab=151936
)
_SERVED: Final = (
    ("H100-SXM5-80GB", _MODEL, 1, 500.0, 250.0),
    ("A100-SXM4-80GB", _MODEL, 1, 3000.0, 150.0),
    ("L40S", _MODEL, 1, 1500.0, 500.0),
    ("H200-SXM-141GB", _LARGE, 2, 2000.0, 400.0),
    ("H100-SXM5-80GB", _LARGE, 4, 6000.0, 300.0),
)
"""Others than the formula was shaped by."""
_BUSY: Final = (0.3, 0.5, 0.7, 0.8)
_ARRIVALS: Final = (("steady", 0.0), ("Poisson", 1.0), ("bursty", 4.0))
_SHARES: Final = (None, 90.0, 95.0, 99.0)
_SHOWN: Final = ("mean", "p99")


def arrival_errors(requests: int = _REQUESTS) -> Iterator[str]:
    """A table of the formula over the simulation, by how requests arrive, and of closed bursts."""
    yield summarized(
        (
            (f"{name}, {_named(share)}", *_spelled(_compared(burstiness, share, requests)))
            for name, burstiness in _ARRIVALS
            for share in _SHARES
        ),
        ("arrivals", "cases", "TTFT", "median", "p90", "TPOT", "median", "p90", "closed TTFT"),
        sums_up=lambda line: line[0].endswith(_SHOWN),
    )
    yield (
        "\nThe queueing formula beside a discrete-event simulation with the same times of steps and"
        " prompts: median of predicted over simulated, and |ln|. Loads are"
        f" {', '.join(f'{each:.0%}' for each in _BUSY)} of the capacity; `closed TTFT` is of as"
        " many requests that began together.\n"
    )


@cache
def _simulated(case: int, busy: float, burstiness: float, requests: int) -> Simulated:
    server = _server(case, burstiness, None)
    return simulated(server, busy * _most(server), burstiness, requests)


def _server(case: int, burstiness: float, share: float | None) -> Server:
    key, model, tensor, asked, answered = _SERVED[case]
    load = RequestLoad(
        asked, answered, burstiness=burstiness, ttft_percentile=share, tpot_percentile=share
    )
    memory = ServingMemory(Requirement(model, load=load), Parallelism(tensor=tensor))
    return Server(memory, built_in().boards[key])


def _most(server: Server) -> float:
    answered = server.memory.requirement.load.output_tokens
    return server.at(server.places).tokens_per_second.value / answered


def _compared(
    burstiness: float, share: float | None, requests: int
) -> Iterator[tuple[float, float, float]]:
    """Logarithms of predicted over simulated: first tokens, those between, first ones if closed."""
    for case in range(len(_SERVED)):
        server = _server(case, burstiness, share)
        for busy in _BUSY:
            seen = _simulated(case, busy, burstiness, requests)
            rate = busy * _most(server)
            predicted = server.busy_with(server.running_at(rate), rate)
            first, between = (
                1e3 * (fmean(each) if share is None else quantile(each, share / 100.0))
                for each in (seen.first_seconds, seen.between_seconds)
            )
            closed = server.at(predicted.running).ttft_ms.value
            pairs = (
                (predicted.ttft_ms.value, first),
                (predicted.tpot_ms.value, between),
                (closed, first),
            )
            yield tuple(math.log(mine / other) for mine, other in pairs)


def _spelled(errors: Iterator[tuple[float, float, float]]) -> Iterator[str]:
    columns = list(zip(*errors, strict=True))
    yield str(len(columns[0]))
    for column in columns[:2]:
        yield f"x{math.exp(quantile(column, 0.5)):.2f}"
        yield from (f"{quantile(list(map(abs, column)), each):.3f}" for each in (0.5, 0.9))
    yield f"x{math.exp(quantile(columns[2], 0.5)):.2f}"


def _named(share: float | None) -> str:
    return "mean" if share is None else f"p{share:g}"
