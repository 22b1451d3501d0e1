"""Throughput ratios of GPUs without a profile."""

import itertools
import math
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rightsizer.catalogue.board import Board, Precision
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.ratio_table import RatioFit, built_in_ratios
from rightsizer.model.errors import RequirementError
from rightsizer.sizing.ratio import (
    error_kind,
    is_no_worse,
    log_score,
    overhead_seconds,
    throughput_ratio,
)
from rightsizer.sizing.served_model import LARGE, SMALL, llm_tokens_per_second
from rightsizer.sizing.workload_family import (
    WORKLOADS,
    ComparedWorkload,
    ModelKind,
    WorkloadActivity,
    parse_precision,
    parse_workload,
)

BOARDS = st.sampled_from(sorted(built_in().boards)).map(built_in().get)
NAMES = st.sampled_from(sorted(WORKLOADS)).map(parse_workload)
TABLE = built_in_ratios()


@given(NAMES, BOARDS)
def test_a_board_is_as_fast_as_itself(workload: ComparedWorkload, board: Board) -> None:
    """The ratio of a board to itself is 1, and certain."""
    ratio = throughput_ratio(workload, board, board, TABLE)
    assert (ratio.low, ratio.value, ratio.high) == (1.0, 1.0, 1.0)


@given(NAMES, BOARDS, BOARDS)
def test_turned_around_the_ratio_is_inverse(
    workload: ComparedWorkload, board: Board, other: Board
) -> None:
    """B over A and A over B multiply to 1, and so do the ends of their intervals."""
    there = throughput_ratio(workload, board, other, TABLE)
    back = throughput_ratio(workload, other, board, TABLE)
    assert there.value * back.value == pytest.approx(1.0)
    assert there.low * back.high == pytest.approx(1.0)
    assert there.low <= there.value <= there.high


def test_peaks_that_are_not_achieved_make_no_better_board() -> None:
    """An MI300X has higher peaks than an H200, and trains a language model more slowly."""
    nvidia, amd = (built_in().get(key) for key in ("H200-SXM-141GB", "MI300X"))
    assert amd.peak(Precision.BF16) > nvidia.peak(Precision.BF16)
    assert not is_no_worse(amd, nvidia)
    ratio = throughput_ratio(parse_workload("training-llm"), nvidia, amd, TABLE)
    assert ratio.value < 0.9


def test_a_board_that_is_no_worse_is_never_slower() -> None:
    """This covers all pairs of the catalog at every workload, whatever was measured."""
    boards = built_in().boards.values()
    better = [(a, b) for a, b in itertools.permutations(boards, 2) if is_no_worse(b, a)]
    assert len(better) > 100
    for workload in WORKLOADS.values():
        assert all(throughput_ratio(workload, a, b, TABLE).value >= 1.0 for a, b in better)


@given(NAMES, BOARDS, st.floats(1.0, 8.0))
def test_more_of_everything_is_not_slower(
    workload: ComparedWorkload, board: Board, factor: float
) -> None:
    """A hypothetical board with larger values is at least as fast."""
    larger = replace(
        board,
        key="LARGER",
        memory_bytes=board.memory_bytes * factor,
        memory_bandwidth_bytes_per_second=board.memory_bandwidth_bytes_per_second * factor,
        peak_per_second={name: peak * factor for name, peak in board.peak_per_second.items()},
    )
    assert throughput_ratio(workload, board, larger, TABLE).value >= 1.0


def test_boards_short_of_memory_fall_behind_at_language_models() -> None:
    """An L40S has three quarters of an A100's int8 peak, but no memory for requests."""
    boards = built_in()
    formats = (Precision.FP8, Precision.BF16)
    short = boards.get("L40S")
    roomy = replace(short, memory_bytes=4 * short.memory_bytes)
    assert llm_tokens_per_second(roomy, formats) > 1.5 * llm_tokens_per_second(short, formats)


def test_a_latency_bound_costs_slow_memory() -> None:
    """An L40S loses more than an H100, whose steps are shorter; the default lies between."""
    short, long = (built_in().get(key) for key in ("L40S", "H100-SXM5-80GB"))
    offline, server, both = (
        throughput_ratio(parse_workload(f"inference-llm{name}"), short, long, TABLE).value
        for name in ("-offline", "-server", "")
    )
    assert offline < both < server


