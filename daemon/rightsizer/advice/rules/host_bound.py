"""Rule: GPUs that wait for the host, whose CPUs are at their quota or overcommitted."""

from typing import Final

from rightsizer.advice.instructions import (
    cpus_for_gpu,
    cpus_near,
    dump_stacks,
    instruction,
    kind_of,
    show_throttling,
)
from rightsizer.advice.observation import Bottleneck, BottleneckSettings
from rightsizer.advice.rules.rule import Rule
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    Action,
    Finding,
    Instruction,
    Reason,
    Signal,
    State,
    WorkloadClass,
    cpu_list,
)
from rightsizer.owners.registry import owner_of

_HOST: Final = Bottleneck(
    State.HOST_BOUND,
    Reason.HOST_BOUND,
    "held up by the host's CPUs",
    signals=(Signal.CPU, Signal.CPU_PRESSURE),
)


def judge(subject: CaseSubject, settings: BottleneckSettings) -> Finding:
    """Whether a GPU of the workload waits for the CPUs."""
    case = subject.case
    seen = _HOST.find(subject, settings)
    if isinstance(seen, Finding):
        return seen
    device = seen.devices[0]
    is_serving = case.workload_class is WorkloadClass.SERVING
    count = cpus_for_gpu(case, device)
    more: tuple[Instruction, ...] = ()
    if count is not None:
        title = f"Give it the CPUs that are near its GPU: {cpu_list(cpus_near(case, device))}"
        more = owner_of(kind_of(case)).request_cpus(title, count, len(case.devices))
    return _HOST.find_problem(
        seen,
        ", at their quota or under pressure",
        action=Action.FIX_INPUT_PIPELINE,
        instructions=(
            dump_stacks(seen.devices, "Check what the CPUs are busy with"),
            show_throttling(seen.devices, "Check whether a quota throttles them, and how often"),
            *more,
            instruction("offload_request_path") if is_serving else _loader(count),
        ),
    )


def _loader(count: int | None) -> Instruction:
    """Suggest more loader workers; one CPU per GPU is reserved for the launching process."""
    workers = "N" if count is None else str(max(1, count - 1))
    unknown = "with N the CPUs that the job has for each GPU, less one;\n"
    return Instruction(
        "Use more loader workers, and prefetch",
        f"DataLoader(..., num_workers={workers}, pin_memory=True, persistent_workers=True, "
        f"prefetch_factor=4)\n{unknown if count is None else ''}"
        "decode or augment less on the CPU: prepare the data once, or use NVIDIA DALI",
    )


RULE: Final = Rule("host_bound", BottleneckSettings(), judge, _HOST.screen)
