"""Rules over profiles: findings, the ranks or causes at fault, and estimated gains."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from profiles_built import copies, device, kernel, profile, span, step, time_use
from rightsizer.model.finding import Action, Finding, FindingKind, Reason
from rightsizer.model.profile import (
    DeviceProfile,
    HostMemory,
    LaunchUse,
    Profile,
    ProfiledDevice,
    SpanKind,
    TimeUse,
)
from rightsizer.profiler.rules import (
    host_bound,
    launch_bound,
    pcie_bound,
    rank_imbalance,
    storage_bound,
    tensor_cores_unused,
)
from rightsizer.profiler.rules.registry import PROFILE_RULES

WAITS = time_use(kernel=0.2, host=0.8)
LAUNCHES = time_use(kernel=0.2, host=0.8, dispatch_wait_seconds=0.8)
"""The same in gaps as short as issuing a kernel takes."""
SHORT = kernel("tiny", count=40_000, seconds=0.2)


def _gain(finding: Finding) -> tuple[float | None, float | None]:
    (option,) = finding.options
    return option.time_ratio_low, option.time_ratio_high


def _saving(seconds: float, **parts: float) -> TimeUse:
    return time_use(**parts, checkpoint_wait_seconds=seconds)


def _ranks(*lates: float, **more: object) -> list[Profile]:
    """Four steps of each rank; the last collective of each starts at the rank's millisecond."""
    return [
        profile(
            device(steps=tuple(step(each, late=late) for each in range(4))),
            source=f"rank{rank}.json",
            rank=rank,
            world_size=len(lates),
            **more,
        )
        for rank, late in enumerate(lates)
    ]


def test_waiting_for_short_kernels_is_launch_bound() -> None:
    """It names the kernels, recommends graphs, and promises no more than the waiting time."""
    finding = launch_bound.RULE.judge([profile(device(time=LAUNCHES, kernels=(SHORT,)))])

    assert finding.reasons == (Reason.LAUNCH_BOUND,)
    assert finding.action is Action.ENABLE_CUDA_GRAPHS
    assert finding.evidence["kernels"] == ["tiny"]
    assert finding.evidence["launches_per_second"] == 40_000.0
    assert _gain(finding) == (0.2, 0.6)
    assert finding.workload == "trace.json"


def test_waiting_between_long_kernels_is_launch_bound_as_well() -> None:
    """Short gaps are dispatch, whatever the mean kernel is."""
    found = [profile(device(time=LAUNCHES, kernels=(kernel("gemm", 4000, 0.2),)))]

    assert launch_bound.RULE.judge(found).reasons == (Reason.LAUNCH_BOUND,)
    assert host_bound.RULE.judge(found).kind is FindingKind.OPTIMIZED


def test_waiting_in_long_gaps_is_not() -> None:
    """The host does more than launching: host bound, without a known loader."""
    found = [profile(device(time=WAITS))]

    assert launch_bound.RULE.judge(found).kind is FindingKind.OPTIMIZED
    finding = host_bound.RULE.judge(found)
    assert finding.reasons == (Reason.HOST_BOUND,)
    assert finding.action is Action.NONE
    assert _gain(finding) == (0.2, 1.0)


def test_collectives_do_not_make_kernels_long() -> None:
    """Their duration depends on other ranks; the kernels beside them count."""
    waiting = kernel("nccl", count=10, seconds=5.0, is_collective=True)
    finding = launch_bound.RULE.judge([profile(device(time=LAUNCHES, kernels=(waiting, SHORT)))])

    assert finding.is_actionable


def test_waiting_for_the_loader_is_host_bound_by_it() -> None:
    """The span is named, with the time of a step that may be saved."""
    steps = tuple(step(each, loader=0.06, host=0.05) for each in range(10))
    found = profile(
        device(
            time=time_use(kernel=0.5, host=0.5, loader_wait_seconds=0.5),
            kernels=(SHORT,),
            steps=steps,
        ),
        host_spans=(span(SpanKind.LOADER, "DataLoader", 0.6),),
    )
    finding = host_bound.RULE.judge([found])

    assert finding.action is Action.FIX_INPUT_PIPELINE
    assert "50.0 ms of a step in DataLoader" in finding.summary
    assert finding.evidence["spans"] == {"DataLoader": 0.6}
    assert finding.evidence["saved_seconds_per_step_high"] == 0.05
    assert finding.evidence["saved_seconds_per_step_low"] == 0.025
    assert not launch_bound.RULE.judge([found]).is_actionable


