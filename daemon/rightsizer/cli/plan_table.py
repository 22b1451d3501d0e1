"""Candidates of a plan for people: a line each, with the columns that its task has."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from rightsizer.cli.aligned import aligned
from rightsizer.cli.plan_figures import NOTHING, dollars, middle, number, range_text, unit_of
from rightsizer.sizing.candidates import Candidate
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import Parallelism, Requirement

__all__ = ["candidate_table", "layout_text"]

_GIB: Final = 2.0**30

_Column = tuple[str, Callable[[Candidate], str]]


def candidate_table(requirement: Requirement, candidates: Iterable[Candidate]) -> list[str]:
    """A header and a line for each candidate."""
    columns = _columns(requirement)
    rows = [[cell(each) for _, cell in columns] for each in candidates]
    return aligned([name for name, _ in columns], rows, left=_LEFT)


def layout_text(layout: Parallelism) -> str:
    """`tensor 4, data 2`: what is more than one."""
    parts = (("tensor", layout.tensor), ("pipeline", layout.pipeline), ("data", layout.data))
    return ", ".join(f"{name} {count}" for name, count in parts if count > 1) or "one"


def _columns(requirement: Requirement) -> Sequence[_Column]:
    unit = unit_of(requirement.model)
    speed: tuple[_Column, ...] = (
        (f"{unit}/s", lambda each: middle(each.rate.tokens_per_second)),
        ("90 % within", lambda each: range_text(each.rate.tokens_per_second)),
    )
    cost: tuple[_Column, ...] = (
        ("$/h", lambda each: dollars(each.dollars_per_hour)),
        ("$/M", lambda each: dollars(each.work_dollars)),
    )
    if requirement.task.trains:
        is_counted = requirement.training.tokens is not None
        run = _RUN if is_counted else ()
        return (*_PLACE, *speed, _MFU, *run, *cost)
    if isinstance(requirement.model, Transformer):
        return (*_PLACE, _REQUESTS, *speed, _FIRST, _BETWEEN, *cost)
    return (*_PLACE, _BATCH, *speed, _ANSWER, *cost)


def _layout(candidate: Candidate) -> str:
    layout = candidate.layout
    return f"{layout.tensor}x{layout.pipeline}x{layout.data}"


def _mfu(candidate: Candidate) -> str:
    ratio = candidate.rate.mfu_ratio
    return NOTHING if ratio is None else f"{ratio:.0%}"


def _run_dollars(candidate: Candidate) -> str:
    hourly, hours = candidate.dollars_per_hour, candidate.rate.training_hours
    return NOTHING if hourly is None or hours is None else number(hourly * hours.value)


_LEFT: Final = frozenset({"GPUs", "TxPxD", "90 % within"})
_PLACE: Final[tuple[_Column, ...]] = (
    ("#", lambda each: NOTHING if each.rank is None else str(each.rank)),
    ("GPUs", lambda each: f"{each.count} x {each.gpu}"),
    ("TxPxD", _layout),
    ("GiB", lambda each: f"{'?' * each.is_memory_tight}{each.memory.total_bytes / _GIB:.0f}"),
)
_REQUESTS: Final[_Column] = ("in flight", lambda each: number(each.rate.concurrency))
_BATCH: Final[_Column] = ("batch", lambda each: number(each.rate.concurrency))
_FIRST: Final[_Column] = ("TTFT", lambda each: middle(each.rate.ttft_ms))
_BETWEEN: Final[_Column] = ("TPOT", lambda each: middle(each.rate.tpot_ms))
_ANSWER: Final[_Column] = ("batch ms", lambda each: middle(each.rate.ttft_ms))
_MFU: Final[_Column] = ("MFU", _mfu)
_RUN: Final[tuple[_Column, ...]] = (
    ("hours", lambda each: middle(each.rate.training_hours)),
    ("$/run", _run_dollars),
)
