"""`rightsizer fleet`: cluster-wide recommendations from any Prometheus-compatible store."""

# ruff: noqa: PLC0415 - modules that need the extra are imported on use.

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final

from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, add_flags, help_of, say
from rightsizer.console.flags import (
    CONFIGURATION,
    FLEET_FILE,
    add_config_flag,
    checked_address,
    config_file_of,
    duration,
    moment,
    settings_of,
    whole_number,
    with_values,
)
from rightsizer.console.progress import ProgressLine
from rightsizer.console.remote_agent import RemoteAgent, add_url_flags
from rightsizer.fleet.settings import FleetConfig, with_lookback
from rightsizer.io.clock import FastClock, SystemClock
from rightsizer.io.codec import plain
from rightsizer.io.files import whole_file
from rightsizer.io.log import configure as configure_log
from rightsizer.io.log_settings import LogLevel
from rightsizer.model.values import RightsizerError, UsageError
from rightsizer.report.explanation_blocks import explanation_blocks
from rightsizer.report.focus import FOCUS, focus_csv, write_focus

_HELP: Final = help_of(__file__)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("merge", "rules"),
        nargs="?",
        help="merge the answers of shards; write recording rules for dcgm-exporter's metrics, with "
        "--store.url only for those in the store",
    )
    parser.add_argument(
        "answers",
        type=Path,
        nargs="*",
        metavar="ANSWER.json",
        help="answers in JSON, or caches of days, to merge",
    )
    add_flags(parser.add_argument, _HELP["look"], lookback=duration, at=moment)
    add_flags(parser.add_mutually_exclusive_group().add_argument, _HELP["modes"])
    add_flags(parser.add_argument, _HELP["selection"], top=whole_number, since=duration)
    add_flags(
        parser.add_argument,
        _HELP["answer"],
        html=Path,
        commands=Path,
        csv=Path,
        output=Path,
        web_listen_address={"action": "append"},
    )
    add_format_flag(parser, "the keys of docs/fleet.md", FOCUS)
    add_url_flags(parser)
    add_config_flag(parser, CONFIGURATION.with_name(FLEET_FILE))


def _refusal(error: ImportError) -> RightsizerError:
    if error.name in {"numpy", "orjson"}:
        return RightsizerError(
            f"fleet needs numpy and orjson ({error.name} is missing); install the package "
            "rightsizer-fleet, or take pip install 'gpu-rightsizer[fleet]' or the image "
            "rightsizer-tools"
        )
    python = "Python {}.{}".format(*sys.version_info)
    return RightsizerError(
        f"fleet needs numpy and orjson, and those installed are for another Python than {python}; "
        f"use a package built with {python} (`make deb`), or the image rightsizer-tools"
    )


def _run(arguments: argparse.Namespace) -> int:
    """Run the fleet recommender, and print the answer.

    Raises:
        RightsizerError: no store is set, it does not answer, or a file is inaccessible.
    """
    _refuse_what_does_not_fit(arguments)
    _make_folders(arguments)
    try:
        from rightsizer.fleet.answers import caches_in, merged, read_answers
        from rightsizer.fleet.run import dcgm_rules
    except ImportError as error:
        raise _refusal(error) from None
    if arguments.url:
        _show(arguments, _answer_of_service(arguments))
        return 0
    answers = read_answers(arguments.answers)
    if (parts := caches_in(answers)) is None and arguments.action == "merge":
        _refuse(arguments, "a merge of answers")
        interval_seconds = _settings(arguments).fleet.interval_seconds
        _show(arguments, merged(answers, [*map(str, arguments.answers)], interval_seconds))
        return 0
    settings = _settings(arguments)
    if parts is not None:
        settings = with_values(settings, {"fleet.shard": ""})
    if settings.fleet.part.is_by_node:
        _refuse(arguments, "a shard of the nodes")
    if arguments.action == "rules":
        say(dcgm_rules(settings.fleet, SystemClock().wall_time()))
        return 0
    if arguments.serve:
        from rightsizer.fleet.service import serve_fleet

        serve_fleet(settings, config_file_of(arguments), parts or ())
        return 0
    _look(arguments, settings, parts or ())
    return 0