def test_a_loader_that_works_beside_the_gpu_is_no_trouble() -> None:
    """However long it takes: at most the device's waiting time is due to it."""
    steps = tuple(step(each, loader=0.09, host=0.001) for each in range(10))
    time = time_use(kernel=0.99, host=0.01, loader_wait_seconds=0.01)
    found = profile(device(time=time, steps=steps))

    assert host_bound.RULE.judge([found]).kind is FindingKind.OPTIMIZED


def test_exposed_copies_are_pcie_bound() -> None:
    """Copies of pageable memory are counted; copies on the device do not use PCIe."""
    time = time_use(kernel=0.7, host=0.3, copy_seconds=0.3, exposed_copy_seconds=0.25)
    finding = pcie_bound.RULE.judge([profile(device(time=time, copies=(copies(),)))])

    assert finding.reasons == (Reason.PCIE_BOUND,)
    assert "12 copies of 120.0 MB in all use pageable memory" in finding.summary
    assert finding.evidence["exposed_copy_ratio_at_most"] == 0.2
    pinned = pcie_bound.RULE.judge(
        [profile(device(time=time, copies=(copies(HostMemory.PINNED, 0.05),)))]
    )
    assert pinned.kind is FindingKind.OPTIMIZED
    assert "pageable" not in pinned.summary


def test_idle_time_beside_a_checkpoint_is_storage_bound() -> None:
    """The checkpoint is named; the part beside kernels costs nothing."""
    spans = (span(SpanKind.CHECKPOINT, "save_checkpoint", 0.4),)
    finding = storage_bound.RULE.judge(
        [profile(device(time=_saving(0.3, kernel=0.7, host=0.2)), host_spans=spans)]
    )

    assert finding.reasons == (Reason.STORAGE_BOUND,)
    assert finding.evidence["spans"] == {"save_checkpoint": 0.4}
    assert _gain(finding) == (0.7, 0.85)
    beside = profile(device(time=_saving(0.01, kernel=0.99, host=0.01)), host_spans=spans)
    assert storage_bound.RULE.judge([beside]).kind is FindingKind.OPTIMIZED


@pytest.mark.parametrize(
    ("name", "uses", "expected"),
    [
        ("ampere_sgemm_128x64_nn", False, FindingKind.INEFFICIENT),
        ("implicit_convolve_sgemm<float>", False, FindingKind.INEFFICIENT),
        ("sm90_xmma_gemm_bf16", True, FindingKind.OPTIMIZED),
        ("my_gemm", None, FindingKind.UNKNOWN),
        ("volta_dgemm_64x64", False, FindingKind.OPTIMIZED),
        ("fbgemm_gpu::permute_2D_data_kernel", False, FindingKind.OPTIMIZED),
        ("elementwise_kernel", False, FindingKind.OPTIMIZED),
    ],
)
def test_products_of_matrices_without_tensor_cores(
    name: str,
    uses: bool | None,  # noqa: FBT001 - a value, not a switch.
    expected: FindingKind,
) -> None:
    """Only matrix products count, only with known precision, and not in double precision."""
    found = profile(device(kernels=(kernel(name, uses_tensor_cores=uses),)))

    assert tensor_cores_unused.RULE.judge([found]).kind is expected


def test_tensor_core_gain_is_bounded_by_their_speed() -> None:
    """From 1.5 to 8 times as fast over the time of those kernels."""
    slow = kernel("sgemm", seconds=0.8, uses_tensor_cores=False)
    finding = tensor_cores_unused.RULE.judge([profile(device(kernels=(slow,)))])

    assert _gain(finding) == (0.3, 0.7333)
    assert finding.evidence["kernels"] == {"sgemm": 0.8}


def test_a_gpu_without_tensor_cores_is_not_blamed() -> None:
    """A P100 has none."""
    slow = kernel("sgemm", uses_tensor_cores=False)
    found = device(device=ProfiledDevice("0", name="Tesla P100-PCIE-16GB"), kernels=(slow,))
    finding = tensor_cores_unused.RULE.judge([profile(found)])

    assert finding.abstained == "a Tesla P100-PCIE-16GB has no tensor cores"


