"""GPUs that get their kernels one by one, each too small to fill them: launches are the limit."""

from typing import Final

from rightsizer.advice.market import Market
from rightsizer.advice.operator_commands import trace_kernels
from rightsizer.advice.rules.bottleneck import (
    Bottleneck,
    BottleneckSettings,
    complain_of,
    find_bottleneck,
)
from rightsizer.advice.rules.rule import Rule
from rightsizer.model.finding import Action, Case, Finding, Instruction, Reason, Risk
from rightsizer.model.state import State, Tier
from rightsizer.model.workload import WorkloadClass

NAME: Final = "launch_bound"
_LAUNCHES: Final = Bottleneck(
    NAME,
    State.LAUNCH_BOUND,
    Reason.LAUNCH_BOUND,
    "busy with kernels too small to fill the SMs",
    frozenset({Tier.PROFILING}),
    "without profiling small kernels look like large ones",
)


def judge(case: Case, settings: BottleneckSettings, market: Market) -> Finding:
    """Whether a GPU of the workload is busy with kernels that leave most of its SMs at rest."""
    seen = find_bottleneck(_LAUNCHES, case, settings)
    if isinstance(seen, Finding):
        return seen
    return complain_of(
        _LAUNCHES,
        case,
        seen,
        market,
        action=Action.ENABLE_CUDA_GRAPHS,
        summary=f"{seen.summary}; launching them is the limit.",
        instructions=_instructions(case),
        risk=Risk.LOW,
    )


def _instructions(case: Case) -> tuple[Instruction, ...]:
    confirm = trace_kernels(
        "See how long kernels and their launches take: below 20 µs the launch is what counts",
        "launches",
        "cuda_gpu_kern_sum,cuda_api_sum",
    )
    larger = Instruction(
        "Where graphs are in place already, the kernels themselves are too small",
        "raise the batch size, fuse operations, or share the GPU with others",
    )
    is_serving = case.workload_class is WorkloadClass.SERVING
    return (confirm, _server() if is_serving else _program(), larger)


def _program() -> Instruction:
    return Instruction(
        "Capture the steps as CUDA graphs",
        (
            'model = torch.compile(model, mode="reduce-overhead")\n'
            "or torch.cuda.make_graphed_callables(model, sample_arguments) for fixed shapes;\n"
            "optimizers: torch.optim.AdamW(..., fused=True)"
        ),
    )


def _server() -> Instruction:
    return Instruction(
        "Let the engine capture CUDA graphs",
        (
            "vLLM: start without --enforce-eager, and with --cuda-graph-sizes that hold the batch "
            "sizes in use;\n"
            "TensorRT-LLM: cuda_graph_config in the engine's options; "
            "Triton's TensorRT and ONNX models: optimization { cuda { graphs: true } }"
        ),
    )


RULE: Final = Rule(NAME, BottleneckSettings(), judge)
