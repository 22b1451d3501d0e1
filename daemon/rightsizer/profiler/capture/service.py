"""Capture service: drop folder, controller, runner and storage of an agent."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rightsizer.io.clock import Clock
from rightsizer.io.jobs import Job
from rightsizer.model.profile import Profile
from rightsizer.model.values import HistoryError, series_key
from rightsizer.profiler.capture.controller import CaptureController
from rightsizer.profiler.capture.drop_folder import DropFolderWatcher
from rightsizer.profiler.capture.feature import CaptureContext, CaptureState
from rightsizer.profiler.capture.repository import CaptureRepository, CaptureStorage
from rightsizer.profiler.capture.runner import ThreadedCaptureRunner
from rightsizer.profiler.capture.settings import CaptureKind, CaptureSettings, DropFolderSettings
from rightsizer.profiles.limits import ReadLimits
from rightsizer.telemetry.source import ReleaseController, StillHeld

_LOOK_SECONDS: Final = 60.0


class CaptureService:
    """Drop folder, and the controller of captures if configured."""

    def __init__(  # noqa: PLR0913 - composition of its parts.
        self,
        drop_folder: DropFolderSettings,
        capture: CaptureSettings,
        context: CaptureContext,
        repository: CaptureRepository,
        take: Callable[[Sequence[Profile]], object],
        *,
        limits: Callable[[], ReadLimits],
        controls: ReleaseController,
        still_held: StillHeld,
        clock: Clock,
    ) -> None:
        self._kind = capture.kind
        self._repository = repository
        self._interval = drop_folder.interval
        self._watcher = DropFolderWatcher(drop_folder, limits, repository, take)
        self._controller: CaptureController | None = None
        if capture.kind is not CaptureKind.NONE:
            storage = CaptureStorage(Path(drop_folder.path), capture.room)
            runner = ThreadedCaptureRunner(
                capture, storage, repository, controls=controls, still_held=still_held, clock=clock
            )
            self._controller = CaptureController(
                capture, context, runner, repository, storage=storage, clock=clock
            )

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Jobs at intervals."""
        reading = Job("profiles", self._watcher.poll, self._interval)
        if self._controller is None:
            return (reading,)
        return (reading, Job("capture", self._controller.run, _LOOK_SECONDS))

    def start(self) -> None:
        """Clean up what the previous agent left."""
        if self._controller is not None:
            with contextlib.suppress(HistoryError):  # The next run reports it.
                self._controller.start()

    def stop(self) -> None:
        """End work under way, before the history closes."""
        self._watcher.stop()
        if self._controller is not None:
            self._controller.stop()

    def metrics(self) -> dict[str, float]:
        """Captures since the start, by outcome."""
        if self._controller is None:
            return {}
        return {
            series_key("rightsizer_captures_total", outcome=outcome): float(count)
            for outcome, count in self._controller.counts.items()
        }

    def state(self) -> CaptureState:
        """State for the API."""
        controller = self._controller
        return CaptureState(
            str(self._kind),
            () if controller is None else controller.records(),
            () if controller is None else controller.candidates,
            sorted(self._repository.files().values(), key=lambda file: file.path),
        )