def _look(arguments: argparse.Namespace, settings: FleetConfig, parts: Sequence[Path]) -> None:
    """Ask the store, and print the answer."""
    from rightsizer.fleet.answer_blocks import plan_blocks, reading_blocks
    from rightsizer.fleet.encoder import encode_answer, fetch_document, reading_document
    from rightsizer.fleet.judge import FleetJudge
    from rightsizer.fleet.run import explain_once, run_once

    configure_log(settings.log.format, LogLevel.WARNING)
    clock = SystemClock() if arguments.at is None else FastClock(arguments.at)
    keeps_all = arguments.all or bool(arguments.explain)
    shows = sys.stderr.isatty() and not arguments.no_progress
    with (
        ProgressLine(sys.stderr) if shows else nullcontext(lambda *_: None) as progress,
        FleetJudge(
            settings,
            clock,
            progress,
            keeps_all=keeps_all,
            parts=parts,
            config_file=config_file_of(arguments),
            learns=arguments.save,
        ) as judge,
    ):
        if arguments.dry_run:
            document = plain(fetch_document(*judge.plan(), clock.wall_time()))
            blocks = plan_blocks(document)
        elif settings.fleet.part.is_by_node:
            document = plain(reading_document(*judge.read(), judge.days_path))
            blocks = reading_blocks(document)
        elif arguments.explain:
            explanation = explain_once(judge, settings, arguments.explain)
            show(arguments, explanation.title, explanation, explanation_blocks(explanation))
            return
        else:
            _show(arguments, encode_answer(run_once(judge, settings, clock, keeps=arguments.save)))
            return
    show(arguments, "GPU fleet", document, blocks)


def _show(arguments: argparse.Namespace, whole: dict[str, Any]) -> None:
    from rightsizer.fleet.advice_groups import commands_text
    from rightsizer.fleet.answer_blocks import fleet_blocks
    from rightsizer.fleet.answers import selected, shortened
    from rightsizer.fleet.focus import fleet_focus
    from rightsizer.fleet.page import fleet_document
    from rightsizer.fleet.summary import summary_of
    from rightsizer.fleet.tables import csv_tables

    document = selected(
        whole, cluster=arguments.cluster, team=arguments.team, since_seconds=arguments.since
    )
    top = arguments.top
    shown = document if top is None else shortened(document, top)
    blocks = fleet_blocks(document) if top is None else fleet_blocks(document, top)
    if arguments.html is not None:
        with whole_file(arguments.html, "page") as file:
            file.write(fleet_document(document, top=top).encode())
    if arguments.commands is not None:
        with whole_file(arguments.commands, "commands") as file:
            file.write(commands_text(summary_of(shown).groups).encode())
    if arguments.csv is not None:
        for name, table in csv_tables(shown).items():
            with whole_file(arguments.csv / f"{name}.csv", "table") as file:
                file.write(table.encode())
    if arguments.format == "html":
        say(fleet_document(document, top=top).rstrip())
        return
    if arguments.format != FOCUS:
        show(arguments, "GPU fleet", shown, blocks)
        return
    bill = focus_csv(fleet_focus(document))
    if arguments.output is None:
        say(bill.rstrip())
    else:
        write_focus(bill, arguments.output)


def _answer_of_service(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the last answer of a fleet's service; raises `RightsizerError` before the first."""
    from rightsizer.fleet.api import FLEET_PATH

    service = RemoteAgent.of(arguments)
    document: dict[str, Any] | None = service.get(FLEET_PATH, "usage")
    if document is None:
        raise RightsizerError(
            f"{service.url}: the first look at the store is under way; ask again in a few minutes"
        )
    return document


def _make_folders(arguments: argparse.Namespace) -> None:
    """Make the folders of what is to be written: a look takes long, and must not be for nothing."""
    folders = {
        "html": arguments.html and arguments.html.parent,
        "commands": arguments.commands and arguments.commands.parent,
        "csv": arguments.csv,
        "output": arguments.output and arguments.output.parent,
    }
    for flag, folder in folders.items():
        if folder is None:
            continue
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"--{flag}: folder '{folder}' cannot be made: {(error.strerror or '').lower()}; "
                "name another"
            ) from None


