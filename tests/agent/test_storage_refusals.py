"""An agent without access to its history: one line, exit status 1, and nothing left behind."""

import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from agent_process import run_rightsizer
from rightsizer.advice.storage import MIGRATIONS, Storage
from rightsizer.notify.grafana.service import AnnotationOutbox

SIMULATED: Final = ("--simulated.scenario", "t4-pair", "--web.listen-address")


def refusal(history: Path | str, address: str = "127.0.0.1:0") -> str:
    """The single line printed by the agent before it exits."""
    done = run_rightsizer("agent", *SIMULATED, address, "--history.path", history)
    said = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert (done.returncode, done.stdout, len(said)) == (1, "", 1)
    return said[0]


def test_a_newer_schema_is_left_to_its_program(tmp_path: Path) -> None:
    """It is neither changed nor set aside."""
    path = tmp_path / "history.db"
    with closing(sqlite3.connect(path)) as newer:
        newer.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 7}")
    before = path.read_bytes()
    line = refusal(path)

    assert line == (
        f"rightsizer: history '{path}' has schema {len(MIGRATIONS) + 7}, this program knows up to "
        f"{len(MIGRATIONS)}; upgrade rightsizer or set history.path to another file"
    )
    assert not list(tmp_path.glob("*.corrupt-*"))
    with closing(sqlite3.connect(path)) as newer:
        assert newer.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    assert path.read_bytes()[:16] == before[:16]


def test_a_place_that_nobody_may_write_is_named() -> None:
    """With the remedy."""
    line = refusal("/sys/rightsizer/history.db")

    assert line.startswith("rightsizer: history '/sys/rightsizer/history.db' cannot be written: ")
    assert "[Errno" not in line
    assert line.endswith("; make the folder writable for this user or set history.path")


def test_a_second_writer_is_told_who_the_first_one_is(tmp_path: Path) -> None:
    """The first one's history is unchanged."""
    path = tmp_path / "history.db"
    first = Storage(str(path))
    line = refusal(path)
    first.close()

    assert line.startswith(f"rightsizer: history '{path}' is being written by process ")
    assert line.endswith("; stop that agent, or give this one another history.path")


@pytest.mark.parametrize("is_there", [False, True], ids=["new", "existing"])
def test_a_port_in_use_leaves_no_empty_history(tmp_path: Path, is_there: bool) -> None:  # noqa: FBT001
    """An existing history is kept and unlocked."""
    path = tmp_path / "history.db"
    if is_there:
        earlier = Storage(str(path))
        earlier.save_windows([], [], [])
        AnnotationOutbox(earlier.database).remember("aaaaaaaaaaaa", 1)
        earlier.close()
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        line = refusal(path, f"127.0.0.1:{other.getsockname()[1]}")

    assert "the port is in use" in line
    if is_there:
        again = Storage(str(path))
        assert AnnotationOutbox(again.database).annotation_id("aaaaaaaaaaaa") == 1
        again.close()
    else:
        assert list(tmp_path.iterdir()) == []
