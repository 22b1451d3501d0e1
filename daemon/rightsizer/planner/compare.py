"""`rightsizer compare`: how much faster one GPU is than another for a kind of workload."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue, read_catalogue
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.catalogue.ratio_table import built_in_ratios
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, add_flags, help_of
from rightsizer.console.flags import add_config_flag, settings_of
from rightsizer.model.errors import RequirementError, UsageError
from rightsizer.model.settings import Spec
from rightsizer.planner.learned import closed_note, read_learned
from rightsizer.planner.question_file import FailedQuestion, FileQuestion, read_questions
from rightsizer.planner.settings import PlannerSettings
from rightsizer.report.blocks import Block, Items
from rightsizer.sizing.place import GpuPlace, find_place
from rightsizer.sizing.ratio import place_ratio
from rightsizer.sizing.settings import MemorySettings
from rightsizer.sizing.site import SiteResiduals, time_between_boards
from rightsizer.sizing.workload_family import (
    ComparedWorkload,
    ModelKind,
    WorkloadActivity,
    parse_precision,
    parse_workload,
)

_HELP: Final = help_of(__file__)

_Find = Callable[[str, ComparedWorkload], tuple[GpuPlace, str]]
"""Finds the place of a name for a workload, and a note if the name is ambiguous."""

_Compare = Callable[[Mapping[str, Any]], "GpuComparison"]
_KEYS: Final = ("workload", "from", "to", "precision", "gpus")
_NEEDED: Final = _KEYS[:3]
_MOST_GPUS: Final = 1_000_000
_EXAMPLE: Final = "rightsizer compare a100 h100 --workload llm-serving"
_ENDS: Final = ("from", "to")
_REMEDY: Final = "'rightsizer compare --help' shows what it takes"


class GpuComparison(
    Struct, frozen=True, omit_defaults=True, rename={"source": "from", "target": "to"}
):
    """How many times what one GPU does another one does."""

    workload: str
    source: str
    target: str
    ratio: float
    ratio_low: float
    ratio_high: float
    notes: tuple[str, ...] = ()


class ComparisonQuestion(Struct, frozen=True):
    """Question of a file."""

    workload: str
    from_: str
    to: str
    precision: str = ""
    gpus: Annotated[int | None, Spec(within=(1, _MOST_GPUS))] = None


def _configure(parser: argparse.ArgumentParser) -> None:
    asked_help = "YAML or JSON file; or two GPUs, in place of --from and --to"
    parser.add_argument("asked", nargs="*", metavar="FILE|GPU", help=asked_help)
    add_flags(parser.add_argument, _HELP["flags"], catalogue=Path, gpus=_group)
    add_config_flag(parser)
    add_format_flag(parser, "ratios")


def _group(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST_GPUS):
        raise argparse.ArgumentTypeError(f"'{text}' is no number of GPUs; give 1 or more")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments, PlannerSettings)
    catalogue = read_catalogue(arguments.catalogue or settings.catalogue.boards_path)
    find = partial(_place, catalogue=catalogue, memory_settings=settings.sizing.memory)
    learned_file = settings.sizing.learned_file
    site = read_learned(learned_file)
    compare = partial(_comparison, find=find, site=site, site_note=closed_note(learned_file))
    flags = {**vars(arguments), "from": arguments.from_}
    words = arguments.asked
    given = {key: flags[key] for key in _KEYS if flags[key] is not None}
    if len(words) == len(_ENDS):
        if twice := [key for key in _ENDS if key in given]:
            raise UsageError(f"--{twice[0]}: two GPUs are named already; leave one of them out")
        given |= dict(zip(_ENDS, words, strict=True))
    if len(words) > len(_ENDS):
        raise UsageError(f"'{words[2]}': two GPUs are compared at a time; put more into a FILE")
    if len(words) != 1:
        answers: Sequence[GpuComparison | FailedQuestion] = [_of_flags(given, compare)]
        is_list = False
    elif catalogue.family(words[0]):
        raise UsageError(f"'{words[0]}': is one GPU; name the other beside it, or a FILE")
    elif given:
        raise UsageError(f"--{next(iter(given))}: the file asks already; leave one of them out")
    else:
        asked = read_questions(Path(words[0]), _REMEDY)
        is_list = asked.is_list
        answers = asked.answers(partial(_answer, compare=compare))
    result = answers if is_list else answers[0]
    blocks = (block for answer in answers for block in _blocks(answer))
    show(arguments, "GPUs compared", result, blocks, may_color=False)
    return 0


def _of_flags(given: Mapping[str, Any], compare: _Compare) -> GpuComparison:
    if missing := ", ".join(f"--{key}" for key in _NEEDED if key not in given):
        raise UsageError(f"{missing} missing; write it like '{_EXAMPLE}'")
    try:
        return compare(given)
    except RequirementError as error:
        raise UsageError(f"--{error}") from None


def _answer(question: FileQuestion, compare: _Compare) -> GpuComparison:
    question.read(ComparisonQuestion)
    given = {key: value for key, value in question.values.items() if value is not None}
    try:
        return compare(given)
    except RequirementError as error:
        raise question.placed(error) from None


def _comparison(
    asked: Mapping[str, Any], find: _Find, site: SiteResiduals | None, site_note: str
) -> GpuComparison:
    workload = replace(parse_workload(asked["workload"]), gpus=asked.get("gpus"))
    if workload.gpus and workload.activity is not WorkloadActivity.TRAINING:
        raise RequirementError(f"gpus: {workload.name} is compared GPU by GPU; leave it out")
    places = list[GpuPlace]()
    notes = list[str]()
    for key in _ENDS:
        try:
            place, note = find(asked[key], workload)
        except (RequirementError, UsageError) as error:
            raise RequirementError(f"{key}: {error}") from None
        places.append(place)
        notes += filter(None, (note,))
    place, other = places
    if "precision" in asked:
        precision = parse_precision(asked["precision"])
        workload = replace(workload, precision=precision)
        without = (
            gpu_place.name for gpu_place in places if gpu_place.board.peak(precision) is None
        )
        notes += [
            f"{board_name} has no {precision}: its best usable format counts"
            for board_name in without
        ]
    ratio = place_ratio(workload, place, other, built_in_ratios())
    if workload.family is ModelKind.LLM and workload.activity is not WorkloadActivity.TRAINING:
        # What does more takes less time.
        boards = (other.board.key, place.board.key)
        ratio, note = time_between_boards(ratio, boards, site)
        notes += filter(None, (note, site_note))
    return GpuComparison(
        workload.name, place.name, other.name, ratio.value, ratio.low, ratio.high, tuple(notes)
    )


def _place(
    name: str, workload: ComparedWorkload, catalogue: Catalogue, memory_settings: MemorySettings
) -> tuple[GpuPlace, str]:
    """Find a board or slice; of a family the one with the most linked GPUs, measured and rented."""
    family = () if ":" in name else catalogue.family(name)
    if len(family) <= 1:
        return find_place(catalogue, name, memory_settings), ""
    fit = built_in_ratios().fits[workload.activity]

    def standing(board: Board) -> tuple[int, bool, bool, float]:
        is_rented = built_in_prices().of(board.key) is not None
        links = board.linked_gpu_count or 0
        return links, fit.has_measured(board.key), is_rented, board.memory_bytes

    first, *others = sorted(family, key=standing, reverse=True)
    rest = ", ".join(board.key for board in others)
    note = f"{name} is read as {first.key}; name another of its family for that: {rest}"
    return GpuPlace(first, memory_settings=memory_settings), note


def _blocks(answer: GpuComparison | FailedQuestion) -> Iterator[Block]:
    if isinstance(answer, FailedQuestion):
        yield answer.text
        return
    yield (
        f"{answer.workload}: {answer.target} does {answer.ratio:.2f} times what {answer.source} "
        f"does ({answer.ratio_low:.2f} to {answer.ratio_high:.2f})"
    )
    yield Items(tuple(f"note: {note}" for note in answer.notes))


COMMAND = Command(
    "compare", _configure, _run, _HELP["description"].replace("{families}", ", ".join(ModelKind))
)
