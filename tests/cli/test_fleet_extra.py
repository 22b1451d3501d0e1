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
        "rightsizer: fleet needs numpy and orjson (numpy is missing); install the package "
        "rightsizer-fleet, or take pip install 'gpu-rightsizer[fleet]' or the image "
        "rightsizer-tools\n"
    )


def test_a_package_for_another_python_says_so(tmp_path: Path) -> None:
    """The compiled parts of numpy are not found there; pip would not change the package."""
    other = tmp_path / "numpy"
    other.mkdir()
    (other / "__init__.py").write_text("raise ImportError('Importing the C-extensions failed')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {_WITHOUT}".replace(
        "numpy=None, ", ""
    )
    command = [sys.executable, "-c", code, "fleet", "--store.url", "http://127.0.0.1:9"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    python = "Python {}.{}".format(*sys.version_info)
    assert ended.returncode == 1
    assert ended.stderr == (
        "rightsizer: fleet needs numpy and orjson, and those installed are for another Python than "
        f"{python}; use a package built with {python} (`make deb`), or the image rightsizer-tools\n"
    )


def test_help_and_settings_of_a_fleet_need_no_extra(tmp_path: Path) -> None:
    """An agent's machine also checks files with a fleet section."""
    path = tmp_path / "rightsizer.yaml"
    path.write_text("fleet: {store: {url: 'http://127.0.0.1:9'}}\n", encoding="utf-8")
    assert "--shard" in run("fleet", "--help").stdout
    assert run("config", "check", path).returncode == 0


def test_a_profile_without_the_extra_names_the_remedy(tmp_path: Path) -> None:
    """The package of the fleet brings the library, too."""
    path = tmp_path / "trace.json"
    path.write_text('{"schemaVersion": 1, "traceEvents": []}')
    ended = run("profile", path)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "take pip install 'gpu-rightsizer[profile]', or the package" in ended.stderr
