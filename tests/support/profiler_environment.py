"""Environments of profilers, of other readers and planners, apart from the product's and tests'.

Each is made once beside the checkout, as a Debian package is unpacked there, from a list of exact
versions in tests/profilers/. Package sources are pip's own configuration.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from debian_program import CACHE

__all__ = ["Absent", "environment", "needed", "recorded", "recorders"]

SWITCH: Final = "RIGHTSIZER_PROFILERS"
_LISTS: Final = Path(__file__).parents[1] / "profilers"
_MAKE_SECONDS: Final = 540
_CUDA: Final = ("nvidia-", "cuda-", "triton")
_BINDINGS: Final = "nvidia-ml-py"


class Absent(Exception):  # noqa: N818 - a state of the machine, not a fault.
    """There is no such environment here; the message says why."""


def recorders() -> Path:
    """The Python with torch and jax; the test is skipped, with the reason, where there is none.

    Making it takes some twenty seconds of one core, so that `make test` does; with
    RIGHTSIZER_PROFILERS=0 it uses only what is there already.
    """
    return needed("recorders")


@cache
def recorded(program: str, folder: Path, *flags: str) -> tuple[Path, float, float]:
    """The folder into which a program of tests/profilers/ recorded, and the wall time around it."""
    python = recorders()
    into = folder / program
    into.mkdir()
    before = time.time()
    done = subprocess.run(
        [python, _LISTS / f"{program}.py", into, *flags],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return into, before, time.time()


def needed(name: str) -> Path:
    """The same of any environment."""
    try:
        return environment(name, may_make=os.environ.get(SWITCH) != "0")
    except Absent as reason:
        pytest.skip(f"no environment of profilers: {reason}")


def environment(name: str, *, may_make: bool = True) -> Path:
    """The Python of the environment that a list of tests/profilers/ describes.

    Raises:
        Absent: it is not there and cannot be made, or must not be.
    """
    python, why = _environment(name, may_make=may_make)
    if python is None:
        raise Absent(why)
    return python


@cache
def _environment(name: str, *, may_make: bool) -> tuple[Path | None, str]:
    """The Python, or why there is none, which is not tried twice."""
    wanted = _LISTS / f"{name}.txt"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    made_of = hashlib.sha256(wanted.read_bytes() + version.encode()).hexdigest()[:12]
    folder = CACHE / f"profilers-{name}-{made_of}"
    python = folder / "bin" / "python"
    with _lock(name):
        if python.exists():
            return python, ""
        if not may_make:
            return None, f"it is not made yet, and {SWITCH}=0 keeps it from being made"
        try:
            _make(folder, wanted)
        except Absent as reason:
            return None, str(reason)
    return python, ""


@contextmanager
def _lock(name: str) -> Iterator[None]:
    """Of several runs one makes it, and the others wait."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"profilers-{name}.lock").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _make(folder: Path, wanted: Path) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="profilers-") as temporary:
        fresh = Path(temporary) / "environment"
        _run(sys.executable, "-m", "venv", "--without-pip", fresh)
        install = (sys.executable, "-m", "pip", "--python", fresh / "bin" / "python", "install")
        usual = ("--quiet", "--disable-pip-version-check", "--no-compile", "--retries", "1")
        report = Path(temporary) / "report.json"
        _run(*install, *usual, "--dry-run", "--report", report, "-r", wanted)
        _refuse_cuda(report)
        _run(*install, *usual, "-r", wanted)
        shutil.move(fresh, folder)


def _refuse_cuda(report: Path) -> None:
    """Gigabytes of libraries for a GPU that no test asks for."""
    planned = [each["metadata"]["name"] for each in json.loads(report.read_text())["install"]]
    cuda = [name for name in planned if name.lower().startswith(_CUDA) and name != _BINDINGS]
    if cuda:
        raise Absent(
            f"it would bring {len(cuda)} packages of CUDA, {cuda[0]} among them; let pip find a "
            "build of torch for the CPU alone"
        )


def _run(*command: str | Path) -> None:
    try:
        subprocess.run(
            [*map(str, command)], capture_output=True, text=True, timeout=_MAKE_SECONDS, check=True
        )
    except subprocess.TimeoutExpired:
        raise Absent("making it took too long") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip() or "it said nothing").splitlines()[-1]
        raise Absent(f"it cannot be made here: {said}") from None
