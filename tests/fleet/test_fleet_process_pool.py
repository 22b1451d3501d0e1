"""`ProcessPool`: garbage is collected between tasks, and processes end with the caller."""

import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from operator import mul

import pytest

from rightsizer.fleet.process_pool import ProcessPool, paused_collection, tell, worker_count
from rightsizer.model.errors import RightsizerError, StoreError

Work = AbstractContextManager[Callable[[int], int]]


def test_collection_goes_on_however_it_ends() -> None:
    """It resumes when the outermost pause ends."""
    with pytest.raises(LookupError):
        interrupted()
    assert gc.isenabled()


def interrupted() -> None:
    """Raise within two nested pauses."""
    with paused_collection():
        with paused_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise LookupError


def test_abandoned_results_end_processes_and_collection_goes_on() -> None:
    """The pool starts other processes on the next use."""
    with ProcessPool(2) as pool:
        results = pool.run(_double, [1, 2, 3, 4])
        assert next(results) in (2, 4, 6, 8)
        assert not gc.isenabled()
        results.close()  # type: ignore[attr-defined] # A generator, as it is written.
        assert gc.isenabled()
        assert multiprocessing.active_children() == []
        assert sorted(pool.run(_double, [1, 2, 3])) == [2, 4, 6]
    assert multiprocessing.active_children() == []


def test_processes_serve_one_kind_of_task_after_the_other() -> None:
    """They start once."""
    with ProcessPool(2) as pool:
        first = set(pool.run(_own_number, range(8)))
        assert sorted(pool.run(_double, range(5))) == [0, 2, 4, 6, 8]
        second = set(pool.run(_own_number, range(8)))
    assert second <= first
    assert len(first) <= 2
    assert os.getpid() not in first


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_task_raises_is_raised_after_what_others_came_to(workers: int) -> None:
    """Type and message are kept."""
    found: list[int] = []
    with ProcessPool(workers) as pool, pytest.raises(StoreError, match="no 3"):
        found.extend(pool.run(_refuses, [1, 2, 3, 4, 5, 6]))
    # How many of the later ones another process ends meanwhile is a matter of its speed.
    assert {1, 2} <= set(found) <= {1, 2, 4, 5, 6}


@pytest.mark.parametrize("workers", [1, 2])
def test_tasks_tell_while_they_run(workers: int) -> None:
    """Every progress report arrives."""
    heard: list[tuple[int]] = []
    with ProcessPool(workers) as pool:
        assert sorted(pool.run(_telling, [1, 2, 3], heard.append)) == [1, 2, 3]
    assert sorted(heard) == [(1,), (2,), (3,)]


@pytest.mark.parametrize("tasks", [[1, 2], [3]])
def test_what_does_tasks_is_closed_with_them(tasks: list[int]) -> None:
    """Whether they succeed or not: it may hold a file open."""
    held: list[str] = []

    @contextmanager
    def begin() -> Iterator[Callable[[int], int]]:
        held.append("opened")
        try:
            yield _refuse_three
        finally:
            held.append("closed")

    with ProcessPool() as pool, suppress(StoreError):
        assert list(pool.run(begin, tasks)) == tasks
    assert held == ["opened", "closed"]


def test_process_that_was_killed_is_an_error_with_its_remedy() -> None:
    """The kernel kills processes when memory runs out."""
    with (
        ProcessPool(2) as pool,
        pytest.raises(RightsizerError, match=r"set fleet\.workers to less"),
    ):
        list(pool.run(_killed, [1, 2, 3]))


@pytest.mark.parametrize(
    ("setting", "gpus", "expected"), [(3, 0, 3), (0, 8, 1), (0, 7999, 1), (1, 100_000, 1)]
)
def test_small_fleets_start_no_processes(setting: int, gpus: int, expected: int) -> None:
    """An explicit number of workers overrides that."""
    assert worker_count(setting, gpus) == expected


def _double() -> Work:
    return nullcontext(partial(mul, 2))


def _own_number() -> Work:
    return nullcontext(lambda _: os.getpid())


def _refuses() -> Work:
    return nullcontext(_refuse_three)


def _refuse_three(number: int) -> int:
    if number == 3:
        raise StoreError("no 3")
    return number


def _telling() -> Work:
    return nullcontext(_tell)


def _tell(number: int) -> int:
    tell(number)
    return number


def _killed() -> AbstractContextManager[Callable[[int], None]]:
    return nullcontext(lambda _: os.kill(os.getpid(), signal.SIGKILL))
