"""Launch: the commands that run a plan and verify it, in the flags of each program."""

import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from msgspec import Struct

from rightsizer.io.codec import convert
from rightsizer.io.terminal import counted
from rightsizer.io.yaml import load_beside
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.models.known_models import published_source
from rightsizer.sizing.collectives import SERVER_GPUS
from rightsizer.sizing.load import RequestLoad, WorkUnit
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import Offload, Parallelism, Requirement, TrainingFramework

MODEL: Final = "$MODEL"
"""Word of a command that stands for its checkpoint."""
PROGRAM: Final = "train.py"
"""Word of a command that stands for the program that trains."""
_VERIFY_SECONDS: Final = 600.0
"""As the plan's own steps of verification."""
_CONTEXT_RATIO: Final = 2.0
"""Longest request, of the mean or the long one that is known, that is accepted at least."""
_PROMPTS_EACH: Final = 10
"""Requests for each that is in flight: a tenth of them begin or end with fewer."""
_OPTIMIZER_STAGE: Final = 1
"""Stage of ZeRO that shares the optimizer's states alone."""
_STRATEGIES: Final = {2: "SHARD_GRAD_OP", 3: "FULL_SHARD"}
"""FSDP's names of stages of ZeRO; it has none for the first."""


class Launcher(Struct, frozen=True):
    """How a program is told a plan; a row of `launchers.yaml`."""

    words: str
    flags: Mapping[str, str]
    """Words by fact."""
    machines: Mapping[str, str] = {}
    """More words by fact, where a server or a training takes several machines."""
    machines_note: str = ""
    """What else that takes, if a variable of each machine is not enough."""
    formats: Mapping[str, str] = {}
    """Its names of weights that it quantizes when it loads them."""
    caches: Mapping[str, str] = {}
    dtypes: Mapping[str, str] = {}
    image: str = ""
    """Empty if there is no public one without a registry of its own."""
    port: int = 0
    load: str = ""
    """Command of a run that verifies the plan."""
    speech_load: str = ""
    """The same of a model of speech; empty if it serves none."""
    rate: str = ""
    """Words for requests a second."""
    concurrency: str = ""
    """Words for requests in flight."""


@cache
def launchers() -> Mapping[str, Launcher]:
    """Launchers by name of engine or program."""
    return convert(load_beside(__file__, "launchers.yaml"), dict[str, Launcher])


class LaunchedModel(Struct, frozen=True):
    """What is told of the model that a launch serves, in place of what its plan knows."""

    source: str = ""
    """Repository of its checkpoint."""
    context_tokens: int | None = None
    """Limit of a request's tokens."""
    longest_tokens: float | None = None
    """Tokens of a long request, without a limit."""


_UNTOLD: Final = LaunchedModel()


class Launch(Struct, frozen=True):
    """How a plan is run."""

    model: str
    """Checkpoint; empty if only its shape is known."""
    command: tuple[str, ...]
    """Its words, of one server or of the training on each node."""
    servers: int
    """Copies of that command, with a load balancer before them."""
    server_gpus: int
    nodes: int
    """Machines of a server."""
    verify: tuple[str, ...] = ()
    """Command of a run that verifies the plan, against one server."""
    notes: tuple[str, ...] = ()
    """What the command does not say."""

    @property
    def text(self) -> str:
        """The command in one line, for people."""
        return " ".join(self.command).replace(MODEL, self.model or MODEL)

    @property
    def copies(self) -> str:
        """How often the command is started."""
        behind = ", behind a load balancer" if self.servers > 1 else ""
        return f"Start {counted(self.servers, 'copy', 'copies')}{behind}."


def launch_of(
    requirement: Requirement, candidate: PlanCandidate, launched: LaunchedModel = _UNTOLD
) -> Launch | None:
    """Return how a candidate is run; `None` for what no known program runs."""
    if requirement.task.trains:
        return _training(requirement, candidate)
    launcher = launchers().get(str(requirement.engine))
    if launcher is None or not _runs(launcher, requirement):
        return None
    return _serving(requirement, candidate, launcher, launched)


def _runs(launcher: Launcher, requirement: Requirement) -> bool:
    """Whether it serves such a model: a decoder, or speech; no pair of stacks for text."""
    model = requirement.model
    if not isinstance(model, Transformer) or not requirement.answers_in_tokens:
        return False
    return bool(launcher.speech_load) if model.sound_seconds else not model.input_ratio


