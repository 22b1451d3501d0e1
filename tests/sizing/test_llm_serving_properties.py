"""Properties of every served model, board and load."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import Parallelism, Precisions, Requirement
from rightsizer.sizing.serving import Serving
from sized import serve

ALMOST = 1.0 + 1e-9
DENSE = Transformer(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256)
MODELS = (
    DENSE,
    replace(DENSE, experts=8, experts_per_token=2, sliding_window=4096),
    replace(DENSE, kv_lora_rank=512, rope_head_dim=64, query_lora_rank=1536),
)
BOARDS = tuple(built_in().boards.values())
REQUIREMENTS = st.builds(
    Requirement,
    model=st.sampled_from(MODELS),
    precision=st.builds(Precisions, weights=st.sampled_from(NumberFormat)),
    load=st.builds(
        RequestLoad,
        input_tokens=st.sampled_from([1, 100, 5000]),
        output_tokens=st.sampled_from([1, 64, 2048]),
        prefix_cache_ratio=st.sampled_from([0.0, 0.5, 0.99]),
    ),
)
LAYOUTS = st.builds(
    Parallelism,
    tensor=st.sampled_from([1, 2, 8]),
    pipeline=st.sampled_from([1, 2]),
    data=st.sampled_from([1, 3]),
)
COUNTS = st.integers(1, 400)
SHARES = st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=2, max_size=2)


def faster(board: Board, factor: float) -> Board:
    """The same board with more compute and bandwidth."""
    return replace(
        board,
        memory_bandwidth_bytes_per_second=factor * board.memory_bandwidth_bytes_per_second,
        peak_per_second={key: factor * peak for key, peak in board.peak_per_second.items()},
        memory_bytes=factor * board.memory_bytes,
    )


def seconds(served: Serving, requirement: Requirement) -> float:
    """Time of a whole answer."""
    tokens = requirement.load.output_tokens
    return served.ttft_ms.value + (tokens - 1) * served.tpot_ms.value


@given(REQUIREMENTS, st.sampled_from(BOARDS), LAYOUTS, COUNTS, st.floats(1.0, 3.0))
def test_a_better_board_is_never_slower(
    requirement: Requirement, board: Board, layout: Parallelism, count: int, factor: float
) -> None:
    """This covers tokens a second and whole answers.

    A single latency may grow: with more memory more requests run at a time instead of waiting.
    """
    before = serve(requirement, board, layout, count)
    after = serve(requirement, faster(board, factor), layout, count)

    assert after.tokens_per_second.value * ALMOST >= before.tokens_per_second.value
    assert seconds(after, requirement) <= seconds(before, requirement) * ALMOST


@given(REQUIREMENTS, st.sampled_from(BOARDS), LAYOUTS, COUNTS, COUNTS)
def test_more_requests_never_lower_throughput_or_latencies(
    requirement: Requirement, board: Board, layout: Parallelism, count: int, more: int
) -> None:
    """Each added request adds tokens and delays others."""
    before = serve(requirement, board, layout, count)
    after = serve(requirement, board, layout, count + more)

    assert after.tokens_per_second.value * ALMOST >= before.tokens_per_second.value
    assert after.tpot_ms.value * ALMOST >= before.tpot_ms.value
    assert after.ttft_ms.value * ALMOST >= before.ttft_ms.value


@given(REQUIREMENTS, st.sampled_from(BOARDS), LAYOUTS, COUNTS, st.integers(1, 4000))
def test_longer_prompts_never_make_it_faster(
    requirement: Requirement, board: Board, layout: Parallelism, count: int, more: int
) -> None:
    """This covers tokens a second."""
    load = requirement.load
    longer = replace(requirement, load=replace(load, input_tokens=load.input_tokens + more))
    before, after = (serve(each, board, layout, count) for each in (requirement, longer))

    assert after.tokens_per_second.value <= before.tokens_per_second.value * ALMOST


@given(REQUIREMENTS, st.sampled_from(BOARDS), LAYOUTS, COUNTS, SHARES)
def test_more_of_the_prompts_in_the_cache_never_makes_it_slower(
    requirement: Requirement, board: Board, layout: Parallelism, count: int, shares: list[float]
) -> None:
    """This covers each latency and tokens a second; as many requests run at a time."""
    less, more = (
        serve(
            replace(requirement, load=replace(requirement.load, prefix_cache_ratio=share)),
            board,
            layout,
            count,
        )
        for share in sorted(shares)
    )

    assert more.tpot_ms.value <= less.tpot_ms.value * ALMOST
    assert more.ttft_ms.value <= less.ttft_ms.value * ALMOST
    assert more.tokens_per_second.value * ALMOST >= less.tokens_per_second.value
    assert more.running == less.running


@given(REQUIREMENTS, st.sampled_from(BOARDS), LAYOUTS, COUNTS)
def test_intervals_hold_what_they_are_around(
    requirement: Requirement, board: Board, layout: Parallelism, count: int
) -> None:
    """All values are above 0."""
    served = serve(requirement, board, layout, count)

    for interval in (served.ttft_ms, served.tpot_ms, served.tokens_per_second):
        assert 0.0 < interval.low < interval.value < interval.high
