"""Flags that name settings, the history, and a simulated node."""

import argparse
import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from rightsizer.agent.local_api import FLUSH_PATH
from rightsizer.agent.settings import OTHERS, Settings, SimulatedSettings
from rightsizer.config.loader import load, load_file
from rightsizer.io.local import LocalClient
from rightsizer.io.log import LogLevel
from rightsizer.io.log import configure as configure_log
from rightsizer.model.errors import HistoryError, RightsizerError
from rightsizer.simulator.scenario_files import packaged_scenarios
from rightsizer.telemetry.nvml.library import use_library


def add_config_flag(parser: argparse.ArgumentParser) -> None:
    """The flag that every command with settings has."""
    parser.add_argument(
        "--config.file",
        dest="config_file",
        type=Path,
        metavar="FILE",
        help="configuration file; without one every setting has its default. Environment variables "
        "like RIGHTSIZER_LOG__LEVEL go before it",
    )


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The settings of the file that the flag names, and of the environment over it.

    Raises:
        ConfigurationError: either has faults.
    """
    file = arguments.config_file
    if file is None:
        return load(Settings, "", "", os.environ, OTHERS)
    return load_file(Settings, file, os.environ, OTHERS)


def add_history_flag(parser: argparse.ArgumentParser) -> None:
    """`--history.path`."""
    parser.add_argument(
        "--history.path",
        dest="history_path",
        type=Path,
        metavar="FILE",
        help="the history; without it history.path of the configuration "
        f"(default: {Settings().history.path})",
    )


def history_path(arguments: argparse.Namespace, settings: Settings) -> Path:
    """The history that the flag or the configuration names.

    Raises:
        HistoryError: none is kept.
    """
    path = arguments.history_path or settings.history.path
    if not path:
        raise HistoryError("no history is kept; set history.path or give --history.path")
    return Path(path)


def write_up_to_now(settings: Settings) -> None:
    """Ask a running agent to write what it knows; without one the history is as it is."""
    if not settings.path.api_socket:
        return
    try:
        LocalClient(Path(settings.path.api_socket)).post(FLUSH_PATH, {})
    except RightsizerError:
        return  # No agent runs, or not for us: what it wrote last is a minute old at most.


_NOWHERE: Final = os.devnull
"""A simulated node has no files of this machine's kernel."""


def add_scenario_flag(parser: argparse.ArgumentParser, instead_of: str) -> None:
    """The flag.

    Args:
        parser: The command's.
        instead_of: What is not asked then.
    """
    parser.add_argument(
        "--simulated.scenario",
        "--scenario",
        dest="scenario",
        metavar="NAME",
        help=f"look at a simulated node in place of {instead_of}: one of "
        f"{', '.join(packaged_scenarios())}, or a scenario file",
    )


@contextlib.contextmanager
def looked_at(settings: Settings, scenario: str | None) -> Iterator[Settings]:
    """Settings to look by: with a simulated node in them, whose driver is taken away afterwards.

    Nothing but errors is logged meanwhile: the answer is what the command prints.
    """
    configure_log(settings.log.format, LogLevel.ERROR)
    if scenario:
        simulated = SimulatedSettings(scenario=scenario)
        settings = replace(settings, sources=replace(settings.sources, simulated=simulated))
    is_simulated = bool(settings.sources.simulated.scenario)
    if is_simulated:
        path = replace(settings.path, procfs=_NOWHERE, sysfs=_NOWHERE)
        settings = replace(settings, path=path)
    try:
        yield settings
    finally:
        if is_simulated:
            use_library(None)
