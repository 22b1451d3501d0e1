"""The rule for workloads with more GPUs than work."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from block_cases import BLOCKS_A_DAY, Course, at_hours, busy, case_of, steady
from cases import histogram, window
from readings import GIBIBYTE, HOUR, gpu, workload
from rightsizer.advice.rules.gpu_count import RULE
from rightsizer.model.block import Measure
from rightsizer.model.finding import Action, Case, FindingKind, Node, Reason
from rightsizer.model.state import Resource, State
from rightsizer.model.window import Window
from rightsizer.model.workload import Holding, Workload, WorkloadClass, WorkloadKind

JOB = workload()
SERVICE = Workload(
    "kubernetes:web/chat", WorkloadKind.KUBERNETES, "chat", WorkloadClass.SERVING, namespace="web"
)
WORKING = steady(0.6, memory_bytes=40 * GIBIBYTE)
UNUSED = steady(0.0, memory_bytes=0.5 * GIBIBYTE)
DAYS = 3


def test_gpu_that_was_never_used_is_too_many() -> None:
    """A job too can do without it; the GPU and the reduced request are named."""
    found = RULE.judge(case_of([WORKING, UNUSED, WORKING, UNUSED], DAYS, JOB))
    assert found.kind is FindingKind.OVERPROVISIONED
    assert found.reasons == (Reason.GPU_COUNT_OVERPROVISIONED,)
    assert found.action is Action.REDUCE_GPU_COUNT
    assert found.culprits == ("GPU-1", "GPU-3")
    assert found.summary == (
        "GPUs 1 and 3 of llama: never used for 3 d, while its other GPUs worked."
    )
    assert found.options[0].target == "2"
    assert found.instructions[0].text == "#SBATCH --gpus=2"
    assert found.savings.gpus_low == found.savings.gpus_high == 2.0


@pytest.mark.parametrize(
    "other",
    [
        steady(0.02, memory_bytes=0.5 * GIBIBYTE),
        lambda number: busy(0.5 if number == 700 else 0.0, memory_bytes=0.5 * GIBIBYTE),
    ],
    ids=["some work", "worked once"],
)
def test_idle_rank_is_not_taken_away(other: Course) -> None:
    """A rank that ever worked is part of the job."""
    assert not RULE.judge(case_of([WORKING, other], DAYS, JOB)).is_actionable


@pytest.mark.parametrize(
    "held", [steady(0.0, memory_bytes=60 * GIBIBYTE), steady(0.0)], ids=["preallocated", "unread"]
)
def test_held_memory_is_no_use(held: Course) -> None:
    """Frameworks allocate most of every GPU that they see."""
    found = RULE.judge(case_of([WORKING, held], DAYS, JOB))
    assert found.culprits == ("GPU-1",)


def test_a_gpu_that_serves_others_by_its_links_is_used() -> None:
    """Its memory may be a cache of theirs, which no kernel of its own reads."""
    windows = [
        window({State.PRODUCTIVE: 24.0 * DAYS}, {Resource.NVLINK: {traffic: 24.0 * DAYS}})
        for traffic in (0.0, 0.2)
    ]
    lent = case_of([WORKING, UNUSED], DAYS, JOB, windows=windows)
    assert not RULE.judge(lent).is_actionable


def test_less_than_a_day_is_no_verdict() -> None:
    """A rank may wait for hours."""
    found = RULE.judge(case_of([WORKING, UNUSED], 0.9, JOB))
    assert found.reasons == (Reason.INSUFFICIENT_DATA,)


def test_all_idle_is_said_by_the_rule_of_idleness() -> None:
    """None of them worked, so their number is not the trouble."""
    assert not RULE.judge(case_of([UNUSED, UNUSED], DAYS, JOB)).is_actionable


def turns(number: int, of: int, mean: float = 0.2) -> Course:
    """A device that is busy while the others are not."""
    return lambda block: busy(
        mean if block % of == number else 0.0, compute=0.1, memory=0.1, memory_bytes=8 * GIBIBYTE
    )


def service_window(days: float, nvlink: float | None = 0.0) -> Window:
    """The need of a replica, with measured or unmeasured links."""
    hours = 24.0 * days
    links = {} if nvlink is None else {Resource.NVLINK: {nvlink: hours}}
    demands = {Resource.COMPUTE: {0.1: hours}, Resource.MEMORY: {0.1: hours}} | links
    return window({State.PRODUCTIVE: hours}, demands)


def service(count: int = 8, days: float = 8, nvlink: float | None = 0.0, busy_at: int = 8) -> Case:
    """Replicas of which one at a time is active."""
    courses = [turns(number, busy_at) for number in range(count)]
    return case_of(courses, days, SERVICE, windows=[service_window(days, nvlink)] * count)


def test_replicas_that_are_never_needed_together_may_be_fewer() -> None:
    """By the worst five minutes of a whole week, with a margin and a spare."""
    found = RULE.judge(service())
    assert found.action is Action.REDUCE_REPLICAS
    assert found.evidence["replicas_needed_most"] == 1
    assert found.options[0].target == "3"
    assert found.instructions[0].text == (
        "# Of the Deployment.\nspec:\n  replicas: 3  # of those on this node\n"
    )
    assert set(found.options[0].risks) == {"compute", "memory"}


def held_by(case: Case, pods: Sequence[str]) -> Case:
    """The same with a pod on each device."""
    assert case.workload is not None
    holdings = {
        device.uuid: (Holding(replace(case.workload, pod=pod), 1.0),)
        for device, pod in zip(case.devices, pods, strict=True)
    }
    return replace(case, node=Node(holdings=holdings))


REPLICAS = [f"chat-7d4b9cf5f6-{letter}2x4z" for letter in "bcdf"]


def together() -> Case:
    """Four NVLink GPUs with unread link traffic, all lightly busy all the time."""
    courses = [steady(0.05, compute=0.05, memory=0.1, memory_bytes=8 * GIBIBYTE)] * 4
    return case_of(courses, 8, SERVICE, windows=[service_window(8, None)] * 4)


def test_pods_of_a_deployment_are_replicas_whatever_joins_their_gpus() -> None:
    """Each is a whole replica, also on an NVLink board and when active at the same time."""
    found = RULE.judge(held_by(together(), REPLICAS))
    assert found.action is Action.REDUCE_REPLICAS
    assert found.options[0].target == "3"


@pytest.mark.parametrize(("at_rest", "target"), [(0.9, "3"), (0.1, None)])
def test_only_memory_that_grows_with_the_load_needs_replicas(
    at_rest: float, target: str | None
) -> None:
    """What each replica holds anyway, such as weights, does not move to the others."""
    total = gpu().memory_total_bytes or 0.0

    def course(block: int) -> dict[Measure, float]:
        held = 0.9 if block % 2 else at_rest
        return busy(0.05, compute=0.05, memory=held, memory_bytes=held * total)

    windows = [
        window(
            {State.PRODUCTIVE: 192.0},
            {Resource.COMPUTE: {0.05: 192.0}, Resource.MEMORY: {at_rest: 96.0, 0.9: 96.0}},
        )
    ] * 4
    found = RULE.judge(held_by(case_of([course] * 4, 8, SERVICE, windows=windows), REPLICAS))
    assert [option.target for option in found.options] == ([target] if target else [])


@pytest.mark.parametrize(("mean", "needed", "enough"), [(0.05, 2, 3), (0.125, 2, 3), (0.3, 3, 4)])
def test_replicas_of_one_queue_may_be_busier_than_one_alone(
    mean: float, needed: int, enough: int
) -> None:
    """Erlang C: two at 38% wait for less than one at 25%; one more is spare."""
    courses = [steady(mean, compute=mean, memory=0.1, memory_bytes=8 * GIBIBYTE)] * 6
    windows = [service_window(8, None)] * 6
    pods = [f"chat-7d4b9cf5f6-{letter}2x4z" for letter in "bcdfgh"]
    found = RULE.judge(held_by(case_of(courses, 8, SERVICE, windows=windows), pods))
    assert found.evidence["replicas_needed_most"] == needed
    assert found.options[0].target == str(enough)


@pytest.mark.parametrize(
    "pods",
    [
        ["", "", "", ""],
        [REPLICAS[0]] * 4,
        [REPLICAS[0], REPLICAS[0], REPLICAS[1], REPLICAS[1]],
        ["llama-0", "llama-1", "llama-2", "llama-3"],
    ],
    ids=["unknown", "one pod", "two each", "a stateful set"],
)
def test_pods_that_may_hold_parts_of_one_model_stay(pods: list[str]) -> None:
    """Their traffic over NVLink is unread."""
    assert not RULE.judge(held_by(together(), pods)).is_actionable
    assert not RULE.judge(together()).is_actionable


def test_replicas_that_encode_are_counted_by_their_engines() -> None:
    """A transcoder's SMs are idle; of four at 68% of their encoders none is too many."""
    resting = window(
        {State.PRODUCTIVE: 192.0},
        {
            Resource.COMPUTE: {0.1: 192.0},
            Resource.MEMORY: {0.1: 192.0},
            Resource.NVLINK: {0.0: 192.0},
        },
    )
    media = {Resource.MEDIA: histogram({0.68: 192.0})}
    encoding = replace(resting, demands={**resting.demands, **media})
    courses = [turns(number, 4, 0.08) for number in range(4)]
    less = RULE.judge(case_of(courses, 8, SERVICE, windows=[resting] * 4))
    assert less.is_actionable
    found = RULE.judge(case_of(courses, 8, SERVICE, windows=[encoding] * 4))
    assert not found.is_actionable


