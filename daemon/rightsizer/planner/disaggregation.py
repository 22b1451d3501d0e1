"""Disaggregation: prefill and decode of a served model on GPUs of their own."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.planner.alternatives import Alternative
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.display import dollars
from rightsizer.planner.search import Search, SearchFactory
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import Requirement
from rightsizer.sizing.serving_memory import kv_cache, kv_cache_format

_LEAST_MS: Final = 1e-9
"""Where the cache's way takes all the time to the first token: nothing is as fast."""


class _Pair(NamedTuple):
    prompts: PlanCandidate
    answers: PlanCandidate
    is_linked: bool
    """Whether the network is too slow for the caches, and links are not."""


def disaggregated(
    requirement: Requirement,
    boards: Sequence[Board],
    search: SearchFactory,
    network_bytes_per_second: float,
    together: PlanCandidate | None = None,
) -> Iterator[Alternative]:
    """Yield the cheapest GPUs for prompts beside others for answers, if that saves anything.

    Steps then never wait for prompts, and each part has its own layout. Only for tokens at a rate:
    without one, neither part has a size. Caches cross the network, or links where only these are
    fast enough and join both parts. `together` is the best that does both, or `None`.
    """
    load = requirement.load
    rate = requirement.requests_per_second
    model = requirement.model
    is_answered = isinstance(model, Transformer) and not model.is_encoder
    if rate is None or not is_answered or load.concurrency is not None or load.latency_ms:
        return
    cache_bytes = kv_cache(model, kv_cache_format(requirement.precision)).request_bytes(
        load.input_tokens
    )
    pairs = _pairs(requirement, boards, search, network_bytes_per_second, cache_bytes)
    pair = min(pairs, key=lambda pair: _price(pair[:2]), default=None)
    if pair is None:
        return
    first, then, is_linked = pair
    whole = _price((first, then))
    if together is not None and whole >= _price((together,)):
        return
    if requirement.budget is not None and whole > (False, requirement.budget):
        return
    cost = "" if whole[0] else f": ${dollars(whole[1])} an hour together"
    change = f"prefill on {_with_layout(first)}, decode on {_with_layout(then)}{cost}"
    way = ", over links that join all of them" if is_linked else ""
    sent = f"{rate * cache_bytes / 1e9:.3g} GB/s of KV cache between them{way}"
    yield Alternative("disaggregation", change, then, f"{sent} (disaggregated prefill)", first)


def _pairs(
    requirement: Requirement,
    boards: Sequence[Board],
    search: SearchFactory,
    network_bytes_per_second: float,
    cache_bytes: float,
) -> Iterator[_Pair]:
    """Yield those that fit, a board each."""
    load = requirement.load
    is_open = replace(requirement, parallel=None, tensor=None)
    answers = search(replace(is_open, load=replace(load, ttft_ms=None, is_prefilled=True)))

    @cache
    def prompts(bytes_per_second: float) -> Search:
        first_ms = load.ttft_ms
        if first_ms is not None:
            first_ms = max(_LEAST_MS, first_ms - 1e3 * cache_bytes / bytes_per_second)
        # A prompt's first token comes with it, and no draft head follows.
        prompt_load = replace(
            load,
            output_tokens=1.0,
            units_per_second=requirement.requests_per_second,
            ttft_ms=first_ms,
            tpot_ms=None,
            speculative_tokens=0.0,
        )
        return search(replace(is_open, load=prompt_load))

    def pair(board: Board, bytes_per_second: float) -> _Pair | None:
        first = prompts(bytes_per_second).best(board)
        then = answers.best(board)
        is_linked = bytes_per_second > network_bytes_per_second
        return _Pair(first, then, is_linked) if first.holds and then.holds else None

    def linked(board: Board) -> _Pair | None:
        if load.ttft_ms is None or board.linked_gpu_count is None:
            return None
        if board.link_bytes_per_second <= network_bytes_per_second:
            return None
        linked_pair = pair(board, board.link_bytes_per_second)
        if (
            linked_pair is None
            or linked_pair.prompts.count + linked_pair.answers.count > board.linked_gpu_count
        ):
            return None
        return linked_pair

    for board in boards:
        board_pair = pair(board, network_bytes_per_second) or linked(board)
        if board_pair is not None:
            yield board_pair


def _with_layout(candidate: PlanCandidate) -> str:
    spread = f" ({candidate.layout})" if candidate.count > 1 else ""
    return f"{candidate.with_spares}{spread}"


def _price(candidates: Iterable[PlanCandidate]) -> tuple[bool, float]:
    """Dollars an hour, or the number of GPUs if a price is unknown, which ranks last."""
    parts = tuple(candidates)
    priced = [candidate.dollars_per_hour for candidate in parts]
    prices = [price for price in priced if price is not None]
    if len(prices) < len(parts):
        return True, float(sum(candidate.count for candidate in parts))
    return False, sum(prices)
