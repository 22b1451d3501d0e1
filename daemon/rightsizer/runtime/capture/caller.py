"""Carries one capture out on a thread of its own, with the profiling counters let go meanwhile."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

import structlog

from rightsizer.domain.errors import RightsizerError
from rightsizer.domain.units import Nanoseconds
from rightsizer.edge.clock import Clock
from rightsizer.runtime.capture.book import CaptureBook, CaptureRecord
from rightsizer.runtime.capture.called import Called, CaptureOutcome
from rightsizer.runtime.capture.command import run_command
from rightsizer.runtime.capture.dynolog import judged, words
from rightsizer.runtime.capture.request import CaptureRequest
from rightsizer.runtime.capture.room import Room
from rightsizer.runtime.capture.settings import CaptureKind, CaptureSettings
from rightsizer.runtime.placeholders import filled
from rightsizer.runtime.process_mark import started_of
from rightsizer.runtime.program import Limits
from rightsizer.telemetry.controls import Controls, Held, Release

__all__ = ["ASKER", "ThreadCaller"]

ASKER: Final = "capture"
"""Whose release of the counters it is; an operator's stands by itself."""
_RELEASE_SECONDS: Final = 10.0
"""How long to wait for the counters to be let go: some rounds of the slowest driver."""
_LOOK_SECONDS: Final = 0.05
_STOP_SECONDS: Final = 5.0
_StillHeld = Callable[[Release], str | None]


class ThreadCaller:
    """Calls whom the settings name; one capture at a time. Times are the world's."""

    def __init__(  # noqa: PLR0913 - the outside world comes in as arguments.
        self,
        settings: CaptureSettings,
        room: Room,
        book: CaptureBook,
        *,
        controls: Controls,
        still_held: _StillHeld,
        clock: Clock,
    ) -> None:
        """Nothing is under way.

        Args:
            settings: Whom to call.
            room: What a capture may fill.
            book: Is told of the process that a command is.
            controls: Where the counters are let go.
            still_held: Why they are not yet, `None` once they are.
            clock: The agent's, which releases go by.
        """
        self._settings, self._room, self._book = settings, room, book
        self._controls, self._still_held, self._clock = controls, still_held, clock
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._log = structlog.get_logger(component="capture")

    @property
    def is_busy(self) -> bool:
        """Whether a capture is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(
        self,
        request: CaptureRequest,
        record: CaptureRecord,
        done: Callable[[CaptureRecord], None],
    ) -> None:
        """Begin one; the thread ends by itself, within the settings' bounds."""
        self._thread = threading.Thread(
            target=self._carry_out, args=(request, record, done), name="capture", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End what is under way."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def _carry_out(
        self,
        request: CaptureRequest,
        record: CaptureRecord,
        done: Callable[[CaptureRecord], None],
    ) -> None:
        called = Called(CaptureOutcome.FAILED, "the log says why")
        try:
            with self._counters_let_go():
                called = self._call(request, record)
                if called.outcome is CaptureOutcome.CALLED and not called.is_recorded:
                    called = self._recorded(request, called)
        except Exception:  # noqa: BLE001 - its end is told and the counters come back, whatever it is.
            self._log.exception("capture_broke", id=request.id)
        finally:
            if called.said:
                self._log.info("capture_said", id=request.id, said=called.said)
            done(self._ended(record, called))

    def _ended(self, record: CaptureRecord, called: Called) -> CaptureRecord:
        ended: Nanoseconds = self._clock.wall_time()
        return replace(record, outcome=called.outcome, detail=called.detail, ended=ended)

    @contextmanager
    def _counters_let_go(self) -> Iterator[None]:
        """The counters are taken back in every outcome, by time even where this thread is lost."""
        settings = self._settings
        longest = _RELEASE_SECONDS + settings.timeout + settings.seconds + settings.margin
        speed = self._clock.speed
        for_seconds = longest * speed if math.isfinite(speed) else None
        release = self._controls.release(Held.COUNTERS, for_seconds, asker=ASKER)
        try:
            deadline = time.monotonic() + _RELEASE_SECONDS
            while (why := self._still_held(release)) is not None:
                if time.monotonic() >= deadline:
                    self._log.warning("capture_counters_held", why=why)
                    break
                if self._stop.wait(_LOOK_SECONDS):
                    break
            yield
        finally:
            self._controls.resume(Held.COUNTERS, asker=ASKER)

    def _recorded(self, request: CaptureRequest, called: Called) -> Called:
        """Wait until what was only asked for is recorded."""
        if self._stop.wait(request.seconds + self._settings.margin):
            return Called(CaptureOutcome.INTERRUPTED, "the agent ended meanwhile")
        return called

    def _call(self, request: CaptureRequest, record: CaptureRecord) -> Called:
        settings = self._settings
        if settings.kind is CaptureKind.WEBHOOK:
            # Most agents never make a request.
            from rightsizer.runtime.capture.webhook import call_webhook  # noqa: PLC0415

            return call_webhook(settings.webhook, request, self._stop.wait)
        if settings.kind is CaptureKind.DYNOLOG:
            return judged(self._run(words(settings.dynolog, request), request, record))
        return self._run(filled(settings.command, request.placeholders), request, record)

    def _run(
        self, command: tuple[str, ...], request: CaptureRequest, record: CaptureRecord
    ) -> Called:
        def note(pid: int) -> None:
            # For the next agent, should this one be killed.
            with suppress(RightsizerError):
                self._book.put(replace(record, process=pid, process_started=started_of(pid)))

        limits = Limits(
            self._settings.seconds + self._settings.timeout,
            self._stop,
            lambda: self._room.why_too_much(request.id),
        )
        return run_command(command, request.folder, limits, note=note)
