"""Controller of captures: observes workloads, decides, requests profiles, records results."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.host.process_table import end_group
from rightsizer.io.clock import Clock, wall_offset
from rightsizer.io.log import logger
from rightsizer.model.values import (
    AdviceState,
    Device,
    DeviceReport,
    Nanoseconds,
    Report,
    RightsizerError,
    Workload,
    nanoseconds,
)
from rightsizer.profiler.capture.feature import CaptureContext
from rightsizer.profiler.capture.policy import (
    CaptureCandidate,
    WorkloadCourse,
    WorkloadSample,
    advanced,
    capture_candidates,
)
from rightsizer.profiler.capture.repository import (
    CaptureCache,
    CaptureOutcome,
    CaptureRecord,
    CaptureRepository,
    CaptureStorage,
    new_id,
)
from rightsizer.profiler.capture.runner import CaptureRequest, ThreadedCaptureRunner
from rightsizer.profiler.capture.settings import CaptureSettings

_LEAP: Final[Nanoseconds] = nanoseconds(3600.0)
"""Clock jump that is not trusted, and the time for which the clock is not trusted after one."""
_RECORDS_KEPT_SECONDS: Final = 366 * 86400.0
_MOST_RECORDS: Final = 1000
_FIGURE: Final = re.compile(r"[\d.]+ ?(%|d\b|h\b|min\b|s\b)?")
_QUIET: Final = frozenset({AdviceState.DISMISSED, AdviceState.SNOOZED})


class ActiveWorkload(Struct, frozen=True):
    """A workload with processes on devices."""

    workload: Workload
    devices: tuple[Device, ...]
    is_alone: bool
    """Whether no other workload has processes on them, so that all processes there are its own."""
    sample: WorkloadSample

    @property
    def pids(self) -> tuple[int, ...]:
        """Its processes in ascending order; empty if unknown."""
        return tuple(sorted(self.sample.pids or ()))


def active_workloads(report: Report, now: Nanoseconds) -> Mapping[str, ActiveWorkload]:
    """Return the active workloads by key; `now` is on the steady clock."""
    accounts = {
        workload_report.workload.key: workload_report for workload_report in report.workloads
    }
    held: defaultdict[str, list[DeviceReport]] = defaultdict(list)
    for device in report.devices:
        for holding in device.holdings:
            if holding.has_process and holding.workload.key in accounts:
                held[holding.workload.key].append(device)
    workloads: dict[str, ActiveWorkload] = {}
    for key, devices in held.items():
        holdings = chain.from_iterable(device_report.holdings for device_report in devices)
        is_alone = all(holding.workload.key == key for holding in holdings if holding.has_process)
        processes = [
            None if device_report.reading is None else device_report.reading.processes
            for device_report in devices
        ]
        pids = None
        if is_alone and None not in processes:
            pids = frozenset(
                process.pid for device_processes in processes for process in device_processes or ()
            )
        account = accounts[key]
        sample = WorkloadSample(now, account.totals.state_seconds, len(devices), pids)
        workload = replace(account.workload, unproven=_doubt(key, devices))
        workloads[key] = ActiveWorkload(
            workload, tuple(device_report.device for device_report in devices), is_alone, sample
        )
    return workloads


def _doubt(key: str, devices: Sequence[DeviceReport]) -> str:
    """Why a workload's owner is not proven on one of its devices; empty if it is on all."""
    holdings = (holding for device in devices for holding in device.holdings)
    doubts = (holding.workload.unproven for holding in holdings if holding.workload.key == key)
    return next(filter(None, doubts), "")


