"""What an image is built from where no registry is reached: a minimal Debian, and its libraries."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from built_packages import OFFLINE, ROOT, tool
from systemd_machine import pristine_root

__all__ = ["CACHE", "LISTS", "OFFLINE_PIP", "mount_point", "python_root", "wheelhouse"]

CACHE: Final = ROOT / ".cache"
LISTS: Final = ROOT / "config" / "packages" / "requirements"
OFFLINE_PIP: Final = ("PIP_NO_INDEX=1", "PIP_FIND_LINKS=/wheelhouse")
"""Variables of a base image in which pip takes the fetched libraries for the package index."""

_GLIBC: Final = ("manylinux2014", "manylinux_2_17", "manylinux_2_28")
PLATFORMS: Final = {
    machine: [
        *(f"--platform={glibc}_{wheels}" for glibc in _GLIBC),
        "--python-version=3.11",
        "--implementation=cp",
        *(f"--abi={abi}" for abi in ("cp311", "abi3", "none")),
    ]
    for machine, wheels in (("amd64", "x86_64"), ("arm64", "aarch64"))
}
"""Options of pip for each architecture, with the Python of that Debian."""


@contextmanager
def mount_point(path: Path) -> Iterator[None]:
    """A folder of the machine to mount over, which goes again if it was not there."""
    is_new = not path.exists()
    path.mkdir(exist_ok=True)
    try:
        yield
    finally:
        if is_new:
            path.rmdir()


@cache
def python_root(architecture: str = "amd64") -> Path:
    """A minimal Debian with its Python, in place of the base that the Dockerfile names.

    One of another architecture is made and run by QEMU, where the kernel knows of it.
    """
    packages = ("python3-venv", "python-is-python3", "passwd")
    if architecture == "amd64":
        return pristine_root("bookworm-python", packages)
    runs = subprocess.run([tool("arch-test", "arch-test"), architecture], check=False)
    if runs.returncode:
        pytest.skip(f"nothing of {architecture} runs here; install qemu-user-static and binfmt")
    options = [f"--architectures={architecture}"]
    return pristine_root(f"bookworm-python-{architecture}", packages, options)


@cache
def wheelhouse(architecture: str = "amd64") -> Path:
    """All installed packages, fetched by hash once for each state of the lists."""
    lists = sorted(LISTS.iterdir())
    state = hashlib.sha256(b"".join(path.read_bytes() for path in lists)).hexdigest()[:16]
    folder = CACHE / "wheelhouse" / f"{state}-{architecture}"
    if not folder.exists():
        fresh = folder.with_name(f"{folder.name}-{os.getpid()}")
        pip: list[str | Path] = [sys.executable, "-m", "pip", "download", "--quiet"]
        pip += ["--dest", fresh, "--no-deps"]
        for path in lists:
            command = [*pip, "--only-binary", ":all:", "--require-hashes", "--requirement", path]
            done = subprocess.run(
                [*command, *PLATFORMS[architecture]], capture_output=True, text=True, check=False
            )
            if any(word in done.stderr for word in OFFLINE):
                pytest.skip(f"the libraries cannot be fetched from here: {done.stderr[-300:]}")
            assert done.returncode == 0, done.stderr
        fresh.rename(folder)
    return folder
