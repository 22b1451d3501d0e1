"""The packages as `make deb` and `make rpm` build them, once for each state of the sources."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

__all__ = ["ROOT", "built", "other_version", "run_build", "tool"]

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / ".cache" / "packages"
SOURCES: Final = ("config", "daemon", "grafana/dashboards", "systemd")
FILES: Final = ("pyproject.toml", "constraints.txt", "README.md", "LICENSE", "CHANGELOG.md")
_OFFLINE: Final = ("No matching distribution", "ConnectionError", "NewConnectionError")
_BUILD_SECONDS: Final = 300
_KEPT: Final = 3


def tool(name: str, package: str) -> str:
    """A program, or the test is skipped with what to install."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} not found; install {package}")
    return found


def built(kind: str) -> Path:
    """The package of a kind, `deb` or `rpm`."""
    tool(*{"deb": ("dpkg-deb", "dpkg"), "rpm": ("rpmbuild", "rpm")}[kind])
    folder = CACHE / _state()
    folder.mkdir(parents=True, exist_ok=True)
    # Tests beside each other want the same.
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (found := sorted(folder.glob(f"*.{kind}"))):
            _build(kind, folder)
            found = sorted(folder.glob(f"*.{kind}"))
    (package,) = found
    return package


def other_version(package: Path, version: str, folder: Path) -> Path:
    """The same .deb under another version, as an upgrade finds it."""
    tree, changed = folder / "tree", folder / f"rightsizer_{version}.deb"
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


def run_build(kind: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run the build as `make` does, at a time of its own that no commit changes."""
    environment = {"PYTHON": sys.executable, "OUT": str(folder), "SOURCE_DATE_EPOCH": "1800000000"}
    return subprocess.run(
        [ROOT / "config" / "packages" / "build", kind],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )


def _build(kind: str, folder: Path) -> None:
    done = run_build(kind, folder)
    if done.returncode and any(sign in done.stdout + done.stderr for sign in _OFFLINE):
        pytest.skip("the libraries for the package cannot be fetched from here")
    assert done.returncode == 0, done.stdout + done.stderr
    kept = sorted(CACHE.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in kept[_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


def _state() -> str:
    """A name for what all sources are now."""
    paths = [ROOT / name for name in FILES]
    for name in SOURCES:
        paths += [path for path in (ROOT / name).rglob("*") if "__pycache__" not in path.parts]
    digest = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file()):
        digest.update(str(path.relative_to(ROOT)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
