"""Whether a rate keeps what the load asks for: prefill by compute, decode by bandwidth."""

import math
from collections.abc import Iterator
from typing import Final

from rightsizer.sizing.candidates import Filter, Rate, Rejection
from rightsizer.sizing.requirement import Load, Parallelism

__all__ = ["is_late", "too_slow"]

_ROUNDING: Final = 1e-9


def is_late(load: Load, rate: Rate) -> bool:
    """Whether a latency is above what is asked for."""
    return any(True for _ in _late(load, rate))


def too_slow(load: Load, rate: Rate, layout: Parallelism) -> Iterator[Rejection]:
    """What of the load is not kept; how many tokens it makes does not matter once it is late."""
    late = tuple(_late(load, rate))
    yield from late
    made, asked = rate.tokens_per_second, load.tokens_per_second
    if late or made is None or asked is None or made.value >= asked * (1.0 - _ROUNDING):
        return
    more = (
        f"; that would take {math.ceil(asked / made.value) * layout.gpus} GPUs"
        if made.value > 0
        else ""
    )
    yield Rejection(
        Filter.THROUGHPUT,
        f"makes {made.value:.4g} a second, {asked:g} asked for{more}",
    )


def _late(load: Load, rate: Rate) -> Iterator[Rejection]:
    first, between = rate.ttft_ms, rate.tpot_ms
    if load.ttft_ms is not None and first is not None and first.value > load.ttft_ms:
        yield Rejection(
            Filter.COMPUTE,
            f"first token after {first.value:.0f} ms, {load.ttft_ms:g} ms asked for",
        )
    if load.tpot_ms is not None and between is not None and between.value > load.tpot_ms:
        yield Rejection(
            Filter.BANDWIDTH,
            f"{between.value:.1f} ms between tokens, {load.tpot_ms:g} ms asked for",
        )