def _serving(
    requirement: Requirement, candidate: PlanCandidate, launcher: Launcher, launched: LaunchedModel
) -> Launch:
    layout = candidate.layout
    load = requirement.load
    sharing = layout.expert
    servers = layout.data // sharing
    replica_gpus = layout.tensor * layout.pipeline
    gpus = replica_gpus * sharing
    machine_gpus = _machine_gpus(candidate)
    nodes = math.ceil(gpus / machine_gpus)
    requests = _requests(requirement, candidate, servers)
    context = _context(requirement, launched)
    # A limit at the mean of arrivals would make the others wait.
    limit = None if load.is_open else requests
    facts = {
        "nodes": nodes,
        "split": replica_gpus if replica_gpus > machine_gpus else None,
        "machine_sharing": machine_gpus // replica_gpus or None if sharing > 1 else None,
        "tensor": _above_one(layout.tensor),
        "pipeline": _above_one(layout.pipeline),
        "sharing": _above_one(sharing),
        # Of engines whose tensor degree counts all that serve a layer.
        "gpus": _above_one(layout.tensor * sharing),
        "experts": layout.tensor * sharing if sharing > 1 else None,
        "context": context,
        "requests": limit and math.ceil(limit / sharing),
        # Of engines whose limit is that of all replicas.
        "all_requests": limit,
        **_formats(requirement, candidate, launcher),
        "adapters": math.ceil(load.adapters) or None,
        "rank": requirement.lora.rank if load.adapters else None,
    }
    is_ready = _is_ready(requirement, launcher)
    source = launched.source or published_source(requirement.model.name)
    return Launch(
        source if is_ready else "",
        tuple(_words(launcher, facts, nodes)),
        servers,
        gpus,
        nodes,
        _verification(requirement, launcher, servers, requests),
        (
            *_machine_notes(launcher, gpus, nodes),
            *_serving_notes(requirement, candidate, launcher, context),
        ),
    )


def _verification(
    requirement: Requirement, launcher: Launcher, servers: int, requests: int
) -> tuple[str, ...]:
    """Words of the run that verifies a server, at its share of the load."""
    load = requirement.load
    rate = requirement.requests_per_second
    prompts = _PROMPTS_EACH * requests
    pace = launcher.concurrency.format(requests)
    if load.is_open and rate is not None:
        prompts = math.ceil(_VERIFY_SECONDS * rate / servers)
        pace = launcher.rate.format(f"{rate / servers:g}")
    form = launcher.load if requirement.unit is WorkUnit.TOKENS else launcher.speech_load
    words = form.format(
        input=round(load.input_tokens), output=max(1, round(load.output_tokens)), prompts=prompts
    )
    return (*words.split(), *pace.split())


def _context(requirement: Requirement, launched: LaunchedModel) -> int | None:
    """Tokens of the longest request: a power of two, which leaves room beyond the mean.

    Engines refuse more than the model was made for. `None` for models of speech, which have a
    length of their own.
    """
    if requirement.unit is not WorkUnit.TOKENS:
        return None
    if launched.context_tokens:
        return launched.context_tokens
    tokens = _CONTEXT_RATIO * (launched.longest_tokens or _mean_tokens(requirement.load))
    roomy = int(2 ** math.ceil(math.log2(max(1.0, tokens))))
    return min(roomy, requirement.checkpoint.context_tokens or roomy)


def _mean_tokens(load: RequestLoad) -> float:
    return load.input_tokens + load.output_tokens


def _requests(requirement: Requirement, candidate: PlanCandidate, servers: int) -> int:
    """Requests in flight at each server."""
    planned = candidate.rate.concurrency or requirement.load.concurrency or 1.0
    return max(1, math.ceil(planned / servers))


def _above_one(degree: int) -> int | None:
    return degree if degree > 1 else None


def _formats(
    requirement: Requirement, candidate: PlanCandidate, launcher: Launcher
) -> dict[str, str | None]:
    precision = requirement.precision
    # Boards before Ampere compute in fp16 instead.
    is_older = candidate.format is not None and candidate.format.name == str(NumberFormat.FP16)
    activations = NumberFormat.FP16 if is_older else precision.activations
    cache_format = precision.kv_cache
    weights = str(precision.weights)
    return {
        "dtype": launcher.dtypes.get(str(activations)),
        "quantization": None if _is_stored(requirement) else launcher.formats.get(weights),
        "cache": launcher.caches.get(str(cache_format)) if cache_format else None,
    }


def _is_stored(requirement: Requirement) -> bool:
    """Whether the published checkpoint has the planned format."""
    return requirement.precision.weights is requirement.checkpoint.weights


def _is_ready(requirement: Requirement, launcher: Launcher) -> bool:
    """Whether the engine serves the published checkpoint, as it is or quantized at loading."""
    if _is_stored(requirement):
        return True
    stored = requirement.checkpoint.weights
    if stored is not None and stored.is_quantized:
        return False
    weights = requirement.precision.weights
    return not weights.is_quantized or str(weights) in launcher.formats


def _machine_notes(launcher: Launcher, gpus: int, nodes: int) -> Iterator[str]:
    if nodes == 1:
        return
    if launcher.machines_note:
        yield launcher.machines_note.format(nodes=nodes, gpus=gpus)
        return
    ranks = f"NODE_RANK 0 to {nodes - 1}"
    yield f"runs on {nodes} machines at once: {ranks}, and HEAD the address of machine 0"


