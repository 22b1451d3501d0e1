"""All that has to do with profiles as they land, wired: for an agent whose settings ask for it."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rightsizer.domain.errors import HistoryError
from rightsizer.domain.metric_family import series_key
from rightsizer.edge.clock import Clock
from rightsizer.profiles.reader import ReadLimits
from rightsizer.runtime.capture.book import CaptureBook
from rightsizer.runtime.capture.caller import ThreadCaller
from rightsizer.runtime.capture.desk import CaptureDesk
from rightsizer.runtime.capture.intake import Intake
from rightsizer.runtime.capture.room import Room
from rightsizer.runtime.capture.settings import CaptureKind, CaptureSettings, DropFolderSettings
from rightsizer.runtime.capture.state import CaptureState
from rightsizer.runtime.capture.stationing import Taker
from rightsizer.runtime.capture.witness import Witness
from rightsizer.runtime.jobs import Job
from rightsizer.telemetry.controls import Controls, Release

__all__ = ["Station"]

_LOOK_SECONDS: Final = 60.0


class Station:
    """The drop folder, and the desk that has profiles taken if there is one."""

    def __init__(  # noqa: PLR0913 - what it brings together.
        self,
        drop_folder: DropFolderSettings,
        capture: CaptureSettings,
        witness: Witness,
        book: CaptureBook,
        taker: Taker,
        *,
        limits: Callable[[], ReadLimits],
        controls: Controls,
        still_held: Callable[[Release], str | None],
        clock: Clock,
    ) -> None:
        """A station that does nothing yet; its arguments are those of its parts."""
        self._kind, self._book = capture.kind, book
        self._interval = drop_folder.interval
        folder = Path(drop_folder.path)
        self._intake = Intake(drop_folder, limits, book, taker)
        self._desk: CaptureDesk | None = None
        if capture.kind is not CaptureKind.NONE:
            room = Room(folder, capture.room)
            caller = ThreadCaller(
                capture, room, book, controls=controls, still_held=still_held, clock=clock
            )
            self._desk = CaptureDesk(capture, witness, caller, book, folder=folder, clock=clock)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """What runs at intervals."""
        reading = Job("profiles", self._intake.look, self._interval)
        if self._desk is None:
            return (reading,)
        return (reading, Job("capture", self._desk.look, _LOOK_SECONDS))

    def start(self) -> None:
        """See to what the last agent left."""
        if self._desk is not None:
            with contextlib.suppress(HistoryError):  # Whoever looks next is told.
                self._desk.start()

    def stop(self) -> None:
        """End what is under way, before the history closes."""
        self._intake.stop()
        if self._desk is not None:
            self._desk.stop()

    def counters(self) -> dict[str, float]:
        """How captures ended, by the names of metrics."""
        if self._desk is None:
            return {}
        return {
            series_key("rightsizer_captures_total", outcome=outcome): float(count)
            for outcome, count in self._desk.counts.items()
        }

    def state(self) -> CaptureState:
        """What the API tells."""
        desk = self._desk
        return CaptureState(
            str(self._kind),
            () if desk is None else desk.records(),
            () if desk is None else desk.candidates,
            sorted(self._book.files().values(), key=lambda each: each.path),
        )