def test_small_models_need_less_memory_bandwidth() -> None:
    """Long prompts on a small model are compute-bound: twice the bandwidth hardly helps."""
    board = built_in().get("H100-SXM5-80GB")
    faster = replace(
        board, memory_bandwidth_bytes_per_second=2 * board.memory_bandwidth_bytes_per_second
    )
    formats = (Precision.FP8,)
    large, small = (
        llm_tokens_per_second(faster, formats, model) / llm_tokens_per_second(board, formats, model)
        for model in (LARGE, SMALL)
    )
    assert 1.0 < small < large < 2.0


def test_eight_bit_integers_count_in_part_where_there_is_no_fp8() -> None:
    """An H100's lead over an A100 is between those in 16 bits and fp8, and in 8 bits on both."""
    workload = parse_workload("inference-llm")
    a100, h100 = (built_in().get(key) for key in ("A100-SXM4-80GB", "H100-SXM5-80GB"))
    fp8, best, int8 = (
        throughput_ratio(replace(workload, precision=precision), a100, h100, TABLE).value
        for precision in (Precision.FP8, None, Precision.INT8)
    )
    assert fp8 > best > int8 > 1.5


def test_a_format_that_only_one_board_has_widens_the_gap() -> None:
    """In fp8, which an A100 unpacks to 16 bits, an H100 leads by more than in 16 bits."""
    workload = parse_workload("training-llm")
    a100, h100 = (built_in().get(key) for key in ("A100-SXM4-80GB", "H100-SXM5-80GB"))
    in_fp8 = throughput_ratio(replace(workload, precision=Precision.FP8), a100, h100, TABLE)
    in_bf16 = throughput_ratio(replace(workload, precision=Precision.BF16), a100, h100, TABLE)
    assert in_fp8.value > in_bf16.value > 1.5


def test_unmeasured_ratio_has_a_wider_interval() -> None:
    """A board or family outside the table has no narrower interval."""
    workload = parse_workload("inference-cnn")
    a100, h100 = (built_in().get(key) for key in ("A100-SXM4-80GB", "H100-SXM5-80GB"))
    unknown = replace(h100, key="LAB-1")
    fit = TABLE.fits[WorkloadActivity.INFERENCE]
    assert error_kind(fit, workload, a100, h100) == "across measured"
    assert error_kind(fit, parse_workload("inference-speech"), a100, h100) == "across other family"
    assert error_kind(fit, workload, a100, unknown) == "across unmeasured"
    assert error_kind(fit, workload, a100, replace(a100, key="LAB-2")) == "same unmeasured"


def test_every_kind_of_pair_has_an_error() -> None:
    """No pair of the catalog lacks an interval of its own."""
    boards = built_in().boards.values()
    for workload in WORKLOADS.values():
        fit = TABLE.fits[workload.activity]
        kinds = {error_kind(fit, workload, a, b) for a, b in itertools.combinations(boards, 2)}
        assert kinds <= fit.errors.keys()
        assert all(0.05 < fit.errors[kind] < math.log(4.0) for kind in kinds)


def test_a_fit_adds_what_is_known_of_family_and_board() -> None:
    """Exponents are the common part plus the family's; board effects apply within a family."""
    fit = RatioFit({"power": 0.3}, {"cnn": {"power": 0.1}}, {"T4": {"cnn": -0.1}})
    assert fit.exponent("power", ModelKind.CNN) == pytest.approx(0.4)
    assert fit.exponent("power", ModelKind.LLM) == 0.3
    assert fit.beyond("T4", ModelKind.CNN) == pytest.approx(-0.1)
    assert fit.beyond("L4", ModelKind.CNN) == fit.beyond("T4", ModelKind.LLM) == 0.0
    assert fit.beyond_architecture("Turing", ModelKind.CNN) == 0.0


def test_more_of_a_figure_never_slows() -> None:
    """No exponent of the packaged table is negative, in any family."""
    for fit in TABLE.fits.values():
        for figure, family in itertools.product(fit.exponents, ModelKind):
            assert figure == "other_vendor" or fit.exponent(figure, family) >= 0.0


