"""ProcessPool: the same task over many inputs in worker processes, without garbage collection."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, Generic, TypeVar


@contextmanager
def paused_collection() -> Iterator[None]:
    """Collect cycles only afterwards: each collection would search all views of a fleet."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_MOST: Final = 8
_IN_FLIGHT: Final = 2
"""Tasks of a worker, the running one included; more would only take memory."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def worker_count(workers: int) -> int:
    """How many processes a setting means, in which 0 is one a core."""
    return workers or min(_MOST, os.cpu_count() or 1)


class ProcessPool(Generic[Task, Result]):
    """Workers that each begin once, and then do tasks; with one worker, in this process.

    `begin` makes what does a task; it is called in each process, so it must be picklable.
    """

    def __init__(self, begin: Callable[[], Callable[[Task], Result]], workers: int) -> None:
        self._begin, self._workers = begin, workers

    def results(self, tasks: Iterable[Task]) -> Iterator[Result]:
        """What comes of the tasks, in the order in which they are done.

        Where a task raises, what the others in hand came to is given before it is raised.
        """
        if self._workers <= 1:
            yield from map(self._begin(), tasks)
            return
        pool = ProcessPoolExecutor(
            self._workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_PoolWorker.begin,
            initargs=(self._begin,),
        )
        try:
            with paused_collection():
                yield from self._in(pool, iter(tasks))
        finally:
            pool.shutdown(cancel_futures=True)

    def _in(self, pool: ProcessPoolExecutor, tasks: Iterator[Task]) -> Iterator[Result]:
        running: set[Future[Result]] = set()
        trouble: BaseException | None = None
        while True:
            if trouble is None:
                room = self._workers * _IN_FLIGHT - len(running)
                running |= {pool.submit(_PoolWorker.work, task) for task in islice(tasks, room)}
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                error = future.exception()
                if error is None:
                    yield future.result()
                else:
                    trouble = trouble or error
        if trouble is not None:
            raise trouble


class _PoolWorker:
    """What this process works with."""

    _work: Callable[[Any], Any]

    @classmethod
    def begin(cls, begin: Callable[[], Callable[[Any], Any]]) -> None:
        """Make it, once."""
        threading.Thread(target=_end_with_parent, daemon=True).start()
        cls._work = staticmethod(begin())
        # What is loaded by now stays, and cycles are collected between tasks: to search all of a
        # task again and again takes a sixth of its time.
        gc.freeze()
        gc.disable()

    @classmethod
    def work(cls, task: Any) -> Any:
        """Do one task with it."""
        try:
            return cls._work(task)
        finally:
            gc.collect()


def _end_with_parent() -> None:
    """End once the parent is gone, however it ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
