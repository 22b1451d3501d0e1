"""Debian programs for tests: a package fetched once and unpacked beside the checkout.

Neither installation nor root is needed: `apt-get download` and `dpkg-deb -x` suffice.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

__all__ = ["answers", "program", "run_program", "running_program", "unpacked"]

CACHE: Final = Path(__file__).resolve().parents[2] / ".cache"
_FETCH_SECONDS: Final = 90
_START_SECONDS: Final = 90


class Unavailable(Exception):  # noqa: N818 - a state of the machine, not a fault.
    """The program is unavailable here; the message gives the reason."""


def program(package: str, name: str) -> Path:
    """A program of a package; without it the test is skipped with the reason."""
    try:
        return _binaries(package, name) / name
    except Unavailable as reason:
        pytest.skip(f"no {name} on this machine: {reason}")


def unpacked(package: str) -> Path:
    """The folder with all files of a package; without it the test is skipped."""
    try:
        return _unpacked(package, package)
    except Unavailable as reason:
        pytest.skip(f"no package {package} on this machine: {reason}")


def run_program(
    path: Path, *arguments: str | Path, timeout_seconds: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, without raising on a failure."""
    command = [str(path), *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_seconds, check=False
    )


@contextmanager
def running_program(
    command: Sequence[str | Path], folder: Path, listens: re.Pattern[str], ready_path: str
) -> Iterator[str]:
    """The URL of a server once it is ready; the server ends with the block.

    Args:
        command: The command to run.
        folder: Its working folder, and the place of its log.
        listens: Finds the address in its log, as its first group.
        ready_path: A path that responds once it is ready.
    """
    log = folder / f"{Path(command[0]).name}.log"
    prefix = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*prefix, *map(str, command)], stdout=sink, stderr=sink, cwd=folder
        )
    try:
        yield _ready(process, log, lambda: listens.search(log.read_text()), ready_path)
    finally:
        _stop(process)


def answers(url: str) -> bool:
    """Whether the server responds successfully."""
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except URLError as error:
        if isinstance(error, HTTPError):
            error.close()
        return False


def _ready(
    process: "subprocess.Popen[bytes]",
    log: Path,
    address: Callable[[], "re.Match[str] | None"],
    ready_path: str,
) -> str:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        found = address()
        if found and answers(f"http://{found[1]}{ready_path}"):
            return f"http://{found[1]}"
        time.sleep(0.02)
    raise AssertionError(f"it did not start:\n{log.read_text()[-3000:]}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@cache
def _binaries(package: str, name: str) -> Path:
    """The folder with the program, fetched if necessary."""
    kept = CACHE / package / "usr" / "bin"
    for folder in (kept, Path("/usr/bin"), Path("/usr/local/bin")):
        if os.access(folder / name, os.X_OK):
            return folder
    return _unpacked(package, name) / "usr" / "bin"


@cache
def _unpacked(package: str, name: str) -> Path:
    """The folder of the unpacked package, fetched if necessary."""
    kept = CACHE / package
    if (kept / "usr").is_dir():
        return kept
    if missing := [tool for tool in ("apt-get", "dpkg-deb") if not shutil.which(tool)]:
        raise Unavailable(f"{' and '.join(missing)} not found; put {name} into /usr/local/bin")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="fetch-") as temporary:
        fetched = _fetch(package, Path(temporary))
        root = Path(temporary) / "root"
        _run(["dpkg-deb", "-x", str(fetched), str(root)], Path(temporary))
        try:
            root.rename(kept)
        except OSError:
            if not (kept / "usr").is_dir():  # Another run was faster.
                raise
    return kept


def _fetch(package: str, folder: Path) -> Path:
    """Download the package, with package lists of our own if the machine has none."""
    (folder / "lists" / "partial").mkdir(parents=True)
    (folder / "archives" / "partial").mkdir(parents=True)
    own_lists = [
        "-o",
        f"Dir::State::lists={folder / 'lists'}",
        "-o",
        f"Dir::Cache={folder}",
        "-o",
        "APT::Sandbox::User=root",
    ]
    try:
        _run(["apt-get", "download", package], folder)
    except Unavailable:
        _run(["apt-get", *own_lists, "update"], folder)
        _run(["apt-get", *own_lists, "download", package], folder)
    return next(folder.glob(f"{package}_*.deb"))


def _run(arguments: list[str], folder: Path) -> None:
    try:
        subprocess.run(
            arguments,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"'{' '.join(arguments[:2])}' took too long") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip() or "it said nothing").splitlines()[-1]
        raise Unavailable(f"'{arguments[0]} {arguments[-1]}' failed: {said}") from None
