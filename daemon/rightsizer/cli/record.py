"""`rightsizer record`: keep what is read, to replay it elsewhere."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from rightsizer.cli.agent import add_source_flags, with_source_flags
from rightsizer.cli.command import Command, add_config_flag, duration, settings_of
from rightsizer.domain.snapshot import Snapshot
from rightsizer.domain.units import nanoseconds
from rightsizer.edge.clock import SystemClock
from rightsizer.runtime.coordinator import Coordinator
from rightsizer.runtime.log import configure as configure_log
from rightsizer.runtime.service import stop_on_signals
from rightsizer.runtime.sources import live_source
from rightsizer.telemetry.recorded.writer import RecordingWriter

__all__ = ["COMMAND"]


def configure(parser: argparse.ArgumentParser) -> None:
    """What to record, for how long, and where to."""
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="the recording; compressed if it ends in .gz"
    )
    parser.add_argument(
        "--duration",
        type=duration,
        metavar="TIME",
        help="how long to record, as in 90s or 10m; until a signal otherwise",
    )
    parser.add_argument(
        "--interval",
        type=duration,
        metavar="TIME",
        help="time between two readings; the configuration's sampling.interval otherwise",
    )
    add_source_flags(parser)
    add_config_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Record until the time is over or a signal comes; what was read is kept either way."""
    settings = with_source_flags(settings_of(arguments), arguments)
    if arguments.interval is not None:
        settings = replace(
            settings, sampling=replace(settings.sampling, interval=arguments.interval)
        )
    configure_log(settings.log.format, settings.log.level)
    clock, stop = SystemClock(), stop_on_signals()
    interval = nanoseconds(settings.sampling.interval)
    with RecordingWriter(arguments.file) as writer:
        source = live_source(settings, clock).source
        until = (
            None if arguments.duration is None else clock.time() + nanoseconds(arguments.duration)
        )

        def keep(snapshot: Snapshot) -> None:
            writer.write(snapshot)
            if until is not None and clock.time() >= until:
                stop.set()

        coordinator = Coordinator(source, clock, interval, keep)
        try:
            coordinator.run(stop)
        finally:
            source.close()
    print(f"{arguments.file}: {coordinator.samples} snapshots", file=sys.stderr)
    return 0


COMMAND = Command("record", "keep what is read in a file", configure, run)
