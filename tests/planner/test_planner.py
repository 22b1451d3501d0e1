"""Plans: each filter with its reason, ranking by cost of work, and alternatives."""

from collections.abc import Sequence
from typing import Final

import pytest
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.model.errors import RequirementError
from rightsizer.planner.candidate import CandidateFilter
from rightsizer.planner.planner import GpuPlan, Planner, boards_of
from rightsizer.planner.validation import validation_steps
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.memory import available_bytes
from rightsizer.sizing.models import ConvolutionalNetwork, VisionTransformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import (
    LoadGrowth,
    ModelTask,
    Parallelism,
    Precisions,
    Requirement,
    Training,
)
from rightsizer.sizing.settings import PlanSettings, SizingSettings
from sized import estimate_memory, serve
from sizing_models import published

PLANNER: Final = Planner(built_in(), built_in_prices())
SMALL: Final = published("Llama-3.1-8B")
LARGE: Final = published("Llama-3.1-70B")
H100: Final = "H100-SXM5-80GB"


def reasons(plan: GpuPlan, gpu: str) -> Sequence[str]:
    """Why a kind of GPU was rejected."""
    return [
        str(why)
        for candidate in plan.candidates
        if candidate.gpu == gpu
        for why in candidate.rejections
    ]


def test_every_kind_of_gpu_is_a_candidate_once() -> None:
    """This is the default; fitting kinds are numbered from 1 in order, before the others."""
    plan = PLANNER.plan(Requirement(LARGE))

    assert {candidate.gpu for candidate in plan.candidates} == set(built_in().boards)
    assert len(plan.candidates) == len(built_in().boards)
    ranks = [candidate.rank for candidate in plan.candidates if candidate.fits]
    assert ranks == list(range(1, len(ranks) + 1))
    assert all(candidate.fits == (candidate.rank is not None) for candidate in plan.candidates)
    assert [candidate.fits for candidate in plan.candidates] == sorted(
        (candidate.fits for candidate in plan.candidates), reverse=True
    )


def test_a_layout_and_a_concurrency_that_are_given_are_kept_and_predicted() -> None:
    """The prediction is for them, even if memory is insufficient."""
    requirement = Requirement(
        LARGE, load=RequestLoad(concurrency=7), parallel=Parallelism(tensor=2), gpus=("L4", H100)
    )
    plan = PLANNER.plan(requirement)
    by_gpu = {candidate.gpu: candidate for candidate in plan.candidates}
    board = built_in().boards["L4"]
    room = available_bytes(requirement, board.memory_bytes)
    served = serve(requirement, board, Parallelism(tensor=2), 7, available_bytes=room)

    assert [candidate.layout for candidate in plan.candidates] == [Parallelism(tensor=2)] * 2
    assert not by_gpu["L4"].fits
    assert reasons(plan, "L4")[0].startswith("memory: needs ")
    assert by_gpu["L4"].rate.concurrency == 7
    assert by_gpu["L4"].rate.units_per_second == served.tokens_per_second
    assert by_gpu[H100].memory == estimate_memory(requirement, Parallelism(tensor=2), 7)


def test_replicas_are_added_until_the_tokens_asked_for_are_made() -> None:
    """No more are added than needed."""
    asked = 20_000.0
    plan = PLANNER.plan(Requirement(SMALL, load=RequestLoad(units_per_second=asked), gpus=(H100,)))
    best = plan.candidates[0]

    assert best.fits
    assert best.layout.data > 1
    assert best.rate.units_per_second is not None
    surely = best.rate.units_per_second.quantile(0.1)
    assert asked <= surely < asked * best.layout.data / (best.layout.data - 1)


