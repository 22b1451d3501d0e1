"""`rightsizer labels`: this node's labels for Kubernetes, as a feature file."""

import argparse
from pathlib import Path
from typing import Final

from rightsizer.agent.scheduler_documents import labels_of_node, timed_feature_file
from rightsizer.agent.settings import Settings
from rightsizer.cli.scenario_flag import add_scenario_flag, scenario_settings
from rightsizer.console.command import Command, add_flags, help_of, say
from rightsizer.console.flags import add_config_flag, settings_of
from rightsizer.io.clock import SystemClock
from rightsizer.io.codec import indented
from rightsizer.io.files import whole_file

_HELP: Final = help_of(__file__)


def _configure(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    add_flags(group.add_argument, _HELP["flags"], output=Path)
    add_scenario_flag(parser, "the real driver")
    add_config_flag(parser)


def _run(arguments: argparse.Namespace) -> int:
    clock = SystemClock()
    with scenario_settings(settings_of(arguments, Settings), arguments.scenario) as settings:
        named = labels_of_node(settings, clock)
    text = timed_feature_file(named, settings, clock)
    if arguments.output is None:
        say(indented(named) if arguments.json else text.rstrip("\n"))
    else:
        with whole_file(arguments.output, "the feature file") as file:
            file.write(text.encode())
    return 0


COMMAND = Command("labels", _configure, _run, _HELP["description"])
