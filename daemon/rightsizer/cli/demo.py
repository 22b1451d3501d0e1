"""`rightsizer demo`: a simulated node in fast motion, with a week of history."""

import argparse
import math
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.agent.agent import Agent
from rightsizer.agent.service import serve
from rightsizer.agent.settings import Settings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.cli.agent import add_access_flags
from rightsizer.console.command import Command, add_flags, help_of, say
from rightsizer.console.flags import checked_address, with_values
from rightsizer.console.progress import ProgressLine
from rightsizer.io.clock import FastClock
from rightsizer.io.log_settings import LogLevel
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    Snapshot,
    format_duration,
    nanoseconds,
    seconds,
)
from rightsizer.simulator.engines import served_engines
from rightsizer.simulator.packaged import packaged_scenarios
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import SimulatedSource
from rightsizer.telemetry.serving.settings import ServingEndpoint
from rightsizer.web.listener import listening_socket
from rightsizer.web.server import WebAccess
from rightsizer.web.settings import parse_address

_HELP: Final = help_of(__file__)
DEFAULT_SCENARIO: Final = "eight-gpu-node"
_DAY: Final = 86400.0
_SHOWN_SECONDS: Final = 14.5 * 3600.0
"""Time of a built-in scenario's day that a demonstration ends at, whatever the hour."""


_TOLD_EVERY: Final[Nanoseconds] = nanoseconds(_DAY) // 8
"""Simulated time after which progress is told again. Source: assumed: eight lines a day."""


class DemoSettings(Struct, frozen=True):
    """Settings of the demonstration."""

    scenario: str = DEFAULT_SCENARIO
    midnight_seconds: float = 0.0
    """When the scenario's day begins, after 00:00 UTC."""
    listen_address: str = "127.0.0.1:19400"
    speed: float = 720.0
    """Simulated seconds per second: a day in two minutes."""
    tick_seconds: float = 10.0
    """Simulated time between two readings."""
    days_before: float = 7.0
    memory_tick_seconds: float = 1800.0
    """Simulated time between two readings of the preceding days."""
    deadline_seconds: float = 0.8
    """Real time limit of a reading; simulated time stands still meanwhile."""
    web_config_file: str = ""
    enable_lifecycle: bool = False


class DemoClock(FastClock):
    """A fast clock that slows to real time once it has caught up, and tells its progress."""

    def __init__(
        self,
        start: Nanoseconds,
        speed: float,
        now: Callable[[], Nanoseconds] = time.time_ns,
        tell_progress: Callable[[Nanoseconds, float], None] = lambda *_: None,
    ) -> None:
        """Create it; `tell_progress` takes how far it is behind, and the pace since last told."""
        super().__init__(start, speed)
        self._fast = speed
        self._world_time = now
        self._tell_progress = tell_progress
        self._told: tuple[Nanoseconds, Nanoseconds] | None = None
        """Real and simulated time of the first wait, and of the last that was told."""

    def wait_until(self, deadline: Nanoseconds, stop: threading.Event) -> bool:
        """Jump while behind real time, else wait in real time."""
        world = self._world_time()
        self.speed = self._fast if deadline < world else 1.0
        passed = self.wall_time()
        real, simulated = self._told = self._told or (world, passed)
        if deadline < world and real < world and passed - simulated >= _TOLD_EVERY:
            self._told = world, passed
            self._tell_progress(world - passed, (passed - simulated) / (world - real))
        return super().wait_until(deadline, stop)


def run_demo(
    demo: DemoSettings,
    tell: Callable[[str], None],
    world_time: Callable[[], Nanoseconds] = time.time_ns,
) -> None:
    """Run until a signal; print addresses and progress.

    The simulated day ends at `world_time`, which is an afternoon in a built-in scenario, and in a
    file the time that it is.

    Raises:
        RightsizerError: the scenario or the address is unavailable.
    """
    five_minutes = 300 * NANOSECONDS_PER_SECOND
    now = world_time()

    def tell_progress(behind: Nanoseconds, pace: float) -> None:
        # Real time passes meanwhile too, and has to be caught up with.
        if pace > 1.0:
            rest = format_duration(seconds(behind) / (pace - 1.0))
            share = 1.0 - seconds(behind) / _DAY
            tell(f"{share:.0%} of the simulated day has passed; at this pace {rest} are left.")

    start = now - now % five_minutes - nanoseconds(_DAY)
    clock = DemoClock(start, demo.speed, world_time, tell_progress)
    demo = told_at(demo, clock.wall_time())

    def prepare(agent: Agent) -> None:
        tell(f"Simulating {demo.scenario}; remembering {demo.days_before:g} days first ...")
        shows = sys.stderr.isatty()
        with ProgressLine(sys.stderr) if shows else nullcontext(lambda *_: None) as progress:
            backfill(agent, demo, clock.wall_time(), progress)

    def announce(agent: Agent) -> None:
        tell("One simulated day passes first, then time goes on as usual.")
        for address in agent.server.addresses:
            tell(pages_text(address, agent.server.scheme))

    scenario = load_scenario(demo.scenario, built_in(), demo.midnight_seconds)
    with (
        # Bound from here on, so that a port in use is known before the days are simulated.
        listening_socket(parse_address(demo.listen_address)) as listening,
        # Database of reports, for the time of the run.
        tempfile.TemporaryDirectory(prefix="rightsizer-demo-") as folder,
        served_engines(scenario, clock.wall_time) as endpoints,
    ):
        settings = agent_settings(demo, Path(folder), endpoints)

        def admit(access: WebAccess) -> WebAccess:
            is_open = not demo.web_config_file
            return replace(access, is_open=is_open, sockets=(listening,))

        serve(settings, clock, prepare=prepare, announce=announce, admit=admit)