def test_replicas_are_added_until_the_requests_find_their_memory() -> None:
    """All requests run at once, and each replica holds its share."""
    plan = PLANNER.plan(
        Requirement(SMALL, load=RequestLoad(4000, 500, concurrency=500), gpus=("L40S",))
    )
    best = plan.candidates[0]

    assert best.fits
    assert best.count > 1
    assert best.rate.concurrency == 500


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        (RequestLoad(tpot_ms=1.0), "bandwidth: "),
        (RequestLoad(input_tokens=8000, ttft_ms=10.0), "compute: first token after "),
        (RequestLoad(units_per_second=1e9), "throughput: "),
    ],
)
def test_a_load_beyond_a_gpu_is_reported_by_what_it_lacks(load: RequestLoad, reason: str) -> None:
    """The reason has the reached latency or tokens, and the requested ones."""
    plan = PLANNER.plan(Requirement(SMALL, load=load, gpus=("L4",)))

    assert not plan.candidates[0].fits
    assert plan.candidates[0].fits_memory
    assert reasons(plan, "L4")[0].startswith(reason)
    assert plan.why_nothing_fits.startswith("nothing fits, because ")


def test_the_least_that_would_do_is_named_where_nothing_asked_for_does() -> None:
    """It is taken from all GPUs, in a layout of its own."""
    plan = PLANNER.plan(Requirement(LARGE, parallel=Parallelism(), gpus=("T4",)))

    assert plan.best is None
    assert plan.least is not None
    assert plan.least.fits
    assert plan.memory == plan.candidates[0].memory


def test_nothing_would_do_is_an_answer_too() -> None:
    """No GPU makes a token in a microsecond."""
    plan = PLANNER.plan(Requirement(SMALL, load=RequestLoad(tpot_ms=0.001)))

    assert plan.best is None
    assert plan.least is None
    assert "memory bandwidth is too low" in plan.why_nothing_fits


def test_the_work_is_compared_not_the_hour() -> None:
    """A GPU at twice the price with more than twice the work comes first."""
    requirement = Requirement(
        LARGE,
        load=RequestLoad(concurrency=64),
        parallel=Parallelism(tensor=8),
        gpus=("A100-SXM4-40GB", "B200"),
        prices={"A100-SXM4-40GB": 2.0, "B200": 4.0},
    )
    first, second = PLANNER.plan(requirement).candidates

    assert (first.gpu, second.gpu) == ("B200", "A100-SXM4-40GB")
    assert first.dollars_per_hour == 8 * 4.0
    assert second.dollars_per_hour == 8 * 2.0
    assert (first.dollars_per_million or 0.0) < (second.dollars_per_million or 0.0)


def test_tokens_that_nobody_asks_for_save_nothing() -> None:
    """Ten tokens a second come from the GPU with the cheapest hour, whatever a larger reaches."""
    prices = {"L4": 0.5, "B200": 5.0}
    requirement = Requirement(
        SMALL, load=RequestLoad(units_per_second=10), gpus=tuple(prices), prices=prices
    )

    assert PLANNER.plan(requirement).candidates[0].gpu == "L4"


def test_without_a_price_the_fewest_gpus_come_first() -> None:
    """All GPUs with a price precede them."""
    planner = replace(PLANNER, prices=replace(built_in_prices(), by_board={}))
    requirement = Requirement(LARGE, gpus=("L40S", "B200", H100), prices={"L40S": 50.0})
    found = planner.plan(requirement).candidates

    assert [each.gpu for each in found] == ["L40S", "B200", H100]
    assert found[1].count < found[2].count
    assert found[1].dollars_per_million is None


def test_stated_tensor_parallelism_is_in_every_layout() -> None:
    """Stages and replicas are still searched; what cannot be divided so is an error."""
    asked = Requirement(SMALL, load=RequestLoad(units_per_second=20_000.0), tensor=4)
    plan = PLANNER.plan(asked)
    layouts = [candidate.layout for candidate in plan.candidates]

    assert {layout.tensor for layout in layouts} == {4}
    assert max(layout.data for layout in layouts) > 1
    for model, parallel, message in (
        (replace(SMALL, heads=4, kv_heads=4), None, "tp: 4 heads do not divide by 8"),
        (SMALL, Parallelism(tensor=8), "tp: the whole layout is given"),
        (VisionTransformer(12, 768, 12), None, "tp: the model is replicated"),
    ):
        with pytest.raises(RequirementError, match=message):
            PLANNER.plan(Requirement(model, parallel=parallel, tensor=8))
    slices = PLANNER.plan(replace(asked, gpus=(f"{H100}:3g.40gb",)))
    assert "slices of MIG cannot be joined" in slices.why_nothing_fits
    assert any(alternative.change.endswith("(no tp)") for alternative in slices.alternatives)


