"""What `rightsizer project` is asked: a measured profile and where it would run."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Final, TypeAlias

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.catalogue.row import Row
from rightsizer.cli.question_file import Question
from rightsizer.domain.errors import ProfileError, RequirementError, RightsizerError
from rightsizer.runtime.profiled_run import ProfiledRun
from rightsizer.sizing.memory_settings import MemorySettings
from rightsizer.sizing.place import Place, find_place
from rightsizer.sizing.profile import ComputeFormat, Profile, Shares
from rightsizer.sizing.projection import Projection, project

__all__ = ["Answer", "ReadRun", "answer_question"]

_KEYS: Final = ("gpu", "precision", "shares", "profile", "memory_bytes", "to")
_SHARES: Final = tuple(share.name for share in fields(Shares))
_PRECISION_KEYS: Final = ("from", "to")
_MOST_BYTES: Final = 1e15
_LEAST_CLOCK: Final = 0.01

ReadRun: TypeAlias = Callable[[tuple[str, ...]], ProfiledRun | None]
"""Reads the profilers' files that a question names; those of the command line where it names none,
and `None` where there are none at all."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One target of a question: what would happen there, or why that cannot be said."""

    target: str
    """As it was asked for."""
    projection: Projection | None
    error: str = ""
    run: ProfiledRun | None = None
    """What a profiler's files told; `None` where none were named."""
    has_counters: bool = True
    """Whether the shares tell what kernels wait for."""


def answer_question(
    question: Question, catalogue: Catalogue, settings: MemorySettings, read_run: ReadRun
) -> tuple[Answer, ...]:
    """The profile on every target, in the order that they were asked for.

    Args:
        question: What is asked.
        catalogue: The boards.
        settings: What of their memory nobody can have.
        read_run: Reads profilers' files.

    Raises:
        RequirementError: the question itself is wrong; each fault with line and column.
    """
    row = question.row
    row.refuse_unknown(_KEYS)
    run = _run(row, read_run)
    name = _gpu(row, run)
    shares = _shares(row.row("shares"))
    precision = row.row("precision")
    precision.refuse_unknown(_PRECISION_KEYS)
    runs, will_run = _format(precision, "from"), _format(precision, "to")
    memory = row.number("memory_bytes", 0.0, _MOST_BYTES)
    names = _targets(row)
    find = partial(_place, catalogue, settings, row)
    places = {each: find("to", each) for each in names}
    place = find("gpu", name) if name else None
    board = None if run is None else run.board
    if place is not None and board is not None and board != place.board:
        row.fault("gpu", f"the profile was recorded on {board.key}; name that, or leave it out")
    question.refuse()
    if place is None:
        raise RequirementError("gpu: is required")
    try:
        profile = Profile(
            place,
            shares,
            runs or ComputeFormat.BF16,
            _memory_bytes(memory, run),
            None if run is None else run.time,
        )
        profile.peak_precision()
    except RequirementError as error:
        raise question.placed(error) from None
    found = (_answer(question, profile, each, places[each], will_run) for each in names)
    return tuple(replace(each, run=run, has_counters=profile.has_counters) for each in found)


def _run(row: Row, read_run: ReadRun) -> ProfiledRun | None:
    value = row.values.get("profile")
    files = (value,) if isinstance(value, str) else row.texts("profile")
    try:
        return read_run(files)
    except ProfileError as error:
        if not files:
            raise  # The command line named them, so that no line of the file is at fault.
        row.fault("profile", str(error))
        return None


def _gpu(row: Row, run: ProfiledRun | None) -> str:
    """What the question says, or the profile where it says nothing; never one against the other."""
    has_profile = run is not None or row.values.get("profile") is not None
    if row.values.get("gpu") is not None or not has_profile:
        return row.needed_text("gpu")
    if run is None:
        return ""  # The fault of its profile is told already.
    if run.board is None:
        told = f"'{run.device_name}', which is not in the catalogue" if run.device_name else "none"
        row.fault("gpu", f"is required: the profile names {told}")
        return ""
    return run.board.key


def _memory_bytes(stated: float | None, run: ProfiledRun | None) -> float | None:
    return run.memory_peak_bytes if stated is None and run is not None else stated


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
