"""What `rightsizer project` is asked: a measured profile and where it would run."""

from dataclasses import dataclass, fields
from functools import partial
from typing import Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.catalogue.row import Row
from rightsizer.cli.question_file import Question
from rightsizer.domain.errors import RequirementError, RightsizerError
from rightsizer.sizing.memory_settings import MemorySettings
from rightsizer.sizing.place import Place, find_place
from rightsizer.sizing.profile import ComputeFormat, Profile, Shares
from rightsizer.sizing.projection import Projection, project

__all__ = ["Answer", "answer_question"]

_KEYS: Final = ("gpu", "precision", "shares", "memory_bytes", "to")
_SHARES: Final = tuple(share.name for share in fields(Shares))
_PRECISION_KEYS: Final = ("from", "to")
_MOST_BYTES: Final = 1e15
_LEAST_CLOCK: Final = 0.01


@dataclass(frozen=True, slots=True)
class Answer:
    """One target of a question: what would happen there, or why that cannot be said."""

    target: str
    """As it was asked for."""
    projection: Projection | None
    error: str = ""


def answer_question(
    question: Question, catalogue: Catalogue, settings: MemorySettings
) -> tuple[Answer, ...]:
    """The profile on every target, in the order that they were asked for.

    Args:
        question: What is asked.
        catalogue: The boards.
        settings: What of their memory nobody can have.

    Raises:
        RequirementError: the question itself is wrong; each fault with line and column.
    """
    row = question.row
    row.refuse_unknown(_KEYS)
    name = row.needed_text("gpu")
    shares = _shares(row.row("shares"))
    precision = row.row("precision")
    precision.refuse_unknown(_PRECISION_KEYS)
    runs, will_run = _format(precision, "from"), _format(precision, "to")
    memory = row.number("memory_bytes", 0.0, _MOST_BYTES)
    names = _targets(row)
    find = partial(_place, catalogue, settings, row)
    places = {each: find("to", each) for each in names}
    place = find("gpu", name) if name else None
    question.refuse()
    if place is None:
        raise RequirementError("gpu: is required")
    try:
        profile = Profile(place, shares, runs or ComputeFormat.BF16, memory)
        profile.peak_precision()
    except RequirementError as error:
        raise question.placed(error) from None
    return tuple(_answer(question, profile, each, places[each], will_run) for each in names)


def _answer(
    question: Question,
    profile: Profile,
    name: str,
    target: Place | None,
    will_run: ComputeFormat | None,
) -> Answer:
    if target is None:
        return Answer(name, None, "is no place of the catalogue")
    try:
        return Answer(name, project(profile, target, will_run))
    except RequirementError as error:
        return Answer(name, None, str(question.placed(error)))


def _shares(row: Row) -> Shares:
    row.refuse_unknown(_SHARES)
    return Shares(
        **{
            name: row.number(name, _LEAST_CLOCK if name == "sm_clock_ratio" else 0.0, 1.0)
            for name in _SHARES
        }
    )


def _format(row: Row, key: str) -> ComputeFormat | None:
    value = row.values.get(key)
    if value is None:
        return None
    known = [str(each) for each in ComputeFormat]
    if isinstance(value, str) and value.lower() in known:
        return ComputeFormat(value.lower())
    row.fault(key, f"must be one of {', '.join(known)} (got {value!r})")
    return None


def _targets(row: Row) -> tuple[str, ...]:
    value = row.values.get("to")
    names = (value,) if isinstance(value, str) else row.texts("to")
    if not names and not value:
        row.fault("to", "is required: GPUs or MIG slices, like [L40S, 'H100-SXM5-80GB:1g.10gb']")
    return names


def _place(
    catalogue: Catalogue, settings: MemorySettings, row: Row, key: str, name: str
) -> Place | None:
    try:
        return find_place(catalogue, name, settings)
    except RightsizerError as error:
        row.fault(key, str(error))
        return None