def test_a_price_of_a_single_small_cloud_comes_last() -> None:
    """An A30 is listed by Seeweb alone, an H100 NVL by a marketplace; a GB200 is rented by OCI.

    Naming GPUs, or a price, makes them equal to others.
    """
    requirement = Requirement(SMALL, load=RequestLoad(units_per_second=1280.0))
    plan = PLANNER.plan(requirement)
    clouds = {candidate.gpu: candidate.sole_cloud for candidate in plan.candidates}
    ranks = {candidate.gpu: candidate.rank or 0 for candidate in plan.candidates}
    priced = [
        candidate
        for candidate in plan.candidates
        if candidate.fits and candidate.sure_dollars_per_million
    ]

    assert {gpu: cloud for gpu, cloud in clouds.items() if cloud} == {
        "A16": "Vultr",
        "A30": "Seeweb",
        "H100-NVL-94GB": "Spheron marketplace",
        "QuadroRTX6000": "Seeweb",
        "RTX5090": "Yotta",
    }
    most = max(each.rank or 0 for each in priced if not each.sole_cloud)
    assert most < ranks["A30"] <= len(priced)
    named = PLANNER.plan(replace(requirement, gpus=("A30", "L4")))
    assert not any(candidate.sole_cloud for candidate in named.candidates)
    own = PLANNER.plan(replace(requirement, prices={"A30": 0.29}))
    assert own.candidates[0].gpu == "A30"


def test_a_narrower_format_a_slice_and_another_layout_are_offered() -> None:
    """Each fits, and states what to verify."""
    plan = PLANNER.plan(Requirement(SMALL, load=RequestLoad(concurrency=8), gpus=(H100,)))
    kinds = {alternative.kind for alternative in plan.alternatives}

    assert kinds == {"quantization", "layout", "mig"}
    assert all(alternative.candidate.fits for alternative in plan.alternatives)
    assert all(
        alternative.caution for alternative in plan.alternatives if alternative.kind != "layout"
    )


def test_a_narrower_format_is_no_change_where_the_weights_have_it() -> None:
    """Weights in int4 are not narrowed to fp8."""
    precision = Precisions(weights=NumberFormat.INT4)
    plan = PLANNER.plan(Requirement(SMALL, precision=precision, gpus=(H100,)))

    assert [
        alternative.change
        for alternative in plan.alternatives
        if alternative.kind == "quantization"
    ] == []


def test_the_load_at_the_end_of_the_growth_takes_as_many_gpus_as_a_plan_of_it() -> None:
    """Months without a change are omitted."""
    load = RequestLoad(units_per_second=8000)
    growth = LoadGrowth(0.1, 12)
    requirement = Requirement(SMALL, load=load, growth=growth, gpus=("L40S",))
    plan = PLANNER.plan(requirement)
    later = replace(load, units_per_second=8000 * growth.factor)

    assert plan.growth[0].candidate == plan.candidates[0]
    assert plan.growth[-1].month == 12
    end = PLANNER.plan(replace(requirement, load=later)).candidates[0]
    assert plan.growth[-1].candidate.count == end.count > plan.candidates[0].count
    counts = [step.candidate.count for step in plan.growth[:-1]]
    assert counts == sorted(set(counts))


def test_a_load_that_misses_its_latency_is_spread_over_as_few_replicas_as_meet_it() -> None:
    """One replica fewer would miss it."""
    load = RequestLoad(2000, 300, concurrency=600, tpot_ms=30.0)
    requirement = Requirement(SMALL, load=load, gpus=("H200-SXM-141GB",))
    best = PLANNER.plan(requirement).candidates[0]
    fewer = replace(best.layout, data=best.layout.data - 1)
    short = PLANNER.plan(replace(requirement, parallel=fewer)).candidates[0]

    assert best.fits
    assert best.layout.data > 1
    assert [rejection.by for rejection in short.rejections] == [CandidateFilter.BANDWIDTH]


