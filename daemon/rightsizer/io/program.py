"""Runner of programs, without a shell, in their own process group and with a time limit."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import IO, Final, Self

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.errors import RightsizerError

_LOOK_SECONDS: Final = 0.05
_MEASURE_SECONDS: Final = 0.5
_GRACE_SECONDS: Final = 2.0
"""Time between SIGTERM and SIGKILL, for a program to close its files."""
_SAID_BYTES: Final = 4096
_CHUNK_BYTES: Final = 65536
_GATE: Final = """\
import os, signal, sys
gate = int(sys.argv[1])
os.set_inheritable(gate, False)
for number in signal.SIGPIPE, signal.SIGXFSZ:
    signal.signal(number, signal.SIG_DFL)
if os.read(gate, 1):
    try:
        os.execv(sys.argv[2], sys.argv[2:])
    except OSError as error:
        os.write(gate, b"%d" % error.errno)
os._exit(127)
"""
"""Executes the program when a byte arrives on the socket, and exits if it is closed before, also
by the end of this process, however it ends."""
_OWN: Final = """\
import contextlib, runpy, sys
with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
    score.write("1000")
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
"""If memory runs out, the kernel kills this process rather than its parent."""
_PREFIX: Final = "rightsizer: "
"""Of the line by which a command says why it failed."""
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def own_module(name: str) -> list[str]:
    """Command line to run a module of this package in its own process.

    Neither environment nor working directory add modules, and the package is found even if it is
    not on the interpreter's default path.
    """
    site = ["-S"] if sys.flags.no_site else []
    root = Path(__file__).parents[2]
    return [sys.executable, "-I", *site, "-c", _OWN, str(root), name]


def own_answer(
    words: Sequence[str],
    longest_seconds: float,
    failed: Callable[[str], object] | None = None,
    given: str = "",
) -> str:
    """Return what a command of this program prints, run in a process of its own.

    `failed` is told of what failed beside an answer; `given` is its standard input.

    Raises:
        RightsizerError: it takes too long, or prints nothing but why it failed.
    """
    command = [*own_module("rightsizer"), *words]
    try:
        done = subprocess.run(  # noqa: S603 - a list of words of this program, no shell.
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=longest_seconds,
            input=given,
        )
    except subprocess.TimeoutExpired:
        raise RightsizerError(f"'{words[0]}' took longer than {longest_seconds:g} s") from None
    except OSError as error:
        raise RightsizerError(f"'{words[0]}' cannot be started: {error.strerror}") from None
    *_, fault = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
    if not done.stdout:
        raise RightsizerError(f"'{words[0]}' failed: {fault.removeprefix(_PREFIX)}")
    if failed is not None and fault.startswith(_PREFIX):
        failed(fault.removeprefix(_PREFIX))
    return done.stdout


class Ending(StrEnum):
    """How a program ended."""

    ENDED = "ended"
    """Exited by itself, with a status."""
    ABSENT = "absent"
    """Never ran."""
    TOO_MUCH = "too_much"
    """Killed for excessive resource use."""
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"
    """Killed because its result was no longer needed."""


class Run(Struct, frozen=True):
    """Result of a program."""

    ending: Ending
    status: int | None = None
    """Exit status, or minus the signal that killed it; `None` if we killed it."""
    detail: str = ""
    """What went wrong, in our words; empty on success."""
    said: str = ""
    """Start of its output in one line; may contain anything."""


class Limits(Struct, frozen=True):
    """Conditions for killing a program."""

    seconds: float
    stop: threading.Event
    """Set when its result is no longer needed."""
    why_too_much: Callable[[], str | None]
    """Returns the exceeded resource, or `None`; called repeatedly."""


def environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Environment of programs: only the search path and a locale."""
    return {"PATH": environ.get("PATH") or _PATH, "LANG": "C.UTF-8"}


def program_of(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """Find a program; raises `ValueError` if missing or not executable."""
    if (program := shutil.which(name, path=environment(environ)["PATH"])) is None:
        raise ValueError(f"there is no program '{name}'; install it, or name its whole path")
    return program


def run_program(
    words: Sequence[str],
    folder: Path,
    limits: Limits,
    *,
    note: Callable[[int], None] = lambda _: None,
) -> Run:
    """Run a program without a shell, and kill its whole process group at the end.

    `note` receives the pid, also of the group, before the program runs; if it raises a
    RightsizerError, or this process ends, the program never runs.
    """
    variables = environment()
    try:
        program = program_of(words[0], variables)
    except ValueError as error:
        return Run(Ending.ABSENT, detail=str(error))
    ours, its = socket.socketpair()
    with ours:
        try:
            with its:
                process = _waiting_at(its, [program, *words[1:]], folder, variables)
        except (OSError, ValueError) as error:
            return Run(Ending.ABSENT, detail=f"'{program}' cannot be run: {error}")
        with _Said(process.stdout) as said, _ended_at_last(process):
            try:
                note(process.pid)
                _open_gate(ours, program, limits.seconds)
            except RightsizerError as error:
                verdict: Run | None = Run(Ending.ABSENT, detail=f"was not run: {error}")
            except OSError as error:
                verdict = Run(Ending.ABSENT, detail=f"'{program}' cannot be run: {error}")
            else:
                verdict = _waited(process, limits)
    return replace(verdict or _ended(process.returncode), said=said.text)


def _waiting_at(
    gate: socket.socket, words: Sequence[str], folder: Path, environ: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    """Start the process that becomes the program."""
    number = gate.fileno()
    return subprocess.Popen(  # noqa: S603 - a list of words, no shell.
        [sys.executable, "-I", "-S", "-c", _GATE, str(number), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=environ,
        start_new_session=True,
        pass_fds=(number,),
    )


def _open_gate(gate: socket.socket, program: str, longest_seconds: float) -> None:
    gate.settimeout(longest_seconds)
    # A process killed at the gate, or hanging there, is detected by the wait for its end.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
        gate.sendall(b"1")
        if failure := gate.recv(16):
            code = int(failure)
            raise OSError(code, os.strerror(code), program)


def _waited(process: "subprocess.Popen[bytes]", limits: Limits) -> Run | None:
    began = measured = time.monotonic()
    while not _has_ended(process):
        now = time.monotonic()
        if now - measured >= _MEASURE_SECONDS:
            measured = now
            if (what := limits.why_too_much()) is not None:
                return Run(Ending.TOO_MUCH, detail=what)
        if now - began >= limits.seconds:
            detail = f"was not done after {limits.seconds:g} s, and was ended"
            return Run(Ending.TIMED_OUT, detail=detail)
        if limits.stop.wait(_LOOK_SECONDS):
            return Run(Ending.STOPPED, detail="the agent ended meanwhile")
    return None


def _ended(status: int) -> Run:
    if status == 0:
        return Run(Ending.ENDED, 0)
    how = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
    return Run(Ending.ENDED, status, f"{how}; the log has what it said")


@contextlib.contextmanager
def _ended_at_last(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    try:
        yield
    finally:
        if not _has_ended(process):
            _signal(process.pid, signal.SIGTERM)
            deadline = time.monotonic() + _GRACE_SECONDS
            while not _has_ended(process) and time.monotonic() < deadline:
                time.sleep(_LOOK_SECONDS)
        # Children may still run. Until the wait, the process group id cannot be reused.
        _signal(process.pid, signal.SIGKILL)
        process.wait()


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process.pid, options) is not None


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


class _Said:
    """Drains a program's output, so that it never blocks, and keeps the start."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self._pipe = pipe
        self._kept = b""
        self._thread = threading.Thread(target=self._read, name="program-output", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # A child that left the group may hold the pipe open forever.
        self._thread.join(_GRACE_SECONDS)

    @property
    def text(self) -> str:
        """Start of the output as one printable line."""
        text = " ".join(self._kept.decode(errors="replace").split())
        return "".join(character if character.isprintable() else "?" for character in text)

    def _read(self) -> None:
        assert self._pipe is not None  # noqa: S101 - started with a pipe.
        with self._pipe as pipe, contextlib.suppress(OSError, ValueError):
            while data := os.read(pipe.fileno(), _CHUNK_BYTES):
                self._kept += data[: _SAID_BYTES - len(self._kept)]
