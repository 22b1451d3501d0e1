"""`rightsizer fleet`: advice over an estate, from any store that answers as Prometheus does."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from rightsizer.cli.command import Command
from rightsizer.cli.explain_text import explanation_text
from rightsizer.cli.flag_values import checked_address, duration
from rightsizer.cli.fleet_plan_text import plan_text
from rightsizer.cli.fleet_progress import Progress
from rightsizer.cli.fleet_settings import fleet_settings_of
from rightsizer.cli.fleet_text import fleet_text
from rightsizer.cli.output import say
from rightsizer.cli.settings_flag import add_config_flag
from rightsizer.domain.errors import UsageError
from rightsizer.domain.settings import bounds_of
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, format_duration, nanoseconds
from rightsizer.edge.clock import Clock, FastClock, SystemClock
from rightsizer.edge.whole_file import WholeFile
from rightsizer.fleet.settings import FleetSettings
from rightsizer.publish.report.fleet_document import fleet_document
from rightsizer.runtime.fleet.form import fleet_form, plan_form
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
    parser.add_argument(
        "--json", action="store_true", help="answer in JSON; docs/fleet.md tells every key"
    )
    form = parser.add_mutually_exclusive_group()
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
    _refuse_what_does_not_fit(arguments)
    settings = _settings(arguments)
    if arguments.serve:
        serve_fleet(settings)
        return 0
    configure_log(settings.log.format, LogLevel.WARNING)
    clock = SystemClock() if arguments.at is None else FastClock(nanoseconds(arguments.at))
    text: Callable[[dict[str, Any]], str]
    with _judge(arguments, settings, clock) as judge:
        if arguments.dry_run:
            reports, plan = judge.plan()
            form = plan_form(reports, plan, clock.wall_time() / NANOSECONDS_PER_SECOND)
            text = plan_text
        elif arguments.explain:
            form, text = explain_once(judge, settings, arguments.explain), explanation_text
        else:
            answer = look_once(judge, settings, clock, keeps=arguments.save)
            form, text = fleet_form(answer), fleet_text
            if arguments.html is not None:
                with WholeFile(arguments.html, "page") as file:
                    file.write(fleet_document(form).encode())
    say(json.dumps(form, indent=1) if arguments.json else text(form))
    return 0


@contextmanager
def _judge(
    arguments: argparse.Namespace, settings: WholeSettings, clock: Clock
) -> Iterator[FleetJudge]:
    """A judge that tells a terminal how far it is, and is silent once it has ended."""
    keeps_all = arguments.all or bool(arguments.explain)
    if arguments.no_progress or not sys.stderr.isatty():
        with FleetJudge.open(settings, clock, keeps_all=keeps_all) as judge:
            yield judge
        return
    with (
        Progress(sys.stderr) as progress,
        FleetJudge.open(settings, clock, progress, keeps_all=keeps_all) as judge,
    ):
        yield judge


def _settings(arguments: argparse.Namespace) -> WholeSettings:
    settings = fleet_settings_of(arguments)
    fleet, web = settings.fleet, settings.web
    if arguments.store_url is not None:
        fleet = replace(fleet, store=replace(fleet.store, url=arguments.store_url))
    if arguments.lookback is not None:
        _refuse_beyond_bounds(arguments.lookback)
        fleet = replace(fleet, lookback_seconds=arguments.lookback)
    if arguments.listen_address:
        addresses = tuple(map(checked_address, arguments.listen_address))
        web = replace(web, listen_addresses=addresses)
    return replace(settings, fleet=fleet, web=web)


def _refuse_beyond_bounds(lookback_seconds: float) -> None:
    """A flag may ask for what the file may, and for no more."""
    (declared,) = (each for each in fields(FleetSettings) if each.name == "lookback_seconds")
    bounds = bounds_of(declared)
    least, most = (bounds.minimum, bounds.maximum) if bounds is not None else (None, None)
    asked = format_duration(lookback_seconds)
    if least is not None and lookback_seconds < least:
        raise UsageError(f"--lookback: {asked} is less than {format_duration(least)}")
    if most is not None and lookback_seconds > most:
        raise UsageError(f"--lookback: {asked} is more than {format_duration(most)}")


def _refuse_what_does_not_fit(arguments: argparse.Namespace) -> None:
    """Before anything is asked: a flag that would do nothing is a misunderstanding."""
    refused: dict[str, tuple[str, ...]] = {
        "--serve": ("save", "html", "at", "all", "json"),
        "--dry-run": ("save", "html", "all"),
        "--explain": ("save", "html", "all"),
    }
    for mode, flags in refused.items():
        if not getattr(arguments, mode.strip("-").replace("-", "_")):
            continue
        for flag in flags:
            given = getattr(arguments, flag)
            if given is not None and given is not False:
                raise UsageError(f"--{flag} is nothing for {mode}; leave it out")
    if arguments.listen_address and not arguments.serve:
        raise UsageError("--web.listen-address is for --serve; leave it out, or serve")
    if arguments.all and not arguments.json:
        raise UsageError("--all is for --json; the text tells of complaints alone")


COMMAND: Final = Command(
    "fleet", "advise over a whole estate's store", configure, run, _DESCRIPTION
)
