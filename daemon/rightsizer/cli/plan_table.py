"""Candidates of a plan for people: a line each, with the columns that its task has."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from rightsizer.cli.aligned import aligned
from rightsizer.sizing.candidates import Candidate
from rightsizer.sizing.estimate import Interval
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import Requirement

__all__ = ["candidate_table", "dollars", "interval_text", "number"]

_NOTHING: Final = "-"
_GIB: Final = 2.0**30
_THREE_DIGITS: Final = 100
_CENTS: Final = 0.1

_Column = tuple[str, Callable[[Candidate], str]]


def candidate_table(requirement: Requirement, candidates: Iterable[Candidate]) -> list[str]:
    """A header and a line for each candidate."""
    columns = _columns(requirement)
    rows = [[cell(each) for _, cell in columns] for each in candidates]
    return aligned([name for name, _ in columns], rows, left=_LEFT)


def number(value: float | None) -> str:
    """Three digits, or all of a whole one."""
    if value is None:
        return _NOTHING
    is_plain = value >= _THREE_DIGITS or value == int(value)
    return f"{value:,.0f}" if is_plain else f"{value:.3g}"


def interval_text(interval: Interval | None) -> str:
    """`1,083 to 2,551`."""
    if interval is None:
        return _NOTHING
    return f"{number(interval.low)} to {number(interval.high)}"


def dollars(value: float | None) -> str:
    """Cents, and what is less than ten of them in two digits."""
    if value is None:
        return _NOTHING
    return f"{value:,.2f}" if value >= _CENTS or not value else f"{value:.2g}"


def _columns(requirement: Requirement) -> Sequence[_Column]:
    unit = "tokens" if isinstance(requirement.model, Transformer) else "samples"
    speed: tuple[_Column, ...] = (
        (f"{unit}/s", lambda each: _middle(each.rate.tokens_per_second)),
        ("90 % within", lambda each: interval_text(each.rate.tokens_per_second)),
    )
    cost: tuple[_Column, ...] = (
        ("$/h", lambda each: dollars(each.dollars_per_hour)),
        (f"$/M {unit}", lambda each: dollars(each.work_dollars)),
    )
    if requirement.task.trains:
        return (*_PLACE, *speed, *_TRAINING, *cost)
    if isinstance(requirement.model, Transformer):
        return (*_PLACE, _REQUESTS, *speed, _FIRST, _BETWEEN, *cost)
    return (*_PLACE, _BATCH, *speed, _ANSWER, *cost)


def _layout(candidate: Candidate) -> str:
    layout = candidate.layout
    return f"{layout.tensor}x{layout.pipeline}x{layout.data}"


def _middle(interval: Interval | None) -> str:
    return _NOTHING if interval is None else number(interval.value)


def _mfu(candidate: Candidate) -> str:
    ratio = candidate.rate.mfu_ratio
    return _NOTHING if ratio is None else f"{ratio:.0%}"


_LEFT: Final = frozenset({"GPUs", "layout", "90 % within"})
_PLACE: Final[tuple[_Column, ...]] = (
    ("rank", lambda each: _NOTHING if each.rank is None else str(each.rank)),
    ("GPUs", lambda each: f"{each.count} x {each.gpu}"),
    ("layout", _layout),
    ("GiB", lambda each: f"{'?' * each.is_memory_tight}{each.memory.total_bytes / _GIB:.1f}"),
    ("free", lambda each: f"{each.memory_headroom_ratio:.0%}"),
)
_REQUESTS: Final[_Column] = ("requests", lambda each: number(each.rate.concurrency))
_BATCH: Final[_Column] = ("batch", lambda each: number(each.rate.concurrency))
_FIRST: Final[_Column] = ("TTFT ms", lambda each: _middle(each.rate.ttft_ms))
_BETWEEN: Final[_Column] = ("TPOT ms", lambda each: _middle(each.rate.tpot_ms))
_ANSWER: Final[_Column] = ("batch ms", lambda each: _middle(each.rate.ttft_ms))
_TRAINING: Final[tuple[_Column, ...]] = (
    ("MFU", _mfu),
    ("hours", lambda each: _middle(each.rate.training_hours)),
)
