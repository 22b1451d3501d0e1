"""What an image is built from where no registry is reached: a minimal Debian, and its libraries."""

import hashlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from built_packages import OFFLINE, ROOT
from systemd_machine import pristine_root

__all__ = ["CACHE", "LISTS", "OFFLINE_PIP", "python_root", "wheelhouse"]

CACHE: Final = ROOT / ".cache"
LISTS: Final = ROOT / "config" / "packages" / "requirements"
OFFLINE_PIP: Final = ("PIP_NO_INDEX=1", "PIP_FIND_LINKS=/wheelhouse")
"""Variables of a base image in which pip takes the fetched libraries for the package index."""


def python_root() -> Path:
    """A minimal Debian with its Python, in place of the base that the Dockerfile names."""
    packages = ("python3-venv", "python-is-python3", "passwd")
    return pristine_root("bookworm-python", packages)


@cache
def wheelhouse() -> Path:
    """All installed packages, fetched by hash once for each state of the lists."""
    lists = sorted(LISTS.iterdir())
    state = hashlib.sha256(b"".join(path.read_bytes() for path in lists)).hexdigest()[:16]
    folder = CACHE / "wheelhouse" / state
    if not folder.exists():
        fresh = folder.with_name(f"{folder.name}-{os.getpid()}")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", fresh, "--no-deps"]
        for path in lists:
            command = [*pip, "--only-binary", ":all:", "--require-hashes", "--requirement", path]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if any(word in done.stderr for word in OFFLINE):
                pytest.skip(f"the libraries cannot be fetched from here: {done.stderr[-300:]}")
            assert done.returncode == 0, done.stderr
        fresh.rename(folder)
    return folder