TRAININGS = [
    workload for workload in WORKLOADS.values() if workload.activity is WorkloadActivity.TRAINING
]


def twice(board: Board) -> Board:
    """A board with twice of everything."""
    return replace(
        board,
        key="TWICE",
        memory_bytes=2 * board.memory_bytes,
        nominal_memory_bytes=2 * (board.nominal_memory_bytes or board.memory_bytes),
        memory_bandwidth_bytes_per_second=2 * board.memory_bandwidth_bytes_per_second,
        power_limit_watts=2 * board.power_limit_watts,
        nvlink_bytes_per_second=2 * board.nvlink_bytes_per_second,
        infinity_fabric_bytes_per_second=2 * board.infinity_fabric_bytes_per_second,
        pcie_width=2 * board.pcie_width,
        peak_per_second={name: 2 * peak for name, peak in board.peak_per_second.items()},
    )


@given(st.sampled_from(TRAININGS), st.sampled_from((1, 2, 8, 64)))
def test_twice_of_everything_trains_twice_as_fast(workload: ComparedWorkload, gpus: int) -> None:
    """Exponents sum to 1; the fixed time of a step costs a little, fewer exchanges may add more."""
    asked = replace(workload, gpus=gpus)
    for key in ("RTX4090", "A100-SXM4-80GB", "T4", "V100-SXM2-32GB"):
        board = replace(built_in().get(key), key="ONCE")
        ratio = throughput_ratio(asked, board, twice(board), TABLE).value
        assert 1.94 < ratio < 2.001 or (gpus > 1 and 1.94 < ratio < 4.0)


def test_the_fixed_time_of_short_steps_costs_fast_boards_more() -> None:
    """Launches take an A100 and a B200 alike; steps of language models take seconds."""
    cnn, llm = (
        [
            throughput_ratio(replace(parse_workload(name), gpus=1), board, twice(board), TABLE)
            for board in (
                replace(built_in().get(key), key="ONCE") for key in ("A100-SXM4-80GB", "B200")
            )
        ]
        for name in ("training-cnn", "training-llm")
    )
    assert 2.0 > cnn[0].value > cnn[1].value + 0.03
    assert [each.value for each in llm] == pytest.approx([2.0, 2.0], rel=0.001)


def test_exponents_sum_to_one() -> None:
    """This holds for every activity and family of the packaged table."""
    for activity, fit in TABLE.fits.items():
        figures = fit.exponents.keys() - {"other_vendor", "llm"}
        for family in ModelKind:
            total = sum(fit.exponent(figure, family) for figure in figures)
            assert total == pytest.approx(1.0, abs=0.001), (activity, family)


def test_only_exchanges_that_weigh_are_charged() -> None:
    """Small gradients hide behind compute over PCIe too; those of large encoders do not."""
    pcie, linked = (built_in().get(key) for key in ("A100-PCIE-80GB", "A100-SXM4-80GB"))
    lost = {
        name: throughput_ratio(replace(parse_workload(name), gpus=1), pcie, linked, TABLE).value
        / throughput_ratio(replace(parse_workload(name), gpus=8), pcie, linked, TABLE).value
        for name in ("training-cnn", "training-detection", "training-transformer-encoder")
    }
    assert 0.95 < lost["training-cnn"] < 1.0
    assert 0.95 < lost["training-detection"] < 1.0
    assert 0.6 < lost["training-transformer-encoder"] < 0.85


def test_a_bridge_joins_two() -> None:
    """A PCIe A100 exchanges over its bridge with one other, and over PCIe with seven."""
    board = built_in().get("A100-PCIE-80GB")
    alone, two, eight = (
        overhead_seconds(board, ModelKind.TRANSFORMER_ENCODER, gpus) for gpus in (1, 2, 8)
    )
    assert 0.0 < 10.0 * (two - alone) < eight - alone


