"""What joins the GPUs of a host: links of their own, PCIe, or the host's memory alone."""

import json
from itertools import pairwise

import pytest

from plan_answers import requirement_of
from rightsizer.catalogue.catalogue import built_in
from rightsizer.cli.main import main
from rightsizer.sizing.collectives import HostLink, all_reduce_seconds, joined_by

BOARDS = built_in().boards
Captured = pytest.CaptureFixture[str]


def rate_of(capsys: Captured, line: str) -> float:
    """Rate of the only candidate of a line."""
    assert main(["plan", *line.split(), "--json"]) == 0
    (candidate,) = json.loads(capsys.readouterr().out)["candidates"]
    return float(candidate["tokens_per_second"])


@pytest.mark.parametrize("board", ["L40S", "A100-SXM4-80GB", "H100-PCIE-80GB", "MI300X"])
@pytest.mark.parametrize("gpus", [2, 4, 8])
@pytest.mark.parametrize("payload", [8e3, 1e6, 1e8])
def test_a_host_with_less_is_no_faster(board: str, gpus: int, payload: float) -> None:
    """Links, then PCIe with peer access, then none."""
    joined = [joined_by(BOARDS[board], link) for link in (None, HostLink.PCIE, HostLink.NONE)]
    seconds = [all_reduce_seconds(each, gpus, payload) for each in joined if each is not None]

    assert len(seconds) == 3
    assert all(one <= other for one, other in pairwise(seconds))


def test_geforce_boards_do_not_reach_each_other() -> None:
    """Their driver gives no peer access; eight RTX 4090 take 40 us for 8 bytes (NCCL, 1530)."""
    board = BOARDS["RTX4090"]

    assert not board.reaches_peers
    assert all_reduce_seconds(board, 8, 8.0) == pytest.approx(40e-6, rel=0.05)


def test_two_boards_without_peer_access_are_as_slow_as_one(capsys: Captured) -> None:
    """Prompts wait for sums that go through the host's memory twice a layer."""
    line = "--model llama-3.1-8b --gpus L40S --concurrency 64 --in 2000 --out 200"
    one = rate_of(capsys, f"{line} --layout tp1")
    two = rate_of(capsys, f"{line} --layout tp2 --link none")
    reaching = rate_of(capsys, f"{line} --layout tp2 --link pcie")

    assert two < 1.15 * one
    assert reaching > 1.25 * two


def test_the_link_is_asked_for_as_the_other_words() -> None:
    """In a file and on the line."""
    assert requirement_of(model="8B", link="none").link is HostLink.NONE
    assert requirement_of(model="8B").link is None


def test_boards_without_links_are_left_out(capsys: Captured) -> None:
    """Named alone, they are refused with a remedy."""
    assert main(["plan", "--model", "8B", "--gpus", "L40S", "--link", "nvlink"]) == 2
    assert "L40S has no links of its own; take pcie or none" in capsys.readouterr().err


def test_the_answer_says_how_hosts_and_runtimes_were_taken(capsys: Captured) -> None:
    """Also where they were not asked for, as rates hang on them."""
    assert main(["plan", "resnet-50", "--gpus", "L40S", "--link", "pcie"]) == 0
    assert "runtime compiled, link pcie" in " ".join(capsys.readouterr().out.split())
