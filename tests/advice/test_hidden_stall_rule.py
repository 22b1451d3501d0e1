"""The rule for spinning GPUs, and the rank that they wait for."""

import pytest
from msgspec.structs import replace

from cases import case, window
from readings import EPOCH, HOUR, gpu, workload
from rightsizer.advice.rules.hidden_stall import RULE
from rightsizer.model.finding import Action, FindingKind, Reason, Severity
from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import State, Tier

JOB = workload()
STALL = State.HIDDEN_STALL
BUSY = State.PRODUCTIVE


def test_spinning_is_inefficient() -> None:
    """With the duration and what to check."""
    found = RULE.judge(case([window({STALL: 4, BUSY: 6})], JOB))
    assert found.kind is FindingKind.INEFFICIENT
    assert found.reasons == (Reason.HIDDEN_STALL,)
    assert found.action is Action.INVESTIGATE_STRAGGLER
    assert found.summary == "GPU 0 of llama: busy without working for 40% of the last 10 h."
    assert found.evidence["stalled_ratio"] == {"GPU-0": 0.4}


def test_culprit_is_the_device_that_does_not_spin() -> None:
    """The others wait for it."""
    spinning = window({STALL: 9, BUSY: 1})
    found = RULE.judge(case([spinning, window({BUSY: 10}), spinning, spinning], JOB))
    assert found.culprits == ("GPU-1",)
    assert found.devices == ("GPU-0", "GPU-1", "GPU-2", "GPU-3")
    assert found.summary == (
        "GPUs 0, 2 and 3 of llama: busy without working for 90% of the last 10 h; they wait "
        "for GPU 1."
    )


def test_permuting_devices_changes_neither_culprit_nor_id() -> None:
    """A GPU's index does not matter."""
    windows = [window({STALL: 9, BUSY: 1}), window({BUSY: 10})]
    devices = [gpu(0), gpu(1)]
    found = RULE.judge(case(windows, JOB, devices))
    turned = RULE.judge(case(windows, JOB, devices[::-1]))
    windows_turned = RULE.judge(case(windows[::-1], JOB, devices[::-1]))
    assert found.id == turned.id == windows_turned.id
    assert found.confidence == turned.confidence == windows_turned.confidence


@pytest.mark.parametrize(("hours", "is_actionable"), [(3.0, True), (2.99, False)])
def test_three_tenths_of_the_time_make_a_finding(
    hours: float,
    is_actionable: bool,  # noqa: FBT001 - a case.
) -> None:
    """An occasional barrier is normal for collectives."""
    found = RULE.judge(case([window({STALL: hours, BUSY: 10 - hours})], JOB))
    assert found.is_actionable == is_actionable
    assert found.abstained is None


def test_one_spinning_device_is_enough() -> None:
    """A workload is as fast as its slowest part."""
    assert RULE.judge(case([window({BUSY: 10}), window({STALL: 10})], JOB)).is_actionable


@pytest.mark.parametrize("tier", [Tier.BASIC, Tier.NONE])
def test_without_power_it_cannot_be_told(tier: Tier) -> None:
    """A spinning GPU looks like a working one."""
    found = RULE.judge(case([window({BUSY: 10}, tiers={tier: 1})], JOB))
    assert found.reasons == (Reason.UNSUPPORTED_TELEMETRY,)
    assert found.abstained is not None


def test_too_little_telemetry_is_no_verdict() -> None:
    """Less than a minute of the least known device."""
    found = RULE.judge(case([window({STALL: 10}), window({State.UNKNOWN: 10})], JOB))
    assert found.reasons == (Reason.INSUFFICIENT_DATA,)


def test_unknown_time_neither_makes_nor_hides_a_stall() -> None:
    """Shares are of known time; confidence is not."""
    clear = RULE.judge(case([window({STALL: 5, BUSY: 5})], JOB))
    hazy = RULE.judge(case([window({STALL: 5, BUSY: 5, State.UNKNOWN: 10})], JOB))
    assert clear.is_actionable
    assert hazy.is_actionable
    assert hazy.confidence == pytest.approx(clear.confidence / 2, abs=0.001)


def test_without_memory_traffic_small_kernels_look_alike() -> None:
    """The summary says so, and confidence is lower; other missing readings change nothing."""
    spinning = window({STALL: 10})
    summaries = []
    confidences = []
    power = {Signal.POWER_WATTS: 120.0}
    for values in (power, {**power, Signal.MEMORY_CONTROLLER_BUSY: 0.01}, {}):
        node = Snapshot(EPOCH, EPOCH, HOUR, (gpu(0),), {"GPU-0": Reading("GPU-0", EPOCH, values)})
        found = RULE.judge(replace(case([spinning], JOB), node=node))
        summaries.append("or with small kernels, which look alike" in found.summary)
        confidences.append(found.confidence)
    assert summaries == [True, False, False]
    assert confidences[0] < 0.9 < confidences[1] == confidences[2]


@pytest.mark.parametrize(("spinning", "culprits"), [(1, ()), (2, ("GPU-2",))])
def test_rank_that_may_launch_small_kernels_is_not_a_waiting_rank(
    spinning: int, culprits: tuple[str, ...]
) -> None:
    """Several GPUs that seem to spin at once are peers."""
    windows = [*[window({STALL: 10})] * spinning, *[window({BUSY: 10})] * (3 - spinning)]
    devices = tuple(gpu(index) for index in range(3))
    power = {Signal.POWER_WATTS: 120.0}
    readings = {device.uuid: Reading(device.uuid, EPOCH, power) for device in devices}
    node = Snapshot(EPOCH, EPOCH, HOUR, devices, readings)
    assert RULE.judge(replace(case(windows, JOB), node=node)).culprits == culprits


def test_stall_finding_says_where_to_look() -> None:
    """The straggler's stacks, its limit, and how to make the next run name the rank."""
    spinning = window({STALL: 9, BUSY: 1})
    late = window({State.HOST_BOUND: 9, BUSY: 1})
    found = RULE.judge(case([spinning, spinning, late], JOB))
    stacks, limit, ranks = found.instructions
    assert stacks.title == "Dump the stacks of the processes on GPU 2"
    assert stacks.text == (
        "nvidia-smi --id=GPU-2 --query-compute-apps=pid --format=csv,noheader"
        " | xargs -rn1 sudo py-spy dump --native --pid"
    )
    assert limit.text == "it is host bound for most of the time that it is at work"
    assert "TORCH_NCCL_TRACE_BUFFER_SIZE" in ranks.text
    assert found.evidence["hypotheses"] == {"hidden_stall": 0.667, "host_bound": 0.333}


def test_a_gpu_by_itself_waits_for_no_peer() -> None:
    """A hang, another node, or a loop that keeps it from being reclaimed."""
    found = RULE.judge(case([window({STALL: 10})], JOB))
    assert found.instructions[0].title == "A single GPU has no peer to wait for"
    assert found.exclusive_group is None


def test_severity_and_savings_follow_from_what_is_lost() -> None:
    """Three GPUs that spin all the time save three GPUs at most, and none at least."""
    spinning = window({STALL: 10})
    found = RULE.judge(case([spinning, spinning, spinning, window({BUSY: 10})], JOB))
    assert found.severity is Severity.HIGH
    assert (found.savings.gpus_low, found.savings.gpus_high) == (0.0, 3.0)
