"""What a plan was asked, in words, so that its reader sees what the answer is to."""

from collections.abc import Iterator, Sequence

from rightsizer.cli.plan_figures import large, number, unit_of
from rightsizer.cli.wrapped import wrapped
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import count_parameters
from rightsizer.sizing.requirement import Recompute, Requirement, Task

__all__ = ["title_lines"]


def title_lines(requirement: Requirement, notes: Sequence[str]) -> Iterator[str]:
    """The model, the task, what is asked of it, and notes on the input."""
    model = requirement.model
    yield (
        f"{model.name or 'model'}, {requirement.task}:"
        f" {large(count_parameters(model).total)} parameters in {requirement.precision.weights}"
    )
    asked = ", ".join(_trained(requirement) if requirement.task.trains else _served(requirement))
    if asked:
        yield from wrapped(f"asked for: {asked}")
    for note in notes:
        yield from wrapped(f"note: {note}")


def _served(requirement: Requirement) -> Iterator[str]:
    load = requirement.load
    if isinstance(requirement.model, Transformer):
        yield f"{load.input_tokens:,g} tokens in and {load.output_tokens:,g} out"
    if load.concurrency is not None:
        yield f"{number(load.concurrency)} requests in flight"
    if load.tokens_per_second is not None:
        yield f"{number(load.tokens_per_second)} {unit_of(requirement.model)}/s"
    if load.ttft_ms is not None:
        yield f"the first within {load.ttft_ms:g} ms"
    if load.tpot_ms is not None:
        yield f"{load.tpot_ms:g} ms between tokens"


def _trained(requirement: Requirement) -> Iterator[str]:
    training = requirement.training
    if isinstance(requirement.model, Transformer):
        yield f"sequences of {training.sequence:,}"
    yield f"micro batch {training.micro_batch}"
    if training.global_batch is not None:
        yield f"global batch {training.global_batch:,}"
    if training.tokens is not None:
        yield f"{large(training.tokens)} {unit_of(requirement.model)}"
    if training.recompute is not Recompute.NONE:
        yield f"{training.recompute} recomputation"
    if training.zero_stage:
        yield f"ZeRO {training.zero_stage}"
    if requirement.task is not Task.TRAINING:
        yield f"rank {requirement.lora.rank}"
    yield str(training.optimizer)
