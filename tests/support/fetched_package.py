"""Programs shipped in packages of the Python index: fetched once and kept beside the checkout."""

import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import pytest

__all__ = ["fetched"]

CACHE: Final = Path(__file__).resolve().parents[2] / ".cache"
_FETCH_SECONDS: Final = 100


@cache
def fetched(requirement: str, *options: str) -> Path:
    """The folder with a package and its dependencies; without it the test is skipped.

    Args:
        requirement: Name and version, as `name==1.2.3`.
        options: Further options of pip.
    """
    kept = CACHE / requirement.replace("==", "-")
    if kept.is_dir():
        return kept
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="fetch-") as temporary:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
        more = ["--disable-pip-version-check", "--target", temporary, *options, requirement]
        done = subprocess.run(
            [*command, *more],
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"no {requirement} on this machine: {done.stderr.strip()[-300:]}")
        try:
            shutil.copytree(temporary, unfinished := kept.with_suffix(f".{os.getpid()}"))
            unfinished.rename(kept)
        except OSError:
            if not kept.is_dir():  # Another run was faster.
                raise
            shutil.rmtree(unfinished, ignore_errors=True)
    return kept
