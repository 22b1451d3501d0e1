"""`rightsizer plan`: GPUs that fit a requirement; predictions compared with measurements."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from rightsizer.catalogue.catalogue import read_catalogue
from rightsizer.catalogue.prices_file import read_prices
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, add_flags, flag_rows, help_of, say
from rightsizer.console.flags import add_config_flag, settings_of
from rightsizer.io.codec import indented, plain
from rightsizer.io.files import is_closed, is_there
from rightsizer.io.garbage import seldom_collected
from rightsizer.io.yaml import below
from rightsizer.model.errors import RequirementError, UsageError
from rightsizer.model.units import HOUR_SECONDS
from rightsizer.planner.detail_blocks import check_section, detail_blocks
from rightsizer.planner.load_row import accepted_flags, accepted_keys, meant_flags, with_unit
from rightsizer.planner.plan_file import PlanFile, flag_lines, plan_of_flags, read_plan_file
from rightsizer.planner.planner import PlanAnswer, Planner, plan_answers
from rightsizer.planner.settings import PlannerSettings
from rightsizer.planner.summary_blocks import page_blocks, summary_blocks
from rightsizer.report.blocks import Block

_HELP: Final = help_of(__file__)

if TYPE_CHECKING:
    from rightsizer.planner.plan_check import PlanCheck
    from rightsizer.sizing.site import SiteResiduals


_SUFFIXES: Final = (".yaml", ".yml", ".json")
"""File name extensions of requirements."""
_FLAGS: Final = {row.name: row.destination for row in flag_rows(_HELP["question"])}
"""Destination of each flag that is a key of a requirement."""
_COUNTS: Final = frozenset({"spares", "tp"})
_PERCENTILES: Final = ("p50", "p90", "p95", "p99")
"""Of the time to the whole answer, where it is a flag of its own."""
_DEGREES: Final[Mapping[str, Sequence[str]]] = {
    "pp": ("--pp", "--pipeline-parallel-size"),
    "dp": ("--dp", "--data-parallel-size"),
    "ep": ("--ep", "--expert-parallel-size"),
}
"""Degrees of a layout, and the flags of engines for them."""


class _OneValue(argparse.Action):
    """Store a value, and refuse another one of the same key, by whichever of its flags."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse passes it.
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Store it; raises `ArgumentError`."""
        before = getattr(namespace, self.dest, None)
        if before not in {None, values}:
            fault = f"{option_string}: {before} is given already; leave one of them out"
            raise argparse.ArgumentError(None, fault)
        setattr(namespace, self.dest, values)


def _configure(parser: argparse.ArgumentParser) -> None:
    file_help = "a model, as --model names it, or YAML or JSON of requirements"
    # A name may have spaces, and what is no part of it is named.
    parser.add_argument("file", nargs="*", metavar="MODEL", help=file_help)
    kinds: dict[str, Any] = {flag: {"action": _OneValue} for flag in _FLAGS.values()}
    kinds |= {flag: {"action": _OneValue, "type": int} for flag in _COUNTS}
    kinds["spot"] = {"action": "store_const", "const": True}
    add_flags(parser.add_argument, _HELP["question"], **kinds)
    _accept_other_names(parser)
    measured = {"type": Path, "nargs": "+"}
    add_flags(parser.add_argument, _HELP["sources"], measured=measured, catalogue=Path, prices=Path)
    add_config_flag(parser)
    add_flags(parser.add_argument, _HELP["forms"], html=Path, save=_folder)
    add_format_flag(parser, "bytes, milliseconds, tokens a second, dollars and hours")


def _accept_other_names(parser: argparse.ArgumentParser) -> None:
    """Accept the flags of other planners and engines."""
    once: dict[str, Any] = {"action": _OneValue}
    hidden = {**once, "default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
    for word, flag in accepted_flags(_FLAGS).items():
        kind = int if flag in _COUNTS else partial(with_unit, word)
        parser.add_argument(*_spellings(word), dest=_FLAGS[flag], type=kind, **hidden)
    for key, words in accepted_keys().items():
        names = (name for word in words for name in _spellings(word))
        parser.add_argument(f"--{key}", *names, dest=key, **hidden)
    for percentile in _PERCENTILES:
        target = f"{percentile}={{}}".format
        parser.add_argument(f"--{percentile}", dest="latency", type=target, **hidden)
    until = "end of a training, in place of --hours, such as 2030-12-24"
    parser.add_argument("--by", dest="hours", metavar="DATE", type=_hours_until, help=until, **once)
    for degree, flags in _DEGREES.items():
        parser.add_argument(*flags, dest=degree, type=int, help=argparse.SUPPRESS, **once)


def _spellings(word: str) -> Collection[str]:
    return dict.fromkeys((f"--{word}", f"--{word.replace('_', '-')}"))


def _with_inner_keys(given: Mapping[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """Add what was given for the inner parts of a plan: `{training: {sequence: 4096}}`."""
    joined = {**given}
    for path in accepted_keys():
        value = getattr(arguments, path, None)
        if value is not None:
            part, _, key = path.partition(".")
            before = joined.get(part, {})
            # A single format is that of the weights.
            inner = before if isinstance(before, dict) else {"weights": before}
            joined[part] = {**inner, key: value}
    return joined


def _with_degrees(given: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """Join the degrees of engines' own flags to a layout."""
    degrees = {degree: getattr(arguments, degree) for degree in _DEGREES}
    stated = {degree: count for degree, count in degrees.items() if count is not None}
    if not stated:
        return given
    if "layout" in given:
        raise UsageError(f"--{next(iter(stated))}: --layout gives it; leave one of them out")
    stated = {"tp": given.get("tp", 1), **stated}
    others = {word: value for word, value in given.items() if word != "tp"}
    return {**others, "layout": " ".join(f"{degree}{count}" for degree, count in stated.items())}


