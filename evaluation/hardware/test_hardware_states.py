"""Labeled workloads on real boards: what the agent and logs say of them."""

import pytest

from evaluation.hardware.states import RECORDINGS, Score, scores

BY_TITLE = {recording.title: recording for recording in RECORDINGS}
UNSEEN = {"small_kernels", "eager_decode"}
"""The GPU waits for launches for most of the time, which only the host's side would show."""
LOGGED_EMPTY = {"light_service"}
"""A log has no processes, and 1.1 GB are less than the 1% of an H200 from which memory is held."""
TIMED_LOOSELY = 0.15
"""Logs with times in whole seconds mix the ends of a workload with the gaps beside it."""


def seen(title: str) -> dict[str, Score]:
    """Scores of the programs whose bottleneck the GPU's signals show."""
    found = scores(BY_TITLE[title])
    return {name: score for name, score in found.items() if name not in UNSEEN}


@pytest.mark.parametrize(
    ("title", "right_ratio", "wrong_ratio"),
    [("H100", 0.9, 0.06), ("H200", 0.9, 0.08), ("H100, ten a second", 0.7, 0.01)],
)
def test_states_on_real_boards_are_right(
    title: str, right_ratio: float, wrong_ratio: float
) -> None:
    """Each bottleneck is recognized, and its expected conditions hold."""
    found = seen(title)
    assert [name for name, score in found.items() if score.right_ratio < right_ratio] == []
    assert [name for name, score in found.items() if score.wrong_ratio > wrong_ratio] == []
    assert [name for name, score in found.items() if not score.has_conditions] == []


@pytest.mark.parametrize(
    "title", ["H100, nvidia-smi", "H200, nvidia-smi", "H100, dmon", "H200, dmon"]
)
def test_logs_of_nvidia_smi_claim_nothing_wrong(title: str) -> None:
    """Without profiling counters a stall, a copy and idleness are told; the rest is no claim."""
    found = seen(title)
    wrong = {name for name, score in found.items() if score.wrong_ratio > TIMED_LOOSELY}
    assert wrong <= LOGGED_EMPTY
    assert found["waiting_collective"].right_ratio > 0.8
    assert found["idle_with_context"].right_ratio > 0.8
