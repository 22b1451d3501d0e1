"""The rule for GPUs larger than their load needs."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from cases import case, histogram, window
from readings import HOUR, gpu, workload
from rightsizer.advice.rules.overprovisioned import RULE
from rightsizer.model.device import MigInstance
from rightsizer.model.finding import Action, FindingKind, Node, Reason, Risk
from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal
from rightsizer.model.state import Resource, State
from rightsizer.model.window import Window
from rightsizer.model.workload import Allocator, Holding, Workload, WorkloadClass, workload_of_pod

COMPUTE = Resource.COMPUTE
MEMORY = Resource.MEMORY
SERVICE = workload("chat", WorkloadClass.SERVING)
UNSTATED = workload("chat", WorkloadClass.UNKNOWN)
WEEK = 7 * 24


def used(
    compute: Mapping[float, float],
    memory: Mapping[float, float],
    hours: float = WEEK,
    **facts: Any,
) -> Window:
    """A week of a service with the given demands."""
    return window({State.PRODUCTIVE: hours}, {COMPUTE: compute, MEMORY: memory}, **facts)


SMALL = used({0.1: WEEK}, {0.1: WEEK})


def test_small_service_has_a_gpu_that_is_too_large() -> None:
    """Sharing belongs to another rule; without a projection no board is named."""
    found = RULE.judge(case([SMALL], SERVICE))
    assert found.kind is FindingKind.OVERPROVISIONED
    assert found.reasons == (Reason.GPU_OVERPROVISIONED, Reason.GPU_MEMORY_OVERPROVISIONED)
    assert found.action is Action.NONE
    assert found.options == ()
    assert found.summary == (
        "GPU 0 of chat: even the largest need, with its margin, leaves 88% of the GPU free."
    )
    assert found.evidence["need_ratio"] == {"GPU-0": {"compute": 0.115, "memory": 0.11}}
    assert found.confidence > 0.7


def test_a_slice_that_is_too_large_gets_a_smaller_one() -> None:
    """Of the same board, for one instance or several of one profile; the smallest gets none."""
    parts = [
        gpu(each, uuid=f"MIG-{each}", mig=MigInstance(f"GPU-{each}", "3g.40gb", 1, 0, 3 / 7, 0.5))
        for each in (0, 1)
    ]
    windows = [replace(SMALL, uuid=part.uuid) for part in parts]
    service = replace(workload_of_pod("web", "chat-7d4b9c6f5d-x2x9k"), allocator=SERVICE.allocator)
    found = RULE.judge(case(windows, service, parts))
    assert found.action is Action.SHARE_MIG
    assert found.options[0].target == "1g.10gb"
    assert found.options[0].savings is not None
    assert found.options[0].savings.gpus_low == 0.0
    assert found.options[0].savings.gpus_high == pytest.approx(2 * 3 / 7 * (1 - 2 / 7), abs=1e-4)
    assert "nvidia.com/mig-1g.10gb: 1" in found.instructions[0].text
    inner = replace(parts[0], mig=MigInstance("GPU-0", "1c.3g.40gb", 1, 0, 1 / 7, 0.5003))
    options = RULE.judge(case([windows[0]], SERVICE, [inner])).options
    assert {"3g.40gb", "4g.40gb"}.isdisjoint(option.target for option in options)
    least = replace(parts[0], mig=MigInstance("GPU-0", "1g.10gb", 7, 0, 1 / 7, 1 / 8))
    assert RULE.judge(case([windows[0]], SERVICE, [least])).options == ()


def test_gpu_that_several_share_is_no_affair_of_one() -> None:
    """Its need is the sum of all tenants' needs."""
    holdings = {"GPU-0": (Holding(SERVICE, 0.5), Holding(workload("rank"), 0.5))}
    found = RULE.judge(replace(case([SMALL], SERVICE), node=Node(holdings=holdings)))
    assert found.kind is FindingKind.OPTIMIZED


@pytest.mark.parametrize(("compute", "is_actionable"), [(0.43, True), (0.44, False), (0.9, False)])
def test_half_of_the_device_must_be_free(
    compute: float,
    is_actionable: bool,  # noqa: FBT001 - a case.
) -> None:
    """Of the largest need, its margin included."""
    found = RULE.judge(case([used({compute: WEEK}, {0.1: WEEK})], SERVICE))
    assert found.is_actionable == is_actionable
    assert found.abstained is None


def test_memory_is_a_reason_only_where_every_device_has_it_free() -> None:
    """A device that uses half of its memory has none to spare."""
    fuller = used({0.1: WEEK}, {0.4: WEEK})
    fullest = used({0.1: WEEK}, {0.5: WEEK})
    assert len(RULE.judge(case([SMALL, fuller], SERVICE)).reasons) == 2
    inefficient = RULE.judge(case([SMALL, fullest], SERVICE))
    assert not inefficient.is_actionable


def test_sureness_grows_with_the_distance_from_the_threshold() -> None:
    """In both directions."""

    def certainty(compute: float) -> float:
        found = RULE.judge(case([used({compute: WEEK}, {0.1: WEEK})], SERVICE))
        return found.confidence_factors["certainty"]

    assert certainty(0.1) == certainty(0.8) == 1.0
    assert certainty(0.43) == pytest.approx(0.5, abs=0.03)
    assert certainty(0.44) == pytest.approx(0.53, abs=0.03)


def test_every_device_must_be_too_large() -> None:
    """The smallest GPU of a workload must suffice for its busiest rank."""
    busy = used({0.9: WEEK}, {0.1: WEEK})
    assert not RULE.judge(case([SMALL, busy], SERVICE)).is_actionable
    assert RULE.judge(case([SMALL, SMALL], SERVICE)).is_actionable