def test_bridges_carry_a_part_of_a_sum_but_little_of_what_goes_to_all() -> None:
    """Each of a pair sums half of the rest; features still go to six of eight over PCIe."""
    bridged = built_in().get("A100-PCIE-80GB")
    bare = replace(bridged, linked_gpu_count=None)
    families = (ModelKind.LLM, ModelKind.RECOMMENDER)
    over, through = (
        {
            family: overhead_seconds(board, family, 8) - overhead_seconds(board, family, 1)
            for family in families
        }
        for board in (bridged, bare)
    )
    shares = {family: over[family] / through[family] for family in families}
    assert shares[ModelKind.LLM] == pytest.approx(3 / 7, abs=0.02)
    assert shares[ModelKind.RECOMMENDER] == pytest.approx(6 / 7, abs=0.02)


FIGURES: Final = (
    "peak_per_second",
    "memory_bandwidth_bytes_per_second",
    "power_limit_watts",
    "nominal_memory_bytes",
    "linked_gpu_count",
    "nvlink_bytes_per_second",
    "pcie_width",
)


@given(st.sampled_from(TRAININGS), BOARDS, st.sampled_from(FIGURES), st.sampled_from((1, 2, 6, 64)))
def test_more_of_any_one_figure_never_trains_slower(
    workload: ComparedWorkload, board: Board, figure: str, gpus: int
) -> None:
    """This holds for any other values, and without the rule for boards that are no worse."""
    known: Any = getattr(board, figure) or 0
    more = (
        {name: 2 * peak for name, peak in known.items()}
        if known is board.peak_per_second
        else 2 * known
    )
    asked = replace(workload, gpus=gpus)
    fit = TABLE.fits[WorkloadActivity.TRAINING]
    larger = log_score(fit, asked, replace(board, **{figure: more}))
    assert larger >= log_score(fit, asked, board) - 1e-9


@pytest.mark.parametrize("gpus", [1, 8])
def test_little_memory_takes_more_steps(gpus: int) -> None:
    """Batches are smaller; gradients and launches are not."""
    board = built_in().get("A30")
    roomy = replace(board, nominal_memory_bytes=48e9)
    little, much = (overhead_seconds(each, ModelKind.CNN, gpus) for each in (board, roomy))
    assert little == pytest.approx(2.0 * much)
    assert much > 0.0


def test_a_group_that_is_not_reported_is_one_more_thing_to_be_wrong_about() -> None:
    """The ratio lies between those for one GPU and for eight, and its interval is wider."""
    pcie, linked = (built_in().get(key) for key in ("A100-PCIE-80GB", "A100-SXM4-80GB"))
    workload = parse_workload("training-transformer-encoder")
    untold, one, eight = (
        throughput_ratio(replace(workload, gpus=gpus), pcie, linked, TABLE) for gpus in (None, 1, 8)
    )
    assert one.value < untold.value < eight.value
    assert untold.high / untold.low > one.high / one.low


def test_unmeasured_families_keep_the_plain_form() -> None:
    """A board's effect in a measured family does not apply to others."""
    fit = TABLE.fits[WorkloadActivity.TRAINING]
    speech = parse_workload("training-speech")
    plain = RatioFit(fit.exponents, fit.family_exponents)
    for board in built_in().boards.values():
        assert log_score(fit, speech, board) == log_score(plain, speech, board)


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("diffusion", "inference-diffusion"),
        ("whisper-large-v3", "inference-speech"),
        ("Llama-3.1-70B-Instruct", "inference-llm"),
        ("BERT large training", "training-transformer-encoder"),
        ("segmentation-3d", "inference-segmentation-3d"),
        ("resnet50 offline", "inference-cnn-offline"),
        ("llm-chat", "inference-llm"),
    ],
)
def test_workload_is_found_by_what_people_call_it(spelled: str, name: str) -> None:
    """Family and model names are accepted; serving is the default."""
    assert parse_workload(spelled).name == name


def test_unknown_names_are_refused_with_those_known() -> None:
    """Covers workloads and formats."""
    with pytest.raises(RequirementError, match=r"'inference-poetry'.*inference- and one of cnn"):
        parse_workload("inference-poetry")
    with pytest.raises(RequirementError, match=r"'training'.*did you mean training-llm"):
        parse_workload("training")
    with pytest.raises(RequirementError, match=r"'fp17'.*bf16"):
        parse_precision("fp17")
