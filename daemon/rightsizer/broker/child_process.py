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

from rightsizer.model.frozen import dataclass

_ENDING: Final = (signal.SIGHUP, signal.SIGTERM)
"""Python itself makes an exception of SIGINT."""
CANNOT_RUN: Final = 126
NOT_FOUND: Final = 127
"""As shells exit."""
_BY_SIGNAL: Final = 128
_SUBREAPER: Final = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""
_PASSED_ON: Final = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1),
    *(signal.SIGUSR2, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH),
)
_LEAVING: Final = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)


class ExitSignal(BaseException):
    """A signal that ends this process."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._number = number

    def leave(self) -> NoReturn:
        """End by the signal's default action."""
        signal.signal(self._number, signal.SIG_DFL)
        os.kill(os.getpid(), self._number)
        raise AssertionError("a signal that ends a process has not")


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Raise `ExitSignal` in the main thread on ending signals; ignored ones stay ignored."""

    def leave(number: int, _: FrameType | None) -> NoReturn:
        raise ExitSignal(number)

    ours = [each for each in _ENDING if signal.getsignal(each) is signal.SIG_DFL]
    for each in ours:
        signal.signal(each, leave)
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)


@dataclass(frozen=True, slots=True)
class ChildExit:
    """Exit of the command."""

    status: int
    """Its own, or 128 and the signal that ended it."""
    is_all: bool
    """Whether none of its descendants is left."""


class ChildProcess:
    """One command, from its start to the end of its last descendant."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._command, self._environ = list(command), dict(environ)
        self._pid = 0
        self._status: int | None = None

    def start(self, prepare: Callable[[], None]) -> None:
        """Start it; from here on this process forwards its signals.

        `prepare` is called in the child before the command.

        Raises:
            OSError: the command cannot be run.
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
        """Forward signals until no descendant is left, or a signal ends the wait for them.

        `left_behind` is called with the command's status where it ends before its descendants.
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
                # The kernel's own, such as the terminal's, reach all of the group as they are.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, number)

    def _become(self, prepare: Callable[[], None], mask: Iterable[int], writer: int) -> None:
        """In the child: turn into the command, or write the error to the pipe."""
        code = errno.EINVAL
        try:
            for number in _IGNORED_BY_PYTHON:
                signal.signal(number, signal.SIG_DFL)
            prepare()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvpe(self._command[0], self._command, self._environ)  # noqa: S606 - what was asked for.
        except OSError as error:
            code = error.errno or errno.EINVAL
        finally:
            os.write(writer, str(code).encode())
            # Without the parent's exit handlers.
            os._exit(NOT_FOUND)

    def _reap(self) -> bool:
        """Reap exited and stopped children; whether any is left."""
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
    """The exit status of a wait status: a signal is 128 and its number."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else _BY_SIGNAL - code


def _is_on_a_terminal() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    os.close(terminal)
    return True