def _hours_until(text: str) -> str:
    """Hours from now to a date, or to a time in ISO 8601; a date without a zone is local."""
    try:
        end = datetime.fromisoformat(text).astimezone()
    except ValueError:
        remedy = "write it like 2030-12-24 or 2030-12-24T18:00"
        raise argparse.ArgumentTypeError(f"'{text}' is no date; {remedy}") from None
    hours = (end - datetime.now(UTC)).total_seconds() / HOUR_SECONDS
    if hours <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' has passed; give a later date")
    return f"{hours:.4f}"


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("is empty; name a folder, such as plan")
    return Path(text)


@seldom_collected()
def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments, PlannerSettings)
    catalogue = read_catalogue(arguments.catalogue or settings.catalogue.boards_path)
    prices_file = arguments.prices or settings.catalogue.prices_path
    prices = read_prices(prices_file, catalogue, settings.prices)
    learned_file = settings.sizing.learned_file
    planner = Planner(catalogue, prices, settings.sizing, *_site(learned_file))
    if arguments.form is not None:
        from rightsizer.planner.form import form_document  # noqa: PLC0415 - the page, and jinja2.

        say(form_document(arguments.form, planner))
        return 0
    is_text = arguments.format in {None, "text"}
    has_curve = any((not is_text, arguments.details, arguments.all, arguments.html, arguments.save))
    answered = partial(plan_answers, planner=planner, has_curve=has_curve)
    file, answers = _answered(arguments, answered)
    measured = _measured(arguments, file, answers, planner)
    if arguments.learn:
        _learn(arguments, file, answers, planner, learned_file)
    if arguments.html is not None:
        _write_html(arguments.html, _asked(arguments), answers)
    if arguments.save is not None and file.is_list:
        raise UsageError("--save: is for one question; give a file of one requirement")
    forms = _forms(answers, measured) if arguments.format == "json" else []
    result = forms if file.is_list else next(iter(forms), None)
    show(arguments, _title(answers), result, _blocks(arguments, answers, measured), may_color=False)
    if arguments.save is not None:
        written = f"wrote {_save(arguments.save, answers[0], planner)}"
        if arguments.format == "json":
            print(written, file=sys.stderr)
        else:
            say(f"\n{written}")
    is_answered = all(
        answer.plan is not None and answer.plan.best is not None for answer in answers
    )
    return 0 if is_answered else 1


