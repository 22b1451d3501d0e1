"""Capture service: drop folder, controller, runner and storage of an agent."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rightsizer.io.clock import Clock
from rightsizer.io.jobs import Job
from rightsizer.model.errors import HistoryError
from rightsizer.model.metric_family import series_key
from rightsizer.profiler.capture.controller import CaptureController
from rightsizer.profiler.capture.drop_folder import DropFolderWatcher
from rightsizer.profiler.capture.encoder import CaptureState
from rightsizer.profiler.capture.feature import ProfileConsumer
from rightsizer.profiler.capture.repository import CaptureRepository
from rightsizer.profiler.capture.request import CaptureContext
from rightsizer.profiler.capture.runner import ThreadedCaptureRunner
from rightsizer.profiler.capture.settings import CaptureKind, CaptureSettings, DropFolderSettings
from rightsizer.profiler.capture.storage import CaptureStorage
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.source import ReleaseController, ReleaseRequest

_LOOK_SECONDS: Final = 60.0


class CaptureService:
    """The drop folder, and the desk that has profiles taken if there is one."""

    def __init__(  # noqa: PLR0913 - what it brings together.
        self,
        drop_folder: DropFolderSettings,
        capture: CaptureSettings,
        witness: CaptureContext,
        book: CaptureRepository,
        taker: ProfileConsumer,
        *,
        limits: Callable[[], ReadLimits],
        controls: ReleaseController,
        still_held: Callable[[ReleaseRequest], str | None],
        clock: Clock,
    ) -> None:
        """A station that does nothing yet; its arguments are those of its parts."""
        self._kind, self._book = capture.kind, book
        self._interval = drop_folder.interval
        folder = Path(drop_folder.path)
        self._intake = DropFolderWatcher(drop_folder, limits, book, taker)
        self._desk: CaptureController | None = None
        if capture.kind is not CaptureKind.NONE:
            room = CaptureStorage(folder, capture.room)
            caller = ThreadedCaptureRunner(
                capture, room, book, controls=controls, still_held=still_held, clock=clock
            )
            self._desk = CaptureController(
                capture, witness, caller, book, folder=folder, clock=clock
            )

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
