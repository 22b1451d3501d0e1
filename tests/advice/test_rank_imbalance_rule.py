"""The rule for a job's GPUs that do unequal work, and which of them differs."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import NOW, case, window
from readings import HOUR, gpu, workload
from rightsizer.advice.rules import hidden_stall
from rightsizer.advice.rules.rank_imbalance import RULE
from rightsizer.model.block import BLOCK_SPAN, Blocks, Measure
from rightsizer.model.finding import Action, FindingKind, Reason
from rightsizer.model.state import Condition, Observation, State
from rightsizer.model.window import Window

JOB = workload()
WORK = State.COMPUTE_BOUND
STALL = State.HIDDEN_STALL
IDLE = State.IDLE_HELD
ODD = {Condition.RANK_IMBALANCE: HOUR}


def rank(hours: dict[State, float], busy: float | None = None, **facts: object) -> Window:
    """A GPU of a job that is out of balance for its whole hour."""
    blocks = Blocks()
    if busy is not None:
        blocks = Blocks.of_one(NOW - BLOCK_SPAN, 300.0, {Measure.BUSY: busy}, {Measure.BUSY: busy})
    return window(hours, **{"conditions": ODD, "blocks": blocks, **facts})


def test_the_one_that_works_while_others_spin_is_the_straggler() -> None:
    """Ranks wait in a collective for the last one."""
    spinning = rank({STALL: 0.9, WORK: 0.1}, 1.0)
    found = RULE.judge(case([spinning, spinning, rank({WORK: 1.0}, 0.5), spinning], JOB))
    assert found.kind is FindingKind.INEFFICIENT
    assert found.reasons == (Reason.RANK_IMBALANCE,)
    assert found.action is Action.INVESTIGATE_STRAGGLER
    assert found.culprits == ("GPU-2",)
    assert found.summary == (
        "GPUs 0, 1, 2 and 3 of llama: out of balance for 100% of the last 1 h: "
        "the others spin while GPU 2 works."
    )
    assert "--id=GPU-2 " in found.instructions[0].text
    assert found.savings.gpus_low == 0.0
    assert found.savings.gpus_high == pytest.approx(2.7)
    stall = hidden_stall.RULE.judge(case([spinning, rank({WORK: 1.0}, 0.5)], JOB))
    assert found.exclusive_group == stall.exclusive_group is not None


def test_the_one_that_rests_while_others_spin_works_elsewhere() -> None:
    """Rank 0 tokenizes, or hangs."""
    spinning = rank({STALL: 1.0}, 1.0)
    found = RULE.judge(case([rank({IDLE: 1.0}, 0.0), spinning, spinning], JOB))
    assert found.culprits == ("GPU-0",)
    assert found.evidence["oddity"] == "absent"
    assert "GPU 0 rests, so that its process is busy elsewhere, or hangs" in found.summary


def test_the_one_that_is_fed_less() -> None:
    """No GPU spins, and it does half of what the others do."""
    full = rank({WORK: 1.0}, 0.9)
    found = RULE.judge(case([full, full, full, rank({WORK: 1.0}, 0.4)], JOB))
    assert found.culprits == ("GPU-3",)
    assert found.summary.endswith(": GPU 3 does less than the others.")
    assert found.savings.gpus_high == pytest.approx(0.5, abs=0.01)


def test_the_one_that_does_it_all() -> None:
    """Data parallelism that gathers on rank 0."""
    low = rank({WORK: 1.0}, 0.1)
    found = RULE.judge(case([rank({WORK: 1.0}, 0.9), low, low], JOB))
    assert found.culprits == ("GPU-0",)
    assert found.summary.endswith(": GPU 0 does most of the work.")


def test_power_tells_where_busy_does_not() -> None:
    """All look busy, and one draws a fifth."""
    hot = rank({WORK: 1.0}, 0.99, energy_joules=600.0 * 3600)
    cold = rank({WORK: 1.0}, 0.99, energy_joules=140.0 * 3600)
    found = RULE.judge(case([hot, cold, hot], JOB))
    assert found.culprits == ("GPU-1",)
    assert found.evidence["at_work_ratio"] == {"GPU-0": 0.8571, "GPU-1": 0.2, "GPU-2": 0.8571}


def test_changing_stragglers_are_not_named() -> None:
    """With inputs of unequal length each GPU is sometimes the last."""
    found = RULE.judge(case([rank({WORK: 1.0}, 0.7)] * 3, JOB))
    assert found.is_actionable
    assert found.culprits == ()
    assert "which one lags changes" in found.summary


def test_bottleneck_of_the_straggler_is_named() -> None:
    """It reads its shard from a slow place."""
    found = RULE.judge(case([rank({STALL: 1.0}, 1.0), rank({State.STORAGE_BOUND: 1.0}, 0.3)], JOB))
    assert found.instructions[1].title == "Begin with what limits GPU 1"
    assert found.instructions[1].text.startswith("it is storage bound")


def test_one_gpu_has_no_ranks() -> None:
    """It has no peer to compare with."""
    assert not RULE.judge(case([rank({WORK: 1.0})], JOB)).is_actionable


def test_balance_is_no_complaint() -> None:
    """A tenth of an hour out of balance is a start-up."""
    calm = window({WORK: 1.0}, conditions={Condition.RANK_IMBALANCE: HOUR // 10})
    found = RULE.judge(case([calm, calm], JOB))
    assert not found.is_actionable
    assert found.abstained is None


@given(
    levels=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=6),
    seed=st.randoms(use_true_random=False),
)
def test_permuting_devices_permutes_the_culprits(levels: list[float], seed: Random) -> None:
    """The order of GPUs does not matter."""
    windows = [rank({WORK: 1.0}, level) for level in levels]
    devices = [gpu(index) for index in range(len(levels))]
    order = list(range(len(levels)))
    seed.shuffle(order)
    found = RULE.judge(case(windows, JOB, devices))
    turned = RULE.judge(case([windows[at] for at in order], JOB, [devices[at] for at in order]))
    assert found.id == turned.id
    assert set(found.culprits) == set(turned.culprits)
    assert found.confidence == turned.confidence


def test_one_gpu_without_a_known_holder_is_no_job_of_one() -> None:
    """It may have peers elsewhere, so nothing is claimed."""
    found = RULE.judge(case([rank({STALL: 1.0}, 1.0)]))
    assert found.abstained == "who holds the GPU is not known, and so not with which others"
    assert not RULE.judge(case([rank({STALL: 1.0}, 1.0)], JOB)).is_actionable


def test_time_in_which_ranks_were_not_compared_does_not_count() -> None:
    """Nothing is known of a job's first ten minutes; alone they give no verdict."""
    ten = round(HOUR / 6)
    odd = {Condition.RANK_IMBALANCE: ten}
    late = rank({WORK: 1.0}, 0.9, conditions=odd, observed={Observation.RANKS: ten})
    slow = rank({WORK: 1.0}, 0.4, conditions=odd, observed={Observation.RANKS: ten})
    found = RULE.judge(case([late, slow, late], JOB))
    assert "out of balance for 100% of 10 min in which it is seen" in found.summary

    early = rank({WORK: 1.0}, 0.9, conditions={}, observed={})
    abstained = RULE.judge(case([early, early], JOB)).abstained
    assert abstained is not None
    assert abstained.startswith("the GPUs were not compared")
