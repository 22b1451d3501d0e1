"""Rule: GPUs limited by kernel launches, with kernels too small to fill them."""

from typing import Final

from rightsizer.advice.instructions import instructions, trace_kernels
from rightsizer.advice.observation import Bottleneck, BottleneckSettings
from rightsizer.advice.rules.rule import Rule
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    Action,
    Finding,
    Reason,
    Risk,
    Signal,
    State,
    Tier,
    WorkloadClass,
)

_LAUNCHES: Final = Bottleneck(
    State.LAUNCH_BOUND,
    Reason.LAUNCH_BOUND,
    "limited by launches of small kernels",
    frozenset({Tier.PROFILING}),
    "without profiling small kernels look like large ones",
    (Signal.SM_ACTIVE,),
    "how full the SMs are",
)
_CONFIRM: Final = trace_kernels(
    "Time kernels and their launches: below 20 µs the launch dominates",
    "launches",
    "cuda_gpu_kern_sum,cuda_api_sum",
)


def judge(subject: CaseSubject, settings: BottleneckSettings) -> Finding:
    """Whether a GPU of the workload runs kernels that leave most of its SMs idle."""
    seen = _LAUNCHES.find(subject, settings)
    if isinstance(seen, Finding):
        return seen
    is_serving = subject.case.workload_class is WorkloadClass.SERVING
    capture = "capture_graphs_in_engine" if is_serving else "capture_graphs"
    return _LAUNCHES.find_problem(
        seen,
        "; they leave most SMs idle",
        action=Action.ENABLE_CUDA_GRAPHS,
        instructions=(_CONFIRM, *instructions(capture, "enlarge_kernels")),
        risk=Risk.LOW,
    )


RULE: Final = Rule("launch_bound", BottleneckSettings(), judge, _LAUNCHES.screen)
