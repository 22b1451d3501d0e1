"""Logging: formats, levels, the bridge to the standard library, the counter."""

import io
import json
import logging
import os
import pty
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from rightsizer.io.log import LogCounter, configure, logger, tune
from rightsizer.io.log_settings import LogFormat, LogLevel


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Restore the process's logging afterward."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    level = root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.level = level


def logged(log_format: LogFormat, level: LogLevel = LogLevel.INFO) -> list[str]:
    """Lines of a format for one event of each kind."""
    stream = io.StringIO()
    configure(log_format, level, stream)
    log = logger("history")
    log.debug("page_read", pages=3)
    log.info("history_opened", path="/var/lib/a b", seconds=0.5)
    log.warning("flush_delayed", delay_seconds=2, is_first=True)
    return stream.getvalue().splitlines()


def test_the_journal_gets_priorities_and_key_value_pairs_without_a_time() -> None:
    """The journal has its own clock; `<N>` at the start sets the line's priority."""
    assert logged(LogFormat.JOURNAL) == [
        '<6>level=info event=history_opened component=history path="/var/lib/a b" seconds=0.5',
        "<4>level=warning event=flush_delayed component=history delay_seconds=2 is_first=true",
    ]


def test_json_starts_with_time_level_and_event() -> None:
    """One object a line, the time in UTC, the most relevant keys first."""
    first, second = map(json.loads, logged(LogFormat.JSON))

    assert list(first)[:4] == ["ts", "level", "event", "component"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", first["ts"])
    assert first["path"] == "/var/lib/a b"
    assert second["delay_seconds"] == 2


def test_the_console_is_plain_where_it_is_not_a_terminal() -> None:
    """A log piped into a file has no color codes."""
    first, _ = logged(LogFormat.CONSOLE)

    assert re.match(r"\d\d:\d\d:\d\d \[info +\] history_opened +component=history", first)
    assert "\x1b" not in first


@pytest.mark.parametrize(
    ("level", "count"),
    [(LogLevel.DEBUG, 3), (LogLevel.INFO, 2), (LogLevel.WARNING, 1), (LogLevel.ERROR, 0)],
)
def test_less_severe_messages_than_the_level_are_not_logged(level: LogLevel, count: int) -> None:
    """The level is the least severe one that is logged."""
    assert len(logged(LogFormat.JOURNAL, level)) == count


def test_the_journal_is_detected_by_the_stream_that_systemd_names(tmp_path: Path) -> None:
    """`JOURNAL_STREAM` counts only for the stream that it names: a child may redirect its own."""
    with (tmp_path / "journal").open("w+") as stream, (tmp_path / "file").open("w+") as other:
        status = os.fstat(stream.fileno())
        environ = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        for target in (stream, other):
            configure(stream=target, environ=environ)
            logger("agent").info("agent_started")
            target.seek(0)

        assert stream.read().startswith("<6>level=info event=agent_started")
        assert json.load(other)["event"] == "agent_started"


@pytest.mark.parametrize(("environ", "is_colored"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_gets_the_console_format(environ: dict[str, str], *, is_colored: bool) -> None:
    """Lines have colors, unless NO_COLOR is set."""
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        configure(stream=terminal, environ=environ)
        logger("agent").info("agent_started")
        line = os.read(leader, 4096).decode()
    os.close(leader)

    assert "agent_started" in line
    assert ("\x1b[" in line) is is_colored


def test_library_logs_pass_the_same_processors() -> None:
    """A library's warnings appear under its name; its debug output does not."""
    stream = io.StringIO()
    counter = configure(LogFormat.JOURNAL, LogLevel.DEBUG, stream)

    logging.getLogger("urllib3").info("Starting new connection")
    logging.getLogger("urllib3").warning("Retrying after %s", "timeout")
    logging.getLogger("apscheduler").log(45, "Unusual")

    assert stream.getvalue().splitlines() == [
        '<4>level=warning event="Retrying after timeout" component=urllib3',
        "<3>level=error event=Unusual component=apscheduler",
    ]
    assert _by_level(counter)["warning"] == 1


def test_configuring_again_replaces_what_was_before() -> None:
    """A reload that changes the format does not make libraries log twice."""
    before = io.StringIO()
    after = io.StringIO()
    configure(LogFormat.JOURNAL, stream=before)
    configure(LogFormat.JOURNAL, stream=after)

    logging.getLogger("library").warning("Careful")

    assert before.getvalue() == ""
    assert len(after.getvalue().splitlines()) == 1


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_a_traceback_tells_the_fault_and_no_local_variable(log_format: LogFormat) -> None:
    """Values of variables may be secrets, and stay in the process."""
    stream = io.StringIO()
    configure(log_format, stream=stream)
    secret = secrets.token_hex()
    try:
        [][len(secret)]
    except IndexError:
        logger("agent").exception("read_failed")

    assert "list index out of range" in stream.getvalue()
    assert secret not in stream.getvalue()


def test_the_journal_keeps_a_traceback_on_one_line() -> None:
    """A second line would lose its priority and its keys."""
    stream = io.StringIO()
    configure(LogFormat.JOURNAL, stream=stream)
    try:
        int("disk\nfull")
    except ValueError:
        logger("agent").exception("flush_failed", hint="a\nb")

    (line,) = stream.getvalue().splitlines()
    assert line.startswith("<3>level=error event=flush_failed")


def _by_level(counter: LogCounter) -> dict[str, float]:
    metrics = counter.metrics().items()
    return {name.split('"')[1]: count for name, count in metrics if "level=" in name}


def test_messages_are_counted_by_level_from_zero() -> None:
    """Every level has a series from the start, and events below the level do not count."""
    counter = configure(LogFormat.JSON, LogLevel.INFO, io.StringIO())
    before = _by_level(counter)
    log = logger("agent")
    log.debug("not_counted")
    log.info("counted")
    for _ in range(3):
        log.error("repeated")

    none = {"debug": 0, "info": 0, "warning": 0, "error": 0, "critical": 0}
    assert before == none
    assert _by_level(counter) == none | {"info": 1, "error": 3}


def test_a_fault_that_goes_on_is_logged_once() -> None:
    """Only repetitions of the same error are suppressed."""
    stream = io.StringIO()
    configure(LogFormat.JOURNAL, stream=stream)
    log = logger("telemetry")
    for _ in range(5):
        log.warning("driver_away", uuid="GPU-1")
    log.warning("driver_away", uuid="GPU-2")

    assert len(stream.getvalue().splitlines()) == 2


def test_the_log_goes_to_standard_error_unless_told_otherwise() -> None:
    """Commands answer on standard output, free of log lines."""
    program = (
        "from rightsizer.io.log import configure, logger\n"
        "configure()\nlogger('agent').info('agent_started')\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )

    assert answer.stdout == ""
    assert json.loads(answer.stderr)["event"] == "agent_started"


def test_the_level_changes_for_those_who_have_logged_already() -> None:
    """Loggers are cached on first use; events below the level do not count either."""
    stream = io.StringIO()
    counter = configure(LogFormat.JSON, LogLevel.INFO, stream)
    log = logger("history")
    log.debug("before")
    log.info("first")
    tune(LogLevel.ERROR, 300.0)
    log.info("silent")
    tune(LogLevel.DEBUG, 300.0)
    log.debug("after")

    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == [
        "first",
        "after",
    ]
    assert _by_level(counter) == {"debug": 1, "info": 1, "warning": 0, "error": 0, "critical": 0}


def test_repeat_interval_changes_at_run_time() -> None:
    """It applies from the next interval on."""
    stream = io.StringIO()
    configure(LogFormat.JSON, LogLevel.INFO, stream, repeat_interval_seconds=300.0)
    log = logger("history")
    for _ in range(3):
        log.error("disk_full")
    tune(LogLevel.INFO, 0.0)
    log.error("disk_full")

    entries = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [entry.get("suppressed") for entry in entries] == [None, 2]
