"""`rightsizer fleet` without the extra `fleet`, and what works without it."""

import subprocess
import sys
from pathlib import Path

import pytest

_WITHOUT = """
import sys
sys.modules.update(numpy=None, orjson=None)
from rightsizer.cli.main import entry_point
sys.argv = ["rightsizer", *sys.argv[1:]]
entry_point()
"""


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command with neither numpy nor orjson importable."""
    command = [sys.executable, "-c", _WITHOUT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    "arguments", [("--store.url", "http://127.0.0.1:9"), ("merge", "answer.json"), ("--serve",)]
)
def test_a_fleet_without_the_extra_names_the_remedy(arguments: tuple[str, ...]) -> None:
    """In one line, before any query or read."""
    ended = run("fleet", *arguments)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr == (
        "rightsizer: fleet needs numpy and orjson (numpy is missing); install them with: pip "
        "install 'gpu-rightsizer[fleet]', or use the image rightsizer-tools\n"
    )


def test_help_and_settings_of_a_fleet_need_no_extra(tmp_path: Path) -> None:
    """An agent's machine also checks files with a fleet section."""
    path = tmp_path / "rightsizer.yaml"
    path.write_text("fleet: {store: {url: 'http://127.0.0.1:9'}}\n", encoding="utf-8")
    assert "--shard" in run("fleet", "--help").stdout
    assert run("config", "check", path).returncode == 0