def _site(learned_file: str) -> tuple[SiteResiduals | None, str]:
    """What a site has learned, if anything; and why this user may not read it."""
    if not os.access(learned_file, os.R_OK) and not is_closed(Path(learned_file)):
        return None, ""
    from rightsizer.planner.learned import closed_note, read_learned  # noqa: PLC0415 - seldom there.

    return read_learned(learned_file), closed_note(learned_file)


def _forms(
    answers: Sequence[PlanAnswer], measured: PlanCheck | None = None
) -> list[dict[str, Any]]:
    """Encode the answers as JSON, the first one with the measurements."""
    # Imported on use: not needed for text.
    from rightsizer.planner.plan_document import check_document, plan_document  # noqa: PLC0415

    forms: list[dict[str, Any]] = [
        plain(plan_document(answer.plan, answer.notes) if answer.plan else {"error": answer.error})
        for answer in answers
    ]
    if measured is not None:
        forms[0]["measured"] = plain(check_document(measured))
    return forms


def _title(answers: Sequence[PlanAnswer]) -> str:
    models = (answer.plan.requirement.model.name for answer in answers if answer.plan)
    return ": ".join(filter(None, ("GPU plan", ", ".join(filter(None, models)))))


def _blocks(
    arguments: argparse.Namespace, answers: Sequence[PlanAnswer], measured: PlanCheck | None
) -> Iterator[Block]:
    """Yield summaries, or on request, and on a page, all there is to say."""
    for answer in answers:
        if arguments.format in {"html", "markdown"} or answer.plan is None:
            yield from page_blocks(answer)
        elif arguments.details or arguments.all or measured:
            yield from detail_blocks(answer.plan, answer.notes, shows_all=arguments.all)
        else:
            yield from summary_blocks(answer.plan, answer.notes)
    if measured:
        yield check_section(measured)


def _asked(arguments: argparse.Namespace) -> Path | None:
    """Return the file or the model that is named, of one word or several."""
    return Path(" ".join(arguments.file)) if arguments.file else None


def _names_model(word: Path) -> bool:
    """Whether it is a model's name, configuration or folder, not a requirements file."""
    is_absent = word.suffix not in _SUFFIXES and not is_there(word)
    return is_absent or word.name == "config.json" or word.is_dir()


def _answered(
    arguments: argparse.Namespace, answers: Callable[[PlanFile], tuple[PlanAnswer, ...]]
) -> tuple[PlanFile, tuple[PlanAnswer, ...]]:
    """Return the requirements of file or flags, with the answers."""
    flags = {name: getattr(arguments, destination) for name, destination in _FLAGS.items()}
    given = {word: value for word, value in flags.items() if value is not None}
    given = _with_inner_keys(_with_degrees(given, arguments), arguments)
    asked = _asked(arguments)
    if sum(word.endswith(_SUFFIXES) for word in arguments.file) > 1:
        remedy = "give one, which may hold several documents"
        raise UsageError(f"{asked}: one file is taken; {remedy}")
    if asked and "model" not in given and _names_model(asked):
        given["model"] = str(asked)
        asked = None
    if asked is not None:
        if given:
            raise UsageError(f"--{next(iter(given))}: the file asks already; leave one of them out")
        if not is_there(asked):
            remedy = "check the path, or name a model with --model, such as --model llama-3.1-70b"
            raise RequirementError(f"{asked}: there is no such file; {remedy}")
        file = read_plan_file(asked)
        return file, answers(file)
    if "model" not in given:
        raise UsageError("--model is missing; name a model, such as llama-3.1-70b, or give a FILE")
    file = plan_of_flags(given)
    try:
        return file, answers(file)
    except RequirementError as error:
        raise UsageError(flag_lines(str(error), given)) from None


