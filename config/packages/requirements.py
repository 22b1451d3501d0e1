"""Writes the lists of what images and packages contain, with the hashes of every file of each.

Versions are those of constraints.txt; hashes are those that the package index tells, so that a
file that is changed there or on the way is refused. `make requirements` runs it.
"""  # noqa: INP001

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from packaging.tags import Tag
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version
from pip._internal.cli.cmdoptions import index_url

__all__ = ["LISTS", "hashes", "listed"]

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = Path(__file__).resolve().parent / "requirements"
LISTS: Final[Mapping[str, str]] = {
    "agent": "gpu-rightsizer[kubernetes,profile]",
    "node": "gpu-rightsizer[kubernetes,cli]",
    "tools": "gpu-rightsizer[kubernetes,fleet,cli]",
    "build": "hatchling",
}
"""What each list is complete for."""
_HEAD: Final = (
    "# All of {0}: wheels for Linux on x86_64 and aarch64. Written by `make requirements`.\n"
)
_PLATFORM: Final = re.compile(r"any|(?:many|musl)?linux.*_(?:x86_64|aarch64)")
_PYTHONS: Final = range(11, 15)
"""Supported minor versions."""
_MACHINES: Final = ("x86_64", "aarch64")
_TIMEOUT_SECONDS: Final = 60


def main(arguments: list[str]) -> int:
    """Write every list; an argument is the index to ask in place of pip's."""
    index = arguments[0] if arguments else os.environ.get("PIP_INDEX_URL", index_url().default)
    for name, wanted in LISTS.items():
        (FOLDER / f"{name}.txt").write_text(listed(wanted, index), "utf-8")
    return 0


def listed(wanted: str, index: str) -> str:
    """A list as pip reads it."""
    lines = [_HEAD.format(wanted)]
    for name, version in sorted(_resolved(wanted).items()):
        found = sorted(hashes(name, version, index))
        lines.append(f"{name}=={version} \\\n    ")
        lines.append(" \\\n    ".join(f"--hash=sha256:{each}" for each in found) + "\n")
    return "".join(lines)


def _resolved(wanted: str) -> dict[str, str]:
    """The versions that pip would install, the project itself apart."""
    own = wanted.startswith("gpu-rightsizer")
    target = wanted.replace("gpu-rightsizer", str(ROOT)) if own else wanted
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    options = ["--report", "-", "--only-binary", ":all:", "-c", str(ROOT / "constraints.txt")]
    done = subprocess.run([*command, *options, target], stdout=subprocess.PIPE, check=True)  # noqa: S603
    found = (each["metadata"] for each in json.loads(done.stdout)["install"])
    versions = {canonicalize_name(each["name"]): each["version"] for each in found}
    return {name: version for name, version in versions.items() if name != "gpu-rightsizer"}


def hashes(name: str, version: str, index: str) -> list[str]:
    """The digests of a version's wheels that an image or a package may take.

    Raises:
        LookupError: a supported Python on one of the architectures has no wheel.
    """
    accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
    asked = Request(f"{index.rstrip('/')}/{name}/", headers=accept)  # noqa: S310
    with urlopen(asked, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
        files: list[dict[str, Any]] = json.load(answer)["files"]
    wheels = {
        file["hashes"]["sha256"]: tags
        for file in files
        if file["filename"].endswith(".whl") and (tags := _tags(file["filename"], Version(version)))
    }
    tags = frozenset[Tag]().union(*wheels.values())
    for minor, machine in product(_PYTHONS, _MACHINES):
        if not any(_serves(tag, minor, machine) for tag in tags):
            place = f"Python 3.{minor} on {machine}"
            raise LookupError(f"{index} has no wheel of {name} {version} for {place}; pin another")
    return list(wheels)


def _tags(filename: str, wanted: Version) -> frozenset[Tag]:
    """What a wheel of the version runs on, of what is supported."""
    _, version, _, tags = parse_wheel_filename(filename)
    return frozenset(
        tag
        for tag in tags
        if version == wanted
        and _PLATFORM.fullmatch(tag.platform)
        and any(_runs(tag, minor) for minor in _PYTHONS)
    )


def _serves(tag: Tag, minor: int, machine: str) -> bool:
    """Whether packages and images of an architecture, which have glibc, can take it."""
    fits = tag.platform == "any" or re.fullmatch(f"(?:many)?linux.*_{machine}", tag.platform)
    return bool(fits) and _runs(tag, minor)


def _runs(tag: Tag, minor: int) -> bool:
    """Whether a CPython takes it."""
    if tag.interpreter == "py3":
        return True
    numbers = re.fullmatch(r"cp3(\d+)", tag.interpreter)
    if numbers is None:
        return False
    built = int(numbers[1])
    return built <= minor if tag.abi == "abi3" else (built, tag.abi) == (minor, tag.interpreter)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
