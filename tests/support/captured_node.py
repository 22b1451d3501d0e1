"""A program: an accelerated agent on a node with a starved GPU, from any hour on.

Its arguments are a configuration file, the speed, and the second of the day at which it begins.
"""

import sys
from pathlib import Path

from rightsizer.agent.service import serve
from rightsizer.agent.settings import Settings
from rightsizer.config.loader import load_sections
from rightsizer.io.clock import FastClock
from rightsizer.model.units import nanoseconds
from rightsizer.simulator.source import DEFAULT_START


def main(config: str, speed: str, second: str) -> None:
    """Run until a signal ends it."""
    clock = FastClock(DEFAULT_START + nanoseconds(float(second)), float(speed))
    file = Path(config)
    serve(load_sections(Settings, file, constants=file.with_name("constants.json")), clock)


if __name__ == "__main__":
    main(*sys.argv[1:])
