"""An agent whose driver library is timed from outside: CPU inside it, and calls.

A program of its own: the timing costs time itself, so that the agent's own figures are taken of
another run.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pynvml
from msgspec.structs import replace

from rightsizer.agent.agent import Agent
from rightsizer.agent.service import serve
from rightsizer.agent.settings import Settings
from rightsizer.io.log_settings import LogLevel
from rightsizer.telemetry.nvml.library import use_library
from rightsizer.telemetry.settings import SimulatedSettings


class TimedSymbol:
    """A function of the library that adds up its calls and its thread's CPU."""

    def __init__(self, library: "TimedLibrary", function: Callable[..., Any]) -> None:
        self.restype: Any = None
        self._library = library
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        """Call it, and add its CPU time."""
        started = time.thread_time_ns()
        try:
            return self._function(*arguments)
        finally:
            # Threads may lose one another's additions; there are too few for it to show.
            self._library.nanoseconds += time.thread_time_ns() - started
            self._library.calls += 1


class TimedLibrary:
    """A library around another one."""

    def __init__(self, library: Any) -> None:
        self._inside = library
        self._symbols: dict[str, TimedSymbol] = {}
        self.calls = 0
        self.nanoseconds = 0

    def __getattr__(self, name: str) -> TimedSymbol:
        symbol = self._symbols.get(name)
        if symbol is None:
            symbol = self._symbols[name] = TimedSymbol(self, getattr(self._inside, name))
        return symbol


def main(duration_seconds: float) -> None:
    """Run an agent for a while, and print the cost of its driver."""
    base = Settings()
    settings = replace(
        base,
        sources=replace(base.sources, simulated=SimulatedSettings(scenario="eight-gpu-node")),
        history=replace(base.history, path=""),
        web=replace(base.web, listen_addresses=("127.0.0.1:0",)),
        log=replace(base.log, level=LogLevel.WARNING),
    )

    def prepare(agent: Agent) -> None:
        library = TimedLibrary(pynvml.nvmlLib)
        use_library(library)
        threading.Thread(
            target=_watch, args=(agent, library, duration_seconds), daemon=True
        ).start()

    serve(settings, prepare=prepare)


def _watch(agent: Agent, library: TimedLibrary, duration_seconds: float) -> None:
    time.sleep(duration_seconds / 4)
    before = agent.coordinator.samples, library.calls, library.nanoseconds
    time.sleep(duration_seconds)
    after = agent.coordinator.samples, library.calls, library.nanoseconds
    ticks, calls, nanoseconds = (last - first for first, last in zip(before, after, strict=True))
    print(
        json.dumps({"ticks": ticks, "calls": calls, "cpu_seconds": nanoseconds / 1e9}), flush=True
    )
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(float(sys.argv[1]))