def test_a_gpu_that_only_encodes_is_used() -> None:
    """However idle its SMs, and however little memory it holds."""
    idle = window({State.PRODUCTIVE: 72.0}, {Resource.MEDIA: {0.4: 72.0}})
    work = window({State.PRODUCTIVE: 72.0})
    found = RULE.judge(case_of([WORKING, UNUSED], DAYS, JOB, windows=[work, idle]))
    assert not found.is_actionable


def test_history_must_cover_a_cycle() -> None:
    """A day is too short; less than a week lowers the confidence."""
    assert RULE.judge(service(days=1.5)).reasons == (Reason.INSUFFICIENT_DATA,)
    short = RULE.judge(service(days=4))
    long = RULE.judge(service(days=8))
    assert short.confidence_factors["cycle"] < 1
    assert "cycle" not in long.confidence_factors


@pytest.mark.parametrize("nvlink", [None, 0.2])
def test_gpus_that_talk_to_each_other_stay_together(nvlink: float | None) -> None:
    """Also those that may: unmeasured traffic is not absent."""
    assert not RULE.judge(service(nvlink=nvlink)).is_actionable


def test_load_by_the_hour_never_gets_fewer_replicas() -> None:
    """It gets a schedule instead."""

    def by_day(number: int) -> Course:
        day = at_hours(8, 20, 0.2)
        return lambda block: busy(0.0) if block % 8 != number else day(block)

    case = case_of(
        [by_day(number) for number in range(8)], 8, SERVICE, windows=[service_window(8)] * 8
    )
    assert RULE.judge(case).summary.endswith("diurnal load.")


