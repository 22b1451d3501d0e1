"""`rightsizer labels`: this node's labels for Kubernetes, as a feature file."""

import argparse
from pathlib import Path
from typing import Final

from rightsizer.agent.scheduler_documents import labels_by_look, timed_feature_file
from rightsizer.agent.settings import Settings
from rightsizer.cli.scenario_flag import add_scenario_flag, looked_at
from rightsizer.console.command import Command, add_flags, answer
from rightsizer.console.flags import add_config_flag, settings_of
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


_FLAGS: Final = """
--output FILE: write the feature file here, whole or not
--json: answer in JSON
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Where to, and in which form."""
    form = parser.add_mutually_exclusive_group()
    add_flags(form.add_argument, _FLAGS, output=Path)
    add_scenario_flag(parser, "the real driver")
    add_config_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print or write the labels."""
    clock = SystemClock()
    with looked_at(settings_of(arguments, Settings), arguments.scenario) as settings:
        named = labels_by_look(settings, clock)
    text = timed_feature_file(named, settings, clock)
    if arguments.output is None:
        answer(arguments, named, text.rstrip("\n"))
    else:
        with whole_file(arguments.output, "the feature file") as file:
            file.write(text.encode())
    return 0


COMMAND = Command("labels", configure, run, _DESCRIPTION)
