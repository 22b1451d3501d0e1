"""What the program is made of: all of it known, and all of it pinned."""

import json
import re
import subprocess
import sys
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from rightsizer import __version__

ROOT: Final = Path(__file__).parent.parent.parent
PINS: Final = {
    canonicalize_name(name): pinned
    for name, _, pinned in (
        line.partition("==") for line in (ROOT / "constraints.txt").read_text().split()
    )
}


@pytest.fixture(scope="module")
def text() -> str:
    """The document, as `make sbom` writes it."""
    return written()


@pytest.fixture
def bill(text: str) -> Any:
    """The document read."""
    return json.loads(text)


def written() -> str:
    """What the program writes on standard output."""
    program = ROOT / "config" / "packages" / "sbom.py"
    return subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=True
    ).stdout


def closure(*roots: str) -> set[str]:
    """All that installing these brings along here, themselves apart from the project's own."""
    found: set[str] = set()
    waiting = [Requirement(root) for root in roots]
    while waiting:
        asked = waiting.pop()
        name = canonicalize_name(asked.name)
        if name in found:
            continue
        found.add(name)
        for text in distribution(name).requires or ():
            needed = Requirement(text)
            extras = asked.extras or {""}
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in extras
            ):
                waiting.append(needed)
    return found - {"gpu-rightsizer"}


def development() -> list[str]:
    """The group of development tools."""
    project = (ROOT / "pyproject.toml").read_text()
    group = re.search(r"^dev = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    assert group is not None
    return re.findall(r'^ +"([^"]+)"', group[1], re.MULTILINE)


def test_all_that_is_installed_is_pinned() -> None:
    """Whatever a fresh environment takes, for the agent or for its tests, has one version."""
    needed = closure("gpu-rightsizer[kubernetes,fleet]", *development())
    assert needed <= PINS.keys()
    assert [n for n in needed if Version(version(n)) != Version(PINS[n])] == []


def test_nothing_is_pinned_that_nobody_needs() -> None:
    """A pin that was left behind would look like a part."""
    assert closure("gpu-rightsizer[kubernetes,fleet]", *development()) == PINS.keys()


def test_the_bill_names_what_a_package_contains(bill: Any) -> None:
    """Itself, and every library with its version; no tool of its developers."""
    parts = {part["name"]: part["version"] for part in bill["components"]}
    assert parts.keys() == closure("gpu-rightsizer[kubernetes,fleet,cli]")
    assert parts == {name: PINS[name] for name in parts}
    about = bill["metadata"]["component"]
    assert (about["name"], about["version"]) == ("gpu-rightsizer", __version__)
    assert all(part["licenses"] for part in bill["components"])


def test_the_bill_is_a_graph_of_its_parts(bill: Any) -> None:
    """Each reference is that of a part, and each part is needed by another."""
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    parts = [bill["metadata"]["component"], *bill["components"]]
    references = {part["bom-ref"] for part in parts}
    graph = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    assert graph.keys() == references
    assert len(references) == len(parts)
    needed = {name for needs in graph.values() for name in needs}
    assert needed == references - {parts[0]["bom-ref"]}


def test_the_bill_is_the_same_every_time(text: str) -> None:
    """It says what is installed, not when it was asked, and names no host."""
    assert written() == text
    assert "://" not in text
