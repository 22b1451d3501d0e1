"""Files with rows that their board cannot have computed, and what one figure explains of them."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from evaluation.sizing.serving_truth import Row
from rightsizer.sizing.serving import Server, Serving
from rightsizer.sizing.serving_memory import ServingMemory

NODE_GPUS: Final = 8
_RATIOS: Final = tuple(step / 20 for step in range(20))
_PAUSES: Final = tuple(step / 4 for step in range(25))
_HALVINGS: Final = 30


class Reading(Struct, frozen=True):
    """Candidate explanation of the rows of a file, with the times it predicts."""

    title: str
    served: tuple[tuple[Row, Serving], ...]

    @property
    def distance(self) -> float:
        """The sum of |ln(predicted / measured)| of the time between tokens."""
        return sum(
            abs(math.log(serving.tpot_ms.value / row.tpot_ms)) for row, serving in self.served
        )


def server_of(row: Row, prefix_cache_ratio: float = 0.0) -> Server:
    """Server of a row, with a share of its prompts in the prefix cache."""
    load = replace(row.requirement.load, prefix_cache_ratio=prefix_cache_ratio)
    requirement = replace(row.requirement, load=load)
    return Server(ServingMemory(requirement, row.layout), row.board)


def is_computed_in_full(row: Row) -> bool:
    """Whether matrix units could have computed all prompts at the rate that was measured."""
    server = server_of(row)
    seconds = (row.ttft_ms + row.requirement.load.output_tokens * row.tpot_ms) / 1e3
    running = min(row.concurrency, server.capacity)
    return running * server.prompt.compute <= seconds


def set_apart(rows: Iterable[Row]) -> frozenset[str]:
    """Files with a row that cannot have been computed in full: how it came about goes for all."""
    return frozenset(row.file for row in rows if not is_computed_in_full(row))


def readings(rows: Sequence[Row]) -> Iterator[Reading]:
    """Each figure fitted to the time between tokens, one for all rows of a file."""
    yield Reading("as stated", _served(rows, lambda row: server_of(row).at(row.concurrency)))
    yield min(_caching(rows), key=lambda each: each.distance)
    yield min(_pausing(rows), key=lambda each: each.distance)
    yield Reading(
        f"requests spread over a node of {NODE_GPUS} GPUs",
        _served(rows, lambda row: server_of(row).at(row.concurrency * _node_share(row))),
    )


def _caching(rows: Sequence[Row]) -> Iterator[Reading]:
    for ratio in _RATIOS:
        yield Reading(
            f"{ratio:.0%} of each prompt in a prefix cache",
            _served(rows, lambda row, ratio=ratio: server_of(row, ratio).at(row.concurrency)),
        )


def _pausing(rows: Sequence[Row]) -> Iterator[Reading]:
    for seconds in _PAUSES:
        yield Reading(
            f"{seconds:.2f} s from an answer to the client's next request",
            _served(rows, lambda row, seconds=seconds: _with_pauses(row, seconds)),
        )


def _with_pauses(row: Row, seconds: float) -> Serving:
    """With those in flight that answers and pauses leave of the client's requests."""
    server = server_of(row)
    answer = row.requirement.load.output_tokens
    low = 0.0
    high = row.concurrency
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        serving = server.at(middle)
        residence = (serving.ttft_ms.value + answer * serving.tpot_ms.value) / 1e3
        if middle * (residence + seconds) < row.concurrency * residence:
            low = middle
        else:
            high = middle
    return server.at(high)


def _node_share(row: Row) -> float:
    return row.layout.gpus / NODE_GPUS


def _served(
    rows: Sequence[Row], serve: Callable[[Row], Serving]
) -> tuple[tuple[Row, Serving], ...]:
    return tuple((row, serve(row)) for row in rows)