def test_never_over_while_memory_is_under() -> None:
    """However idle compute is."""
    pressed = used({0.1: WEEK}, {0.1: WEEK}, pressed={MEMORY: WEEK * HOUR // 20})
    found = RULE.judge(case([pressed], SERVICE))
    assert found.kind is FindingKind.OPTIMIZED
    assert found.summary == "Under pressure, so not too large."
    # One device under pressure decides for the whole workload.
    assert not RULE.judge(case([SMALL, pressed], SERVICE)).is_actionable


def test_batch_job_gets_no_smaller_device() -> None:
    """It would only run longer."""
    found = RULE.judge(case([SMALL], workload()))
    assert found.abstained == "a batch job would only run longer on a smaller GPU"


@pytest.mark.parametrize("holder", [None, UNSTATED])
def test_unknown_class_gets_no_options(holder: Workload | None) -> None:
    """The finding is reported, but no replacement."""
    found = RULE.judge(case([SMALL], holder))
    assert found.is_actionable
    assert found.options == ()
    assert found.action is Action.NONE
    assert found.risk is Risk.UNKNOWN
    assert "class is unknown" in str(found.evidence["options"])


def test_occupied_but_not_computing_is_inefficient() -> None:
    """Only the lower bound would allow a smaller device, so none is recommended."""
    occupied = used({0.9: WEEK}, {0.1: WEEK}, compute_at_least=histogram({0.1: WEEK}))
    found = RULE.judge(case([occupied], SERVICE))
    assert found.kind is FindingKind.INEFFICIENT
    assert found.action is Action.NONE
    assert found.options == ()
    assert found.summary == (
        "GPU 0: the SMs are occupied, yet what they compute would leave 88% of the GPU free."
    )


@pytest.mark.parametrize("hungry", [MEMORY, Resource.MEMORY_BANDWIDTH])
def test_inefficiency_counts_every_other_resource(hungry: Resource) -> None:
    """Inactive pipes free nothing if memory or its bandwidth is needed."""
    demands = {COMPUTE: {0.9: WEEK}, MEMORY: {0.1: WEEK}} | {hungry: {0.8: WEEK}}
    occupied = window({State.PRODUCTIVE: WEEK}, demands, compute_at_least=histogram({0.1: WEEK}))
    assert RULE.judge(case([occupied], SERVICE)).kind is FindingKind.OPTIMIZED


def test_preallocated_memory_is_no_verdict() -> None:
    """Its real need is unknown."""
    serving = workload("vllm", WorkloadClass.SERVING, Allocator.PREALLOCATING)
    found = RULE.judge(case([used({0.1: WEEK}, {0.9: WEEK})], serving))
    assert found.abstained == "memory looks preallocated, so the memory needed is not known"


def test_unmeasured_compute_or_memory_is_no_verdict() -> None:
    """Room in the measured resource says nothing about the unmeasured one."""
    found = RULE.judge(case([window({State.PRODUCTIVE: WEEK}, {COMPUTE: {0.1: WEEK}})], SERVICE))
    assert found.abstained == "compute or memory use is not measured"
    assert found.reasons == (Reason.UNSUPPORTED_TELEMETRY,)


def test_little_activity_is_no_verdict() -> None:
    """Idle days are no demand to size by."""
    idle = window({State.PRODUCTIVE: 0.1, State.IDLE_HELD: WEEK}, {COMPUTE: {0.1: 0.1}})
    found = RULE.judge(case([SMALL, idle], SERVICE))
    assert found.abstained == "only 6 min of activity to size by"
    assert found.reasons == (Reason.INSUFFICIENT_DATA,)


def test_short_history_is_not_believed() -> None:
    """A day of low load says little about a week."""
    day = RULE.judge(case([used({0.1: 24}, {0.1: 24}, 24)], SERVICE))
    assert day.is_actionable
    assert day.confidence < 0.2


def test_spans_cover_the_cycle_of_the_load() -> None:
    """Two weeks and three days must agree, with a week of them known."""
    conduct = RULE.conduct(SERVICE)
    assert conduct.long_seconds == 14 * 86_400
    assert conduct.short_seconds == 3 * 86_400
    assert conduct.minimum_known_seconds == 7 * 86_400


def test_unknown_time_never_creates_advice() -> None:
    """It lowers confidence and changes nothing else."""
    hazy = window(
        {State.PRODUCTIVE: WEEK, State.UNKNOWN: WEEK}, {COMPUTE: {0.1: WEEK}, MEMORY: {0.1: WEEK}}
    )
    found = RULE.judge(case([hazy], SERVICE))
    clear = RULE.judge(case([SMALL], SERVICE))
    assert found.id == clear.id
    assert found.confidence == pytest.approx(clear.confidence / 2, abs=0.001)


def test_work_on_media_engines_has_no_size() -> None:
    """The SMs of a transcoder are idle, but it needs its board."""
    reading = Reading("GPU-0", 0, {Signal.ENCODER: 0.6})
    node = Node(readings={"GPU-0": reading})
    found = RULE.judge(replace(case([SMALL], SERVICE), node=node))
    assert found.reasons == (Reason.UNSUPPORTED_TELEMETRY,)
    quiet = Node(readings={"GPU-0": Reading("GPU-0", 0, {Signal.ENCODER: 0.01})})
    assert RULE.judge(replace(case([SMALL], SERVICE), node=quiet)).is_actionable
