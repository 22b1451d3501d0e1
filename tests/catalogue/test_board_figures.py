"""Data of boards is consistent and has its origin."""

import itertools
import math

import pytest

from rightsizer.catalogue.board import Efficiency, MigProfile, OriginKind, Precision
from rightsizer.catalogue.catalogue import built_in

BOARDS = built_in().boards
TENSOR_LADDER = (Precision.TF32, Precision.BF16, Precision.FP8, Precision.FP4)


def test_a_narrower_format_is_about_twice_as_fast() -> None:
    """Or as fast, or, on a GeForce with slow fp8, four times as fast in fp4; never slower."""
    for board in BOARDS.values():
        peaks = [
            board.peak_per_second[each] for each in TENSOR_LADDER if each in board.peak_per_second
        ]
        for wider, narrower in itertools.pairwise(peaks):
            assert 1.0 <= narrower / wider <= 4.0, board.key
        assert board.peak_per_second[Precision.FP32] <= board.peak_per_second[Precision.BF16], (
            board.key
        )


def test_a_peak_is_what_its_clock_and_its_width_allow() -> None:
    """An SM does a whole number of operations a cycle, at a clock near its maximum."""
    for board in BOARDS.values():
        assert board.sm_clock_maximum_hertz is not None, board.key
        each = board.peak_per_second[Precision.BF16] / board.sm_count / board.sm_clock_maximum_hertz
        # 2^8 for Pascal's vectors to 2^13 for Blackwell's tensor cores, and boost clocks differ.
        assert 2**8 * 0.7 < each < 2**13 * 1.3, board.key


def test_memory_of_the_driver_is_near_the_published_memory() -> None:
    """Some boards lose a part to error correction; none has more GiB than its stated GB."""
    for board in BOARDS.values():
        assert board.nominal_memory_bytes is not None, board.key
        shown = board.memory_bytes / 2**30
        assert (
            0.92 * board.nominal_memory_bytes / 1e9
            <= shown
            <= 1.001 * board.nominal_memory_bytes / 1e9
        ), board.key


def test_achieved_figures_are_below_the_peaks() -> None:
    """For each peak, and for the bandwidth in each format, measured or assumed; GeForce boosts."""
    for board in BOARDS.values():
        most = 0.99 if "GeForce" in str(board.names) else 0.9
        for precision in Precision:
            assert 0.2 < board.efficiency.gemm_ratio(precision) <= most, board.key
        for ratios in (board.efficiency.weight_read, board.efficiency.decode_attention):
            assert all(0.4 < ratio <= 0.9 for ratio in ratios.values()), board.key
        assert board.efficiency.gemm.keys() <= board.peak_per_second.keys(), board.key
        assert 0.5 < board.efficiency.power_cap_ratio <= 1.0, board.key
        achieved = board.achieved(Precision.BF16)
        assert achieved is not None, board.key
        assert achieved < board.peak_per_second[Precision.BF16], board.key


def test_sums_over_gpus_cost_what_the_way_allows() -> None:
    """Never more than a GPU can send; over more GPUs a small message takes longer."""
    for board in BOARDS.values():
        assert sorted(board.all_reduce) == [2, 4, 8], board.key
        most = max(board.link_bytes_per_second, board.pcie_bytes_per_second)
        delays = [board.all_reduce[count].small_message_seconds for count in (2, 4, 8)]
        # Switches that add let eight H200 exceed the rate of a single sender.
        assert all(
            0 < each.bytes_per_second <= 1.03 * most for each in board.all_reduce.values()
        ), board.key
        assert delays == sorted(delays), board.key
        assert 5e-6 < delays[0] < delays[-1] < 50e-6, board.key


def test_shares_of_a_kind_of_slice_fill_the_board() -> None:
    """The whole board is a profile too; the smallest slices leave at most a quarter unused."""
    for board in BOARDS.values():
        if not board.mig_profiles:
            continue
        whole = board.mig_profiles[-1]
        smallest = board.mig_profiles[0]
        assert (whole.compute_share, whole.memory_share, whole.maximum_count) == (1.0, 1.0, 1), (
            board.key
        )
        assert smallest.compute_share * smallest.maximum_count == pytest.approx(1.0), board.key
        assert smallest.memory_share * smallest.maximum_count >= 0.75, board.key
        assert [profile.compute_share for profile in board.mig_profiles] == sorted(
            profile.compute_share for profile in board.mig_profiles
        ), board.key


def test_a_slice_shows_a_little_less_than_its_share() -> None:
    """Its name states about as much, in GB that mean GiB."""
    for board in BOARDS.values():
        for profile in board.mig_profiles:
            assert profile.memory_bytes is not None, board.key
            assert 0.9 < profile.memory_bytes / (board.memory_bytes * profile.memory_share) < 1.0, (
                board.key
            )
            named = int(profile.name.partition(".")[2].removesuffix("gb"))
            assert profile.memory_bytes / 2**30 == pytest.approx(named, rel=0.06), board.key


