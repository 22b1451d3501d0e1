"""The queue before standard error, on real pipes and files."""

import json
import logging
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from fcntl import F_SETPIPE_SZ, fcntl
from pathlib import Path

import pytest
import structlog

from agent_process import eventually
from rightsizer.io.log import configure, logger
from rightsizer.io.log_queue import LogQueue, LogStream
from rightsizer.io.log_settings import LogFormat
from thread_limit import no_more_threads


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Restore the process's logging afterward."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe of one page: its reading and its writing end."""
    with ExitStack() as stack:
        ends = os.pipe()
        for end in ends:
            stack.callback(os.close, end)
        fcntl(ends[1], F_SETPIPE_SZ, 4096)
        yield ends


def lines_of(reading: int, count: int) -> list[str]:
    """The next lines."""
    os.set_blocking(reading, False)
    text = b""

    def is_read() -> bool:
        nonlocal text
        with suppress(BlockingIOError):
            text += os.read(reading, 1 << 16)
        return text.count(b"\n") >= count

    eventually(is_read, every_seconds=0.01)
    return text.decode().splitlines()


def test_lines_beyond_the_bound_are_dropped_counted_and_reported(pipe: tuple[int, int]) -> None:
    """The first lines name the cause and are kept; how many were lost follows them."""
    reading, writing = pipe
    stream = LogStream(LogQueue(writing, maximum_bytes=16_384), "utf-8")
    counter = configure(LogFormat.JSON, stream=stream)
    log = logger("agent")
    for number in range(1000):
        log.info("line", number=number)

    dropped = stream.queue.dropped
    lines = [json.loads(line) for line in lines_of(reading, 1001 - dropped)]

    assert 0 < dropped < 1000
    numbers = [line["number"] for line in lines[:-1]]
    assert numbers[:50] == [*range(50)]
    assert numbers == sorted(set(numbers))
    assert (lines[-1]["event"], lines[-1]["lines"]) == ("log_lines_dropped", dropped)
    assert counter.metrics()["rightsizer_log_dropped_total"] == dropped


def test_a_line_that_a_full_disk_tore_ends_before_the_next(tmp_path: Path) -> None:
    """A reader of the file loses the torn line alone."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with (tmp_path / "log").open("w+b", buffering=0) as file:
        queue = LogQueue(file.fileno())
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, limit[1]))
            queue.write(b"first\n")
            queue.write(b"second\n")
            queue.drain()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
            signal.signal(signal.SIGXFSZ, ignored)
        queue.write(b"third\n")
        queue.drain()
        file.seek(0)
        assert file.read() == b"first\nseco\nthird\n"
    assert queue.dropped == 1


def test_a_descriptor_that_refuses_costs_each_line_and_nothing_else() -> None:
    """Every one is counted."""
    reading, writing = os.pipe()
    queue = LogQueue(writing)
    os.close(writing)
    os.close(reading)
    for _ in range(3):
        queue.write(b"line\n")
    queue.drain()
    assert queue.dropped == 3


def test_the_end_waits_for_a_stuck_descriptor_for_a_bounded_time(pipe: tuple[int, int]) -> None:
    """What is left is lost."""
    queue = LogQueue(pipe[1])
    queue.write(b"." * 65_536)
    queue.drain(0.01)
    assert queue.dropped == 0


def test_a_process_that_may_have_no_thread_writes_at_its_end(pipe: tuple[int, int]) -> None:
    """The error that ends it must be seen."""
    reading, writing = pipe
    with no_more_threads():
        queue = LogQueue(writing)
        queue.write(b"no thread\n")
        queue.drain()
    assert os.read(reading, 100) == b"no thread\n"


def test_the_thread_begins_with_a_later_write(pipe: tuple[int, int]) -> None:
    """Once the process may have one."""
    reading, writing = pipe
    with no_more_threads():
        queue = LogQueue(writing)
    queue.write(b"line\n")
    queue.drain()
    assert os.read(reading, 100) == b"line\n"


def test_printed_pieces_of_a_line_are_queued_as_one(pipe: tuple[int, int]) -> None:
    """Tracebacks are printed in pieces, between which no line of the log may stand."""
    reading, writing = pipe
    stream = LogStream(LogQueue(writing), "ascii")
    print("a", end="", file=stream)
    stream.queue.write(b"between\n")
    print("b ä", file=stream)
    stream.queue.drain()
    assert os.read(reading, 100) == b"between\nab ?\n"