def test_layouts_of_more_gpus_are_tried_until_one_is_fast_enough() -> None:
    """A GPU with more memory than another is not rejected for fitting on one GPU already."""
    load = RequestLoad(500, 1000, units_per_second=2000, tpot_ms=20.0)
    plan = PLANNER.plan(Requirement(SMALL, load=load, gpus=("T4", "L4")))

    assert {candidate.gpu: candidate.fits for candidate in plan.candidates} == {
        "T4": True,
        "L4": True,
    }


@pytest.mark.parametrize("load", [RequestLoad(), RequestLoad(tpot_ms=50.0)])
def test_a_load_that_tells_no_amount_does_not_grow(load: RequestLoad) -> None:
    """There is no amount to multiply."""
    requirement = Requirement(SMALL, load=load, growth=LoadGrowth(0.1, 12), gpus=(H100,))

    assert PLANNER.plan(requirement).growth == ()


def test_training_takes_the_fewest_gpus_that_hold_it() -> None:
    """State is sharded over as many as the stage allows."""
    training = Training(sequence=4096, zero_stage=3)
    requirement = Requirement(
        SMALL, ModelTask.TRAINING, training=training, gpus=("A100-SXM4-40GB",)
    )
    best = PLANNER.plan(requirement).candidates[0]
    room = available_bytes(requirement, built_in().boards[best.gpu].memory_bytes)

    assert best.fits
    assert best.count > 1
    for count in range(1, best.count):
        for layout in (Parallelism(data=count), Parallelism(tensor=count)):
            if SMALL.heads % layout.tensor == 0:
                assert estimate_memory(requirement, layout).total_bytes > room


def test_replicas_stop_at_the_sequences_of_a_step() -> None:
    """Two sequences use at most two replicas."""
    training = Training(global_batch=2, zero_stage=3)
    plan = PLANNER.plan(Requirement(LARGE, ModelTask.TRAINING, training=training))

    assert all(candidate.layout.data <= 2 for candidate in plan.candidates)


def test_tensor_parallel_training_wants_links() -> None:
    """Over PCIe it stops at two."""
    training = Training(sequence=2048)
    plan = PLANNER.plan(Requirement(SMALL, ModelTask.TRAINING, training=training, gpus=("L40S",)))

    assert plan.candidates[0].layout.tensor <= 2


def test_the_search_stops_at_the_most_gpus() -> None:
    """The reason names the limit."""
    planner = replace(PLANNER, settings=SizingSettings(plan=PlanSettings(gpu_maximum=4)))
    requirement = Requirement(LARGE, load=RequestLoad(units_per_second=50_000), gpus=(H100,))
    found = planner.plan(requirement).candidates[0]

    assert found.count <= 4
    assert "that would take" in str(found.rejections[0])


def test_a_gpu_may_be_named_as_its_driver_does_and_counts_once() -> None:
    """Names are the key, NVML's name, and a slice."""
    names = (H100, "NVIDIA H100 80GB HBM3", f"{H100}:1g.10gb")

    assert [board.key for board in boards_of(names, built_in())] == [H100, f"{H100}:1g.10gb"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("H101-SXM5-80GB", "gpus: board 'H101-SXM5-80GB' is not in the catalogue; did you mean"),
        (f"{H100}:9g.90gb", f"gpus: {H100} has no slice '9g.90gb'; it has 1g.10gb"),
        ("T4:1g.5gb", "gpus: T4 has no slice '1g.5gb'; it has none: it has no MIG"),
    ],
)
def test_a_gpu_that_nobody_knows_is_refused(name: str, message: str) -> None:
    """The error lists similar names."""
    with pytest.raises(RequirementError) as raised:
        PLANNER.plan(Requirement(SMALL, gpus=(name,)))
    assert str(raised.value).startswith(message)


def test_a_slice_is_a_part_of_its_board_in_everything() -> None:
    """This covers memory, speed and price; memory is that visible in the slice."""
    whole, part = boards_of((H100, f"{H100}:3g.40gb"), built_in())
    names = (whole.key, part.key)
    plan = PLANNER.plan(Requirement(SMALL, load=RequestLoad(concurrency=4), gpus=names))
    by_gpu = {candidate.gpu: candidate for candidate in plan.candidates}
    slower, faster = (by_gpu[key].rate.units_per_second for key in (part.key, whole.key))
    cheaper, dearer = (by_gpu[key].gpu_dollars_per_hour for key in (part.key, whole.key))

    assert part.memory_bytes < whole.memory_bytes / 2
    assert slower is not None
    assert faster is not None
    assert slower.value < faster.value
    assert cheaper == pytest.approx((dearer or 0.0) / 2)


