"""GPUs that get their kernels one by one, each too small to fill them: launches are the limit."""

from typing import Final

from rightsizer.advice.attribution import lost_gpus, saved_at_most
from rightsizer.advice.market import Market
from rightsizer.advice.operator_commands import class_of, trace_kernels
from rightsizer.advice.rules.bottleneck import Bottleneck, BottleneckSettings, find_bottleneck
from rightsizer.advice.rules.rule import Rule
from rightsizer.advice.verdict import complain
from rightsizer.model.finding import Action, Case, Finding, FindingKind, Instruction, Reason, Risk
from rightsizer.model.state import State, Tier
from rightsizer.model.workload import WorkloadClass

NAME: Final = "launch_bound"
_LAUNCHES: Final = Bottleneck(
    NAME,
    State.LAUNCH_BOUND,
    "busy with kernels too small to fill the SMs",
    frozenset({Tier.PROFILING}),
    "without profiling small kernels look like large ones",
)


def judge(case: Case, settings: BottleneckSettings, market: Market) -> Finding:
    """Whether a GPU of the workload is busy with kernels that leave most of its SMs at rest."""
    seen = find_bottleneck(_LAUNCHES, case, settings)
    if isinstance(seen, Finding):
        return seen
    return complain(
        NAME,
        case,
        kind=FindingKind.INEFFICIENT,
        reasons=(Reason.LAUNCH_BOUND,),
        action=Action.ENABLE_CUDA_GRAPHS,
        summary=f"{seen.summary}; launching them is the limit.",
        factors=seen.factors,
        risk=Risk.LOW,
        evidence=seen.evidence,
        savings=saved_at_most(case, market, State.LAUNCH_BOUND),
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=_instructions(case),
        affected_gpus=lost_gpus(case, State.LAUNCH_BOUND),
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
    is_serving = class_of(case) is WorkloadClass.SERVING
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
