"""The same task over many inputs in worker processes, without garbage collection."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from multiprocessing.queues import SimpleQueue
from typing import Any, Final, TypeVar


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


def pooled(
    begin: Callable[[], Callable[[Task], Result]],
    tasks: Iterable[Task],
    workers: int,
    listen: Callable[[Any], object] = lambda _: None,
) -> Iterator[Result]:
    """What comes of the tasks, in the order in which they are done.

    Workers each begin once, and then do tasks; with one worker, in this process. Where a task
    raises, what the others in hand came to is given before it is raised; where the caller is
    interrupted, they are ended.

    Args:
        begin: Makes what does a task; it is called in each process, so it must be picklable.
        tasks: What to do.
        workers: How many processes.
        listen: Receives what tasks `tell` while they run.
    """
    if workers <= 1:
        _LISTENERS[:] = [listen]
        yield from map(begin(), tasks)
        return
    spawn = multiprocessing.get_context("spawn")
    news = spawn.SimpleQueue()
    pool = ProcessPoolExecutor(workers, spawn, initializer=_begin, initargs=(begin, news))
    running: set[Future[Result]] = set()
    trouble: BaseException | None = None
    waiting = iter(tasks)
    with _ended(pool), paused_collection():
        while True:
            if trouble is None:
                room = workers * _IN_FLIGHT - len(running)
                running |= {pool.submit(_work, task) for task in islice(waiting, room)}
            if not running:
                break
            done, running = wait(running, _LISTEN_SECONDS, FIRST_COMPLETED)
            while not news.empty():
                listen(news.get())
            for future in done:
                if (error := future.exception()) is None:
                    yield future.result()
                else:
                    trouble = trouble or error
        if trouble is not None:
            raise trouble


@contextmanager
def _ended(pool: ProcessPoolExecutor) -> Iterator[None]:
    """Let workers end their tasks, but where the caller was interrupted."""
    before = set(multiprocessing.active_children())
    try:
        yield
    except (GeneratorExit, KeyboardInterrupt):
        for child in set(multiprocessing.active_children()) - before:
            child.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_WORK: Final[list[Callable[[Any], Any]]] = []
_LISTENERS: Final[list[Callable[[Any], object]]] = []
_LISTEN_SECONDS: Final = 1.0


def tell(*news: object) -> None:
    """Tell the caller of `pooled` something while a task runs."""
    for listener in _LISTENERS:
        listener(news)


def _begin(begin: Callable[[], Callable[[Any], Any]], news: SimpleQueue[Any]) -> None:
    # A terminal interrupts all processes, and the first one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _LISTENERS[:] = [news.put]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _WORK[:] = [begin()]
    # What is loaded by now stays, and cycles are collected between tasks, a sixth of the time.
    gc.freeze()
    gc.disable()


def _work(task: Any) -> Any:
    try:
        return _WORK[0](task)
    finally:
        gc.collect()


def _end_with_parent() -> None:
    """End once the parent is gone, however it ended."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)