class CaptureController:
    """Decides at each run about captures; its state may be read from any thread."""

    def __init__(  # noqa: PLR0913 - the outside world comes in as arguments.
        self,
        settings: CaptureSettings,
        context: CaptureContext,
        runner: ThreadedCaptureRunner,
        repository: CaptureRepository,
        *,
        storage: CaptureStorage,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._context = context
        self._runner = runner
        self._repository = repository
        self._clock = clock
        self._storage = storage
        self._courses: Mapping[str, WorkloadCourse] = {}
        self._cache = CaptureCache(repository, clock)
        self._reported: Mapping[str, str | None] = {}
        self._offset = wall_offset(clock)
        # Not trusted at first: a wrong clock before the start cannot be detected.
        self._trusted_from: Nanoseconds = clock.time() + _LEAP
        self._log = logger("capture")
        self.candidates: tuple[CaptureCandidate, ...] = ()
        """Candidates of the last run."""
        self.counts: Counter[CaptureOutcome] = Counter(
            {outcome: 0 for outcome in CaptureOutcome if outcome.is_final}
        )
        """Captures by outcome since the agent started."""

    def start(self) -> None:
        """End programs and captures that a killed agent left running.

        Raises:
            HistoryError: stored captures cannot be read.
        """
        for record in self._cache.mended():
            if record.outcome is CaptureOutcome.RUNNING:
                detail = "the agent ended meanwhile"
                if end_group(record.process, record.process_started):
                    detail += "; what it had called was ended with the next start"
                self._finish(replace(record, outcome=CaptureOutcome.INTERRUPTED, detail=detail))

    def stop(self) -> None:
        """End the capture under way."""
        self._runner.stop()

    def records(self) -> Sequence[CaptureRecord]:
        """All stored captures, oldest first."""
        return self._cache.records()

    def run(self) -> None:
        """Observe all workloads, settle arrived profiles, and start a capture if one is due.

        Raises:
            RightsizerError: a capture cannot be started, or stored captures cannot be read.
        """
        report = self._context.report()
        now = self._clock.time()
        here = {} if report is None else active_workloads(report, now)
        span = self._settings.timing.steady_seconds
        self._courses = {
            key: advanced(self._courses.get(key), workload.sample, span)
            for key, workload in here.items()
        }
        self._settle()
        records = self._pruned(self._cache.mended())
        self.candidates = self._candidates(here, records)
        self._log_uncaptured(self.candidates)
        chosen = next(
            (candidate for candidate in self.candidates if candidate.why_not is None), None
        )
        if chosen is not None:
            self._begin(chosen, here[chosen.finding.key])

    def _candidates(
        self, here: Mapping[str, ActiveWorkload], records: Sequence[CaptureRecord]
    ) -> tuple[CaptureCandidate, ...]:
        candidates = capture_candidates(
            self._context.judgements(),
            self._courses,
            [(record, self._cache.ago_seconds(record)) for record in records],
            self._settings.timing,
            now=self._clock.wall_time(),
            quiet={advice.id for advice in self._context.advice() if advice.state in _QUIET},
        )
        return tuple(
            replace(
                candidate,
                why_not=candidate.why_not or self._obstacle(here[candidate.finding.key], records),
            )
            for candidate in candidates
        )

    def _obstacle(self, workload: ActiveWorkload, records: Sequence[CaptureRecord]) -> str | None:
        """Return what prevents a capture of the workload, other than its finding and history."""
        if not self._repository.is_kept:
            return "no history is kept, and a restart would forget its limits; set history.path"
        if self._runner.is_busy:
            return "another capture is under way"
        if (why := self._storage.why_none(records)) is not None:
            return why
        if self._settings.names_workload and workload.workload.unproven:
            return f"its owner is not proven: {workload.workload.unproven}"
        if not self._settings.needs_pids or workload.pids:
            return None
        shares = "it shares its GPUs, and which processes are its own is unknown"
        return "its processes are not known" if workload.is_alone else shares

    def _begin(self, chosen: CaptureCandidate, workload: ActiveWorkload) -> None:
        finding = chosen.finding
        now = self._clock.wall_time()
        worst = finding.culprits or finding.devices
        devices = workload.devices
        request = CaptureRequest(
            id=(capture_id := new_id(now)),
            finding=finding,
            workload=workload.workload,
            devices=tuple(sorted(devices, key=lambda device: device.uuid not in worst)),
            pids=workload.pids,
            seconds=self._settings.seconds,
            folder=self._storage.make(capture_id),
        )
        record = CaptureRecord(
            id=request.id,
            workload=workload.workload.key,
            finding=finding.id,
            reason=request.reason,
            devices=tuple(device.uuid for device in sorted(devices, key=attrgetter("index"))),
            started=now,
            outcome=CaptureOutcome.RUNNING,
        )
        # Stored before the call, so that a killed agent does not repeat it.
        try:
            self._cache.begin(record)
        except RightsizerError:
            request.folder.rmdir()
            raise
        facts = {
            "id": record.id,
            "workload": record.workload,
            "reason": record.reason,
            "finding": record.finding,
        }
        self._log.info("capture_started", **facts, kind=str(self._settings.kind))
        self._runner.start(request, record, self._done)

    def _done(self, record: CaptureRecord) -> None:
        try:
            self._cache.keep(record)
        except RightsizerError as error:
            self._log.error("capture_not_kept", id=record.id, error=str(error))
        self._note(record)

    def _settle(self) -> None:
        files = self._repository.files().values()
        for record in self._cache.mended():
            if record.outcome not in (CaptureOutcome.CALLED, CaptureOutcome.EMPTY):
                continue
            read_files = [file for file in files if file.path.startswith(f"{record.id}/")]
            if any(not file.fault for file in read_files):
                self._finish(replace(record, outcome=CaptureOutcome.LANDED), was=record.outcome)
            elif (
                record.outcome is CaptureOutcome.CALLED
                and self._cache.ago_seconds(record) > self._settings.landing
            ):
                detail = read_files[0].fault if read_files else "no profile landed in its folder"
                self._finish(replace(record, outcome=CaptureOutcome.EMPTY, detail=detail))

    def _finish(self, record: CaptureRecord, was: CaptureOutcome = CaptureOutcome.RUNNING) -> None:
        self._cache.keep(record)
        self._note(record, was)

    def _note(self, record: CaptureRecord, was: CaptureOutcome = CaptureOutcome.RUNNING) -> None:
        outcome = record.outcome
        # A capture whose profile arrives late was counted before.
        if outcome.is_final and not was.is_final:
            self.counts[outcome] += 1
        is_well = outcome.has_profile or outcome is CaptureOutcome.INTERRUPTED
        tell = self._log.info if is_well else self._log.warning
        tell(f"capture_{outcome}", id=record.id, workload=record.workload, detail=record.detail)

    def _pruned(self, records: Sequence[CaptureRecord]) -> Sequence[CaptureRecord]:
        """Drop captures beyond their age or number, and delete old profiles."""
        now = self._clock.wall_time()
        by_age = self._is_clock_trusted()
        for capture_id in self._storage.prune(records, now, by_age=by_age):
            self._log.info("capture_deleted", id=capture_id)
        oldest = now - nanoseconds(_RECORDS_KEPT_SECONDS)
        beyond = [
            record.id
            for place, record in enumerate(reversed(records))
            if record.outcome.is_final
            and (place >= _MOST_RECORDS or (by_age and record.started < oldest))
        ]
        self._cache.forget(beyond)
        return [record for record in records if record.id not in beyond]

    def _is_clock_trusted(self) -> bool:
        """Return false for a while after a jump: with a wrong clock all captures would look old."""
        before = self._offset
        self._offset = wall_offset(self._clock)
        if abs(self._offset - before) > _LEAP:
            self._trusted_from = self._clock.time() + _LEAP
        return self._clock.time() >= self._trusted_from

    def _log_uncaptured(self, candidates: Sequence[CaptureCandidate]) -> None:
        """Log why findings have no capture, whenever the kind of reason changes."""
        for candidate in candidates:
            before = self._reported.get(candidate.finding.id, "")
            if candidate.why_not is not None and _kind(candidate.why_not) != _kind(before or ""):
                self._log.info(
                    "capture_waits",
                    workload=candidate.finding.key,
                    finding=candidate.finding.id,
                    why=candidate.why_not,
                )
        self._reported = {
            capture_candidate.finding.id: capture_candidate.why_not
            for capture_candidate in candidates
        }


def _kind(why: str) -> str:
    """Return a reason without its numbers, which change every minute."""
    return " ".join(_FIGURE.sub(" ", why).split())
