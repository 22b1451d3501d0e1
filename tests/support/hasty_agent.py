"""An agent whose hours pass as many times as fast as its first argument says: a program."""

import sys
import time
from functools import partial

from rightsizer.agent.service import serve
from rightsizer.cli import agent
from rightsizer.cli.main import main as rightsizer
from rightsizer.io.clock import FastClock
from rightsizer.model.units import HOUR

if __name__ == "__main__":
    now = time.time_ns()
    clock = FastClock(now - now % HOUR, float(sys.argv[1]))
    vars(agent)["serve"] = partial(serve, clock=clock)
    sys.exit(rightsizer(["agent", *sys.argv[2:]]))
