"""Jobs on the real scheduler: isolated, one run at a time, rescheduled after a clock step."""

import threading
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from apscheduler.executors.base import run_job
from msgspec.structs import replace
from structlog.testing import capture_logs

from agent_process import eventually
from readings import EPOCH, SECOND
from rightsizer.io import jobs as jobs_module
from rightsizer.io.clock import FastClock, SystemClock
from rightsizer.io.jobs import Job, Jobs, JobScheduler
from rightsizer.model.errors import HistoryError, RightsizerError
from thread_limit import no_more_threads


def nothing() -> None:
    """A job that returns at once."""


def fail() -> None:
    """A job that fails."""
    raise OSError("no space left")


def test_a_run_is_counted_and_timed_on_the_agents_clock() -> None:
    """The report shows simulated time, so that an accelerated agent's jobs look right."""
    clock = FastClock(EPOCH)

    def work() -> None:
        clock.wait_until(clock.time() + 5 * SECOND, threading.Event())

    jobs = Jobs([Job("flush", work, 60.0)], clock)
    jobs.run("flush")
    (report,) = jobs.reports()

    assert (report.runs, report.failures, report.last_error) == (1, 0, None)
    assert (report.last_start, report.last_success) == (EPOCH, EPOCH + 5 * SECOND)


def test_a_failure_is_counted_and_reported_and_never_raised() -> None:
    """The next successful run clears the error, not the count."""
    outcomes = iter([fail, nothing])

    def work() -> None:
        next(outcomes)()

    jobs = Jobs([Job("flush", work, 60.0)], FastClock(EPOCH))

    with capture_logs() as logs:
        jobs.run("flush")
    (failed,) = jobs.reports()
    jobs.run("flush")
    (mended,) = jobs.reports()

    assert [(entry["event"], entry["job"]) for entry in logs] == [("job_failed", "flush")]
    assert (failed.runs, failed.failures, failed.last_success) == (1, 1, None)
    assert failed.last_error == "no space left"
    assert (mended.runs, mended.failures, mended.last_error) == (2, 1, None)


def test_operator_error_of_a_job_is_logged_without_a_traceback() -> None:
    """One line per failure; a program error has its traceback."""

    def cannot_write() -> None:
        raise HistoryError("history '/h.db': database or disk is full")

    jobs = Jobs([Job("flush", cannot_write, 60.0), Job("prune", fail, 60.0)], FastClock(EPOCH))
    with capture_logs() as logs:
        jobs.run("flush")
        jobs.run("prune")

    assert logs[0]["error"] == "history '/h.db': database or disk is full"
    assert ["exc_info" in entry for entry in logs] == [False, True]


def test_every_job_has_a_report_before_its_first_run() -> None:
    """A missing counter may appear later or never."""
    jobs = Jobs([Job("flush", nothing, 60.0), Job("prune", nothing, 60.0)], SystemClock())

    assert [(report.name, report.runs) for report in jobs.reports()] == [("flush", 0), ("prune", 0)]


def test_a_job_that_is_still_under_way_is_not_started_again() -> None:
    """The skipped run is counted, and other jobs are not delayed."""
    going = threading.Event()
    may_end = threading.Event()
    others = threading.Event()
    concurrent: list[int] = []

    def work() -> None:
        concurrent.append(1)
        going.set()
        may_end.wait()
        concurrent.pop()

    jobs = Jobs([Job("slow", work, 1.0), Job("quick", others.set, 1.0)], SystemClock())
    jobs.start()
    try:
        assert going.wait(10)
        assert others.wait(10)
        eventually(lambda: jobs.reports()[0].skipped)
        assert len(concurrent) == 1
    finally:
        may_end.set()
        jobs.stop()

    assert eventually(lambda: all(report.runs for report in jobs.reports()))


def test_a_job_with_a_thread_of_its_own_waits_for_no_other() -> None:
    """Slow peers, or a long run of the rules, do not delay the flush."""
    may_end = threading.Event()
    flushed = threading.Event()
    going = [threading.Event(), threading.Event()]

    def slow(began: threading.Event) -> None:
        began.set()
        may_end.wait()

    jobs = Jobs(
        [
            Job("recommend", partial(slow, going[0]), 1.0),
            Job("annotate", partial(slow, going[1]), 1.0),
            Job("flush", flushed.set, 2.0, has_own_thread=True),
        ],
        SystemClock(),
    )
    jobs.start()
    try:
        assert all(began.wait(10) for began in going)
        flushed.clear()
        assert flushed.wait(10)
        assert not may_end.is_set()
    finally:
        may_end.set()
        jobs.stop()


