"""`rightsizer place`: the best GPUs of this node to take right now."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from rightsizer.cli.broker_flags import add_request_flags
from rightsizer.cli.command import Command
from rightsizer.cli.look_flags import add_scenario_flag, looked_at
from rightsizer.cli.output import say
from rightsizer.cli.place_text import export_text, place_text, refused_export_text
from rightsizer.cli.settings_flag import add_config_flag, settings_of
from rightsizer.domain.errors import AgentAbsentError, RightsizerError, UsageError
from rightsizer.edge.clock import SystemClock
from rightsizer.edge.local import LocalClient
from rightsizer.runtime.place_look import place_by_look
from rightsizer.runtime.place_request import request_of
from rightsizer.runtime.place_route import PLACE_PATH
from rightsizer.runtime.settings import PathSettings, Settings

__all__ = ["COMMAND"]

_DESCRIPTION: Final = """\
Tell the best GPUs of this node to take right now: really free by what was measured and not by
allocation alone, healthy, joined as closely as can be, on one NUMA node, and such that pairs and
switches stay whole for those who come later. Nothing is taken or reserved by it.

To start something on them:

  eval "$(rightsizer place --gpus 2 --export)" && $RIGHTSIZER_BIND python train.py

CUDA_VISIBLE_DEVICES names the GPUs and MIG instances by uuid; RIGHTSIZER_BIND is a numactl command
for their CPUs and memory, and empty where a NUMA node is not known. Where nothing fits, the shell
sees no GPU at all and 'eval' fails.

The running agent is asked over its socket. Without one, the driver is looked at three times in two
seconds, which tells the states of this moment alone.

The exit status is 1 where nothing fits; the reasons are told, with --export on standard error.
"""
_WITHOUT_A_GPU: Final = "or try it on a simulated node: --scenario shared-node"


def configure(parser: argparse.ArgumentParser) -> None:
    """What is wanted, of which node, and how to answer."""
    add_request_flags(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="answer in JSON (docs/placement.md)")
    form.add_argument("--export", action="store_true", help="answer as exports for a shell")
    form.add_argument(
        "--explain",
        action="store_true",
        help="tell the sets that were nearly as good too, and why each other GPU cannot be given",
    )
    add_scenario_flag(parser, "agent and driver")
    parser.add_argument(
        "--path.api-socket",
        dest="api_socket",
        metavar="FILE",
        help="the agent's socket; without it path.api_socket of the configuration "
        f"(default: {PathSettings().api_socket})",
    )
    add_config_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what was chosen, or why nothing was; whether something was.

    Raises:
        RightsizerError: there is no GPU, or the request cannot be.
    """
    settings = settings_of(arguments)
    words = _words(arguments)
    form = _ask(settings, words, arguments)
    if arguments.json:
        say(json.dumps(form, indent=1))
    elif arguments.export and form["is_met"]:
        say(export_text(form))
    elif arguments.export:
        print(place_text(form, is_explained=True), file=sys.stderr)
        say(refused_export_text())
    else:
        say(place_text(form, is_explained=arguments.explain))
    return 0 if form["is_met"] else 1


def _words(arguments: argparse.Namespace) -> dict[str, str]:
    if arguments.share and not arguments.memory:
        raise UsageError("--share: say how much memory is needed on each GPU, as in --memory 10GiB")
    words = {
        "gpus": arguments.gpus,
        "memory": arguments.memory,
        "share": "true" if arguments.share else "",
        "interconnect": arguments.interconnect,
        "mig": arguments.mig,
    }
    return {name: word for name, word in words.items() if word}


def _ask(settings: Settings, words: dict[str, str], arguments: argparse.Namespace) -> Any:
    """The agent's answer, else that of a look: where no agent runs, or this user may not ask it."""
    request = request_of(words)
    socket = arguments.api_socket or settings.path.api_socket
    if socket and not arguments.scenario:
        try:
            return LocalClient(Path(socket)).get(f"{PLACE_PATH}?{urlencode(words)}")
        except RightsizerError as error:
            may_ask = os.access(socket, os.R_OK | os.W_OK)
            if arguments.api_socket or (may_ask and not isinstance(error, AgentAbsentError)):
                raise
            if not isinstance(error, AgentAbsentError):
                print(f"rightsizer: warning: {error}", file=sys.stderr)
    with looked_at(settings, arguments.scenario) as chosen:
        try:
            return place_by_look(chosen, request, SystemClock())
        except RightsizerError as error:
            if chosen.sources.simulated.scenario:
                raise
            raise RightsizerError(f"{error}; {_WITHOUT_A_GPU}") from None


COMMAND = Command("place", "the best GPUs to take right now", configure, run, _DESCRIPTION)
