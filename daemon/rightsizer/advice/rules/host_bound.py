"""GPUs that wait for the host: its CPUs are at their quota, or too many want them."""

from typing import Final

from rightsizer.advice.board_status import abstain_unobserved
from rightsizer.advice.market import Market
from rightsizer.advice.operator_commands import (
    cpu_list,
    cpus_for_gpu,
    cpus_near,
    dump_stacks,
    kind_of,
    show_throttling,
)
from rightsizer.advice.rules.bottleneck import (
    Bottleneck,
    BottleneckSettings,
    complain_of,
    find_bottleneck,
)
from rightsizer.advice.rules.rule import Rule
from rightsizer.model.device import Device
from rightsizer.model.finding import Action, Case, Finding, Instruction, Reason
from rightsizer.model.signal import Signal
from rightsizer.model.state import State
from rightsizer.model.workload import WorkloadClass
from rightsizer.owners.registry import owner_of

NAME: Final = "host_bound"
_HOST: Final = Bottleneck(NAME, State.HOST_BOUND, Reason.HOST_BOUND, "held up by the host's CPUs")
_SIGNALS: Final = (Signal.CPU, Signal.CPU_PRESSURE)


def judge(case: Case, settings: BottleneckSettings, market: Market) -> Finding:
    """Whether the CPUs keep a GPU of the workload waiting."""
    seen = find_bottleneck(_HOST, case, settings)
    if isinstance(seen, Finding):
        return abstain_unobserved(seen, case, _SIGNALS)
    return complain_of(
        _HOST,
        case,
        seen,
        market,
        action=Action.FIX_INPUT_PIPELINE,
        summary=f"{seen.summary}, at their quota or under pressure.",
        instructions=_instructions(case, seen.devices),
    )


def _instructions(case: Case, devices: tuple[Device, ...]) -> tuple[Instruction, ...]:
    confirm = (
        dump_stacks(devices, "See what the CPUs are busy with"),
        show_throttling(devices, "See whether a quota holds them back, and how often"),
    )
    is_serving = case.workload_class is WorkloadClass.SERVING
    mend = _server() if is_serving else _loader(case, devices[0])
    return (*confirm, *_quota(case, devices[0]), mend)


def _quota(case: Case, device: Device) -> tuple[Instruction, ...]:
    """More CPUs, in the words of who hands them out; nothing where the node is not known."""
    count = cpus_for_gpu(case, device)
    if count is None:
        return ()
    title = f"Give it the CPUs that are near its GPU: {cpu_list(cpus_near(case, device))}"
    return owner_of(kind_of(case)).request_cpus(title, count, len(case.devices))


def _loader(case: Case, device: Device) -> Instruction:
    count = cpus_for_gpu(case, device)
    # One CPU is left to the process that launches the kernels.
    workers = "N" if count is None else str(max(1, count - 1))
    unknown = "with N the CPUs that the job has for each GPU, less one;\n"
    return Instruction(
        "Load with more workers, ahead of the GPU",
        (
            f"DataLoader(..., num_workers={workers}, pin_memory=True, persistent_workers=True, "
            f"prefetch_factor=4)\n{unknown if count is None else ''}"
            "decode or augment less on the CPU: prepare the data once, or use NVIDIA DALI"
        ),
    )


def _server() -> Instruction:
    return Instruction(
        "Take the host's work off the path of a request",
        (
            "vllm serve ... --async-scheduling --api-server-count 4\n"
            "tokenizing, sampling and HTTP run on the CPU between two steps of the GPU"
        ),
    )


RULE: Final = Rule(NAME, BottleneckSettings(), judge)
