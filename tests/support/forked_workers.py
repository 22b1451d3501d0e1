"""Runs files of tests in processes forked from the one that has collected them: it takes long."""

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

import pytest
from _pytest.config import create_terminal_writer

__all__ = ["ForkedWorkers"]

_FORK: Final = multiprocessing.get_context("fork")
_JOIN_SECONDS: Final = 30.0


class ForkedWorkers:
    """The loop of tests when several run at a time; a file's tests stay together and in order."""

    def __init__(self, count: int) -> None:
        self._count = count

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run all that is collected."""
        if session.testsfailed or session.config.option.collectonly:
            return None
        by_file: dict[object, list[pytest.Item]] = {}
        for item in session.items:
            by_file.setdefault(item.path, []).append(item)
        session.config.pluginmanager.getplugin("terminalreporter").showfspath = False
        _Run(session, [*by_file.values()]).all(self._count)
        return True


class _Worker:
    """A process, and what it still has to run of its file."""

    def __init__(self, process: BaseProcess) -> None:
        self.process = process
        self.due: list[pytest.Item] = []
        self.is_dismissed = False


class _Run:
    """One run of the tests, in the process that collected them."""

    def __init__(self, session: pytest.Session, files: Sequence[Sequence[pytest.Item]]) -> None:
        self._session = session
        self._hook = session.config.hook
        self._files = files
        self._waiting = iter(range(len(files)))
        self._workers: dict[Connection, _Worker] = {}
        self._started = 0

    def all(self, count: int) -> None:
        """Hand each worker a file after the other, and report what they send."""
        try:
            for _ in range(count):
                self._start()
            while self._workers:
                ready = wait([*self._workers])
                for connection in [sender for sender in self._workers if sender in ready]:
                    self._take(connection)
        finally:
            for worker in self._workers.values():
                worker.process.terminate()
                worker.process.join(_JOIN_SECONDS)

    def _start(self) -> None:
        base: Path = self._session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        ours, theirs = _FORK.Pipe()
        folder = base / f"worker-{self._started}"
        child = _Child(self._session, self._files, theirs, folder)
        process = _FORK.Process(target=child.run)
        process.start()
        theirs.close()
        self._workers[ours] = _Worker(process)
        self._started += 1

    def _take(self, connection: Connection) -> None:
        """Take a message of a worker: a report, or its wish for the next file."""
        worker = self._workers[connection]
        try:
            message = connection.recv()
        except (EOFError, ConnectionResetError):
            self._end(connection)
            return
        if message is not None:
            self._report(
                self._hook.pytest_report_from_serializable(
                    config=self._session.config, data=message
                )
            )
            return
        number = next(self._waiting, None)
        worker.is_dismissed = number is None
        worker.due += () if number is None else self._files[number]
        connection.send(number)

    def _end(self, connection: Connection) -> None:
        """Report what a worker has left undone, and start another in its place."""
        worker = self._workers.pop(connection)
        worker.process.join(_JOIN_SECONDS)
        for item in worker.due:
            self._report(_lost(item, worker.process.exitcode))
        if not worker.is_dismissed:
            self._start()

    def _report(self, report: pytest.TestReport) -> None:
        self._hook.pytest_runtest_logreport(report=report)
        if report.when == "teardown":
            for worker in self._workers.values():
                worker.due = [item for item in worker.due if item.nodeid != report.nodeid]
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)


class _Child:
    """What a worker runs, and whither it reports."""

    def __init__(
        self,
        session: pytest.Session,
        files: Sequence[Sequence[pytest.Item]],
        connection: Connection,
        folder: Path,
    ) -> None:
        self.session = session
        self.files = files
        self.connection = connection
        self.folder = folder

    def run(self) -> None:
        """Run files until none is left."""
        config = self.session.config
        plugins = config.pluginmanager
        capture = plugins.getplugin("capturemanager")
        # The files are those of all workers; modules may hold them, so that they stay open.
        former = capture._global_capturing
        capture._global_capturing = None
        capture.start_global_capturing()
        capture.suspend_global_capture(in_=True)
        self.folder.mkdir()
        config._tmp_path_factory._basetemp = self.folder  # type: ignore[attr-defined]
        plugins.register(self)
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            plugins.getplugin("terminalreporter")._tw = create_terminal_writer(config, nowhere)
            items = self._items()
            item = next(items, None)
            while item is not None:
                following = next(items, None)
                config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                item = following
        del former

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report."""
        config = self.session.config
        self.connection.send(
            config.hook.pytest_report_to_serializable(config=config, report=report)
        )

    def _items(self) -> Iterator[pytest.Item]:
        while True:
            self.connection.send(None)
            number = self.connection.recv()
            if number is None:
                return
            yield from self.files[number]


def _lost(item: pytest.Item, status: int | None) -> pytest.TestReport:
    """The report of a test whose worker has ended."""
    return pytest.TestReport(
        item.nodeid,
        item.location,
        {},
        "failed",
        f"its process ended with {status}: it, or one before it in its file, ends processes",
        "call",
    )
