"""Cost of communication between GPUs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.collectives import ServerLinks, all_reduce_seconds, send_seconds

BOARDS = built_in().boards
H100 = BOARDS["H100-SXM5-80GB"]
B200 = BOARDS["B200"]
L40S = BOARDS["L40S"]


def test_a_gpu_alone_sums_nothing() -> None:
    """It does not pay the latency of a sum either."""
    assert all_reduce_seconds(H100, 1, 1e9) == 0.0


def test_a_sum_is_a_latency_and_the_bytes_over_the_bus() -> None:
    """Bus bandwidth counts 2 (n - 1) / n of the bytes, as the NCCL tests do."""
    assert all_reduce_seconds(H100, 4, 1e9) == pytest.approx(9.6e-6 + 1.5e9 / 349.8e9)


def test_small_sums_over_newer_links_take_no_longer() -> None:
    """Engines have kernels of their own for them, independent of NCCL."""
    assert all_reduce_seconds(B200, 8, 0.0) == all_reduce_seconds(H100, 8, 0.0)
    assert all_reduce_seconds(L40S, 8, 0.0) == pytest.approx(23.2e-6)
    mi300x = BOARDS["MI300X"]
    assert all_reduce_seconds(mi300x, 8, 0.0) == mi300x.all_reduce[8].small_message_seconds == 26e-6


def test_sums_over_pcie_collapse() -> None:
    """Eight boards without NVLink are slower together than two."""
    payload = 8192 * 8192 * 2.0

    assert all_reduce_seconds(L40S, 8, payload) > 5 * all_reduce_seconds(L40S, 2, payload)


def test_a_slot_carries_a_fifth_of_its_bandwidth_at_least() -> None:
    """Sums over eight L40S were measured on one server at 1.5 GB/s; others reach more."""
    assert all_reduce_seconds(L40S, 8, 1e9) == pytest.approx(2 * 7 / 8 / (0.2 * 31.5), rel=0.01)


def test_sums_beyond_a_server_cross_the_network() -> None:
    """Sixteen H100 sum within each of two servers, exchange an eighth, then sum within again."""
    inside = all_reduce_seconds(H100, 8, 1e9)
    network = 1e9 / 8 / 50e9

    links = ServerLinks(H100, 50e9)

    assert links.sum_seconds(8, 1e9) == inside
    assert links.sum_seconds(16, 1e9) == pytest.approx(inside + network, rel=0.02)


def test_replicas_that_lie_partly_in_one_server_sum_there_first() -> None:
    """Sixteen replicas of four tensor parallel GPUs each fill eight servers, two in each."""
    links = ServerLinks(H100, 50e9)
    payload = 1e9
    inside = all_reduce_seconds(H100, 2, payload)
    network = 2 * 7 / 8 * (payload / 2) / 50e9
    apart = links.sum_seconds(2, payload, apart=8)

    assert links.sum_seconds(16, payload, apart=4) == pytest.approx(inside + network, rel=0.01)
    assert apart == pytest.approx(payload / 50e9, rel=0.01)


def test_links_of_a_rack_replace_the_network() -> None:
    """NVLink joins 72 GB200: 64 GPUs sum, and eight stages of eight hand on, without a network."""
    fast, slow = (ServerLinks(BOARDS["GB200"], rate) for rate in (50e9, 1e9))

    assert fast.joined == 72
    assert fast.sum_seconds(64, 1e9) == slow.sum_seconds(64, 1e9)
    assert fast.stage_seconds(8, 8, 1e9) == slow.stage_seconds(8, 8, 1e9)
    assert fast.sum_seconds(128, 1e9) < slow.sum_seconds(128, 1e9)


def test_stages_hand_on_over_the_network_where_a_server_ends() -> None:
    """Four stages of four H100 fill two servers; each of the four ranks sends its part."""
    links = ServerLinks(H100, 50e9)
    seconds = links.stage_seconds(4, 4, 1e9)

    assert seconds == pytest.approx(2 * send_seconds(H100, 1e9) + 1e-5 + 1e9 / 4 / 50e9)
    assert links.stage_seconds(1, 8, 1e9) == 0.0


def test_a_group_between_those_measured_counts_as_the_next_larger() -> None:
    """Six GPUs have the bandwidth and the latency of eight."""
    six = all_reduce_seconds(H100, 6, 1e9)

    assert six == pytest.approx(15.75e-6 + 2 * 5 / 6 * 1e9 / 445e9)


def test_a_larger_group_takes_more_steps() -> None:
    """Sixteen have twice the latency of eight, over the same bus."""
    assert all_reduce_seconds(H100, 16, 0.0) == pytest.approx(2 * 15.75e-6)


def test_a_board_that_nobody_has_measured_sums_over_pcie() -> None:
    """An operator's board may have no measurements."""
    unknown = replace(L40S, all_reduce={})

    assert all_reduce_seconds(unknown, 2, 1e9) == pytest.approx(
        2e-5 + 1e9 / (0.6 * unknown.pcie_bytes_per_second)
    )


def test_stages_hand_on_over_the_best_way_there_is() -> None:
    """It is NVLink where available, else PCIe."""
    assert send_seconds(H100, 1e9) == pytest.approx(1e-5 + 1e9 / (0.85 * 450e9))
    assert send_seconds(L40S, 1e9) == pytest.approx(
        1e-5 + 1e9 / (0.85 * L40S.pcie_bytes_per_second)
    )


@given(st.sampled_from(sorted(BOARDS)), st.integers(2, 16), st.floats(0, 1e9), st.floats(1, 1e9))
def test_more_bytes_never_take_less(key: str, gpus: int, payload: float, more: float) -> None:
    """This holds for any board and group."""
    board = BOARDS[key]

    assert all_reduce_seconds(board, gpus, payload + more) >= all_reduce_seconds(
        board, gpus, payload
    )