def _serving_notes(
    requirement: Requirement, candidate: PlanCandidate, launcher: Launcher, context: int | None
) -> Iterator[str]:
    if not _is_ready(requirement, launcher):
        weights = requirement.precision.weights
        yield f"the checkpoint must have its weights in {weights}: the engine does not convert them"
    cache_format = requirement.precision.kv_cache
    if cache_format is not None and cache_format.is_quantized:
        yield from _cache_notes(cache_format, launcher)
    if candidate.layout.expert > 1 and "sharing" not in launcher.flags:
        yield "each GPU has attention of its own: enable_attention_dp, in --extra_llm_api_options"
    yield from _context_notes(requirement, context)
    if requirement.load.speculative_tokens:
        yield "proposed tokens need the name of a draft head, which the plan does not know"


def _cache_notes(cache_format: NumberFormat, launcher: Launcher) -> Iterator[str]:
    word = launcher.caches.get(str(cache_format))
    if word is None:
        yield f"keys and values in {cache_format} are set in the checkpoint or a file of the engine"
    elif not word.startswith(cache_format):
        yield f"keys and values are in {word}, as large: the engine has no {cache_format} for them"


def _context_notes(requirement: Requirement, context: int | None) -> Iterator[str]:
    if context is None:
        return
    is_own = context == requirement.checkpoint.context_tokens
    limit = f"{context:,} tokens" + ", what the model was made for," * is_own
    yield f"requests of more than {limit} are refused"
    mean = _mean_tokens(requirement.load)
    if mean > context:
        yield f"the planned ones have {mean:,.0f} on average: most are refused; plan shorter ones"


def _training(requirement: Requirement, candidate: PlanCandidate) -> Launch:
    training = requirement.training
    gpus = candidate.layout.gpus
    nodes = math.ceil(gpus / _machine_gpus(candidate))
    launcher = launchers()[_trainer(requirement, candidate.layout)]
    facts = {
        "nodes": nodes,
        "node_gpus": math.ceil(gpus / nodes),
        "gpus": gpus,
        "dtype": launcher.dtypes.get(str(requirement.precision.activations)),
        "stage": training.zero_stage,
        "sharding": _STRATEGIES.get(training.zero_stage),
        "offload": True if training.offload is Offload.OPTIMIZER else None,
    }
    return Launch(
        published_source(requirement.model.name),
        (*_words(launcher, facts, nodes), PROGRAM),
        1,
        gpus,
        nodes,
        notes=(
            *_machine_notes(launcher, gpus, nodes),
            *_training_notes(requirement, candidate, launcher),
        ),
    )


def _trainer(requirement: Requirement, layout: Parallelism) -> str:
    """Name of the launcher of a training."""
    training = requirement.training
    framework = training.framework
    if layout.tensor > 1 or layout.pipeline > 1:
        return "torchrun"
    if framework is TrainingFramework.DEEPSPEED:
        return "deepspeed"
    is_accelerated = framework is None or framework.is_autocast
    is_accelerated = is_accelerated or framework is TrainingFramework.FSDP
    if layout.gpus == 1 or training.zero_stage == 0 or not is_accelerated:
        return "torchrun"
    return "deepspeed" if training.zero_stage == _OPTIMIZER_STAGE else "accelerate"


def _training_notes(
    requirement: Requirement, candidate: PlanCandidate, launcher: Launcher
) -> Iterator[str]:
    layout = candidate.layout
    training = requirement.training
    batch = counted(training.micro_batch, str(requirement.unit).removesuffix("s"))
    if isinstance(requirement.model, Transformer):
        batch = f"{counted(training.micro_batch, 'sequence')} of {training.sequence} tokens"
    what = f"{batch} a GPU and pass"
    if training.global_batch:
        steps = max(1, training.global_batch // (training.micro_batch * layout.data))
        what = f"{what}, {steps} passes a step"
    yield f"{PROGRAM} is the program that trains: {what}, recompute {training.recompute}"
    is_plain = "node_gpus" in launcher.flags
    if layout.tensor > 1 or layout.pipeline > 1:
        yield f"the program divides the model itself: {layout}"
    elif is_plain and layout.gpus > 1 and training.zero_stage > 0:
        yield f"the program shares states among GPUs itself, as ZeRO stage {training.zero_stage}"
    is_said = training.offload is Offload.OPTIMIZER and "offload" in launcher.flags
    if training.offload is not Offload.NONE and not is_said:
        yield f"the program moves its {training.offload} to the host"


def _machine_gpus(candidate: PlanCandidate) -> int:
    return SERVER_GPUS if candidate.rental is None else candidate.rental.usable_gpus


def _words(launcher: Launcher, facts: Mapping[str, object], nodes: int) -> Iterator[str]:
    yield from launcher.words.split()
    machines = launcher.machines if nodes > 1 else {}
    for fact, words in (*launcher.flags.items(), *machines.items()):
        if (value := facts.get(fact)) is not None:
            yield from words.format(value).split()
