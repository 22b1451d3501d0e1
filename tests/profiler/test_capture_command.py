"""A capture program as a real process: its arguments, environment and limits."""

import sys
import threading
from pathlib import Path
from typing import Any, Final

import pytest

from agent_process import eventually
from rightsizer.host.process_table import end_group, started_of
from rightsizer.io.program import Limits, environment
from rightsizer.profiler.capture.repository import CaptureOutcome
from rightsizer.profiler.capture.runner import CaptureResult, run_command

RECORDER: Final = Path(__file__).parents[1] / "support" / "capture_recorder.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder of a capture."""
    path = tmp_path / "capture"
    path.mkdir()
    return path


def recorded(folder: Path, behavior: str, **limits: Any) -> CaptureResult:
    """Result of a recorder with a given behavior."""
    usual: dict[str, Any] = {
        "seconds": 20.0,
        "stop": threading.Event(),
        "why_too_much": lambda: None,
    }
    command = (sys.executable, str(RECORDER), str(folder), "7", "0", behavior)
    return run_command(command, folder, Limits(**usual | limits))


def is_gone(pid: int) -> bool:
    """Whether a process has ended, whether or not it was waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_a_program_that_records_leaves_its_profile(folder: Path) -> None:
    """Its output is returned, and its recording has ended."""
    assert recorded(folder, "well") == CaptureResult(
        CaptureOutcome.CALLED, said="records process 7", is_recorded=True
    )
    assert [each.name for each in folder.iterdir()] == ["trace_7.pt.trace.json.gz"]


def test_a_program_is_given_no_more_than_it_needs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets no secret of the agent's environment, and nothing on standard input."""
    monkeypatch.setenv("RIGHTSIZER_SECRET", "s3cret")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/run/credentials")
    assert recorded(folder, "tells").outcome is CaptureOutcome.CALLED
    given = dict(line.split("=", 1) for line in (folder / "environment").read_text().splitlines())
    assert set(given) - {"LC_CTYPE"} == {"PATH", "LANG"}
    assert (folder / "input").read_text() == "''"


def test_a_program_has_a_path_even_where_the_agent_has_none() -> None:
    """A service manager may set no PATH."""
    assert environment({})["PATH"].startswith("/usr/local/sbin:")


def test_a_program_that_fails_is_reported_with_what_it_said(folder: Path) -> None:
    """The message is one line of printable characters, of bounded length."""
    called = recorded(folder, "fails")
    assert called.outcome is CaptureOutcome.FAILED
    assert called.detail == "ended with status 3; the log has what it said"
    assert called.said.startswith("records process 7 no GPU ?[31m xxx")
    assert len(called.said) < 5000


def test_a_program_that_is_not_there_is_recognized_by_name(folder: Path) -> None:
    """The message has the remedy."""
    command = ("no-such-profiler", "--now")
    called = run_command(command, folder, Limits(1.0, threading.Event(), lambda: None))
    assert called == CaptureResult(
        CaptureOutcome.FAILED,
        "there is no program 'no-such-profiler'; install it, or name its whole path",
    )


def test_a_program_that_hangs_is_ended(folder: Path) -> None:
    """The outcome is a timeout."""
    called = recorded(folder, "hangs", seconds=0.5)
    assert called.outcome is CaptureOutcome.TIMED_OUT
    assert called.detail == "was not done after 0.5 s, and was ended"


def test_children_of_a_program_are_ended_with_it(folder: Path) -> None:
    """This covers children in its process group."""
    stop = threading.Event()
    has_forked = folder.parent / ".child"

    def why() -> None:
        if has_forked.exists() and has_forked.read_text():
            stop.set()

    called = recorded(folder, "forks", stop=stop, why_too_much=why)
    assert called.outcome is CaptureOutcome.INTERRUPTED
    assert eventually(lambda: is_gone(int(has_forked.read_text())))


def test_a_program_that_fills_the_disk_is_ended(folder: Path) -> None:
    """It is ended as soon as the quota check fails."""

    def why() -> str | None:
        huge = folder / "huge"
        return "too much" if huge.exists() and huge.stat().st_size > 2**20 else None

    called = recorded(folder, "fills", why_too_much=why)
    assert (called.outcome, called.detail) == (CaptureOutcome.FAILED, "too much")


def test_a_word_stays_a_word(folder: Path) -> None:
    """No shell interprets arguments."""
    text = "$(touch made); `touch made` > made | * ~"
    program = "import sys; print(sys.argv[1])"
    command = (sys.executable, "-c", program, text)
    called = run_command(command, folder, Limits(20.0, threading.Event(), lambda: None))
    assert called.said == text
    assert list(folder.iterdir()) == []


def test_a_process_is_distinguished_from_another_with_its_number(folder: Path) -> None:
    """A later agent ends only the process that was recorded, not another with its PID."""
    noted: list[tuple[int, int]] = []
    ended: list[bool] = []

    def note(pid: int) -> None:
        started = started_of(pid)
        assert started is not None
        noted.append((pid, started))
        ended.append(end_group(pid, started + 1))
        ended.append(end_group(pid, started))

    command = (sys.executable, "-c", "import time; time.sleep(600)")
    limits = Limits(20.0, threading.Event(), lambda: None)
    called = run_command(command, folder, limits, note=note)
    assert ended == [False, True]
    assert called.detail == "was ended by signal 9; the log has what it said"
    assert not end_group(*noted[0])
