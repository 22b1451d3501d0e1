"""`rightsizer fleet`: advice over an estate, from any store that answers as Prometheus does."""

import argparse
import json
import os
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

from rightsizer.cli.command import Command, add_config_flag, checked_address, duration
from rightsizer.cli.explain_text import explanation_text
from rightsizer.cli.fleet_progress import Progress
from rightsizer.cli.fleet_text import fleet_text, plan_text
from rightsizer.cli.output import say
from rightsizer.config.loader import load, load_file
from rightsizer.domain.errors import UsageError
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, nanoseconds
from rightsizer.edge.clock import FastClock, SystemClock
from rightsizer.edge.whole_file import WholeFile
from rightsizer.publish.report.fleet_document import fleet_document
from rightsizer.runtime.fleet.form import fleet_form
from rightsizer.runtime.fleet.judge import FleetJudge
from rightsizer.runtime.fleet.once import explain_once, look_once
from rightsizer.runtime.fleet.service import serve_fleet
from rightsizer.runtime.fleet.settings import WholeSettings
from rightsizer.runtime.log import LogLevel
from rightsizer.runtime.log import configure as configure_log

__all__ = ["COMMAND"]

_DESCRIPTION: Final = """\
Advice over all GPUs that a store knows: Prometheus, Thanos Query, Mimir or VictoriaMetrics, with
the metrics of our agents, of dcgm-exporter, or of both. Days that were read are kept, so that only
the first look takes long; an interrupted one goes on where it stopped. Nothing is changed anywhere:
without --save the advice is not even remembered. docs/fleet.md has more.

  rightsizer fleet --store.url http://prometheus:9090
  rightsizer fleet --store.url http://thanos-query:10902 --dry-run
  rightsizer fleet --config.file fleet.yaml --save --html estate.html
  rightsizer fleet --config.file fleet.yaml --serve
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Which store, how far back, and how to answer."""
    parser.add_argument(
        "--store.url",
        dest="store_url",
        metavar="URL",
        help="the store; without it fleet.store.url of the configuration",
    )
    parser.add_argument(
        "--lookback",
        type=duration,
        metavar="DURATION",
        help="how far back to look, as in 14d; without it fleet.lookback of the configuration",
    )
    parser.add_argument(
        "--at",
        type=float,
        metavar="SECONDS",
        help="look back from this time, in seconds since the epoch (default: now)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help="answer in JSON; docs/fleet.md tells every key"
    )
    form.add_argument("--serve", action="store_true", help="go on as a service, on port 19400")
    form.add_argument("--dry-run", action="store_true", help="tell what would be asked, and end")
    form.add_argument("--explain", metavar="ID", help="tell the whole reasoning behind a verdict")
    parser.add_argument(
        "--all", action="store_true", help="in JSON, give every verdict, not complaints alone"
    )
    parser.add_argument(
        "--html", type=Path, metavar="OUT", help="write the answer as one page of HTML too"
    )
    parser.add_argument(
        "--save",
        action="store_true",
        help="keep the advice, and tell Grafana and webhooks of it; for a CronJob",
    )
    parser.add_argument(
        "--web.listen-address",
        dest="listen_address",
        metavar="ADDRESS",
        help="with --serve, where to listen, as host:port; may be given more than once",
        action="append",
    )
    parser.add_argument("--no-progress", action="store_true", help="show no progress")
    add_config_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look at the estate, and say what was found.

    Raises:
        RightsizerError: no store is named, it does not answer, or a file is out of reach.
    """
    settings = _settings(arguments)
    if arguments.serve:
        _refuse_beside_serve(arguments)
        serve_fleet(settings)
        return 0
    configure_log(settings.log.format, LogLevel.WARNING)
    clock = SystemClock() if arguments.at is None else FastClock(nanoseconds(arguments.at))
    shows = not arguments.no_progress and sys.stderr.isatty()
    with (
        Progress(sys.stderr) if shows else nullcontext() as progress,
        FleetJudge.open(
            settings, clock, progress, keeps_all=arguments.all or bool(arguments.explain)
        ) as judge,
    ):
        if arguments.dry_run:
            text = plan_text(*judge.plan(), clock.wall_time() / NANOSECONDS_PER_SECOND)
        elif arguments.explain:
            form = explain_once(judge, settings, arguments.explain)
            text = explanation_text(form)
        else:
            answer = look_once(judge, settings, clock, keeps=arguments.save)
            form = fleet_form(answer)
            if arguments.html is not None:
                with WholeFile(arguments.html, "page") as file:
                    file.write(fleet_document(form).encode())
            text = json.dumps(form, indent=1) if arguments.json else fleet_text(form, answer.advice)
    say(text)
    return 0


def _settings(arguments: argparse.Namespace) -> WholeSettings:
    file = arguments.config_file
    settings = (
        load(WholeSettings, "", "", os.environ)
        if file is None
        else load_file(WholeSettings, file, os.environ)
    )
    fleet, web = settings.fleet, settings.web
    if arguments.store_url is not None:
        fleet = replace(fleet, store=replace(fleet.store, url=arguments.store_url))
    if arguments.lookback is not None:
        fleet = replace(fleet, lookback_seconds=arguments.lookback)
    if arguments.listen_address:
        addresses = tuple(map(checked_address, arguments.listen_address))
        web = replace(web, listen_addresses=addresses)
    return replace(settings, fleet=fleet, web=web)


def _refuse_beside_serve(arguments: argparse.Namespace) -> None:
    for flag, given in (
        ("--save", arguments.save),
        ("--html", arguments.html),
        ("--at", arguments.at is not None),
        ("--all", arguments.all),
    ):
        if given:
            raise UsageError(f"{flag} is for a single look; leave it out beside --serve")


COMMAND: Final = Command(
    "fleet", "advise over a whole estate's store", configure, run, _DESCRIPTION
)
