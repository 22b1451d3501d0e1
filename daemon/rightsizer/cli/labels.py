"""`rightsizer labels`: this node's labels for Kubernetes, as a feature file."""

import argparse
import json
from pathlib import Path
from typing import Final

from rightsizer.agent.scheduler_documents import labels_by_look, timed_feature_file
from rightsizer.agent.settings import Settings
from rightsizer.cli.scenario_flag import add_scenario_flag, looked_at
from rightsizer.console.command import Command, say
from rightsizer.console.settings_flags import add_config_flag, settings_of
from rightsizer.io.clock import SystemClock
from rightsizer.io.files import whole_file

_DESCRIPTION: Final = """\
Print what Kubernetes may know this node by: how many GPUs it has and how many are healthy, which
board, how many of them NVLink joins, how they lie on NUMA nodes, and which MIG instances there are.

It is a feature file, which node-feature-discovery makes labels of below
feature.node.kubernetes.io/. The agent keeps such a file up to date by itself where labels.file is
set; this command is for a look, and for nodes without an agent. The file says until when it holds
(labels.expiry).

The driver is looked at three times in two seconds; whether a GPU is healthy is told by this moment
alone.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Where to, and in which form."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--output", metavar="FILE", type=Path, help="write the feature file here, whole or not"
    )
    form.add_argument("--json", action="store_true", help="answer in JSON")
    add_scenario_flag(parser, "the real driver")
    add_config_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print or write the labels.

    Raises:
        RightsizerError: there is no GPU, or the file cannot be written.
    """
    clock = SystemClock()
    with looked_at(settings_of(arguments, Settings), arguments.scenario) as settings:
        named = labels_by_look(settings, clock)
    if arguments.json:
        say(json.dumps(named, indent=1))
        return 0
    text = timed_feature_file(named, settings, clock)
    if arguments.output is None:
        say(text.rstrip("\n"))
        return 0
    with whole_file(arguments.output, "the feature file") as file:
        file.write(text.encode())
    return 0


COMMAND = Command("labels", configure, run, _DESCRIPTION)