def test_a_plan_is_checked_at_its_load_and_above_it() -> None:
    """The run at the load confirms or refutes the prediction."""
    requirement = Requirement(SMALL, load=RequestLoad(concurrency=40, tpot_ms=50), gpus=(H100,))
    best = PLANNER.plan(requirement).candidates[0]
    steps = validation_steps(requirement, best)

    assert [step.concurrency for step in steps] == [1, 20, 40, 50]
    assert "50 ms between tokens" in steps[2].expect
    made = best.rate.units_per_second
    assert made is not None
    assert f"{made.low:,.0f} to {made.high:,.0f} output tokens/s" in steps[2].expect


def test_a_single_request_is_checked_once() -> None:
    """Half of it and the load itself are the same."""
    requirement = Requirement(SMALL, load=RequestLoad(concurrency=1), gpus=(H100,))
    steps = validation_steps(requirement, PLANNER.plan(requirement).candidates[0])

    assert [step.concurrency for step in steps] == [1, 2]


def test_training_takes_its_hours() -> None:
    """The rate is that of all GPUs together; the price is for a million tokens."""
    training = Training(sequence=4096, zero_stage=3, tokens=1e9)
    requirement = Requirement(SMALL, ModelTask.TRAINING, training=training, gpus=(H100,))
    best = PLANNER.plan(requirement).candidates[0]

    assert best.rate.units_per_second is not None
    assert best.rate.training_hours is not None
    hours = 1e9 / best.rate.units_per_second.value / 3600
    assert best.rate.training_hours.value == pytest.approx(hours)
    dollars = best.dollars_per_hour
    assert dollars is not None
    assert best.dollars_per_million == pytest.approx(dollars * hours / 1000)


def test_a_model_of_images_answers_in_batches_that_are_in_time() -> None:
    """Batches are smaller where time is short, but at least one image."""
    model = ConvolutionalNetwork(parameters=25.6e6, forward_flops=8.2e9)
    usual = PLANNER.plan(Requirement(model, gpus=("L4",))).candidates[0]
    assert usual.rate.ttft_ms is not None
    half = usual.rate.ttft_ms.value / 2
    hurried = PLANNER.plan(
        Requirement(model, load=RequestLoad(ttft_ms=half), gpus=("L4",))
    ).candidates[0]
    late = PLANNER.plan(
        Requirement(model, load=RequestLoad(ttft_ms=1e-3), gpus=("L4",))
    ).candidates[0]

    assert hurried.fits
    assert hurried.rate.ttft_ms is not None
    assert hurried.rate.ttft_ms.value <= half
    assert (late.rate.concurrency, late.fits) == (1, False)


def test_a_batch_of_images_stays_within_the_memory() -> None:
    """Sixty-four at a time would exceed it."""
    model = VisionTransformer(layers=24, hidden=2048, heads=16, image=1344, patch=7)
    requirement = Requirement(model, gpus=("L4",))
    best = PLANNER.plan(requirement).candidates[0]
    room = available_bytes(requirement, built_in().boards["L4"].memory_bytes)
    most = estimate_memory(requirement, Parallelism(), 64).total_bytes

    assert best.fits
    assert 1 <= (best.rate.concurrency or 0) < 64
    assert best.memory.total_bytes <= room < most


def test_memory_that_may_turn_out_short_is_marked() -> None:
    """The upper end of its interval decides."""
    training = Training(sequence=4096, zero_stage=3)
    requirement = Requirement(SMALL, ModelTask.TRAINING, training=training)
    found = PLANNER.plan(requirement).candidates

    assert any(each.is_memory_tight and each.fits for each in found)
    assert any(not each.is_memory_tight for each in found)
    for each in found:
        assert each.is_memory_tight == (each.memory.total.high > each.usable_bytes)
