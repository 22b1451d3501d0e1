"""Child process of `rightsizer run`: terminal, signals, exit status."""

import contextlib
import ctypes
import errno
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

from msgspec import Struct

_ENDING: Final = (signal.SIGHUP, signal.SIGTERM)
"""Python already raises an exception for SIGINT."""
CANNOT_RUN: Final = 126
NOT_FOUND: Final = 127
"""Exit codes of shells."""
_BY_SIGNAL: Final = 128
_SUBREAPER: Final = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""
_PASSED_ON: Final = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGCONT,
    signal.SIGWINCH,
)
_LEAVING: Final = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)


class ExitSignal(BaseException):
    """Raised for a signal that ends this process."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._number = number

    def leave(self) -> NoReturn:
        """Exit by the signal's default action."""
        signal.signal(self._number, signal.SIG_DFL)
        os.kill(os.getpid(), self._number)
        raise AssertionError("a signal that ends a process has not")


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Raise `ExitSignal` in the main thread on ending signals; ignored ones stay ignored."""

    def leave(number: int, _: FrameType | None) -> NoReturn:
        raise ExitSignal(number)

    ours = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for our in ours:
        signal.signal(our, leave)
    try:
        yield
    finally:
        for our in ours:
            signal.signal(our, signal.SIG_DFL)


class ChildExit(Struct, frozen=True):
    """Exit of the command."""

    status: int
    """Exit status, or 128 plus the number of the signal that killed it."""
    is_all: bool
    """Whether no descendants are left."""


class ChildProcess:
    """Command from its start to the end of its last descendant."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._command = list(command)
        self._environ = dict(environ)
        self._pid = 0
        self._status: int | None = None

    def start(self, prepare: Callable[[], None]) -> None:
        """Start the command; from here on this process forwards its signals.

        `prepare` runs in the child before the command.

        Raises:
            OSError: the command cannot be executed.
        """
        ctypes.CDLL(None).prctl(_SUBREAPER, 1)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
        reader, writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._become(prepare, mask, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            failure = pipe.read()
        if failure:
            os.waitpid(self._pid, 0)
            code = int(failure)
            raise OSError(code, os.strerror(code), self._command[0])

    def wait(self, left_behind: Callable[[int], None]) -> ChildExit:
        """Forward signals until no descendants are left, or a signal ends the wait.

        `left_behind` is called with the command's status if descendants outlive it.
        """
        while True:
            info = signal.sigwaitinfo({*_PASSED_ON, signal.SIGCHLD})
            if (number := signal.Signals(info.si_signo)) == signal.SIGCHLD:
                before = self._status
                if not self._reap():
                    return ChildExit(self._status or 0, is_all=True)
                if before is None and self._status is not None:
                    left_behind(self._status)
            elif self._status is not None:
                if number in _LEAVING:
                    return ChildExit(self._status, is_all=False)
            elif info.si_code <= 0:
                # Those of the kernel, e.g. the terminal, already reach the whole process group.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, number)

    def _become(self, prepare: Callable[[], None], mask: Iterable[int], writer: int) -> None:
        """Become the command, or write the error to the pipe; runs in the child."""
        code = errno.EINVAL
        try:
            for number in _IGNORED_BY_PYTHON:
                signal.signal(number, signal.SIG_DFL)
            prepare()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvpe(self._command[0], self._command, self._environ)  # noqa: S606 - as requested.
        except OSError as error:
            code = error.errno or errno.EINVAL
        finally:
            os.write(writer, str(code).encode())
            # Skip the parent's exit handlers.
            os._exit(NOT_FOUND)

    def _reap(self) -> bool:
        """Reap exited and stopped children; return whether any are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if os.WIFSTOPPED(status):
                if pid == self._pid and _is_on_a_terminal():
                    # The shell waits for this process to stop, not for the command.
                    os.kill(os.getpid(), signal.SIGSTOP)
            elif pid == self._pid:
                self._status = status_of(status)


def status_of(status: int) -> int:
    """Convert a wait status to an exit status; a signal is 128 plus its number."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else _BY_SIGNAL - code


def _is_on_a_terminal() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    os.close(terminal)
    return True
