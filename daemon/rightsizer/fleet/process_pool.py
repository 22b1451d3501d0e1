"""ProcessPool: worker processes for successive kinds of tasks, without cyclic collection."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Final, NamedTuple, Self, TypeVar, cast

from rightsizer.model.values import RightsizerError


@contextmanager
def paused_collection() -> Iterator[None]:
    """Postpone cyclic collection: each one would traverse all views of a fleet."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_MOST: Final = 8
_GPUS_A_WORKER: Final = 4000
"""A process takes half a second of CPU to start, in which a thousand GPUs are judged."""
_NEWS, _RESULT, _TROUBLE = range(3)

Task = TypeVar("Task")
Result = TypeVar("Result")


def worker_count(workers: int, gpus: int) -> int:
    """Return the number of processes: 0 means one per core, limited by the number of GPUs."""
    return workers or max(1, min(_MOST, os.cpu_count() or 1, gpus // _GPUS_A_WORKER))


class _Worker(NamedTuple):
    process: SpawnProcess
    connection: Connection[Any, Any]

    @contextmanager
    def talking(self) -> Iterator[Connection[Any, Any]]:
        """Connection to the worker.

        Raises:
            RightsizerError: the process has exited.
        """
        try:
            yield self.connection
        except (EOFError, OSError):
            self.process.join()
            raise RightsizerError(
                f"a process of the fleet ended with {self.process.exitcode}, as where memory ran "
                "out: give it more, or set fleet.workers to less"
            ) from None


class ProcessPool:
    """Processes that start with the first tasks, and exit with the pool.

    With one worker, tasks run in this process.
    """

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        """Maximum number."""
        self._started: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(at_once=kind is not None)

    def _end(self, *, at_once: bool) -> None:
        for worker in self._started:
            if at_once:
                worker.process.kill()
            worker.connection.close()
        for worker in self._started:
            worker.process.join()
        self._started.clear()

    def run(
        self,
        begin: Callable[[], AbstractContextManager[Callable[[Task], Result]]],
        tasks: Iterable[Task],
        listen: Callable[[Any], object] = lambda _: None,
    ) -> Iterator[Result]:
        """Yield the results of tasks, in order of completion.

        If a task raises, results of the other running tasks are yielded before the error is raised.

        Args:
            begin: Opens what does a task, until the tasks are done; it is called in each process,
                so it must be picklable.
            tasks: What to do.
            listen: Receives what tasks `tell` while they run.
        """
        left = [*tasks][::-1]
        count = min(self.workers, len(left))
        if count <= 1:
            _LISTENERS[:] = [listen]
            with begin() as work:
                yield from _done_here(work, left[::-1])
            return
        self._started += [_start() for _ in range(count - len(self._started))]
        running = {worker.connection: worker for worker in self._started[:count]}
        for worker in running.values():
            with worker.talking() as connection:
                connection.send((begin, left.pop()))
        trouble: Exception | None = None
        try:
            with paused_collection():
                while running:
                    for ready in wait([*running]):
                        connection = cast("Connection[Any, Any]", ready)
                        worker = running[connection]
                        with worker.talking():
                            kind, result = connection.recv()
                        if kind == _NEWS:
                            listen(result)
                            continue
                        trouble = trouble or (result if kind == _TROUBLE else None)
                        # The worker continues before its result is handled.
                        if left and trouble is None:
                            with worker.talking():
                                connection.send((None, left.pop()))
                        else:
                            running.pop(connection)
                        if kind == _RESULT:
                            yield result
        finally:
            if running:  # The caller was interrupted, or stopped iterating.
                self._end(at_once=True)
        if trouble is not None:
            raise trouble


def _done_here(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """Run the tasks in this process, collecting garbage after each as workers do."""
    with paused_collection():
        gc.freeze()
        try:
            for task in tasks:
                yield work(task)
                gc.collect()
                gc.freeze()  # Remaining objects are in use, and need not be traversed again.
        finally:
            gc.unfreeze()


def _start() -> _Worker:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


_LISTENERS: Final[list[Callable[[Any], object]]] = []


def tell(*news: object) -> None:
    """Tell the caller of `ProcessPool.run` something while a task runs."""
    for listener in _LISTENERS:
        listener(news)


def _serve(connection: Connection[Any, Any]) -> None:
    """Do tasks in a worker process until the pool ends."""
    # A terminal interrupts all processes; the parent ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    lock = threading.Lock()

    def answer(kind: int, result: object) -> None:
        with lock:
            connection.send((kind, result))

    _LISTENERS[:] = [partial(answer, _NEWS)]
    gc.disable()
    work: Callable[[Any], Any] = type(None)
    opened = ExitStack()
    while True:
        try:
            begun, task = connection.recv()
        except (EOFError, OSError):
            opened.close()
            return
        try:
            if begun is not None:
                opened.close()
                work = opened.enter_context(begun())
                # Objects loaded so far stay; cycles are collected between tasks.
                gc.freeze()
            outcome = work(task)
        except Exception as error:  # noqa: BLE001 - The caller raises it.
            error.add_note(traceback.format_exc())
            answer(_TROUBLE, error)
        else:
            answer(_RESULT, outcome)
            del outcome
        del task
        gc.collect()


def _end_with_parent() -> None:
    """Exit once the parent is gone, however it ended."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)
