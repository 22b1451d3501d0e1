"""Scheduler of periodic jobs; the only importer of APScheduler."""

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue
from typing import Any, Final

from apscheduler.events import EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED
from apscheduler.executors.base import BaseExecutor, run_job
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger
from msgspec import Struct
from msgspec.structs import replace

from rightsizer.io.clock import Clock
from rightsizer.io.log import logger
from rightsizer.io.thread import DaemonThread, NoThreadError, outlive_shortages
from rightsizer.model.errors import RightsizerError
from rightsizer.model.report import JobReport

_SHORTEST_SECONDS: Final = 1.0
"""Shortest interval in real seconds, even with a fast clock."""
_SHARED: Final = "default"
_THREADS: Final = 2


class IntervalTrigger(BaseTrigger):  # type: ignore[misc] # The library has no types.
    """Interval trigger that ignores missed runs.

    The library's trigger iterates over all of them and keeps them in memory: a node that boots in
    1970 and then gets the time would need gigabytes.
    """

    def __init__(
        self,
        interval_seconds: float,
        jitter_seconds: float = 0.0,
        chance: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._interval = timedelta(seconds=interval_seconds)
        self._jitter_seconds = jitter_seconds
        self._chance = chance
        self._due: datetime | None = None

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """Next run: on the regular beat if in the future, else an interval from now."""
        # The beat excludes the jitter of the previous run.
        base = self._due if previous_fire_time is not None and self._due is not None else now
        due = base + self._interval
        if not now < due <= now + self._interval:
            due = now + self._interval
        self._due = due
        shift = self._chance(-self._jitter_seconds, self._jitter_seconds)
        return max(due + timedelta(seconds=shift), now + timedelta(milliseconds=1))


class JobThreads(BaseExecutor):  # type: ignore[misc] # The library has no types.
    """Threads that start with the scheduler; none keeps the process alive.

    The library's pool starts them with the first runs. If the process may have no more threads by
    then, the pool keeps the run and reports a failure: runs pile up, and later overlap.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count
        self._runs: SimpleQueue[tuple[Any, list[datetime]] | None] = SimpleQueue()

    def start(self, scheduler: Any, alias: str) -> None:
        """Start the threads.

        Raises:
            RuntimeError: the process may have no more.
        """
        super().start(scheduler, alias)
        for _ in range(self._count):
            DaemonThread(alias, outlive_shortages, self._work).start()

    def shutdown(self, wait: bool = True) -> None:  # noqa: FBT001, FBT002 - the library's.
        """End each thread after its run."""
        del wait
        for _ in range(self._count):
            self._runs.put(None)

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
        self._runs.put((job, run_times))

    def _work(self) -> None:
        while (run := self._runs.get()) is not None:
            job, run_times = run
            events: list[Any] = []
            try:
                events = run_job(job, job._jobstore_alias, run_times, self._logger.name)  # noqa: SLF001
            finally:  # Else it would count as still active for ever.
                self._run_job_success(job.id, events)


class JobScheduler(BackgroundScheduler):  # type: ignore[misc] # The library has no types.
    """Scheduler whose thread outlives a shortage of memory."""

    def _main_loop(self) -> None:
        outlive_shortages(self._schedule)

    def _schedule(self) -> None:
        self.wakeup()
        super()._main_loop()


class Job(Struct, frozen=True):
    """Periodic job."""

    name: str
    run: Callable[[], None]
    interval_seconds: float
    """Measured by the agent's clock."""
    jitter_seconds: float = 0.0
    has_own_thread: bool = False
    """Whether it has its own thread; the others share a few."""


class Jobs:
    """Runs jobs on a schedule, one run of each at a time, and records their results."""

    def __init__(
        self,
        jobs: Sequence[Job],
        clock: Clock,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._clock = clock
        self._now = now
        self._jobs = {job.name: job for job in jobs}
        self._paces: dict[str, float] = {}
        self._reports = {job.name: JobReport(job.name) for job in jobs}
        self._lock = threading.Lock()
        self._log = logger("jobs")
        # A run that is still active when the next is due is counted, not logged.
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self._scheduler = JobScheduler(
            timezone="UTC",
            daemon=True,
            executors={
                _SHARED: JobThreads(_THREADS),
                **{job.name: JobThreads(1) for job in jobs if job.has_own_thread},
            },
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        self._scheduler.add_listener(self._skip, EVENT_JOB_MAX_INSTANCES | EVENT_JOB_MISSED)

    def start(self) -> None:
        """Start; the first runs take place after a whole interval.

        Raises:
            NoThreadError: the process may have no more threads.
        """
        for job in self._jobs.values():
            self._add(job)
        try:
            self._scheduler.start()
        except NoThreadError:
            raise
        except RuntimeError as error:
            # Of the thread that the library starts itself.
            raise NoThreadError("jobs", error) from None

    def change(self, job: Job) -> None:
        """Change the interval of a job; an unchanged job keeps its schedule."""
        if self._jobs[job.name] == job:
            return
        self._jobs[job.name] = job
        if self._scheduler.running:
            self._add(job)

    def stop(self) -> None:
        """Start no more runs; active ones end within their own timeouts."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def run(self, name: str) -> None:
        """Run a job now in this thread; failures are logged and counted, never raised."""
        job = self._jobs[name]
        started = time.monotonic()
        with self._lock:
            before = self._reports[name]
        begun = self._clock.wall_time()
        try:
            job.run()
            report = replace(before, last_success=self._clock.wall_time(), last_error=None)
        except Exception as error:  # noqa: BLE001 - a job's failure must not affect others.
            if isinstance(error, RightsizerError):  # For the operator to fix, not a bug.
                self._log.error("job_failed", job=name, error=str(error))
            else:
                self._log.exception("job_failed", job=name)
            report = replace(before, failures=before.failures + 1, last_error=str(error))
        with self._lock:
            self._reports[name] = replace(
                report,
                skipped=self._reports[name].skipped,
                runs=before.runs + 1,
                last_start=begun,
                last_duration_seconds=time.monotonic() - started,
            )

    def reports(self) -> tuple[JobReport, ...]:
        """Last run of each job."""
        with self._lock:
            return tuple(self._reports.values())

    def supervise(self) -> None:
        """Reschedule jobs with a next run too far ahead or an outdated interval.

        Needed after the wall clock stepped back, or when a fast clock slows to real time.
        """
        now = self._now()
        for scheduled in self._scheduler.get_jobs():
            job = self._jobs[scheduled.id]
            far = now + timedelta(seconds=2 * self._pace(job) + job.jitter_seconds)
            if scheduled.next_run_time is not None and scheduled.next_run_time > far:
                self._log.warning("job_rescheduled", job=job.name)
                self._add(job)
            elif self._paces[job.name] != self._pace(job):
                self._add(job)

    def _skip(self, event: Any) -> None:
        with self._lock:
            report = self._reports[event.job_id]
            self._reports[event.job_id] = replace(report, skipped=report.skipped + 1)

    def _add(self, job: Job) -> None:
        self._paces[job.name] = pace = self._pace(job)
        jitter = min(job.jitter_seconds / self._clock.speed, pace)
        self._scheduler.add_job(
            self.run,
            IntervalTrigger(pace, jitter),
            args=(job.name,),
            id=job.name,
            executor=job.name if job.has_own_thread else _SHARED,
            replace_existing=True,
        )

    def _pace(self, job: Job) -> float:
        return max(_SHORTEST_SECONDS, job.interval_seconds / self._clock.speed)
