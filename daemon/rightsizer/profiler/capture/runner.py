"""Capture requests, and their runner on its own thread, with profiling counters released."""

import math
import platform
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.config.spelling import filled
from rightsizer.host.process_table import started_of
from rightsizer.io.clock import Clock
from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.io.log import logger
from rightsizer.io.program import Ending, Limits, run_program
from rightsizer.io.worker import TaskThread
from rightsizer.model.values import Device, Finding, Workload
from rightsizer.notify.webhook.client import post_once
from rightsizer.owners.registry import owner_of
from rightsizer.profiler.capture.repository import (
    CaptureOutcome,
    CaptureRecord,
    CaptureRepository,
    CaptureStorage,
)
from rightsizer.profiler.capture.settings import (
    CaptureKind,
    CaptureSettings,
    CaptureWebhookSettings,
    DynologSettings,
)
from rightsizer.report.node_document import workload_document
from rightsizer.telemetry.source import ReleasableResource, ReleaseController, StillHeld

REQUEST_VERSION: Final = 1
"""Rises when a key changes its meaning or is removed; new keys do not change it."""
_MEANINGLESS: Final = re.compile(r"[^A-Za-z0-9._:/@-]")
"""Characters that may have a special meaning to a called program."""
_OUTCOMES: Final = {
    Ending.ABSENT: CaptureOutcome.FAILED,
    Ending.TOO_MUCH: CaptureOutcome.FAILED,
    Ending.TIMED_OUT: CaptureOutcome.TIMED_OUT,
    Ending.STOPPED: CaptureOutcome.INTERRUPTED,
}
_NO_PROCESS: Final = "No processes were matched"
COUNTER_HOLDER: Final = "capture"
"""Asker of the release of counters, separate from an operator's."""
_RELEASE_SECONDS: Final = 10.0
"""Time to wait for the release of counters: some rounds of the slowest driver."""
_LOOK_SECONDS: Final = 0.05


class CaptureRequest(Struct, frozen=True):
    """Facts of a request, the same for every profiler."""

    id: str
    """Id of the capture, and name of its folder."""
    finding: Finding
    workload: Workload
    devices: tuple[Device, ...]
    """Devices it holds; the finding's main device comes first."""
    pids: tuple[int, ...]
    """Its processes on them, in the node's pid namespace; empty if unknown."""
    seconds: float
    folder: Path

    @property
    def reason(self) -> str:
        """Why a profile is requested."""
        return str(self.finding.reasons[0])

    @property
    def placeholders(self) -> dict[str, str]:
        """Values of a command's placeholders."""
        first = self.devices[0]
        return {
            "pid": str(self.pids[0]) if self.pids else "",
            "pids": ",".join(map(str, self.pids)),
            "gpu_uuid": first.uuid,
            "gpu_index": str(first.index),
            "seconds": f"{self.seconds:g}",
            "folder": str(self.folder),
            # Named by the user who starts the workload: must not look like an option.
            "workload": _MEANINGLESS.sub("_", self.workload.key).lstrip("-"),
        }

    def document(self, node: str) -> dict[str, object]:
        """Return its document, with the node's name."""
        return {
            "version": REQUEST_VERSION,
            "capture": self.id,
            "node": node,
            "workload": workload_document(self.workload),
            "finding": self.finding.id,
            "reason": self.reason,
            "summary": self.finding.summary,
            "devices": [{"uuid": device.uuid, "index": device.index} for device in self.devices],
            "pids": list(self.pids),
            "seconds": self.seconds,
            "folder": str(self.folder),
        }


class CaptureResult(Struct, frozen=True):
    """Result of a request."""

    outcome: CaptureOutcome
    detail: str = ""
    """What happened in our words, safe to show anywhere; a line or two."""
    said: str = ""
    """Output of the program, for the log only, since its content is arbitrary."""
    is_recorded: bool = False
    """Whether recording is over; otherwise it may only have been requested."""


def call_webhook(
    settings: CaptureWebhookSettings,
    request: CaptureRequest,
    sleep: Callable[[float], object] = time.sleep,
    node: str = "",
) -> CaptureResult:
    """Post the facts; retry only if they cannot have arrived.

    `sleep` waits between retries, and returns true to end them.
    """
    body = request.document(node or platform.node())
    answer = post_once(
        settings.url, body, settings.http, token_file=settings.token_file, sleep=sleep
    )
    # The profiler may have been started although the answer was lost: this counts as a call.
    if isinstance(answer, Failure) and answer.kind is not FailureKind.INTERRUPTED:
        return CaptureResult(CaptureOutcome.FAILED, answer.message)
    return CaptureResult(CaptureOutcome.CALLED)


def run_command(
    words: Sequence[str],
    folder: Path,
    limits: Limits,
    *,
    note: Callable[[int], None] = lambda _: None,
) -> CaptureResult:
    """Run a program; at the end kill its process group.

    `note` gets its process id, which is also its group's, before it runs, as in `run_program`.
    """
    run = run_program(words, folder, limits, note=note)
    usual = CaptureOutcome.CALLED if run.status == 0 else CaptureOutcome.FAILED
    outcome = _OUTCOMES.get(run.ending, usual)
    has_run = run.ending is not Ending.ABSENT
    return CaptureResult(outcome, run.detail, run.said, is_recorded=has_run)


