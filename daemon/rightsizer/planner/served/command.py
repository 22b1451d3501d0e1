"""`rightsizer served`: what engines serve, what it would need, and what that saves."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rightsizer.catalogue.catalogue import Catalogue, read_catalogue
from rightsizer.catalogue.prices_file import read_prices
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, add_flags, help_of
from rightsizer.console.flags import add_config_flag, duration, settings_of, whole_number
from rightsizer.console.remote_agent import RemoteAgent, add_url_flags
from rightsizer.io.codec import plain
from rightsizer.io.terminal import counted
from rightsizer.model.errors import RightsizerError, UsageError
from rightsizer.planner.learned import closed_note, forget, learn, read_learned
from rightsizer.planner.plan_file import plan_of_flags
from rightsizer.planner.planner import Planner, boards_of
from rightsizer.planner.served.answer_blocks import served_blocks
from rightsizer.planner.served.answers import PredictedLoads, predicted_loads, served_answers
from rightsizer.planner.served.document import served_document
from rightsizer.planner.served.engine import LEVELS, Statement, number_format
from rightsizer.planner.served.source import SERVING_PATH, AnyLoad, agent_loads, loads_of
from rightsizer.planner.settings import PlannerSettings
from rightsizer.sizing.parameters import NumberFormat

_HELP: Final = help_of(__file__)
_ANY_MODEL: Final = "7B"
"""Of the plan by which the service level is checked."""


def _configure(parser: argparse.ArgumentParser) -> None:
    place = "JSON of loads, or an engine's page: a file or its address"
    parser.add_argument("places", nargs="*", metavar="PAGE", help=place)
    model = {"action": "append", "default": []}
    kinds: dict[str, Any] = {"model": model, "gpus": whole_number, "tp": whole_number}
    kinds["window"] = duration
    add_flags(parser.add_argument, _HELP["loads"], **kinds)
    add_url_flags(parser)
    add_flags(parser.add_argument, _HELP["sources"], catalogue=Path, prices=Path)
    add_config_flag(parser)
    add_format_flag(parser, "ms, bytes, dollars an hour")


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments, PlannerSettings)
    catalogue = read_catalogue(arguments.catalogue or settings.catalogue.boards_path)
    prices_file = arguments.prices or settings.catalogue.prices_path
    prices = read_prices(prices_file, catalogue, settings.prices)
    learned_file = settings.sizing.learned_file
    if arguments.forget:
        return _forget(arguments, Path(learned_file))
    planner = Planner(catalogue, prices, settings.sizing, read_learned(learned_file))
    statement = _statement(arguments, catalogue)
    names = [name.strip() for name in (arguments.boards or "").split(",") if name.strip()]
    boards = tuple(board.key for board in boards_of(names, catalogue, "--boards") if names)
    predicted = predicted_loads(_loads(arguments), planner, statement)
    answers = served_answers(predicted, planner, boards)
    notes = [note for note in (closed_note(learned_file),) if note]
    fault: RightsizerError | None = None
    if arguments.learn:
        try:
            notes.append(_learn(predicted, learned_file))
        except RightsizerError as error:  # The answers do not depend on it.
            fault = error
    result = [plain(served_document(answer)) for answer in answers]
    show(arguments, "What engines serve", result, served_blocks(answers, notes))
    if fault is not None:
        raise fault
    return 0 if all(answer.prediction is not None for answer in answers) else 1


def _learn(predicted: PredictedLoads, file: str) -> str:
    """Add what the engines teach to the file; return what was added."""
    site = learn(file, predicted.residuals)
    figures = counted(len(predicted.residuals), "figure")
    return f"learned {figures}; '{file}' holds {len(site.residuals)}"


def _forget(arguments: argparse.Namespace, file: Path) -> int:
    """Remove what was learned."""
    if arguments.places or arguments.url or arguments.learn:
        raise UsageError("--forget: removes what was learned and does nothing else; give it alone")
    was_there = forget(file)
    text = f"removed '{file}'" if was_there else f"nothing was learned: '{file}' is absent"
    show(arguments, "What was learned", {"forgotten": was_there, "file": str(file)}, [text])
    return 0


def _statement(arguments: argparse.Namespace, catalogue: Catalogue) -> Statement:
    """Return what is stated, once for all engines; raises `UsageError`."""
    models = {}
    for text in arguments.model:
        alias, _, name = text.rpartition("=")
        if not name.strip():
            raise UsageError(f"--model {text}: names no model; write it like chat=llama-3.1-8b")
        models[alias.strip()] = name.strip()
    levels = {key: value for key in LEVELS if (value := getattr(arguments, key))}
    plan_of_flags({"model": _ANY_MODEL, "rps": 1.0, **levels})
    precision = arguments.precision or ""
    if precision and number_format(precision) is None:
        formats = ", ".join(NumberFormat)
        raise UsageError(f"--precision: '{precision}' is no format; it is one of {formats}")
    return Statement(
        models=models,
        board=_board(arguments.gpu, catalogue) if arguments.gpu else "",
        gpus=arguments.gpus,
        tensor=arguments.tp,
        precision=precision,
        ttft=arguments.ttft or "",
        tpot=arguments.tpot or "",
    )


def _board(name: str, catalogue: Catalogue) -> str:
    """Return the key of one board, or of one slice; raises `UsageError`."""
    whole, mark, profile = name.partition(":")
    try:
        key = catalogue.get(whole).key
        (board,) = boards_of((f"{key}{mark}{profile}",), catalogue, "--gpu")
    except UsageError as error:
        raise UsageError(f"--gpu: {error}") from None
    return board.key


def _loads(arguments: argparse.Namespace) -> Sequence[AnyLoad]:
    """Return the loads of an agent, or of addresses and files."""
    places: Sequence[str] = arguments.places
    if arguments.url and places:
        raise UsageError("--url: files are given too; leave one of them out")
    if arguments.url and arguments.window is not None:
        raise UsageError("--window: an agent's loads are of its own time; leave it out")
    if arguments.url:
        return agent_loads(RemoteAgent.of(arguments).get(SERVING_PATH), arguments.url)
    if not places:
        raise UsageError("no loads are given; name a file or page of them, or an agent by --url")
    loads = (load for place in places for load in loads_of(place, arguments.window))
    # The same load of two files is one engine.
    return tuple(dict.fromkeys(loads))


COMMAND = Command("served", _configure, _run, _HELP["description"])
