"""Before against after: savings, harm, and changes that would have happened anyway."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import NOW, finding
from rightsizer.advice.settings import VerificationSettings
from rightsizer.advice.verification import (
    Baselines,
    VerificationOutcome,
    has_changed,
    verify,
)
from rightsizer.model.advice import Baseline, Measurement
from rightsizer.model.finding import Action, Finding, Savings

KEY = "slurm/llama"
BEFORE = Measurement(
    gpus=4.0,
    waste_ratio=0.5,
    watts=2000.0,
    harms={"stalled": 0.1, "pressed": 0.0},
    boards=("h100",) * 4,
    devices=("a", "b", "c", "d"),
)
RELEASE = finding(savings=Savings(gpus_low=2.0, gpus_high=4.0))
PIPELINE = finding(action=Action.FIX_INPUT_PIPELINE, savings=Savings(reason="no price"))


def outcome(
    after: Measurement | None,
    advised: Finding = RELEASE,
    *,
    is_quiet: bool = False,
    peers: Mapping[str, float] | None = None,
    **peers_now: Measurement,
) -> VerificationOutcome | None:
    """The outcome of the comparison."""
    measured = dict(peers_now) if after is None else {KEY: after, **peers_now}
    return verify(
        advised,
        Baseline(BEFORE, peers or {}),
        measured,
        is_quiet=is_quiet,
        settings=VerificationSettings(),
    )


def after(**changes: Any) -> Measurement:
    """The same workload later."""
    return replace(BEFORE, **changes)


@pytest.mark.parametrize(
    ("gpus", "waste", "has_succeeded"),
    [(4.0, 0.5, False), (4.0, 0.24, True), (4.0, 0.26, False), (2.0, 0.1, True), (2.0, 0.6, False)],
)
def test_half_of_the_lower_estimate_is_enough(
    gpus: float,
    waste: float,
    has_succeeded: bool,  # noqa: FBT001 - a case.
) -> None:
    """One of the two GPUs of the lower estimate was saved."""
    found = outcome(after(gpus=gpus, waste_ratio=waste))
    assert found is not None
    assert found.has_succeeded is has_succeeded
    assert found.saved_gpus == pytest.approx(2.0 - gpus * waste)


def test_finding_that_ended_succeeds_without_an_estimate() -> None:
    """The goal was a bottleneck below its closing threshold."""
    still = after(waste_ratio=0.5)
    quiet = outcome(after(waste_ratio=0.5), PIPELINE, is_quiet=True)
    loud = outcome(still, PIPELINE)
    assert quiet is not None
    assert loud is not None
    assert (quiet.has_succeeded, loud.has_succeeded) == (True, False)
    assert loud.why.startswith("saved 0.00 GPUs where at least 0.00 were to be saved; 2.00 GPUs")


@pytest.mark.parametrize(
    ("harms", "why"),
    [
        ({"stalled": 0.1, "pressed": 0.0}, None),
        ({"stalled": 0.109, "pressed": 0.0}, None),
        ({"stalled": 0.12, "pressed": 0.0}, "stalled 10.0% of the time before, 12.0% after"),
        ({"stalled": 0.1, "pressed": 0.009}, None),
        ({"stalled": 0.12, "pressed": 0.1}, "pressed 0.0% of the time before, 10.0% after"),
    ],
)
def test_harm_fails_whatever_was_saved(harms: Mapping[str, float], why: str | None) -> None:
    """A tenth worse and a minute in a hundred: the worst harm is named."""
    found = outcome(after(gpus=2.0, waste_ratio=0.0, harms=harms), is_quiet=True)
    assert found is not None
    assert found.has_harmed is (why is not None)
    assert found.has_succeeded is (why is None)
    assert why is None or found.why.startswith(f"{why};")


def test_change_shared_by_the_class_is_not_credited() -> None:
    """At night all workloads of the class waste less, also those without advice."""
    peer = after(waste_ratio=0.2)
    alone = outcome(after(waste_ratio=0.2))
    beside = outcome(after(waste_ratio=0.2), peers={"peer": 0.5}, peer=peer)
    left = outcome(after(waste_ratio=0.2), peers={"peer": 0.5})
    assert alone is not None
    assert beside is not None
    assert (alone.has_succeeded, beside.has_succeeded) == (True, False)
    assert beside.saved_gpus == pytest.approx(0.0)
    assert left == alone


def test_workload_that_left_has_let_go_of_everything_or_tells_nothing() -> None:
    """It depends on the action that was recommended."""
    gone = outcome(None)
    assert gone is not None
    assert (gone.has_succeeded, gone.saved_gpus, gone.saved_watts) == (True, 2.0, 2000.0)
    assert outcome(None, PIPELINE, is_quiet=True) is None


@pytest.mark.parametrize(
    ("action", "changes", "expected"),
    [
        (Action.RELEASE, {}, False),
        (Action.REDUCE_GPU_COUNT, {"gpus": 2.0}, True),
        (Action.CHANGE_GPU_TYPE, {"gpus": 2.0}, False),
        (Action.CHANGE_GPU_TYPE, {"boards": ("l40s",) * 4}, True),
        (Action.ADD_GPUS, {"gpus": 8.0, "boards": ("h100",) * 8}, True),
        (Action.ADD_GPUS, {"gpus": 2.0, "boards": ("h100",) * 2}, False),
        (Action.CHANGE_LAYOUT, {"boards": ("l40s",) * 4}, False),
        (Action.MOVE_GPUS, {"devices": ("e", "f", "g", "h")}, True),
        (Action.MOVE_GPUS, {}, False),
        (Action.FIX_INPUT_PIPELINE, {}, False),
        (Action.REBIND_NUMA, {}, False),
        (Action.INVESTIGATE_STRAGGLER, {"waste_ratio": 0.0}, False),
    ],
)
def test_only_what_an_owner_did_is_a_change(
    action: Action,
    changes: Mapping[str, Any],
    expected: bool,  # noqa: FBT001 - a case.
) -> None:
    """Fewer GPUs are one; idle ones used again, and a stall that ended, are not."""
    assert has_changed(finding(action=action), BEFORE, after(**changes)) is expected
    assert has_changed(finding(action=action), BEFORE, None) is False


def test_peers_are_of_the_same_class_and_follow_nothing_themselves() -> None:
    """Otherwise they would be no baseline."""
    measured = {
        KEY: BEFORE,
        "peer": after(waste_ratio=0.3),
        "claimed": BEFORE,
        "other": after(workload_class="serving"),
    }
    found = Baselines(NOW, lambda _: measured, {"claimed"}).of(KEY, 1)
    assert found == Baseline(BEFORE, {"peer": 0.3})
    assert found is not None
    assert found.peers == {"peer": 0.3}
    assert Baselines(NOW, lambda _: measured).of("unknown", 1) is None


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 8))
def test_less_waste_never_turns_success_into_failure(
    waste: float, more: float, gpus: float
) -> None:
    """The verdict is monotone."""
    better = outcome(after(gpus=gpus, waste_ratio=min(waste, more)))
    worse = outcome(after(gpus=gpus, waste_ratio=max(waste, more)))
    assert better is not None
    assert worse is not None
    assert better.has_succeeded or not worse.has_succeeded