@pytest.mark.parametrize(
    ("key", "profile", "mib"),
    [
        ("A100-SXM4-40GB", "1g.5gb", 4864),
        ("A100-SXM4-40GB", "2g.10gb", 9984),
        ("A100-SXM4-80GB", "2g.20gb", 20070),
        ("H200-SXM-141GB", "3g.71gb", 71475),
    ],
)
def test_reckoned_slices_show_what_real_ones_do(key: str, profile: str, mib: float) -> None:
    """As observed on slices of real boards."""
    (found,) = (
        mig_profile for mig_profile in BOARDS[key].mig_profiles if mig_profile.name == profile
    )

    assert found.memory_bytes == pytest.approx(mib * 2**20, rel=0.01)


def test_every_figure_tells_where_it_comes_from() -> None:
    """Fields with an origin exist, and none is without a source."""
    for board in BOARDS.values():
        for figure in board.origins:
            head, _, part = figure.partition(".")
            assert head != "dense_peak_tera" or Precision(part) in board.peak_per_second, board.key
        for figure in ("names", "memory_mib", "sm_count", "efficiency.gemm.bf16", "all_reduce.8"):
            assert board.origin(figure).source, board.key
        assert board.origin("l2_mb").kind is OriginKind.RECALLED, board.key


def test_measured_figures_are_distinguished_from_assumed_ones() -> None:
    """By field: an H100 was never measured in fp32, nor a GB200 in 8 bits."""
    kinds = {
        (key, figure): BOARDS[key].origin(figure).kind
        for key, figure in (
            ("H100-SXM5-80GB", "efficiency.gemm.bf16"),
            ("H100-SXM5-80GB", "efficiency.gemm.fp32"),
            ("GB200", "all_reduce.4"),
            ("GB200", "all_reduce.8"),
        )
    }

    assert list(kinds.values()) == [
        OriginKind.MEASURED,
        OriginKind.ASSUMED,
        OriginKind.MEASURED,
        OriginKind.ASSUMED,
    ]


@pytest.mark.parametrize(
    ("key", "cap"),
    [
        ("T4", math.sqrt(70 / (1.9 * 65))),
        ("H100-PCIE-80GB", math.sqrt(350 / (0.7 * 756.5))),
        ("A100-PCIE-40GB", math.sqrt(250 / (1.25 * 312))),
        ("A100-SXM4-40GB", 1.0),
        ("L40S", 1.0),
    ],
)
def test_a_low_power_limit_takes_from_what_is_assumed(key: str, cap: float) -> None:
    """By the square root of the ratio; measured values already include it."""
    board = BOARDS[key]

    assert board.efficiency.power_cap_ratio == pytest.approx(cap)
    assert board.efficiency.gemm_ratio(Precision.BF16) == pytest.approx(
        board.achievable_compute_ratio * cap
    )


def test_a_bridge_joins_two_and_the_bus_the_rest() -> None:
    """Four PCIe boards communicate over PCIe, however fast the bridges between pairs."""
    board = BOARDS["H100-PCIE-80GB"]

    assert board.all_reduce[2].bytes_per_second > board.pcie_bytes_per_second
    assert board.all_reduce[4].bytes_per_second < board.pcie_bytes_per_second
    assert board.origin("all_reduce.4").source.startswith("PCIe 5")


def test_a_format_without_a_figure_takes_that_of_the_likest() -> None:
    """The next wider one; int8 uses fp8, and either uses bf16 if nothing else is known."""
    efficiency = Efficiency(gemm={Precision.BF16: 0.7, Precision.FP8: 0.5})

    assert efficiency.gemm_ratio(Precision.INT8) == 0.5
    assert efficiency.gemm_ratio(Precision.FP4) == 0.5
    assert efficiency.gemm_ratio(Precision.TF32) == 0.7
    assert BOARDS["A100-SXM4-80GB"].efficiency.gemm_ratio(Precision.INT8) == 0.839


def test_a_peak_that_a_board_does_not_have_is_none() -> None:
    """Except fp16 with fp16 accumulation, on every board at least as fast as with fp32."""
    assert BOARDS["T4"].peak(Precision.FP8) is None
    assert BOARDS["T4"].achieved(Precision.FP8) is None
    assert BOARDS["T4"].peak(Precision.FP16_ACC16) == 65e12
    assert BOARDS["RTX4090"].peak(Precision.FP16_ACC16) == pytest.approx(330.3e12)


def test_boards_before_ampere_do_not_know_bfloat16() -> None:
    """They have fp16 instead; AMD's have both."""
    assert not BOARDS["T4"].computes_in_bf16
    assert not BOARDS["V100-SXM2-32GB"].computes_in_bf16
    assert BOARDS["A100-SXM4-80GB"].computes_in_bf16
    assert BOARDS["MI300X"].computes_in_bf16


def test_a_profile_may_do_without_what_a_slice_shows() -> None:
    """Profiles made by the simulator and operators omit it."""
    assert MigProfile("1g.10gb", 1 / 7, 1 / 8, None, 7).memory_bytes is None
