"""A program is recorded before it runs, and does not run if recording fails."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import msgspec
import pytest

import rightsizer
from agent_process import eventually
from rightsizer.io.program import Ending, Limits, Run, run_program
from rightsizer.model.errors import HistoryError

LIMITS: Final = Limits(20.0, threading.Event(), lambda: None)
KILLED: Final = """
import os, signal, sys, threading
from pathlib import Path
from rightsizer.io.program import Limits, run_program

def note(pid):
    Path("process").write_text(str(pid))
    os.kill(os.getpid(), signal.SIGKILL)

run_program(("touch", "made"), Path.cwd(), Limits(20.0, threading.Event(), lambda: None), note=note)
"""

_IN_A_BUNDLE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from rightsizer.io.program import own_module
command = own_module("rightsizer")
os.execv(command[0], [*command, "version"])
"""


def test_own_module_runs_where_the_interpreter_does_not_find_it(tmp_path: Path) -> None:
    """Packages bring their own libraries; another module of that name is not used."""
    (tmp_path / "rightsizer.py").write_text("raise SystemExit(3)", encoding="utf-8")
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    for module in (rightsizer, msgspec):
        folder = Path(module.__path__[0])
        (bundle / folder.name).symlink_to(folder)
    run = subprocess.run(
        [sys._base_executable, "-I", "-c", _IN_A_BUNDLE, str(bundle)],  # type: ignore[attr-defined] - not of a virtual environment.
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("rightsizer ")


def test_a_program_runs_after_its_process_was_noted(tmp_path: Path) -> None:
    """Its PID is the same, and signals that Python ignores have their defaults."""
    seen: list[tuple[int, bool]] = []

    def note(pid: int) -> None:
        seen.append((pid, (tmp_path / "made").exists()))

    program = "import os; print(os.getpid())"
    command = (sys.executable, "-c", program)
    assert run_program(("touch", "made"), tmp_path, LIMITS, note=note) == Run(Ending.ENDED, 0)
    ran = run_program(command, tmp_path, LIMITS, note=note)
    assert [has_run for _, has_run in seen] == [False, True]
    assert ran.said == str(seen[1][0])
    output = run_program(("grep", "SigIgn", "/proc/self/status"), tmp_path, LIMITS).said
    ignored = int(output.split()[1], 16)
    # Signals ignored by the shell of these tests do not count.
    assert not any(ignored >> number - 1 & 1 for number in (signal.SIGPIPE, signal.SIGXFSZ))


def test_an_agent_that_is_killed_before_the_record_runs_nothing(tmp_path: Path) -> None:
    """The process that was to become the program ends by itself."""
    killed = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, check=False)
    assert killed.returncode < 0
    pid = int((tmp_path / "process").read_text())
    eventually(lambda: _is_gone(pid))
    assert not (tmp_path / "made").exists()


def test_a_program_that_cannot_be_recorded_is_not_run(tmp_path: Path) -> None:
    """The reason is reported."""

    def note(_: int) -> None:
        raise HistoryError("there is no room")

    ran = run_program(("touch", "made"), tmp_path, LIMITS, note=note)
    assert ran == Run(Ending.ABSENT, detail="was not run: there is no room")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("content", ["no program", "#!/no/such/interpreter"])
def test_a_file_that_is_no_program_is_reported(tmp_path: Path, content: str) -> None:
    """It is reported as never started."""
    file = tmp_path / "file"
    file.write_text(content)
    file.chmod(0o755)
    ran = run_program((str(file),), tmp_path, LIMITS)
    assert ran.ending is Ending.ABSENT
    assert ran.detail.startswith(f"'{file}' cannot be run: [Errno ")


def _is_gone(pid: int) -> bool:
    """Whether a process that is no child of ours has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
