"""`rightsizer completion`: completions of a real shell by its script."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from agent_process import run_rightsizer

_ASK: Final = """\
source {script}
COMP_LINE={line!r} COMP_POINT={point} COMP_WORDS=({line}) COMP_CWORD={place} COMP_TYPE=9
_python_argcomplete rightsizer {word!r}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The script for bash."""
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    path = tmp_path / "rightsizer.bash"
    path.write_text(run_rightsizer("completion", "bash").stdout, "utf-8")
    return path


def completed(script: Path, line: str) -> list[str]:
    """Completions of bash at the end of a line."""
    words = line.split(" ")
    program = script.parent / "bin" / "rightsizer"
    program.parent.mkdir(exist_ok=True)
    program.write_text(
        f"#!{sys.executable}\nfrom rightsizer.cli.main import entry_point\nentry_point()\n", "utf-8"
    )
    program.chmod(0o755)
    asked = _ASK.format(
        script=script, line=line, point=len(line), place=len(words) - 1, word=words[-1]
    )
    run = subprocess.run(
        ["bash", "-c", asked],
        env=os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return [word.strip() for word in run.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("rightsizer adv", ["advise"]),
        ("rightsizer to", ["top", "topology"]),
        ("rightsizer advise --verb", ["--verbose"]),
        ("rightsizer completion ", ["bash", "fish", "zsh"]),
    ],
)
def test_bash_completes_commands_flags_and_choices(
    script: Path, line: str, offered: list[str]
) -> None:
    """By a tab at the end of the line."""
    assert sorted(completed(script, line)) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_of_its_own(shell: str) -> None:
    """It names the command that it completes."""
    printed = run_rightsizer("completion", shell)

    assert (printed.returncode, printed.stderr) == (0, "")
    assert "rightsizer" in printed.stdout


def test_a_shell_that_is_not_known_is_refused() -> None:
    """With the known ones."""
    printed = run_rightsizer("completion", "tcsh")

    assert printed.returncode == 2
    assert "bash" in printed.stderr
