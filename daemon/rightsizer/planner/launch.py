"""Launch: the commands that run a plan and verify it, and its manifest for Kubernetes."""

import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from msgspec import Struct

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.io.codec import convert
from rightsizer.io.terminal import counted
from rightsizer.io.yaml import load_beside
from rightsizer.model.errors import RequirementError
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.models.known_models import published_source
from rightsizer.sizing.collectives import SERVER_GPUS
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import Offload, Requirement

_MODEL: Final = "$MODEL"
_PROGRAM: Final = "train.py"
_VERIFY_SECONDS: Final = 600.0
"""As the plan's own steps of verification."""
_CONTEXT_RATIO: Final = 2.0
"""Longest request, of the mean one, that is accepted at least."""
_PROMPTS_EACH: Final = 10
"""Requests for each that is in flight: a tenth of them begin or end with fewer."""
_FULL: Final = 3
"""Stage of ZeRO that shares weights too."""
_UNSAFE: Final = re.compile(r"[^a-z0-9-]+")
_NAME_MAXIMUM: Final = 50
"""Of Kubernetes' 63, so that suffixes of pods fit."""


class Launcher(Struct, frozen=True):
    """How a program is told a plan; a row of `launchers.yaml`."""

    words: str
    flags: Mapping[str, str]
    """Words by fact."""
    formats: Mapping[str, str] = {}
    """Its names of weights that it quantizes when it loads them."""
    caches: Mapping[str, str] = {}
    dtypes: Mapping[str, str] = {}
    image: str = ""
    """Empty if there is no public one without a registry of its own."""
    port: int = 0
    load: str = ""
    """Command of a run that verifies the plan."""
    rate: str = ""
    """Words for requests a second."""
    concurrency: str = ""
    """Words for requests in flight."""


@cache
def launchers() -> Mapping[str, Launcher]:
    """Launchers by name of engine or program."""
    return convert(load_beside(__file__, "launchers.yaml"), dict[str, Launcher])


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
        return " ".join(self.command).replace(_MODEL, self.model or _MODEL)


def launch_of(requirement: Requirement, candidate: PlanCandidate) -> Launch | None:
    """Return how a candidate is run; `None` for what no known program runs."""
    if requirement.task.trains:
        return _training(requirement, candidate)
    launcher = launchers().get(str(requirement.engine))
    if launcher is None or not isinstance(requirement.model, Transformer):
        return None
    if not requirement.answers_in_tokens:
        return None
    return _serving(requirement, candidate, launcher)


