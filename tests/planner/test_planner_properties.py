"""Properties of every plan."""

from typing import Final

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue, built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.planner.candidate import preference
from rightsizer.planner.planner import Planner
from rightsizer.planner.search import Search
from rightsizer.planner.transformer_shape import TransformerDescription, completed_shape
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.requirement import ModelTask, Parallelism, Requirement, Training
from rightsizer.sizing.settings import SizingSettings
from sizing_models import published

PLANNER: Final = Planner(built_in(), built_in_prices())
GPUS: Final = ("L4", "L40S", "A100-SXM4-80GB", "H100-SXM5-80GB", "B200")
GROWN: Final = st.sampled_from(("layers", "context", "batch"))
LAYERS: Final = st.integers(4, 60)


def requirement_of(layers: int, context: int, batch: int, task: ModelTask) -> Requirement:
    """A model with the given number of layers."""
    model = completed_shape(
        TransformerDescription(layers=layers, hidden=2048, heads=16, kv_heads=8, vocab=32000)
    )
    return Requirement(
        model,
        task,
        load=RequestLoad(input_tokens=context, concurrency=batch),
        training=Training(micro_batch=batch, sequence=context),
        parallel=Parallelism(),
        gpus=("H100-SXM5-80GB",),
    )


def larger_board(board: Board, factor: float) -> Board:
    """A board better in every respect."""
    return replace(
        board,
        key="BETTER",
        names=(),
        other_names=(),
        memory_bytes=board.memory_bytes * factor,
        memory_bandwidth_bytes_per_second=board.memory_bandwidth_bytes_per_second * factor,
        power_limit_watts=board.power_limit_watts * factor,
        nvlink_bytes_per_second=board.nvlink_bytes_per_second * factor,
        peak_per_second={
            document: peak * factor for document, peak in board.peak_per_second.items()
        },
    )


@settings(max_examples=25)
@given(
    layers=LAYERS,
    context=st.integers(16, 8192),
    batch=st.integers(1, 64),
    task=st.sampled_from([ModelTask.INFERENCE, ModelTask.TRAINING]),
    grown=GROWN,
)
def test_more_of_anything_never_needs_less_memory(
    layers: int, context: int, batch: int, task: ModelTask, grown: str
) -> None:
    """This covers layers, and so parameters; context; batch."""
    factors = {each: 2 if each == grown else 1 for each in ("layers", "context", "batch")}
    before = PLANNER.plan(requirement_of(layers, context, batch, task))
    after = PLANNER.plan(
        requirement_of(
            layers * factors["layers"],
            context * factors["context"],
            batch * factors["batch"],
            task,
        )
    )

    assert after.memory.total_bytes >= before.memory.total_bytes
    assert after.candidates[0].memory_headroom_ratio <= before.candidates[0].memory_headroom_ratio


@settings(max_examples=25)
@given(
    gpu=st.sampled_from(GPUS),
    factor=st.floats(1.0, 3.0),
    layers=LAYERS,
    concurrency=st.none() | st.integers(1, 200),
    tensor=st.sampled_from([1, 2, 4]),
)
def test_a_gpu_better_in_every_respect_is_not_slower_and_not_behind_at_the_same_price(
    gpu: str, factor: float, layers: int, concurrency: int | None, tensor: int
) -> None:
    """The layout is the same."""
    board = built_in().boards[gpu]
    better = larger_board(board, factor)
    planner = replace(PLANNER, catalogue=Catalogue({gpu: board, better.key: better}))
    model = completed_shape(
        TransformerDescription(layers=layers, hidden=2048, heads=16, kv_heads=8, vocab=32000)
    )
    plan = planner.plan(
        Requirement(
            model,
            load=RequestLoad(concurrency=concurrency),
            parallel=Parallelism(tensor=tensor),
            prices={gpu: 1.0, better.key: 1.0},
        )
    )
    by_gpu = {candidate.gpu: candidate for candidate in plan.candidates}
    rates = [by_gpu[key].rate.units_per_second for key in (gpu, better.key)]

    assert rates[0] is not None
    assert rates[1] is not None
    assert rates[1].value >= rates[0].value * (1 - 1e-9)
    assert by_gpu[better.key].fits or not by_gpu[gpu].fits
    if by_gpu[gpu].fits and factor > 1.01:
        assert (by_gpu[better.key].dollars_per_million or 0) <= (
            by_gpu[gpu].dollars_per_million or 0
        )


@settings(max_examples=15)
@given(
    layers=st.integers(8, 80),
    asked=st.none() | st.floats(10, 50_000),
    tpot_ms=st.none() | st.floats(5, 200),
)
def test_the_order_is_that_of_the_cost_of_work_at_the_sure_rate(
    layers: int, asked: float | None, tpot_ms: float | None
) -> None:
    """Every fitting candidate meets the requirements."""
    model = completed_shape(
        TransformerDescription(layers=layers, hidden=4096, heads=32, kv_heads=8, vocab=32000)
    )
    load = RequestLoad(units_per_second=asked, tpot_ms=tpot_ms)
    found = [
        candidate
        for candidate in PLANNER.plan(Requirement(model, load=load, gpus=GPUS)).candidates
        if candidate.fits
    ]
    costs = [
        each.sure_dollars_per_million
        for each in found
        if each.sure_dollars_per_million is not None and each.is_sure
    ]

    assert costs == pytest.approx(sorted(costs), rel=1e-3)
    assert [each.is_sure for each in found] == sorted(
        (each.is_sure for each in found), reverse=True
    )
    for each in found:
        assert each.rate.units_per_second is not None
        assert each.rate.tpot_ms is not None
        assert each.memory_headroom_ratio >= 0.1 - 1e-9
        assert asked is None or each.rate.units_per_second.value >= asked * (1 - 1e-6)
        assert tpot_ms is None or each.rate.tpot_ms.value <= tpot_ms


@settings(max_examples=15)
@given(
    gpu=st.sampled_from(GPUS),
    asked=st.floats(10, 20_000),
    ttft_ms=st.floats(50, 2000),
    dollars=st.none() | st.just(2.0),
)
@example(gpu="B200", asked=20.0 * 256.0, ttft_ms=100.0, dollars=2.0)
def test_of_layouts_with_as_many_gpus_at_an_equal_price_the_surest_is_best(
    gpu: str, asked: float, ttft_ms: float, dollars: float | None
) -> None:
    """Layouts of a mixture differ in certainty at the same count."""
    load = RequestLoad(units_per_second=asked, ttft_ms=ttft_ms, sure_ratio=0.8)
    requirement = Requirement(published("Mixtral-8x7B"), load=load)
    search = Search(requirement, SizingSettings(), lambda _: dollars)
    candidates = [candidate for candidate in search.all(built_in().boards[gpu]) if candidate.fits]
    assume(candidates)
    best = min(candidates, key=preference)
    alike = [candidate.certainty for candidate in candidates if candidate.count == best.count]

    assert best.certainty >= max(alike) - 0.001
