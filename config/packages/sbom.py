"""Writes what a running agent is made of, as a CycloneDX software bill of materials.

Asks the metadata of what is installed beside this Python, and the list of hashes that packages and
images are made from: the same installation gives the same bytes. `make sbom` runs it.
"""  # noqa: INP001

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

__all__ = ["Material", "bill", "materials"]

ROOT: Final = "gpu-rightsizer"
EXTRAS: Final = frozenset({"cli", "fleet", "kubernetes"})
"""What packages and images with tools install beside the necessary."""
LIST: Final = Path(__file__).resolve().parent / "requirements" / "tools.txt"
"""The wheels that packages and images take each part from."""
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA: Final = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")

_BELOW: Final = re.compile(r"""python_(?:full_)?version\s*<\s*["'](\d+)\.(\d+)""")


@dataclass(frozen=True, slots=True)
class Material:
    """One installed distribution."""

    name: str
    version: str
    license: str
    summary: str
    needs: tuple[str, ...]
    """Names of others that are installed because of it."""
    hashes: tuple[str, ...] = ()
    """SHA-256 of each wheel that it may have come from, one for an architecture and a Python."""

    @property
    def reference(self) -> str:
        """The package URL that names it to other tools."""
        return f"pkg:pypi/{self.name}@{self.version}"


def materials(root: str = ROOT, extras: Iterable[str] = EXTRAS) -> tuple[Material, ...]:
    """A distribution and all that it needs, itself first, the others by name.

    Raises:
        PackageNotFoundError: something that it always needs is not installed.
    """
    found: dict[str, Material] = {}
    waiting = [(_normal(root), frozenset(extras))]
    while waiting:
        name, chosen = waiting.pop()
        if name in found:
            continue
        installed = distribution(name)
        needs = tuple(sorted(_needs(installed, chosen)))
        found[name] = _material(name, installed, needs)
        waiting += [(need, frozenset()) for need in needs]
    first = found.pop(_normal(root))
    return first, *(found[name] for name in sorted(found))


def _needs(installed: Distribution, extras: frozenset[str]) -> Iterator[str]:
    for requirement in installed.requires or ():
        bare, _, marker = requirement.partition(";")
        extra = _EXTRA.search(marker)
        if extra and extra[1] not in extras:
            continue
        name = _normal(_REQUIREMENT.findall(bare)[0])
        # What has a condition may be for another system or another Python.
        if marker and (_is_for_older_python(marker) or not _is_installed(name)):
            continue
        yield name


def _is_for_older_python(marker: str) -> bool:
    below = _BELOW.search(marker)
    return below is not None and sys.version_info >= (int(below[1]), int(below[2]))


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _material(name: str, installed: Distribution, needs: tuple[str, ...]) -> Material:
    about = installed.metadata
    terms = about.get("License-Expression") or _classified(about.get_all("Classifier") or ())
    # Some put the whole text of the license where its name belongs.
    stated = (about.get("License") or "").strip().partition("\n")[0]
    summary = about.get("Summary") or ""
    hashes = _hashes(name, installed.version)
    return Material(name, installed.version, terms or stated, summary, needs, hashes)


def _hashes(name: str, version: str) -> tuple[str, ...]:
    entry = rf"^{re.escape(name)}=={re.escape(version)}((?: \\\n +--hash=sha256:[0-9a-f]+)+)$"
    found = re.search(entry, LIST.read_text("utf-8"), re.MULTILINE)
    return tuple(re.findall(r"sha256:([0-9a-f]+)", found[1])) if found else ()


def _classified(classifiers: Iterable[str]) -> str:
    names = [each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License :: ")]
    return " OR ".join(names)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def bill(found: Iterable[Material]) -> dict[str, Any]:
    """The document; the first of the materials is what it is about."""
    first, *others = found
    every = {each.name: each.reference for each in (first, *others)}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": _component(first, "application")},
        "components": [_component(each, "library") for each in others],
        "dependencies": [
            {"ref": each.reference, "dependsOn": [every[name] for name in each.needs]}
            for each in (first, *others)
        ],
    }


def _component(each: Material, kind: str) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": kind,
        "bom-ref": each.reference,
        "name": each.name,
        "version": each.version,
        "description": each.summary,
        "purl": each.reference,
    }
    if each.hashes:
        component["hashes"] = [{"alg": "SHA-256", "content": digest} for digest in each.hashes]
    if each.license:
        component["licenses"] = [{"license": {"name": each.license}}]
    return component


def main(arguments: list[str]) -> int:
    """Write the document into a file, or on standard output where none is named."""
    text = json.dumps(bill(materials()), indent=1, ensure_ascii=False) + "\n"
    if not arguments:
        sys.stdout.write(text)
        return 0
    file = Path(arguments[0])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