def test_a_day_that_is_hardly_worth_a_schedule_leaves_the_number_too_large() -> None:
    """Replicas at a tenth of their load are too many at each hour."""
    hardly = at_hours(8, 20, 0.1, 0.06)
    case = case_of([hardly] * 4, 8, SERVICE, windows=[service_window(8)] * 4)
    pods = [f"chat-7d4b9c6f5d-{tail}" for tail in ("x2x9k", "b2b9k", "c2c9k", "d2d9k")]
    found = RULE.judge(held_by(case, pods))
    assert found.action is Action.REDUCE_REPLICAS
    assert found.options[0].target == "3"


def test_nothing_is_taken_from_one_who_is_under_pressure() -> None:
    """An unused GPU among them may be a software error, not a surplus."""
    pressed = replace(service_window(DAYS), pressed={Resource.COMPUTE: 24 * HOUR})
    case = case_of([WORKING, UNUSED], DAYS, SERVICE, windows=[pressed, service_window(DAYS)])
    assert RULE.judge(case).summary == "Under pressure, so not too many."


def test_a_single_gpu_has_no_number() -> None:
    """The same holds for a GPU without a holder."""
    assert RULE.judge(case_of([UNUSED], DAYS, JOB)).kind is FindingKind.OPTIMIZED
    assert RULE.judge(case_of([UNUSED], DAYS)).kind is FindingKind.OPTIMIZED


@given(st.floats(0.01, 0.9), st.floats(1.0, 3.0))
@settings(max_examples=6)
def test_more_load_never_yields_fewer_replicas(mean: float, times: float) -> None:
    """For any load."""

    def proposed(load: float) -> int:
        courses = [turns(number, 3, min(1.0, load)) for number in range(6)]
        case = case_of(courses, 3, SERVICE, windows=[service_window(3)] * 6)
        found = RULE.judge(case)
        return int(found.options[0].target) if found.options else 6

    assert proposed(mean) <= proposed(mean * times)


@given(st.permutations(range(4)))
@settings(max_examples=6)
def test_permuted_devices_permute_the_advice(order: list[int]) -> None:
    """The same GPUs are unused."""
    courses = {0: WORKING, 1: UNUSED, 2: WORKING, 3: WORKING}
    devices = [gpu(index) for index in order]
    found = RULE.judge(case_of([courses[index] for index in order], 2, JOB, devices=devices))
    assert found.culprits == ("GPU-1",)
    assert found.id == RULE.judge(case_of(list(courses.values()), 2, JOB)).id


@given(st.integers(0, 2 * BLOCKS_A_DAY), st.integers(1, BLOCKS_A_DAY))
@settings(max_examples=6)
def test_unknown_time_never_creates_advice(first: int, length: int) -> None:
    """Unobserved time is not unused time."""

    def course(number: int) -> dict[object, float] | None:
        return None if first <= number < first + length else WORKING(number)

    assert not RULE.judge(case_of([WORKING, course], 2, JOB)).is_actionable