def dynolog_command(settings: DynologSettings, request: CaptureRequest) -> tuple[str, ...]:
    """Return the command with the process ids, and the Slurm job by which dynolog keeps them.

    Each process writes a file of its own, with its number at the end of the name.
    """
    job = owner_of(request.workload.kind).job_of(request.workload)
    return (
        settings.program,
        "--port",
        str(settings.port),
        "gputrace",
        *(("--job-id", job) if job.isdecimal() else ()),
        "--pids",
        ",".join(map(str, request.pids)),
        "--process-limit",
        str(max(1, len(request.pids))),
        "--duration-ms",
        str(max(1, round(request.seconds * 1000))),
        "--log-file",
        str(request.folder / "trace.json"),
        *settings.arguments,
    )


def dynolog_result(called: CaptureResult) -> CaptureResult:
    """Interpret dynolog's answer, which is a success even if it reached no process."""
    if called.outcome is not CaptureOutcome.CALLED:
        return called
    if _NO_PROCESS in called.said:
        return CaptureResult(
            CaptureOutcome.FAILED,
            "dynolog knows none of the processes: start them with KINETO_USE_DAEMON=1, and the "
            "daemon with --enable_ipc_monitor",
            said=called.said,
        )
    return replace(called, is_recorded=False)


class ThreadedCaptureRunner(TaskThread):
    """Calls the configured profiler; one capture at a time, in real time."""

    def __init__(  # noqa: PLR0913 - the outside world comes in as arguments.
        self,
        settings: CaptureSettings,
        storage: CaptureStorage,
        repository: CaptureRepository,
        *,
        controls: ReleaseController,
        still_held: StillHeld,
        clock: Clock,
    ) -> None:
        """Create an idle runner; `still_held` returns why counters are not released yet."""
        super().__init__("capture")
        self._settings = settings
        self._storage = storage
        self._repository = repository
        self._controls = controls
        self._still_held = still_held
        self._clock = clock
        self._log = logger("capture")

    def start(
        self, request: CaptureRequest, record: CaptureRecord, done: Callable[[CaptureRecord], None]
    ) -> None:
        """Start a capture; its thread ends within the limits of the settings."""
        self._begin(self._carry_out, request, record, done)

    def _carry_out(
        self, request: CaptureRequest, record: CaptureRecord, done: Callable[[CaptureRecord], None]
    ) -> None:
        called = CaptureResult(CaptureOutcome.FAILED, "the log says why")
        try:
            with self._released_counters():
                called = self._call(request, record)
                # If recording was only requested, wait until it is over.
                is_awaited = called.outcome is CaptureOutcome.CALLED and not called.is_recorded
                if is_awaited and self._stop.wait(request.seconds + self._settings.margin):
                    called = CaptureResult(CaptureOutcome.INTERRUPTED, "the agent ended meanwhile")
        except Exception:  # noqa: BLE001 - its end is always reported, and the counters return.
            self._log.exception("capture_broke", id=request.id)
        finally:
            if called.said:
                self._log.info("capture_said", id=request.id, said=called.said)
            ended = self._clock.wall_time()
            done(replace(record, outcome=called.outcome, detail=called.detail, ended=ended))

    @contextmanager
    def _released_counters(self) -> Iterator[None]:
        """Release the counters; they are resumed in any case, by time if this thread is lost."""
        settings = self._settings
        longest = _RELEASE_SECONDS + settings.timeout + settings.seconds + settings.margin
        speed = self._clock.speed
        for_seconds = longest * speed if math.isfinite(speed) else None
        release = self._controls.release(
            ReleasableResource.COUNTERS, for_seconds, asker=COUNTER_HOLDER
        )
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
            self._controls.resume(ReleasableResource.COUNTERS, asker=COUNTER_HOLDER)

    def _call(self, request: CaptureRequest, record: CaptureRecord) -> CaptureResult:
        settings = self._settings
        if settings.kind is CaptureKind.WEBHOOK:
            return call_webhook(settings.webhook, request, self._stop.wait)
        if settings.kind is CaptureKind.DYNOLOG:
            command = dynolog_command(settings.dynolog, request)
            return dynolog_result(self._run(command, request, record))
        return self._run(filled(settings.command, request.placeholders), request, record)

    def _run(
        self, command: tuple[str, ...], request: CaptureRequest, record: CaptureRecord
    ) -> CaptureResult:
        def note(pid: int) -> None:
            # Lets the next agent end the program if this one is killed.
            self._repository.put(replace(record, process=pid, process_started=started_of(pid)))

        longest = self._settings.seconds + self._settings.timeout
        limits = Limits(longest, self._stop, lambda: self._storage.why_too_much(request.id))
        return run_command(command, request.folder, limits, note=note)
