"""The rule for workloads that could share a GPU."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from block_cases import BLOCKS_A_DAY, Course, busy, case_of, steady
from cases import window
from readings import GIBIBYTE, HOUR, gpu, workload
from rightsizer.advice.market import Market
from rightsizer.advice.rules.sharing import RULE
from rightsizer.model.device import MigInstance
from rightsizer.model.finding import Action, Case, Finding, FindingKind, Node, Reason, Risk
from rightsizer.model.state import Resource, State
from rightsizer.model.window import Window
from rightsizer.model.workload import Allocator, Holding, Workload, WorkloadClass, WorkloadKind

DAYS = 8
SMALL = {"compute": 0.1, "memory_bandwidth": 0.1, "memory": 0.1, "memory_bytes": 8 * GIBIBYTE}


def service(name: str, namespace: str = "web") -> Workload:
    """A deployment."""
    return Workload(
        f"kubernetes:{namespace}/{name}",
        WorkloadKind.KUBERNETES,
        name,
        WorkloadClass.SERVING,
        Allocator.GROWING,
        namespace=namespace,
    )


def small_window(compute: float = 0.1, memory: float = 0.1) -> Window:
    """A week of small demands."""
    hours = 24.0 * DAYS
    return window(
        {State.PRODUCTIVE: hours},
        {
            Resource.COMPUTE: {compute: hours},
            Resource.MEMORY: {memory: hours},
            Resource.MEMORY_BANDWIDTH: {0.1: hours},
        },
    )


def on_gpu(index: int, holder: Workload, course: Course | None = None) -> Case:
    """A small workload that has a GPU to itself."""
    return case_of(
        [course or steady(0.2, **SMALL)],
        DAYS,
        holder,
        devices=[gpu(index)],
        windows=[small_window()],
    )


def beside(case: Case, *others: Case) -> Finding:
    """The verdict on a workload among others of its node."""
    return RULE.judge(replace(case, node=Node(cases=(case, *others))))


CHAT = service("chat")
RANK = service("rank")


def test_alone_it_is_offered_slices() -> None:
    """With the concrete profile, the commands and the resource to request."""
    found = RULE.judge(on_gpu(0, CHAT))
    assert found.kind is FindingKind.OVERPROVISIONED
    assert found.reasons == (Reason.SHARING_CANDIDATE_MIG,)
    assert found.action is Action.SHARE_MIG
    assert found.options[0].target == "1g.10gb"
    assert found.risk is Risk.VERY_LOW
    assert found.options[0].risks == {
        "compute": Risk.VERY_LOW,
        "memory": Risk.VERY_LOW,
        "memory_bandwidth": Risk.VERY_LOW,
    }
    cut, ask = found.instructions
    assert cut.text.splitlines()[1:] == [
        "nvidia-smi -i GPU-0 -mig 1",
        "nvidia-smi mig -i GPU-0 -cgi 1g.10gb -C",
    ]
    assert ask.text == (
        "# Of the container, in the pod's template.\n"
        "resources:\n  limits:\n    nvidia.com/mig-1g.10gb: 1\n"
    )


def test_slice_that_peaks_would_not_fit_is_riskier_or_left_out() -> None:
    """The need covers nearly all of the time; the remainder is the risk."""

    def peaky(number: int) -> dict[object, float]:
        return busy(0.2, **SMALL | {"compute": 0.4 if number % 40 == 0 else 0.1})

    options = RULE.judge(on_gpu(0, CHAT, peaky)).options
    risks = {option.target: option.risk for option in options}
    assert risks["1g.10gb"] is Risk.LOW
    assert risks["3g.40gb"] is Risk.VERY_LOW
    assert options[0].target == "3g.40gb"

    def always(_: int) -> dict[object, float]:
        return busy(0.2, **SMALL | {"compute": 0.4})

    targets = [option.target for option in RULE.judge(on_gpu(0, CHAT, always)).options]
    assert "1g.10gb" not in targets


def test_partner_of_the_same_namespace_is_named() -> None:
    """With the sum of both at the same moments."""
    found = beside(on_gpu(0, CHAT), on_gpu(1, RANK))
    option = next(each for each in found.options if each.action is Action.SHARE_MPS)
    assert option.target == RANK.key
    assert option.description == "one GPU for both this and rank (now on GPU 1), side by side (MPS)"
    assert option.risk is Risk.VERY_LOW
    assert Reason.SHARING_CANDIDATE_MPS in found.reasons
    (partner,) = found.evidence["partners"]
    assert partner["memory_peak_ratio"] == pytest.approx(0.2, abs=0.001)
    assert partner["overlap_ratio"] == 1.0


def shifted(part: int) -> Course:
    """Active in one half of the day only."""

    def course(number: int) -> dict[object, float]:
        at_work = number % BLOCKS_A_DAY // (BLOCKS_A_DAY // 2) == part
        return busy(0.6 if at_work else 0.0, **SMALL)

    return course


def test_workloads_that_take_turns_need_no_more_than_time_slices() -> None:
    """They are never active together."""
    found = beside(on_gpu(0, CHAT, shifted(0)), on_gpu(1, RANK, shifted(1)))
    option = next(each for each in found.options if each.target == RANK.key)
    assert option.action is Action.SHARE_TIMESLICE
    assert Reason.SHARING_CANDIDATE_TIME_SLICE in found.reasons


def test_strangers_are_kept_apart_by_slices_only() -> None:
    """In two namespaces: a fault of one must not end the other."""
    found = beside(on_gpu(0, CHAT), on_gpu(1, service("rank", "other")))
    assert found.reasons == (Reason.SHARING_CANDIDATE_MIG,)
    assert found.evidence["isolation"] == (
        "partners of other namespaces would fit; only MIG slices keep those apart"
    )


@pytest.mark.parametrize(
    "course",
    [
        steady(0.2, **SMALL | {"memory_bytes": 70 * GIBIBYTE}),
        steady(0.2, **SMALL | {"compute": 0.95}),
    ],
    ids=["memory", "compute"],
)
def test_partner_that_does_not_fit_is_not_offered(course: Course) -> None:
    """Neither the memory nor the work of both may exceed the GPU."""
    found = beside(on_gpu(0, CHAT), on_gpu(1, RANK, course))
    assert RANK.key not in [option.target for option in found.options]


def test_partner_is_the_one_that_leaves_most_memory() -> None:
    """Among equal risks; the order on the node does not matter."""
    full = on_gpu(1, RANK, steady(0.2, **SMALL | {"memory_bytes": 40 * GIBIBYTE}))
    other = on_gpu(2, service("tiny"))
    for others in ((full, other), (other, full)):
        found = beside(on_gpu(0, CHAT), *others)
        shares = [option.target for option in found.options if option.action is Action.SHARE_MPS]
        assert shares == ["kubernetes:web/tiny", RANK.key]


def test_other_owners_start_a_daemon() -> None:
    """With the GPU and half of its memory for each."""
    chat = replace(CHAT, kind=WorkloadKind.CONTAINER)
    one = on_gpu(0, chat)
    found = beside(replace(one, devices=(gpu(0, board="T4"),)), on_gpu(1, RANK))
    assert not found.is_actionable  # Not the same board.
    cases = [
        replace(each, devices=(gpu(at, board="T4"),))
        for at, each in enumerate((one, on_gpu(1, RANK)))
    ]
    found = beside(*cases)
    assert found.instructions[0].text == (
        "CUDA_VISIBLE_DEVICES=GPU-0 nvidia-cuda-mps-control -d\n"
        "export CUDA_VISIBLE_DEVICES=GPU-0  # in both, kubernetes:web/rank too\n"
        "export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=40G\n"
    )


def test_jobs_and_strangers_to_us_share_nothing() -> None:
    """A job would run longer; the tolerance of an unknown class is unknown."""
    assert RULE.judge(on_gpu(0, workload())).kind is FindingKind.OPTIMIZED
    unknown = replace(CHAT, workload_class=WorkloadClass.UNKNOWN)
    assert RULE.judge(on_gpu(0, unknown)).abstained is not None


def test_preallocated_memory_is_no_verdict() -> None:
    """Its real need is unknown."""
    found = RULE.judge(on_gpu(0, replace(CHAT, allocator=Allocator.PREALLOCATING)))
    assert found.reasons == (Reason.UNSUPPORTED_TELEMETRY,)


def test_never_while_under_pressure_and_never_a_slice_of_a_slice() -> None:
    """Neither has anything to spare."""
    pressed = replace(small_window(), pressed={Resource.COMPUTE: 24 * HOUR})
    case = case_of([steady(0.2, **SMALL)], DAYS, CHAT, windows=[pressed])
    assert RULE.judge(case).summary == "Under pressure, so it shares nothing."
    part = gpu(uuid="MIG-0", mig=MigInstance("GPU-0", "3g.40gb", 1, 0, 3 / 7, 4 / 8))
    case = case_of([steady(0.2, **SMALL)], DAYS, CHAT, windows=[small_window()], devices=[part])
    assert RULE.judge(case).kind is FindingKind.OPTIMIZED


def test_shared_already_is_shared_enough() -> None:
    """Use of a shared GPU is not that of one workload."""
    case = on_gpu(0, CHAT)
    holdings = {"GPU-0": (Holding(CHAT, 0.5), Holding(RANK, 0.5))}
    found = RULE.judge(replace(case, node=Node(cases=(case,), holdings=holdings)))
    assert found.summary == "GPU 0: shared already."


def _smallest(compute: float, memory: float) -> float:
    """The compute share of the smallest slice offered, or 1 without one."""
    case = case_of([steady(0.2, **SMALL)], 2, CHAT, windows=[small_window(compute, memory)])
    board = Market().board("H100-SXM5-80GB")
    assert board is not None
    shares = {profile.name: profile.compute_share for profile in board.mig_profiles}
    found = RULE.judge(case).options
    return min((shares[each.target] for each in found), default=1.0)


@given(st.floats(0.01, 0.9), st.floats(0.01, 0.9), st.floats(1.0, 3.0))
@settings(max_examples=20)
def test_more_load_never_yields_a_smaller_slice(
    compute: float, memory: float, times: float
) -> None:
    """Neither in compute nor in memory."""
    more = _smallest(min(1.0, compute * times), min(1.0, memory * times))
    assert _smallest(compute, memory) <= more


@given(st.floats(0.01, 0.9), st.floats(1.0, 500.0))
@settings(max_examples=20)
def test_unknown_time_never_creates_advice(compute: float, unknown: float) -> None:
    """It raises no confidence."""
    clear = small_window(compute)
    hazy = replace(clear, states={**clear.states, State.UNKNOWN: round(unknown * HOUR)})
    before, after = (
        RULE.judge(case_of([steady(0.2, **SMALL)], 2, CHAT, windows=[each]))
        for each in (clear, hazy)
    )
    assert after.is_actionable <= before.is_actionable
    assert not after.is_actionable or after.confidence <= before.confidence


def test_same_input_gives_the_same_words() -> None:
    """Byte for byte."""
    cases = [on_gpu(0, CHAT), on_gpu(1, RANK)]
    assert beside(*cases) == beside(*cases)
    assert repr(beside(*cases)) == repr(beside(on_gpu(0, CHAT), on_gpu(1, RANK)))