def _serving(requirement: Requirement, candidate: PlanCandidate, launcher: Launcher) -> Launch:
    layout = candidate.layout
    load = requirement.load
    sharing = layout.expert
    servers = layout.data // sharing
    gpus = layout.tensor * layout.pipeline * sharing
    requests = _requests(requirement, candidate, servers)
    facts = {
        "tensor": _above_one(layout.tensor),
        "pipeline": _above_one(layout.pipeline),
        "sharing": _above_one(sharing),
        # Of engines whose tensor degree counts all that serve a layer.
        "gpus": _above_one(layout.tensor * sharing),
        "experts": layout.tensor * sharing if sharing > 1 else None,
        "context": _context(load),
        # A limit at the mean of arrivals would make the others wait.
        "requests": None if load.is_open else math.ceil(requests / sharing),
        **_formats(requirement, candidate, launcher),
        "adapters": math.ceil(load.adapters) or None,
        "rank": requirement.lora.rank if load.adapters else None,
    }
    return Launch(
        published_source(requirement.model.name),
        tuple(_words(launcher, facts)),
        servers,
        gpus,
        _nodes(candidate, gpus),
        _verification(requirement, launcher, servers, requests),
        tuple(_serving_notes(requirement, candidate, launcher)),
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
    words = launcher.load.format(
        input=f"{load.input_tokens:g}", output=f"{load.output_tokens:g}", prompts=prompts
    )
    return (*words.split(), *pace.split())


def _context(load: RequestLoad) -> int:
    """Tokens of the longest request: a power of two, which leaves room beyond the mean."""
    tokens = _CONTEXT_RATIO * (load.input_tokens + load.output_tokens)
    return int(2 ** math.ceil(math.log2(max(1.0, tokens))))


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
    return {
        "dtype": launcher.dtypes.get(str(activations)),
        "quantization": launcher.formats.get(str(precision.weights)),
        "cache": launcher.caches.get(str(cache_format)) if cache_format else None,
    }


def _serving_notes(
    requirement: Requirement, candidate: PlanCandidate, launcher: Launcher
) -> Iterator[str]:
    precision = requirement.precision
    weights = precision.weights
    if weights.is_quantized and str(weights) not in launcher.formats:
        yield f"the checkpoint must have its weights in {weights}: the engine does not convert them"
    cache_format = precision.kv_cache
    is_narrow = cache_format is not None and cache_format.is_quantized
    if is_narrow and str(cache_format) not in launcher.caches:
        yield f"keys and values in {cache_format} are set in the checkpoint or a file of the engine"
    if candidate.layout.expert > 1 and "sharing" not in launcher.flags:
        yield "each GPU has attention of its own: enable_attention_dp, in --extra_llm_api_options"
    yield f"requests of more than {_context(requirement.load):,} tokens are refused"
    if requirement.load.speculative_tokens:
        yield "proposed tokens need the name of a draft head, which the plan does not know"


def _training(requirement: Requirement, candidate: PlanCandidate) -> Launch:
    layout = candidate.layout
    training = requirement.training
    gpus = layout.gpus
    nodes = _nodes(candidate, gpus)
    is_divided = layout.tensor > 1 or layout.pipeline > 1
    is_sharded = gpus > 1 and training.zero_stage > 0 and not is_divided
    launcher = launchers()["accelerate" if is_sharded else "torchrun"]
    strategy = "FULL_SHARD" if training.zero_stage >= _FULL else "SHARD_GRAD_OP"
    facts = {
        "nodes": nodes,
        "node_gpus": math.ceil(gpus / nodes),
        "gpus": gpus,
        "dtype": launcher.dtypes.get(str(requirement.precision.activations)),
        "sharding": strategy,
        "offload": "true" if training.offload is not Offload.NONE else None,
    }
    return Launch(
        published_source(requirement.model.name),
        (*_words(launcher, facts), _PROGRAM),
        1,
        gpus,
        nodes,
        notes=tuple(_training_notes(requirement, candidate)),
    )


def _training_notes(requirement: Requirement, candidate: PlanCandidate) -> Iterator[str]:
    layout = candidate.layout
    training = requirement.training
    batch = counted(training.micro_batch, "sequence")
    what = f"{batch} of {training.sequence} tokens a GPU and pass"
    if training.global_batch:
        steps = max(1, training.global_batch // (training.micro_batch * layout.data))
        what = f"{what}, {steps} passes a step"
    yield f"{_PROGRAM} is the program that trains: {what}, recompute {training.recompute}"
    if layout.tensor > 1 or layout.pipeline > 1:
        yield f"the program divides the model itself: {layout}"


def _nodes(candidate: PlanCandidate, gpus: int) -> int:
    each = SERVER_GPUS if candidate.rental is None else candidate.rental.usable_gpus
    return math.ceil(gpus / each)


def _words(launcher: Launcher, facts: Mapping[str, object]) -> Iterator[str]:
    yield from launcher.words.split()
    for fact, words in launcher.flags.items():
        if (value := facts.get(fact)) is not None:
            yield from words.format(value).split()


def launch_files(
    requirement: Requirement, best: PlanCandidate | None, catalogue: Catalogue
) -> dict[str, str]:
    """Return the texts of the files that run a plan, by name.

    Raises:
        RequirementError: nothing fits, or no known program runs it.
    """
    if best is None:
        raise RequirementError("--save: nothing fits, so that there is nothing to run")
    launch = launch_of(requirement, best)
    if launch is None:
        known = ", ".join(launchers())
        raise RequirementError(f"--save: none of {known} runs this; leave it out")
    files = {"launch.sh": launch_script(launch)}
    if launch.verify:
        files["verify.sh"] = verify_script(launch)
    text = manifest(requirement, launch, catalogue.get(best.gpu))
    return files if text is None else {**files, "kubernetes.yaml": text}


def launch_script(launch: Launch) -> str:
    """Return a shell script of the command."""
    return _script(launch, launch.command, launch.notes)


def verify_script(launch: Launch) -> str:
    """Return a shell script that verifies the plan, for a server that runs here."""
    note = "Then: rightsizer plan ... --measured benchmark.log"
    return _script(launch, (*launch.verify, "|", "tee", "benchmark.log"), (note,))


def _script(launch: Launch, command: tuple[str, ...], notes: tuple[str, ...]) -> str:
    default = f"-{launch.model}" if launch.model else "?the checkpoint's folder or name"
    lines = ["#!/bin/sh", "set -eu", *(f"# {note}" for note in notes)]
    if _MODEL in command:
        lines.append(f'MODEL="${{MODEL:{default}}}"')
    lines.append(" \\\n  ".join(_broken(command)).replace(_MODEL, f'"{_MODEL}"'))
    return "\n".join(lines) + "\n"


def _broken(command: tuple[str, ...]) -> list[str]:
    """Lines of a command: each flag begins one."""
    lines: list[str] = []
    for word in command:
        if lines and (word.startswith("--") or word == _PROGRAM):
            lines.append(word)
        else:
            lines[-1:] = [f"{lines[-1]} {word}" if lines else word]
    return lines


def manifest(requirement: Requirement, launch: Launch, board: Board) -> str | None:
    """Return a Deployment and a Service of the servers.

    `None` if a server needs several machines, or there is no image for its engine and boards.
    """
    launcher = launchers().get(str(requirement.engine))
    if launcher is None or not launcher.image or not launch.verify:
        return None
    if launch.nodes > 1 or board.vendor != "NVIDIA":
        return None
    model = launch.model or "/models/checkpoint"
    words = [word.replace(_MODEL, model) for word in launch.command]
    name = _UNSAFE.sub("-", requirement.model.name.lower()).strip("-")[:_NAME_MAXIMUM] or "model"
    listed = "\n".join(f"        - {_quoted(word)}" for word in words)
    label = board.names[0].replace(" ", "-")
    return _MANIFEST.format(
        name=name,
        replicas=launch.servers,
        label=_quoted(label),
        image=launcher.image,
        words=listed,
        port=launcher.port,
        gpus=launch.server_gpus,
    )


def _quoted(word: str) -> str:
    return f'"{word}"'


_MANIFEST: Final = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
spec:
  replicas: {replicas}
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
      nodeSelector:
        nvidia.com/gpu.product: {label}
      containers:
      - name: server
        image: {image}
        command:
{words}
        ports:
        - containerPort: {port}
        readinessProbe:
          httpGet: {{path: /health, port: {port}}}
          periodSeconds: 10
        resources:
          limits: {{nvidia.com/gpu: {gpus}}}
        volumeMounts:
        - {{name: shared-memory, mountPath: /dev/shm}}
      volumes:
      - name: shared-memory
        emptyDir: {{medium: Memory}}
---
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  selector: {{app: {name}}}
  ports:
  - port: {port}
"""