def test_the_rank_that_starts_its_collective_latest_is_the_straggler() -> None:
    """The others wait for it; the gain is the time by which it is late."""
    finding = rank_imbalance.RULE.judge(_ranks(50.0, 70.0, 52.0))

    assert finding.reasons == (Reason.RANK_IMBALANCE,)
    assert finding.culprits == ("rank 1, GPU 0",)
    assert finding.evidence["behind_seconds"] == pytest.approx(0.02)
    assert _gain(finding) == (0.8, 0.8)
    assert finding.workload == "rank0.json and 2 more"


def test_clocks_of_ranks_do_not_matter() -> None:
    """Collectives end at once on all ranks: who joins late is told by how long they last."""
    early, late = _ranks(50.0, 50.0, start=0)
    shifted = profile(*late.devices, source="late.json", rank=1, world_size=2, start=30_000_000)

    assert not rank_imbalance.RULE.judge([early, shifted]).is_actionable
    assert not rank_imbalance.RULE.judge(_ranks(50.0, 50.0)).is_actionable


def test_ranks_that_are_late_together_are_named_together() -> None:
    """What all have joined is sending."""
    finding = rank_imbalance.RULE.judge(_ranks(50.0, 70.0, 52.0, 68.0))

    assert finding.culprits == ("rank 1, GPU 0", "rank 3, GPU 0")
    assert finding.evidence["sent_seconds"] == pytest.approx(0.03)


def _with_collectives(*lasted: Mapping[str, tuple[tuple[int, int], ...]]) -> list[Profile]:
    """A step of each rank, in which these collectives run, in milliseconds."""
    return [
        profile(
            device(
                steps=(
                    replace(
                        step(0),
                        collectives={
                            kind: tuple((1_000_000 * start, 1_000_000 * end) for start, end in each)
                            for kind, each in of_rank.items()
                        },
                    ),
                )
            ),
            rank=rank,
        )
        for rank, of_rank in enumerate(lasted)
    ]


def test_collectives_of_other_ranks_are_not_matched() -> None:
    """Those of another group, of which a rank has more, or that do not end at once."""
    others = _with_collectives(
        {"all_reduce [0, 1]": ((50, 90),), "send": ((1, 2), (3, 4)), "gather": ((5, 20), (60, 75))},
        {"all_reduce [2, 3]": ((80, 90),), "send": ((1, 2),), "gather": ((10, 12), (40, 42))},
    )

    assert "no step" in str(rank_imbalance.RULE.judge(others).abstained)


def test_balanced_ranks_are_not_called_late_and_waits_fit_their_step() -> None:
    """Collectives that run beside each other may wait for longer than the step in sum."""
    alike = rank_imbalance.RULE.judge(_with_collectives(*({"sum": ((10, 90),)},) * 4))
    both = {"sum": ((1, 91),), "gather": ((1, 91),)}
    late = {"sum": ((90, 91),), "gather": ((90, 91),)}
    finding = rank_imbalance.RULE.judge(_with_collectives(both, late))

    assert alike.summary.startswith("rank 0, GPU 0 joins")
    assert finding.culprits == ("rank 1, GPU 0",)
    assert finding.evidence["behind_seconds"] == 0.1


@pytest.mark.parametrize(
    ("name", "precision", "never"),
    [
        ("Tesla V100-SXM2-32GB", "float16", "bfloat16"),
        ("Tesla T4", "float16", "allow_tf32"),
        ("NVIDIA A100-SXM4-80GB", "bfloat16", "GradScaler"),
    ],
)
def test_precision_is_one_that_the_board_has(name: str, precision: str, never: str) -> None:
    """Neither bfloat16 nor TF32 before Ampere."""
    gemm = kernel("volta_sgemm_128x64_nt", count=1000, seconds=0.9)
    board = device(kernels=(replace(gemm, uses_tensor_cores=False),))
    named = replace(board, device=replace(board.device, name=name))
    finding = tensor_cores_unused.RULE.judge([profile(named)])
    texts = " ".join(instruction.text for instruction in finding.instructions)

    assert finding.reasons == (Reason.TENSOR_CORES_UNUSED,)
    assert precision in texts
    assert never not in texts


