"""Reader of plan files: one requirement, several, or a list, with notes on keys without use."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rightsizer.config.row import Faults, Row
from rightsizer.io.yaml import Document
from rightsizer.model.errors import ConfigurationError, RequirementError
from rightsizer.planner.plan_model import read_choice, read_fields, read_model_row
from rightsizer.planner.question_file import read_documents
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import (
    LoadGrowth,
    Lora,
    ModelTask,
    Optimizer,
    Parallelism,
    Precisions,
    Recompute,
    RequestLoad,
    Requirement,
    Training,
)


def unread_notes(requirement: Requirement, given: Mapping[Any, Any]) -> Iterator[str]:
    """A sentence for each part that is given and changes nothing."""
    task, load = requirement.task, requirement.load
    if given.get("training") and not task.trains:
        remedy = f"take task: {ModelTask.TRAINING}"
        yield f"training is given and not looked at: the task is {task}; {remedy}"
    if given.get("lora") and task not in {ModelTask.FINETUNE_LORA, ModelTask.FINETUNE_QLORA}:
        yield f"lora is given and not looked at: the task is {task}; take task: finetune-lora"
    if given.get("load") and task.trains:
        remedy = f"take task: {ModelTask.INFERENCE}"
        yield f"load is given and not looked at: the task is {task}; {remedy}"
    if not requirement.growth.months or not requirement.growth.per_month_ratio:
        return
    if task.trains:
        yield f"growth is given and not looked at: the task is {task}, which has no load to grow"
    elif load.concurrency is None and load.tokens_per_second is None:
        yield (
            "growth is given and there is nothing to grow: give load.tokens_per_second or"
            " load.concurrency"
        )


KEYS: Final = (
    "model",
    "task",
    "precision",
    "load",
    "training",
    "lora",
    "parallel",
    "growth",
    "gpus",
    "prices",
)
CARBON: Final = "carbon_grams_per_kwh"
"""Among the prices, as it is no price of any GPU."""
_PRECISION_KEYS: Final = ("weights", "kv_cache", "activations", "gradients")
_GROWTH_KEYS: Final = ("per_month", "months")
_LEAST_GROWTH: Final = -0.99
"""A load that is gone costs nothing, and nothing can be said of a part of it."""
_MOST_GROWTH: Final = 100.0
_MOST_MONTHS: Final = 120
_MOST_DOLLARS: Final = 1e5
_MOST_GRAMS: Final = 3000.0


@dataclass(frozen=True, slots=True)
class PlanFileItem:
    """One requirement, or why it is none."""

    document: Document
    path: tuple[int, ...]
    """Of the item in a document that is a list."""
    requirement: Requirement | None
    notes: tuple[str, ...] = ()
    error: str = ""

    def placed(self, message: str) -> str:
        """Lines that start with a key, each with the place of that key before it."""
        return _placed(self.document, self.path, message)


@dataclass(frozen=True, slots=True)
class PlanFile:
    """All that a file asks."""

    items: tuple[PlanFileItem, ...]
    is_list: bool
    """Whether the answer is a list too."""


def read_plan_file(file: Path) -> PlanFile:
    """Every requirement of a file, in their order; of a list, those that are wrong too.

    Raises:
        RequirementError: the file cannot be read, is not YAML, or its only requirement is wrong.
    """
    documents = read_documents(file, "give at least a model (docs/planning.md)")
    if len(documents) == 1 and not isinstance(documents[0].data, list):
        only = documents[0]
        planned = PlanFileItem(only, (), *_requirement(only, (), file.parent))
        return PlanFile((planned,), is_list=False)
    items = (item for document in documents for item in _items(document, file.parent))
    return PlanFile(tuple(items), is_list=True)


def _items(document: Document, folder: Path) -> Iterator[PlanFileItem]:
    paths = [(at,) for at in range(len(document.data))] if isinstance(document.data, list) else [()]
    for path in paths:
        try:
            yield PlanFileItem(document, path, *_requirement(document, path, folder))
        except RequirementError as error:
            yield PlanFileItem(document, path, None, error=str(error))


def _requirement(
    document: Document, path: tuple[int, ...], folder: Path
) -> tuple[Requirement, tuple[str, ...]]:
    """One requirement and notes on it.

    Raises:
        RequirementError: with everything that is wrong with it, a line each and its place.
    """
    faults = Faults(document)
    row = Row(document.data[path[0]] if path else document.data, path, faults)
    try:
        row.refuse_unknown(KEYS)
        model = read_model_row(row)
        rest = _rest(row)
        faults.refuse()
        planned = model.build(folder)
    except ConfigurationError as error:
        raise RequirementError(str(error)) from None
    except RequirementError as error:
        raise RequirementError(_placed(document, path, str(error))) from None
    requirement = Requirement(planned.model, **rest)
    notes = (
        *planned.notes,
        *_length_notes(requirement, planned.context_tokens),
        *unread_notes(requirement, row.values),
    )
    return _in_published_format(requirement, row, planned.weights), notes


def _length_notes(requirement: Requirement, longest: int | None) -> Iterator[str]:
    """A sentence, where requests are longer than the model was made for."""
    load, model = requirement.load, requirement.model
    answers = not isinstance(model, Transformer) or not model.is_encoder
    asked = load.input_tokens + (load.output_tokens if answers else 0.0)
    if requirement.task.trains:
        asked = requirement.training.sequence
    if longest is not None and asked > longest:
        yield (
            f"{asked:,.0f} tokens are more than the {longest:,} that the model was made for;"
            " ask for fewer, or make sure that its positions are stretched"
        )


def _in_published_format(
    requirement: Requirement, row: Row, published: NumberFormat | None
) -> Requirement:
    """Weights as the checkpoint has them, where it is quantized and the plan says nothing.

    In another format than its own nothing is known of what is left out.
    """
    if published is None or not published.is_quantized:
        return requirement
    precision, model = requirement.precision, requirement.model
    if not row.row("precision").values.get("weights"):
        return replace(requirement, precision=replace(precision, weights=published))
    if precision.weights is not published and isinstance(model, Transformer):
        unread = replace(model.unread, are_towers_quantized=False)
        changed = replace(model, attention_in_16_bits=False, unread=unread)
        return replace(requirement, model=changed)
    return requirement


def _placed(document: Document, path: tuple[int, ...], message: str) -> str:
    lines = []
    for line in message.splitlines():
        key = line.partition(":")[0]
        keys = key.split(".") if re.fullmatch(r"[a-z_.]+", key) else []
        lines.append(f"{document.where((*path, *keys))}: {line}")
    return "\n".join(lines)


def _rest(row: Row) -> dict[str, Any]:
    """All but the model, by the fields of a requirement."""
    growth = row.row("growth")
    growth.refuse_unknown(_GROWTH_KEYS)
    return {
        "task": read_choice(row, "task", ModelTask) or ModelTask.INFERENCE,
        "precision": _precision(row.row("precision")),
        "load": RequestLoad(**read_fields(row.row("load"), RequestLoad)),
        "training": _training(row.row("training")),
        "lora": Lora(**_lora(row.row("lora"))),
        "parallel": _parallel(row),
        "growth": LoadGrowth(
            growth.number("per_month", _LEAST_GROWTH, _MOST_GROWTH) or 0.0,
            growth.count("months", 0, _MOST_MONTHS) or 0,
        ),
        "gpus": _names(row),
        "prices": _prices(row.row("prices")),
        "carbon_grams_per_kilowatt_hour": row.row("prices").number(CARBON, 0.0, _MOST_GRAMS),
    }


def _precision(row: Row) -> Precisions:
    row.refuse_unknown(_PRECISION_KEYS)
    given = {key: read_choice(row, key, NumberFormat) for key in _PRECISION_KEYS}
    return Precisions(**{key: value for key, value in given.items() if value is not None})


def _training(row: Row) -> Training:
    values = read_fields(row, Training, apart=("recompute", "optimizer"))
    recompute = read_choice(row, "recompute", Recompute)
    optimizer = read_choice(row, "optimizer", Optimizer)
    if recompute is not None:
        values["recompute"] = recompute
    if optimizer is not None:
        values["optimizer"] = optimizer
    return Training(**values)


def _lora(row: Row) -> dict[str, Any]:
    values = read_fields(row, Lora, apart=("targets",))
    if row.values.get("targets") is not None:
        values["targets"] = row.texts("targets")
    return values


def _parallel(row: Row) -> Parallelism | None:
    if row.values.get("parallel") is None:
        return None
    return Parallelism(**read_fields(row.row("parallel"), Parallelism))


def _names(row: Row) -> tuple[str, ...]:
    value = row.values.get("gpus")
    return (value,) if isinstance(value, str) else row.texts("gpus")


def _prices(row: Row) -> dict[str, float]:
    names = [name for name in row.values if name != CARBON]
    read = {str(name): row.number(name, 0.0, _MOST_DOLLARS) for name in names}
    return {name: price for name, price in read.items() if price is not None}