def _write_html(path: Path, asked: Path | None, answers: Sequence[PlanAnswer]) -> None:
    if asked is not None and path.resolve() == asked.resolve():
        raise UsageError(f"--html {path}: is the file of requirements; name another file")
    from rightsizer.io.files import whole_file  # noqa: PLC0415 - for a page alone.
    from rightsizer.report.template import page_of  # noqa: PLC0415 - jinja2 too.

    blocks = chain.from_iterable(map(page_blocks, answers))
    with whole_file(path, "plan") as out:
        out.write(page_of(_title(answers), blocks).encode())


def _save(folder: Path, answer: PlanAnswer, planner: Planner) -> str:
    """Write the files that run the plan's first candidate, and the plan; return their names.

    Those of an earlier plan that this one has not are removed.

    Raises:
        UsageError: the folder cannot be made.
        RequirementError: nothing fits, or no known program runs it.
    """
    # Imported on use: not needed without the flag.
    from rightsizer.io.files import whole_file  # noqa: PLC0415
    from rightsizer.planner.launch_files import FILES, MARK, launch_files  # noqa: PLC0415

    plan = answer.plan
    if plan is None:
        raise RequirementError(f"--save: {answer.error}")
    files = launch_files(plan.requirement, plan.best, planner.catalogue)
    (form,) = _forms((answer,))
    files["plan.json"] = indented(form) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise UsageError(
            f"--save: folder '{folder}' cannot be made: {reason}; name another"
        ) from None
    for name in FILES:
        former = folder / name
        if name not in files and former.is_file() and MARK.encode() in former.read_bytes():
            former.unlink()
    for name, text in files.items():
        with whole_file(folder / name, "plan") as out:
            out.write(text.encode())
    return ", ".join(str(folder / name) for name in files)


def _measured(
    arguments: argparse.Namespace, file: PlanFile, answers: tuple[PlanAnswer, ...], planner: Planner
) -> PlanCheck | None:
    if arguments.measured is None:
        return None
    asked = file.items[0]
    plan = answers[0].plan
    requirement = asked.requirement
    if file.is_list or requirement is None or plan is None:
        raise UsageError("--measured: a recording is of one model; give a file of one requirement")
    # Imported on use: readers of recordings and profiles double the load.
    from rightsizer.cli.plan_measured import check_plan  # noqa: PLC0415
    from rightsizer.planner.plan_check import Prediction  # noqa: PLC0415

    board = arguments.board and planner.catalogue.get(arguments.board).key
    states_sequence = "sequence" in below(asked.question.values, "training")
    planned = plan.candidates[0]
    return check_plan(
        Prediction(requirement, planner, planned, board, states_sequence), arguments.measured
    )


def _learn(
    arguments: argparse.Namespace,
    file: PlanFile,
    answers: tuple[PlanAnswer, ...],
    planner: Planner,
    learned_file: str,
) -> None:
    """Keep the times of --measured beside their prediction without any corrections."""
    from rightsizer.planner.learned import learn, residuals_of  # noqa: PLC0415

    plain = replace(planner, site=None)
    check = _measured(arguments, file, answers, plain)
    requirement = file.items[0].requirement
    if check is None or requirement is None:
        raise UsageError("--learn: nothing is measured; give --measured FILE")
    # A recording does not tell the cache that an engine took beside what it needs.
    times = [figure for figure in check.comparisons if figure.unit == "ms"]
    learned = tuple(residuals_of(requirement, check.candidate, times))
    if not learned:
        fault = "it takes a model by name, and a mean time between tokens or to the first one"
        raise UsageError(f"--learn: {fault}; record an engine with its metrics")
    learn(learned_file, learned)


COMMAND = Command("plan", _configure, _run, _HELP["description"], meant_flags(_FLAGS))