def test_ranks_that_take_turns_at_being_late_are_no_stragglers() -> None:
    """The load varies between ranks."""
    steps = [[50.0, 70.0, 50.0], [70.0, 50.0, 50.0], [50.0, 50.0, 70.0]]
    found = [
        profile(
            device(steps=tuple(step(n, late=late) for n, late in enumerate(lates))),
            rank=rank,
            world_size=3,
        )
        for rank, lates in enumerate(steps)
    ]

    finding = rank_imbalance.RULE.judge(found)
    assert finding.kind is FindingKind.OPTIMIZED
    assert finding.evidence["steps_latest"] == 1


NO_TIME = device(time=None)
ODD: dict[str, tuple[list[DeviceProfile], str]] = {
    "nothing": ([], "no kernel in it"),
    "idle": ([device(time=None, kernels=(), launches=None)], "no kernel ran"),
    "sums alone": ([NO_TIME], "no timeline"),
    "one kernel": ([device(kernels=(kernel(count=1),))], "only 1 kernel, too few"),
    "start-up": ([device(launches=LaunchUse(1000, 30.0, 0, 1000))], "a start-up: a launch took 30"),
    "no launches": ([device(launches=None)], "launches of its kernels are not in the profile"),
}


@pytest.mark.parametrize("odd", ODD)
def test_unjudgeable_idle_time_makes_each_rule_abstain(odd: str) -> None:
    """Each rule on idle time abstains with a reason; none calls it idle or healthy."""
    devices, why = ODD[odd]
    for rule in (launch_bound.RULE, host_bound.RULE):
        finding = rule.judge([profile(*devices)])
        assert finding.kind is FindingKind.UNKNOWN
        assert finding.abstained is not None
        assert why in finding.abstained
        assert finding.confidence == 0.0


def test_one_rank_alone_has_nobody_to_wait_for() -> None:
    """The same holds for ranks without a common collective."""
    alone = rank_imbalance.RULE.judge(_ranks(50.0))
    silent = rank_imbalance.RULE.judge([profile(device(steps=(step(1),)), rank=n) for n in (0, 1)])

    assert "fewer than two ranks" in str(alone.abstained)
    assert "no step" in str(silent.abstained)


def test_settings_move_thresholds() -> None:
    """Rules use an operator's thresholds."""
    rule = launch_bound.RULE.with_settings(launch_bound.ProfileLaunchBoundSettings(on_ratio=0.9))

    assert not rule.judge([profile(device(time=LAUNCHES, kernels=(SHORT,)))]).is_actionable


def test_names_and_ids_are_each_rules_own() -> None:
    """A profile judged twice has the same ids, and no two rules share one."""
    found = [profile(device(time=LAUNCHES, kernels=(SHORT,)))]
    ids = [rule.judge(found).id for rule in PROFILE_RULES]

    assert len(set(ids)) == len(PROFILE_RULES) == len({rule.name for rule in PROFILE_RULES})
    assert ids == [rule.judge(found).id for rule in PROFILE_RULES]


_SHARES = st.tuples(*[st.floats(0.0, 1.0)] * 4)


@given(_SHARES, st.integers(0, 100_000), st.sampled_from([(), (0,), (0, 1)]))
def test_no_rule_promises_more_than_there_is(
    shares: tuple[float, float, float, float], count: int, marked: tuple[int, ...]
) -> None:
    """For any profile: gains are at most 1, low <= high, confidence is a probability."""
    busy, loader, copying, saving = shares
    idle = 1.0 - busy
    time = time_use(
        kernel=busy,
        host=idle,
        copy_seconds=copying,
        exposed_copy_seconds=idle * copying,
        loader_wait_seconds=idle * loader,
        checkpoint_wait_seconds=idle * saving,
    )
    kernels = (kernel("sgemm", count, busy, uses_tensor_cores=False),) if count else ()
    steps = tuple(step(each, 500.0, loader=loader / 2, host=idle / 2) for each in marked)
    found = profile(
        device(time=time, kernels=kernels, copies=(copies(seconds=copying),), steps=steps),
        host_spans=(
            span(SpanKind.LOADER, "load", loader),
            span(SpanKind.CHECKPOINT, "save", saving),
        ),
    )
    for rule in PROFILE_RULES:
        finding = rule.judge([found])
        assert 0.0 <= finding.confidence < 1.0
        assert (finding.abstained is None) == (finding.kind is not FindingKind.UNKNOWN)
        for option in finding.options:
            assert option.time_ratio_low is not None
            assert option.time_ratio_high is not None
            assert 0.0 <= option.time_ratio_low <= option.time_ratio_high <= 1.0