def told_at(demo: DemoSettings, end: Nanoseconds) -> DemoSettings:
    """Return the settings with which a built-in scenario's story is the same at any hour."""
    if demo.scenario not in packaged_scenarios():
        return demo
    midnight = end / NANOSECONDS_PER_SECOND - _SHOWN_SECONDS
    return replace(demo, midnight_seconds=midnight % _DAY)


def pages_text(address: str, scheme: str = "http") -> str:
    """List the pages of an agent that was just started."""
    return (
        f"  page      {scheme}://{address}/\n"
        f"  metrics   {scheme}://{address}/metrics\n"
        f"  JSON      {scheme}://{address}/api/v1/advice\n"
        f"  terminal  {_command()} top --url {scheme}://{address}\n"
        f"            {_command()} advise --url {scheme}://{address}\n"
        "Stop it with Ctrl-C."
    )


def _command() -> str:
    """Return how to call `rightsizer` in a terminal: by path if it is not on PATH."""
    installed = Path(sys.executable).with_name("rightsizer")
    if shutil.which("rightsizer") is not None or not installed.exists():
        return "rightsizer"
    return os.path.relpath(installed) if installed.is_relative_to(Path.cwd()) else str(installed)


def backfill(
    agent: Agent,
    demo: DemoSettings,
    until: Nanoseconds,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> None:
    """Account for the preceding days directly from the physical model.

    `progress` takes a stage, and the numbers of done and all readings.
    """
    interval = nanoseconds(demo.memory_tick_seconds)
    # Whole ticks, so that the last one ends where the demonstration begins.
    span = nanoseconds(demo.days_before * _DAY) // interval * interval
    if span <= 0:
        return
    catalogue = built_in()
    source = SimulatedSource(
        load_scenario(demo.scenario, catalogue, demo.midnight_seconds),
        catalogue,
        start=until - span,
        interval=interval,
        duration=span + 1,  # Including the final reading, from which the next phase continues.
    )

    def readings() -> Iterator[Snapshot]:
        for number, snapshot in enumerate(iter(source.read, None)):
            yield snapshot
            progress("history", number, span // interval)

    agent.accounting.backfill(readings(), until)


def agent_settings(
    demo: DemoSettings, folder: Path, endpoints: Sequence[ServingEndpoint] = ()
) -> Settings:
    """Return the agent's settings, with its history in a folder, and the scenario's engines."""
    values = {
        "sampling.interval": demo.tick_seconds,
        "sources.simulated.scenario": demo.scenario,
        "sources.simulated.midnight": demo.midnight_seconds,
        "sources.nvml.deadline_seconds": demo.deadline_seconds,
        "sources.serving.endpoints": tuple(endpoints),
        # Simulated time too: a page must outlive some ticks.
        "sources.serving.interval_seconds": 6 * demo.tick_seconds,
        "history.path": str(folder / "history.db"),
        # In fast motion the default would flush many times a second.
        "history.flush_interval": 1800.0,
        "recommender.jitter": 0.0,
        "web.listen_addresses": (demo.listen_address,),
        "web.config_file": demo.web_config_file,
        "web.enable_lifecycle": demo.enable_lifecycle,
        "web.server.page_refresh_seconds": 5.0,
        "web.server.plan_form": True,
        "log.level": LogLevel.WARNING,
        # The socket belongs to the agent of this machine's GPUs.
        "path.api_socket": "",
    }
    return with_values(Settings(), values)


def _configure(parser: argparse.ArgumentParser) -> None:
    default = DemoSettings()
    scenario = "a built-in scenario, or a scenario file"
    parser.add_argument("--scenario", default=default.scenario, help=scenario)
    address = {"default": default.listen_address}
    add_flags(parser.add_argument, _HELP["address"], web_listen_address=address)
    add_access_flags(parser)
    minimum = math.nextafter(0.0, 1.0)
    maximum = sys.float_info.max
    positive = partial(_number, minimum=minimum, maximum=maximum, what="a positive number")
    # The longest window is thirty days.
    month = partial(_number, minimum=0, maximum=30, what="a number of days from 0 to 30")
    speed = {"type": positive, "default": default.speed}
    days = {"type": month, "default": default.days_before}
    add_flags(parser.add_argument, _HELP["pace"], speed=speed, days_before=days)


def _run(arguments: argparse.Namespace) -> int:
    run_demo(
        DemoSettings(
            scenario=arguments.scenario,
            listen_address=checked_address(arguments.web_listen_address),
            speed=arguments.speed,
            days_before=arguments.days_before,
            web_config_file=arguments.web_config_file or "",
            enable_lifecycle=arguments.web_enable_lifecycle,
        ),
        say,
    )
    return 0


def _number(text: str, minimum: float, maximum: float, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number") from None
    if not minimum <= value <= maximum:
        raise argparse.ArgumentTypeError(f"'{text}' is not {what}")
    return value


COMMAND = Command("demo", _configure, _run)
