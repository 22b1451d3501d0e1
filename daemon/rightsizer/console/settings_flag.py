"""The flag of commands that have settings, and the settings that it names."""

import argparse
import os
from pathlib import Path

from rightsizer.agent.settings import OTHERS, Settings
from rightsizer.config.loader import load, load_file


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