def _settings(arguments: argparse.Namespace) -> FleetConfig:
    settings = settings_of(arguments, FleetConfig)
    if arguments.lookback is not None:
        settings = with_lookback(settings, arguments.lookback, "--lookback")
    try:
        settings = with_values(settings, {"fleet.shard": arguments.shard})
    except ValueError as error:
        raise UsageError(f"--{error}") from None
    values = {
        "fleet.store.url": arguments.store_url,
        "web.listen_addresses": tuple(map(checked_address, arguments.web_listen_address or ()))
        or None,
    }
    return with_values(settings, values)


_BILL: Final = f"format {FOCUS}"
_WRITTEN: Final = ("html", "commands", "csv", "output")
_SELECTED: Final = ("top", "cluster", "team", "since")
_REFUSED: Final[dict[str, tuple[str, ...]]] = {
    "merge": ("shard",),
    "a merge of answers": (
        "store.url",
        "lookback",
        "at",
        "serve",
        "dry-run",
        "explain",
        "save",
    ),
    "a shard of the nodes": ("serve", "explain", "save", *_WRITTEN, "all", _BILL, *_SELECTED),
    "rules": (
        "shard",
        "lookback",
        "at",
        "serve",
        "dry-run",
        "explain",
        "save",
        *_WRITTEN,
        "all",
        "format",
        *_SELECTED,
    ),
    "--url": ("store.url", "shard", "lookback", "at", "serve", "dry-run", "explain", "save", "all"),
    "--serve": ("save", *_WRITTEN, "at", "all", "format", *_SELECTED),
    "--dry-run": ("save", *_WRITTEN, "all", _BILL, *_SELECTED),
    "--explain": ("save", *_WRITTEN, "all", _BILL, *_SELECTED),
}
"""Flags, or values of them, without effect, by action."""


def _refuse_what_does_not_fit(arguments: argparse.Namespace) -> None:
    """Reject flags without effect before anything is queried: they are a misunderstanding."""
    is_merge = arguments.action == "merge"
    if is_merge and not arguments.answers:
        raise UsageError("merge: name the answers, as in `rightsizer fleet merge a.json b.json`")
    if arguments.action and arguments.url:
        raise UsageError(f"--url does not apply to {arguments.action}; leave it out")
    if arguments.answers and not is_merge:
        raise UsageError("files are for `rightsizer fleet merge`; leave them out")
    for mode in _REFUSED:
        if _given(arguments, mode[2:]) if mode[0] == "-" else arguments.action == mode:
            _refuse(arguments, mode)
    if arguments.web_listen_address and not arguments.serve:
        raise UsageError("--web.listen-address is for --serve; leave it out, or serve")
    if arguments.output and arguments.format != FOCUS:
        raise UsageError("--output is for --format focus; add it, or take --html or --csv")
    if arguments.all and arguments.format != "json":
        raise UsageError("--all is for --json; the text tells of complaints alone")


def _refuse(arguments: argparse.Namespace, mode: str) -> None:
    for flag in filter(partial(_given, arguments), _REFUSED[mode]):
        raise UsageError(f"--{flag} does not apply to {mode}; leave it out")


def _given(arguments: argparse.Namespace, flag: str) -> bool:
    name, _, only = flag.partition(" ")
    value = getattr(arguments, name.replace(".", "_").replace("-", "_"))
    return value == only if only else value is not None and value is not False


COMMAND: Final = Command(
    "fleet", _configure, _run, _HELP["description"], is_service=lambda arguments: arguments.serve
)
