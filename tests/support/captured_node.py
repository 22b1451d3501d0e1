"""A program: an agent in fast motion on a node whose loader starves its GPU, from any hour on.

Its arguments are a configuration file, the speed, and the second of the day at which it begins.
"""

import sys
from pathlib import Path

from rightsizer.config.loader import load_file
from rightsizer.domain.units import nanoseconds
from rightsizer.edge.clock import FastClock
from rightsizer.runtime.service import serve
from rightsizer.runtime.settings import Settings
from rightsizer.telemetry.simulated.source import DEFAULT_START


def main(config: str, speed: str, second: str) -> None:
    """Until a signal ends it."""
    clock = FastClock(DEFAULT_START + nanoseconds(float(second)), float(speed))
    serve(load_file(Settings, Path(config)), clock)


if __name__ == "__main__":
    main(*sys.argv[1:])
