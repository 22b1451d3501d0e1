"""Dependencies of the program: all known, and all pinned."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import distribution, version
from pathlib import Path
from threading import Thread
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
LISTS: Final = ROOT / "config" / "packages" / "requirements"


@pytest.fixture(scope="module")
def text() -> str:
    """The document, as `make sbom` writes it."""
    return written()


@pytest.fixture
def bill(text: str) -> Any:
    """The parsed document."""
    return json.loads(text)


def written() -> str:
    """Standard output of the program."""
    program = ROOT / "config" / "packages" / "sbom.py"
    return subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=True
    ).stdout


def closure(*roots: str) -> set[str]:
    """All that installing these brings along here, without the project's own."""
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
    """Each package of a new environment, for the agent or its tests, has one version."""
    needed = closure("gpu-rightsizer[kubernetes,fleet,mcp]", *development())
    assert needed <= PINS.keys()
    assert [n for n in needed if Version(version(n)) != Version(PINS[n])] == []


def test_nothing_is_pinned_that_nobody_needs() -> None:
    """An obsolete pin would look like a dependency."""
    needed = closure("gpu-rightsizer[kubernetes,fleet,mcp]", *development())
    assert needed | hashed("build").keys() == PINS.keys()


def hashed(name: str) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes of each package in a list."""
    text = (LISTS / f"{name}.txt").read_text()
    found = re.findall(
        r"^(\S+)==(\S+) \\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE
    )
    assert text.count("==") == len(found)
    return {part: (pin, re.findall(r"[0-9a-f]{64}", hashes)) for part, pin, hashes in found}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("agent", "gpu-rightsizer[kubernetes,profile]"),
        ("node", "gpu-rightsizer[kubernetes,cli]"),
        ("tools", "gpu-rightsizer[kubernetes,fleet,cli]"),
    ],
)
def test_all_that_an_image_contains_has_hashes(name: str, wanted: str) -> None:
    """Every package has the tested version, compiled ones for each architecture."""
    parts = hashed(name)
    assert parts.keys() == closure(wanted)
    assert {part: version for part, (version, _) in parts.items()} == {
        part: PINS[part] for part in parts
    }
    for part in parts.keys() & {"bcrypt", "markupsafe", "msgspec", "numpy", "orjson", "pyyaml"}:
        assert len(set(parts[part][1])) >= 2


def test_the_build_back_end_is_pinned() -> None:
    """Its version is pinned for everyone, its hashes for releases."""
    project = (ROOT / "pyproject.toml").read_text()
    (asked,) = re.findall(r'^requires = \["(\S+)"\]', project, re.MULTILINE)
    assert asked == f"hatchling=={PINS[canonicalize_name('hatchling')]}"
    assert {part: pin for part, (pin, _) in hashed("build").items()}.items() <= PINS.items()


def test_a_list_is_made_of_what_an_index_says(tmp_path: Path) -> None:
    """It has Linux wheels for supported Pythons, of the pinned version only."""
    files = {
        "h2-4.4.1-py3-none-any.whl": "a",
        "h2-4.4.0-py3-none-any.whl": "b",
        "h2-4.4.1.tar.gz": "c",
        "h2-4.4.1-cp312-cp312-manylinux_2_28_aarch64.whl": "d",
        "h2-4.4.1-cp312-cp312-macosx_11_0_arm64.whl": "e",
        "h2-4.4.1-cp310-cp310-manylinux_2_28_x86_64.whl": "f",
        "h2-4.4.1-cp39-abi3-musllinux_1_2_x86_64.whl": "0",
        "h2-4.4.1-cp314-cp314t-manylinux_2_28_x86_64.whl": "1",
    }
    done = asked_hashes(tmp_path, files)
    assert done.stdout.split() == ["a", "d", "0"]


def test_a_version_without_a_wheel_for_an_architecture_is_refused(tmp_path: Path) -> None:
    """The message names the Python and the architecture; wheels for musl do not count."""
    x86 = "manylinux_2_28_x86_64"
    files = {
        **{f"h2-4.4.1-cp3{minor}-cp3{minor}-{x86}.whl": f"{minor}" for minor in range(11, 15)},
        "h2-4.4.1-cp39-abi3-musllinux_1_2_aarch64.whl": "0",
        "h2-4.4.1-cp312-abi3-manylinux_2_28_aarch64.whl": "1",
    }
    done = asked_hashes(tmp_path, files)
    assert "has no wheel of h2 4.4.1 for Python 3.11 on aarch64; pin another" in done.stderr

    done = asked_hashes(tmp_path, {**files, "h2-4.4.1-cp311-abi3-linux_aarch64.whl": "2"})
    assert sorted(done.stdout.split()) == ["0", "1", "11", "12", "13", "14", "2"]


def asked_hashes(tmp_path: Path, files: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """What the program says of an index with files, each with its hash."""
    (folder := tmp_path / "h2").mkdir(exist_ok=True)
    entries = [{"filename": name, "hashes": {"sha256": file}} for name, file in files.items()]
    (folder / "index.html").write_text(json.dumps({"files": entries}))
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import requirements\n"
        "print(*requirements.hashes('h2', '4.4.1', sys.argv[2]))"
    )
    with served(tmp_path) as index:
        program = str(ROOT / "config" / "packages")
        return subprocess.run(
            [sys.executable, "-B", "-c", script, program, index],
            capture_output=True,
            text=True,
            check=False,
        )


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A folder on loopback, by its URL."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_bill_names_what_a_package_contains(bill: Any) -> None:
    """It has the package, and every library with its version, but no development tools."""
    parts = {part["name"]: part["version"] for part in bill["components"]}
    assert parts.keys() == closure("gpu-rightsizer[kubernetes,fleet,cli]")
    assert parts == {name: PINS[name] for name in parts}
    about = bill["metadata"]["component"]
    assert (about["name"], about["version"]) == ("gpu-rightsizer", __version__)
    assert all(part["licenses"] for part in bill["components"])
    for part in bill["components"]:
        assert [each["alg"] for each in part["hashes"]] == ["SHA-256"] * len(part["hashes"])
        assert [each["content"] for each in part["hashes"]] == hashed("tools")[part["name"]][1]


def test_the_bill_is_a_graph_of_its_parts(bill: Any) -> None:
    """Each reference is that of a package, and each package is needed by another."""
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    parts = [bill["metadata"]["component"], *bill["components"]]
    references = {part["bom-ref"] for part in parts}
    graph = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    assert graph.keys() == references
    assert len(references) == len(parts)
    needed = {name for needs in graph.values() for name in needs}
    assert needed == references - {parts[0]["bom-ref"]}


def test_the_bill_is_the_same_every_time(text: str) -> None:
    """It has the installed packages, but neither time nor host."""
    assert written() == text
    assert "://" not in text
