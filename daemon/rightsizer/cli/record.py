"""`rightsizer record`: write readings to a file, for replay elsewhere."""

import argparse
import sys
import threading
from math import inf
from pathlib import Path

from rightsizer.agent.coordinator import Coordinator
from rightsizer.agent.settings import Settings
from rightsizer.agent.sources import live_source
from rightsizer.cli.agent import add_source_flags, with_source_flags
from rightsizer.console.command import Command, add_flags
from rightsizer.console.flags import add_config_flag, duration, settings_of, with_values
from rightsizer.io.clock import Clock, SystemClock
from rightsizer.io.log import configure as configure_log
from rightsizer.io.systemd import stop_on_signals
from rightsizer.io.terminal import counted
from rightsizer.model.values import RecordingError, Snapshot, nanoseconds
from rightsizer.recordings.writer import RecordingWriter


def _configure(parser: argparse.ArgumentParser) -> None:
    file = "the recording; compressed if it ends in .gz"
    parser.add_argument("file", type=Path, metavar="FILE", help=file)
    flags = f"""
--duration TIME: how long to record, as in 90s or 10m; without it until a signal comes
--interval TIME: time between two readings, as in 500ms or 5s; setting: sampling.interval
  (default: {Settings().sampling.interval:g}s)
"""
    add_flags(parser.add_argument, flags, duration=duration, interval=duration)
    add_source_flags(parser)
    add_config_flag(parser)


def _run(arguments: argparse.Namespace) -> int:
    settings = with_source_flags(settings_of(arguments, Settings), arguments)
    settings = with_values(settings, {"sampling.interval": arguments.interval})
    configure_log(settings.log.format, settings.log.level)
    clock = SystemClock()
    stop = stop_on_signals()
    duration = arguments.duration
    source = live_source(settings, clock).source
    try:
        with RecordingWriter(arguments.file) as writer:
            until = inf if duration is None else clock.time() + nanoseconds(duration)
            recorder = _Recorder(writer, clock, stop, until)
            interval = nanoseconds(settings.sampling.interval)
            Coordinator(source, clock, interval, recorder.keep).run(stop)
    finally:
        source.close()
    if recorder.failure is not None:
        raise recorder.failure
    if not recorder.kept:
        why = "stopped before anything was read, no file is kept; record longer"
        raise RecordingError(f"{arguments.file}: {why}")
    print(f"{arguments.file}: {counted(recorder.kept, 'snapshot')}", file=sys.stderr)
    if recorder.trouble is not None:
        print(f"rightsizer: warning: {recorder.trouble}", file=sys.stderr)
    return 0


class _Recorder:
    """Writes snapshots until the time is over or the disk is full."""

    def __init__(
        self, writer: RecordingWriter, clock: Clock, stop: threading.Event, until: float
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._stop = stop
        self._until = until
        self.kept = 0
        self.failure: RecordingError | None = None
        self.trouble: str | None = None
        """Why the last snapshot had no devices, or `None`."""

    def keep(self, snapshot: Snapshot) -> None:
        """Write a snapshot."""
        try:
            self._writer.write(snapshot)
            self.kept += 1
        except RecordingError as error:
            self.failure = error
        self.trouble = snapshot.trouble
        if self._clock.time() >= self._until or self.failure is not None:
            self._stop.set()


COMMAND = Command("record", _configure, _run)
