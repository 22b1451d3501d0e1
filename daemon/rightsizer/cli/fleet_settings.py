"""The settings of an estate's recommender, from the command line's file and the environment."""

import argparse
import os

from rightsizer.config.loader import load, load_file
from rightsizer.runtime.fleet.settings import WholeSettings

__all__ = ["fleet_settings_of"]


def fleet_settings_of(arguments: argparse.Namespace) -> WholeSettings:
    """The settings of the file that the flag names, and of the environment over it.

    Raises:
        ConfigurationError: either has faults.
    """
    file = arguments.config_file
    if file is None:
        return load(WholeSettings, "", "", os.environ)
    return load_file(WholeSettings, file, os.environ)