def test_jobs_run_where_no_more_threads_can_start() -> None:
    """Their threads start with the agent: runs neither pile up nor overlap at a limit."""
    ran = threading.Semaphore(0)
    jobs = Jobs([Job("flush", ran.release, 1.0, has_own_thread=True)], SystemClock())
    jobs.start()
    try:
        with no_more_threads():
            assert ran.acquire(timeout=10)
            assert ran.acquire(timeout=10)
    finally:
        jobs.stop()


def test_jobs_whose_threads_cannot_start_say_so_at_once() -> None:
    """The agent ends with what to raise, in place of running without a history."""
    jobs = Jobs([Job("flush", nothing, 1.0)], SystemClock())
    with no_more_threads(), pytest.raises(RightsizerError, match="TasksMax"):
        jobs.start()


def test_jobs_outlive_a_shortage_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the scheduler, which needs a lock to wait, and of a run, whose end takes memory, too."""
    shortages = iter([MemoryError()])
    ran = threading.Semaphore(0)

    def short_of_memory(*arguments: Any) -> Any:
        if (error := next(shortages, None)) is not None:
            raise error
        return run_job(*arguments)

    monkeypatch.setattr(jobs_module, "run_job", short_of_memory)
    process = JobScheduler._process_jobs
    locks = iter([RuntimeError("can't allocate lock")])

    def short_of_locks(scheduler: JobScheduler) -> Any:
        if (error := next(locks, None)) is not None:
            raise error
        return process(scheduler)

    monkeypatch.setattr(JobScheduler, "_process_jobs", short_of_locks)
    jobs = Jobs([Job("flush", ran.release, 1.0, has_own_thread=True)], SystemClock())
    with capture_logs() as lines:
        jobs.start()
        try:
            assert ran.acquire(timeout=10)
        finally:
            jobs.stop()

    assert [line["thread"] for line in lines] == ["APScheduler", "flush"]


def test_stopping_waits_for_nobody() -> None:
    """A slow peer does not delay the agent's exit."""
    going = threading.Event()
    may_end = threading.Event()
    finished = threading.Event()

    def work() -> None:
        going.set()
        may_end.wait()
        finished.set()

    jobs = Jobs([Job("annotate", work, 1.0)], SystemClock())
    jobs.start()
    assert going.wait(10)
    jobs.stop()

    assert not finished.is_set()
    may_end.set()
    assert finished.wait(10)


def test_jobs_that_never_started_can_be_stopped() -> None:
    """An agent that cannot bind its port stops normally."""
    Jobs([Job("flush", nothing, 1.0)], SystemClock()).stop()


def test_a_job_is_scheduled_again_after_the_wall_clock_was_set_back() -> None:
    """A run hours ahead would be hours late; a step of an hour is corrected."""
    jobs = Jobs(
        [Job("flush", nothing, 60.0)],
        SystemClock(),
        now=lambda: datetime.now(UTC) - timedelta(hours=1),
    )
    jobs.start()
    try:
        with capture_logs() as logs:
            jobs.supervise()
    finally:
        jobs.stop()

    assert [(entry["event"], entry["job"]) for entry in logs] == [("job_rescheduled", "flush")]


def test_a_schedule_that_is_right_is_left_alone() -> None:
    """Supervision logs nothing on an ordinary day."""
    jobs = Jobs([Job("flush", nothing, 60.0, jitter_seconds=30.0)], SystemClock())
    jobs.start()
    try:
        with capture_logs() as logs:
            jobs.supervise()
    finally:
        jobs.stop()

    assert logs == []


def test_a_change_of_the_clocks_speed_changes_the_pace() -> None:
    """A wait of a quarter of an hour ends at once when that takes a second."""
    clock = FastClock(EPOCH, speed=1.0)
    ran = threading.Event()
    jobs = Jobs([Job("recommend", ran.set, 1000.0)], clock)
    jobs.start()
    try:
        clock.speed = 1000.0
        jobs.supervise()

        assert ran.wait(10)
    finally:
        jobs.stop()


def test_a_job_that_changes_runs_at_its_new_interval_at_once() -> None:
    """An unchanged job keeps its turn; before the start nothing is rescheduled."""
    runs = threading.Semaphore(0)
    job = Job("tick", runs.release, 86400.0)
    jobs = Jobs([job], SystemClock())
    jobs.change(replace(job, interval_seconds=43200.0))
    jobs.start()
    try:
        jobs.change(replace(job, interval_seconds=43200.0))
        assert not runs.acquire(timeout=0)
        jobs.change(replace(job, interval_seconds=1.0))
        assert runs.acquire(timeout=20)
    finally:
        jobs.stop()
