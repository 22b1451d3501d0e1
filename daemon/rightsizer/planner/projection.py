"""Projections of a measured workload to target GPUs, as JSON and as a table."""

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict, replace

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.config.validator import Fault, rule_fault
from rightsizer.io.terminal import counted
from rightsizer.model.errors import ProfileError, RequirementError, RightsizerError
from rightsizer.model.settings import Spec
from rightsizer.model.units import percent_text
from rightsizer.planner.display import labels_of
from rightsizer.planner.plan_document import FigureDocument
from rightsizer.planner.question_file import FailedQuestion, FileQuestion
from rightsizer.report.blocks import Block, Cell, CellKind, Heading, section, table
from rightsizer.sizing.engine import ServingEngine
from rightsizer.sizing.place import GpuPlace, find_place
from rightsizer.sizing.projection import Projection, project
from rightsizer.sizing.settings import MemorySettings
from rightsizer.sizing.site import SiteResiduals, time_between_boards
from rightsizer.sizing.workload_profile import (
    ComputeFormat,
    ProfiledRun,
    UsageShares,
    WorkloadProfile,
)


def _names(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _needed_names(value: object) -> object:
    if not value:
        raise ValueError(_TARGETS_NEEDED)
    return _names(value)


_TARGETS_NEEDED: Final = "is required: GPUs or MIG slices, like [L40S, 'H100-SXM5-80GB:1g.10gb']"


class PrecisionChange(Struct, frozen=True):
    """Number format that a profile ran in, and that it will run in."""

    from_: ComputeFormat = ComputeFormat.BF16
    to: ComputeFormat | None = None


class ProjectionQuestion(Struct, frozen=True):
    """Question of a file."""

    to: Annotated[tuple[str, ...], Spec(parse=_needed_names)] = ()
    gpu: str = ""
    precision: PrecisionChange = PrecisionChange()
    shares: Annotated[UsageShares, Spec(within=(0.0, 1.0))] = UsageShares()
    profile: Annotated[tuple[str, ...], Spec(parse=_names)] = ()
    memory_bytes: Annotated[float | None, Spec(unit="", within=(0.0, 1e15))] = None
    engine: ServingEngine | None = None
    """Engine that served while it was measured; what the site learned of it applies."""

    def __post_init__(self) -> None:
        if not self.to:
            raise ValueError(f"to: {_TARGETS_NEEDED}")


ReadRun: TypeAlias = Callable[[tuple[str, ...]], ProfiledRun | None]
"""Reads the profiler files named in a question, or else those of the command line; returns `None`
without any."""
_PARTS: Final = labels_of("time")
_DIGITS: Final = 6
_LEAST: Final = 0.005
_COLUMNS: Final[tuple[Heading, ...]] = (
    "target",
    *((name, CellKind.NUMBER) for name in ("time", "from", "to")),
    "fits",
    "bottleneck",
    *((name, CellKind.PERCENT) for name in ("SM", "tensor", "DRAM")),
)
_LEGEND: Final = (
    "time: that of the same work, over the time that it took; it lies between from and to in nine "
    "cases of ten. Then what would be measured there, idle time included."
)
_FITS: Final = {True: "yes", False: "no", None: "?"}


class ProjectionAnswer(Struct, frozen=True):
    """One target of a question: the projection, or why there is none."""

    target: str
    """As requested."""
    projection: Projection | None
    error: str = ""
    run: ProfiledRun | None = None
    """Data from profiler files; `None` without any."""
    has_counters: bool = True
    """Whether the shares tell what kernels wait for."""
    adjustment: str = ""
    """What measurements of the site changed; empty if nothing."""


def answer_question(
    question: FileQuestion,
    catalogue: Catalogue,
    settings: MemorySettings,
    read_run: ReadRun,
    site: SiteResiduals | None = None,
) -> tuple[ProjectionAnswer, ...]:
    """Project the profile to every target, in the given order."""
    asked = question.read(ProjectionQuestion)
    faults: list[Fault] = []
    run = _run(asked, read_run, faults)
    source = _gpu(asked, run, faults)
    targets = [key for name in asked.to for key in _members(name, catalogue)]
    places: dict[str, GpuPlace] = {}
    for key, name in [*(("to", target) for target in targets), ("gpu", source)]:
        try:
            if name:
                places[name] = find_place(catalogue, name, settings)
        except RightsizerError as error:
            faults.append(rule_fault((key,), str(error)))
    place = places.get(source)
    board = None if run is None else run.board
    if place is not None and board is not None and board != place.board:
        fault = f"the profile was recorded on {board.key}; name that, or leave it out"
        faults.append(rule_fault(("gpu",), fault))
    if faults or place is None:
        raise question.refusal(faults)
    memory = asked.memory_bytes
    time = None
    if run is not None:
        memory = run.memory_peak_bytes if memory is None else memory
        time = run.time
    try:
        profile = WorkloadProfile(place, asked.shares, asked.precision.from_, memory, time)
        profile.peak_precision()
    except RequirementError as error:
        raise question.placed(error) from None
    answers = []
    for target in targets:
        answer = ProjectionAnswer(target, None, run=run, has_counters=profile.has_counters)
        try:
            projection, adjustment = _projected(profile, places[target], asked, site)
            answer = replace(answer, projection=projection, adjustment=adjustment)
        except RequirementError as error:
            answer = replace(answer, error=str(question.placed(error)))
        answers.append(answer)
    return tuple(answers)


def _projected(
    profile: WorkloadProfile,
    target: GpuPlace,
    asked: ProjectionQuestion,
    site: SiteResiduals | None,
) -> tuple[Projection, str]:
    """Return a projection, by what the site learned of the engine, and how that changed it."""
    projection = project(profile, target, asked.precision.to)
    if asked.engine is None:
        return projection, ""
    boards = (profile.place.board.key, target.board.key)
    times, adjustment = time_between_boards(projection.time_ratio, boards, site, asked.engine)
    return replace(projection, time_ratio=times), adjustment


def _members(name: str, catalogue: Catalogue) -> list[str]:
    """Return the keys of a family such as h100; other names unchanged."""
    family = catalogue.family(name)
    return [board.key for board in family] if len(family) > 1 else [name]


def _run(asked: ProjectionQuestion, read_run: ReadRun, faults: list[Fault]) -> ProfiledRun | None:
    try:
        return read_run(asked.profile)
    except ProfileError as error:
        if not asked.profile:
            raise  # Named on the command line, so no line of the file is at fault.
        faults.append(rule_fault(("profile",), str(error)))
        return None


def _gpu(asked: ProjectionQuestion, run: ProfiledRun | None, faults: list[Fault]) -> str:
    """Return the GPU of the question, or else of the profile; empty if it is not known."""
    board = None if run is None else run.board
    if asked.gpu or board is not None:
        return asked.gpu or (board.key if board else "")
    if run is not None:
        named = f"'{run.device_name}', which is not in the catalogue" if run.device_name else "none"
        faults.append(rule_fault(("gpu",), f"is required: the profile names {named}"))
    elif not asked.profile:
        faults.append(rule_fault(("gpu",), "is required: a text"))
    return ""


def _run_text(run: ProfiledRun) -> str:
    steps = f", {counted(run.steps, 'step', 'steps')}" if run.steps else ""
    devices = f", {run.devices} GPUs" if run.devices > 1 else ""
    shares = ((words, getattr(run.time, part)) for part, words in _PARTS.items())
    spelled = ", ".join(
        f"{words} {percent_text(share)}" for words, share in shares if share >= _LEAST
    )
    return f"by {run.source}{devices}{steps}: {spelled}"


def _assumptions(answer: ProjectionAnswer, run: ProfiledRun) -> Iterator[str]:
    if not answer.has_counters:
        yield (
            "kernels with tensor cores wait for them, others for the memory; the interval holds "
            "either way. shares.tensor_active and shares.dram_active, measured, would narrow it"
        )
        if run.time.unknown >= _LEAST:
            half = "half of the kernels whose names do not tell are products of matrices"
            yield f"{half}; the interval holds whatever they are"
    if not run.is_launch_known:
        yield (
            "idle time has no one cause: launches are not in the profile, so waits "
            "for the host and other waits are one; all of them stay as long as they are"
        )
    if run.time.collective >= _LEAST:
        yield "collectives are bound by the link and not by whom they wait for"
    if not run.steps:
        yield "no step is marked: all time from the first kernel to the last is like any other"


def projection_document(answer: ProjectionAnswer) -> dict[str, object]:
    """Return one target, with the names in the documentation."""
    projection = answer.projection
    run = answer.run
    if projection is None:
        return {"target": answer.target, "error": answer.error}
    ratio = projection.time_ratio
    return {
        "target": answer.target,
        "time_ratio": FigureDocument(
            value=round(ratio.value, _DIGITS),
            low=round(ratio.low, _DIGITS),
            high=round(ratio.high, _DIGITS),
        ),
        "shares": {
            name: None if share is None else round(share, _DIGITS)
            for name, share in asdict(projection.shares).items()
        },
        "fits": projection.fits,
        "bottleneck": projection.bottleneck,
        "profile": None
        if run is None
        else {
            "source": run.source,
            "devices": run.devices,
            "steps": run.steps,
            "step_seconds": run.step_seconds,
            "time_shares": {part: round(getattr(run.time, part), _DIGITS) for part in _PARTS},
            "memory_peak_bytes": run.memory_peak_bytes,
        },
        "assumed": [] if run is None else list(_assumptions(answer, run)),
        **({"adjusted": answer.adjustment} if answer.adjustment else {}),
    }


def projection_blocks(
    questions: Iterable[tuple[ProjectionAnswer, ...] | FailedQuestion],
) -> Iterator[Block]:
    """Yield all targets of each question, a row each."""
    for answers in questions:
        if isinstance(answers, FailedQuestion):
            yield answers.text
            continue
        rows = (
            _row(answer, answer.projection) for answer in answers if answer.projection is not None
        )
        yield table(_COLUMNS, rows)
        notes = ((answer.target, answer.error or answer.adjustment) for answer in answers)
        yield from (f"{target}: {text}" for target, text in notes if text)
        run = answers[0].run if answers else None
        if run is not None:
            yield _run_text(run)
            yield from (f"assumed: {text}" for text in _assumptions(answers[0], run))
    yield section("Legend", _LEGEND)


def _row(answer: ProjectionAnswer, projection: Projection) -> tuple[Cell, ...]:
    ratio = projection.time_ratio
    shares = projection.shares
    return (
        answer.target,
        *(f"x{time:.2f}" for time in (ratio.value, ratio.low, ratio.high)),
        _FITS[projection.fits],
        projection.bottleneck,
        shares.sm_active,
        shares.tensor_active,
        shares.dram_active,
    )
