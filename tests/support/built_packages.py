"""The packages as built by `make deb` and `make rpm`, once for each state of the sources."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from source_cache import ROOT, source_folder

__all__ = ["COMMIT_SECONDS", "OFFLINE", "ROOT", "built", "other_version", "run_build", "tool"]

SOURCES: Final = (
    "config",
    "daemon",
    "grafana/dashboards",
    "systemd",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "tests/support/built_packages.py",
)
OFFLINE: Final = ("No matching distribution", "ConnectionError", "NewConnectionError")
COMMIT_SECONDS: Final = 1_760_000_000
"""Time of the commit that is built."""
_BUILD_SECONDS: Final = 300


def tool(name: str, package: str) -> str:
    """A program; without it the test is skipped with its package."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} not found; install {package}")
    return found


def built(kind: str, name: str = "rightsizer", python: str = "") -> Path:
    """A package of a kind, `deb` or `rpm`, for this Python or another version."""
    tool(*{"deb": ("dpkg-deb", "dpkg"), "rpm": ("rpmbuild", "rpm")}[kind])
    with source_folder(f"packages{python}", SOURCES) as folder:
        # A version begins with a digit, and another name does not.
        pattern = f"{name}[_-][0-9]*.{kind}"
        if not (paths := sorted(folder.glob(pattern))):
            _build(kind, folder, python)
            paths = sorted(folder.glob(pattern))
    (package,) = paths
    return package


def other_version(package: Path, version: str, folder: Path) -> Path:
    """The same .deb under another version, as for an upgrade."""
    tree = folder / "tree"
    changed = folder / f"rightsizer_{version}.deb"
    subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
    control = tree / "DEBIAN" / "control"
    lines = control.read_text().splitlines()
    lines = [f"Version: {version}" if line.startswith("Version:") else line for line in lines]
    control.write_text("\n".join(lines) + "\n")
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, changed],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    shutil.rmtree(tree)
    return changed


def run_build(
    kind: str, folder: Path, architecture: str = "", python: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run the build like `make`, with a fixed time that no commit changes.

    Compression, which takes most of the time, is minimal.
    """
    environment = {
        "PYTHON": sys.executable,
        "OUT": str(folder),
        "SOURCE_DATE_EPOCH": str(COMMIT_SECONDS),
        "DPKG_DEB_COMPRESSOR_LEVEL": "0",
        "RPM_PAYLOAD": "w.ufdio",
        "ARCHITECTURE": architecture,
        "PYTHON_VERSION": python,
    }
    return subprocess.run(
        [ROOT / "config" / "packages" / "build", kind],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )


def _build(kind: str, folder: Path, python: str) -> None:
    done = run_build(kind, folder, python=python)
    if done.returncode and any(sign in done.stdout + done.stderr for sign in OFFLINE):
        pytest.skip("the libraries for the package cannot be fetched from here")
    assert done.returncode == 0, done.stdout + done.stderr
