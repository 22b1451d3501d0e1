"""Workflows of the forge call existing targets of the Makefile and name existing files."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from fetched_package import fetched
from rightsizer.io.yaml import load_yaml

ROOT: Final = Path(__file__).parents[2]
WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKE: Final = re.compile(r"\bmake ([a-z]+)")


def read(path: Path) -> dict[str, Any]:
    """A file; YAML 1.1 reads its key `on` as a boolean."""
    document = load_yaml(path.read_text("utf-8"), str(path)).data
    assert isinstance(document, dict)
    return document


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    """All steps of all jobs."""
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_existing_make_targets(path: Path) -> None:
    """So that a clone runs the same."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    called = {name for step in steps(read(path)) for name in MAKE.findall(step.get("run", ""))}

    assert called
    assert called <= targets


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_no_more_rights_than_it_uses(path: Path) -> None:
    """It reads, unless a job states what it writes; each job ends; actions are pinned by commit."""
    workflow = read(path)

    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    for step in steps(workflow):
        assert "run" in step or re.fullmatch(r"[\w-]+/[\w.-]+@[0-9a-f]{40}", step["uses"])
    # Each commit has its version beside it, which dependabot renews too.
    lines = [line for line in path.read_text("utf-8").splitlines() if "uses:" in line]
    assert all(re.search(r"# v\d+\.\d+\.\d+$", line) for line in lines)


def test_every_python_that_is_supported_is_tested_on_both_architectures() -> None:
    """From the oldest one named by the project on."""
    matrix = read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["test"]["strategy"]["matrix"]
    declared = (ROOT / "pyproject.toml").read_text("utf-8")
    oldest = re.search(r'requires-python = ">=([\d.]+)"', declared)

    assert oldest is not None
    assert matrix["python"][0] == oldest[1]
    classifiers = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', declared)
    assert matrix["python"] == classifiers
    assert {runner.endswith("-arm") for runner in matrix["runner"]} == {True, False}


def test_the_images_of_a_release_have_lists_of_libraries() -> None:
    """Each under its name, and the Dockerfile uses them."""
    images = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["images"]
    lists = {each["libraries"] for each in images["strategy"]["matrix"]["include"]}
    folder = ROOT / "config" / "packages" / "requirements"

    # The others are of the build and of a package.
    assert lists == {path.stem for path in folder.glob("*.txt")} - {"build", "node"}
    assert "ARG LIBRARIES=" in (ROOT / "Dockerfile").read_text("utf-8")


def test_security_audit_has_no_finding() -> None:
    """Zizmor audits permissions, pins, credentials and injections, and dependabot's settings."""
    linter = fetched("zizmor==1.32.0") / "bin" / "zizmor"
    command = [linter, "--offline", "--no-progress", "--format", "plain", ROOT / ".github"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_linter_has_no_complaint() -> None:
    """Actionlint checks syntax, expressions, shell code, and whether actions still run."""
    linter = shutil.which("actionlint")
    if linter is None:
        pytest.skip("actionlint not found; install its release on PATH")
    command = [linter, "-no-color", *WORKFLOWS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
