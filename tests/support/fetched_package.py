"""Programs shipped in packages of the Python index: fetched once and kept beside the checkout."""

import fcntl
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest

__all__ = ["CACHE", "fetched"]

CACHE: Final = Path(__file__).resolve().parents[2] / ".cache"
_FETCH_SECONDS: Final = 100


@cache
def fetched(requirement: str, *options: str, left_out: str = "") -> Path:
    """The folder with a package and its dependencies; without it the test is skipped.

    Args:
        requirement: Name and version, as `name==1.2.3`.
        options: Further options of pip.
        left_out: Pattern of files that no test needs, where there are thousands.
    """
    kept = CACHE / requirement.replace("==", "-")
    CACHE.mkdir(parents=True, exist_ok=True)
    with kept.with_name(f"{kept.name}.lock").open("w") as lock:
        # One worker fetches it, and the others wait.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_dir():
            with tempfile.TemporaryDirectory(dir=CACHE, prefix="fetch-") as temporary:
                _fetch(requirement, options, Path(temporary))
                _unpack(Path(temporary), left_out).rename(kept)
    return kept


def _fetch(requirement: str, options: tuple[str, ...], folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:"]
    more = ["--disable-pip-version-check", "--dest", str(folder), *options, requirement]
    done = subprocess.run(
        [*command, *more], capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False
    )
    if done.returncode:
        pytest.skip(f"no {requirement} on this machine: {done.stderr.strip()[-300:]}")


def _unpack(folder: Path, left_out: str) -> Path:
    """The folder of all wheels' files; pip would write each file twice to install them."""
    unpacked = folder / "unpacked"
    for wheel in sorted(folder.glob("*.whl")):
        with ZipFile(wheel) as archive:
            names = archive.namelist()
            wanted = [name for name in names if not (left_out and re.search(left_out, name))]
            archive.extractall(unpacked, wanted)
    for program in unpacked.glob("*.data/scripts/*"):
        (unpacked / "bin").mkdir(exist_ok=True)
        program.chmod(0o755)
        program.rename(unpacked / "bin" / program.name)
    return unpacked
