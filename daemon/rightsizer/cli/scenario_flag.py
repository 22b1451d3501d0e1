"""Flag that selects a simulated node, and settings with it."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rightsizer.console.flags import with_values
from rightsizer.simulator.packaged import packaged_scenarios

if TYPE_CHECKING:
    from rightsizer.agent.settings import Settings


def add_scenario_flag(parser: argparse.ArgumentParser, instead_of: str) -> None:
    """Add the flag that selects a simulated node instead of something else."""
    scenarios = ", ".join(packaged_scenarios())
    help_text = f"simulated node in place of {instead_of}: {scenarios}, or a scenario file"
    names = "--simulated.scenario", "--scenario"
    parser.add_argument(*names, dest="scenario", metavar="NAME", help=help_text)


@contextlib.contextmanager
def scenario_settings(settings: Settings, scenario: str | None) -> Iterator[Settings]:
    """Yield settings with the simulated node; its driver is removed afterwards.

    Meanwhile only errors are logged: the output is the command's.
    """
    # Imported on use: not needed with an agent.
    from rightsizer.io.log import configure as configure_log  # noqa: PLC0415
    from rightsizer.io.log_settings import LogLevel  # noqa: PLC0415
    from rightsizer.telemetry.nvml.library import use_library  # noqa: PLC0415

    configure_log(settings.log.format, LogLevel.ERROR)
    settings = with_values(settings, {"sources.simulated.scenario": scenario or None})
    is_simulated = bool(settings.sources.simulated.scenario)
    if is_simulated:  # Such a node has no files of this machine's kernel.
        settings = with_values(settings, dict.fromkeys(("path.procfs", "path.sysfs"), os.devnull))
    try:
        yield settings
    finally:
        if is_simulated:
            use_library(None)
