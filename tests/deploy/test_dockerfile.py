"""The image, as far as its text can promise it."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
# One instruction a line, comments gone.
INSTRUCTIONS = [
    line
    for line in re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", TEXT)).splitlines()
    if line.strip()
]
FINAL = INSTRUCTIONS[[line.startswith("FROM") for line in INSTRUCTIONS].index(True, 1) :]


def instruction(name: str) -> str:
    """What follows the last instruction of a kind in the final stage."""
    return [line for line in FINAL if line.startswith(f"{name} ")][-1].split(" ", 1)[1]


def test_two_stages_of_one_slim_base() -> None:
    """Build tools stay in the first stage; both share their base."""
    bases = [line.split()[1] for line in INSTRUCTIONS if line.startswith("FROM")]
    assert bases == ["python:3.12-slim", "python:3.12-slim"]
    assert "pip" not in " ".join(FINAL)


def test_versions_are_pinned() -> None:
    """What is installed is what was tested."""
    assert "--constraint constraints.txt" in TEXT


def test_runs_without_privileges() -> None:
    """The user is not root, and numeric, so that Kubernetes can see that."""
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", instruction("USER"))


def test_health_is_asked_without_further_tools() -> None:
    """The check needs no curl, and asks for life rather than for samples."""
    check = instruction("HEALTHCHECK")
    program, flag, script = json.loads(check[check.index("[") :])
    assert (program, flag) == ("python", "-c")
    assert "http://127.0.0.1:19400/-/healthy" in script
    compile(script, "healthcheck", "exec")


def test_driver_comes_from_the_host() -> None:
    """The NVIDIA runtime hands in all devices with the smallest capability."""
    environment = instruction("ENV")
    assert "NVIDIA_VISIBLE_DEVICES=all" in environment
    assert "NVIDIA_DRIVER_CAPABILITIES=utility" in environment


def test_starts_the_agent() -> None:
    """The image is the command; its default is the agent."""
    assert json.loads(instruction("ENTRYPOINT")) == ["rightsizer"]
    assert json.loads(instruction("CMD")) == ["agent"]
    assert instruction("EXPOSE") == "19400"
    assert instruction("VOLUME") == "/var/lib/rightsizer"


def test_image_is_labeled() -> None:
    """Title, description and license are where registries look for them."""
    labels = instruction("LABEL")
    for key in ("title", "description", "licenses"):
        assert f"org.opencontainers.image.{key}=" in labels


def test_context_holds_only_what_is_copied() -> None:
    """Everything copied is let in by name, and nothing else is."""
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in ignore if line and not line.startswith("#")]
    assert rules[0] == "*"
    allowed = {line.removeprefix("!") for line in rules if line.startswith("!")}
    copies = [line.split()[1:-1] for line in INSTRUCTIONS if line.startswith("COPY")]
    copied = {name for names in copies for name in names if not name.startswith(("/", "--"))}
    assert copied == allowed
    assert all((ROOT / name).exists() for name in allowed)
