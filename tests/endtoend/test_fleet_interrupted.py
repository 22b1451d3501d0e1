"""An interrupted fleet run resumes; its cache belongs to one process at a time."""

import json
import os
import signal
import sqlite3
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from agent_process import eventually
from faulty_store import Reply, StoreRequest, faulty_store, refusal
from fleet_command import asked_in_process, configured, fleet_process, look_command
from odd_estate import END, odd_estate

pytestmark = pytest.mark.prometheus

AT: Final = ("--json", "--at", str(END))
DENSE: Final = {"matchers": 'estate="dense"'}
READ_DAYS: Final = 3
"""Days covered by the store."""
RANGE: Final = "/api/v1/query_range"
RESUMED: Final = {"use", "notes", "evidence"}
"""Parts of an answer about how it was fetched."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A real Prometheus with some days of a fleet."""
    with odd_estate() as url:
        yield url


@pytest.fixture(scope="module")
def undisturbed(url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answer of an undisturbed run."""
    config = configured(tmp_path_factory.mktemp("undisturbed"), url, **DENSE)
    return asked_in_process(config, *AT).document


def passed_on(url: str, asked: StoreRequest) -> Reply:
    """A real store's response to a request."""
    body = urlencode(dict(asked.parameters)).encode()
    with urlopen(Request(f"{url}{asked.path}", data=body), timeout=20) as answer:
        return Reply(body=answer.read())


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two answers are equal, however they were fetched."""
    return {key: value for key, value in one.items() if key not in RESUMED} == {
        key: value for key, value in other.items() if key not in RESUMED
    }


def test_a_store_that_dies_is_asked_for_the_rest_alone(
    tmp_path: Path, url: str, undisturbed: dict[str, Any]
) -> None:
    """Fetched days are kept; the final answer equals that of an undisturbed run."""
    with faulty_store() as store:
        store.judge = lambda asked: passed_on(url, asked)
        config = configured(tmp_path, store.url, **DENSE)
        assert asked_in_process(config, *AT).status == 0
        whole = days_of(store.asked)
        (tmp_path / "fleet.db").unlink()

        def judge(asked: StoreRequest) -> Reply:
            is_late = len(days_of(store.asked)) > READ_DAYS
            return refusal(500, "out of memory") if is_late else passed_on(url, asked)

        store.asked.clear()
        store.judge = judge
        said = asked_in_process(config, *AT)
        assert said.status == 1
        assert said.refusal == f"the store at {store.url} refused (500): out of memory"
        store.asked.clear()
        store.judge = lambda asked: passed_on(url, asked)
        assert same(asked_in_process(config, *AT).document, undisturbed)
        rest = days_of(store.asked)
    newest_first = sorted(whole, reverse=True)
    assert len(newest_first) > READ_DAYS + 1
    # The newest is fetched again, since its last samples may have arrived late.
    assert rest == {day: whole[day] for day in (newest_first[0], *newest_first[READ_DAYS:])}


def days_of(asked: list[StoreRequest]) -> Counter[int]:
    """Number of five-minute queries for each day, by its number."""
    return Counter(
        int(float(each.parameters["start"]) // 86400)
        for each in asked
        if each.parameters.get("step") == "300"
    )


def test_a_store_that_restarts_is_waited_for(
    tmp_path: Path, url: str, undisturbed: dict[str, Any]
) -> None:
    """By every process, beyond the normal retries; the wait is reported."""
    left = 12
    with faulty_store() as store:

        def judge(asked: StoreRequest) -> Reply:
            nonlocal left
            is_away = asked.parameters.get("step") == "300" and left > 0
            left -= is_away
            return refusal(503, "Service Unavailable") if is_away else passed_on(url, asked)

        store.judge = judge
        config = configured(tmp_path, store.url, {"patience": "60s"}, workers=2, **DENSE)
        said = fleet_process(config, *AT)
        assert same(said.document, undisturbed)
    assert left == 0
    assert "store_waited_for" in said.err


@pytest.mark.parametrize("workers", [1, 2])
def test_a_look_that_was_killed_begins_where_it_was(
    tmp_path: Path, url: str, undisturbed: dict[str, Any], workers: int
) -> None:
    """It leaves no lock and no process; the next run gives the same answer."""
    reached = threading.Event()
    go_on = threading.Event()
    with faulty_store() as store:
        ranges = 0

        def judge(asked: StoreRequest) -> Reply:
            nonlocal ranges
            ranges += asked.path == RANGE
            if ranges > 8:
                reached.set()
                go_on.wait(20)
            return passed_on(url, asked)

        store.judge = judge
        config = configured(tmp_path, store.url, workers=workers, **DENSE)
        with subprocess.Popen(
            look_command(config, *AT), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                assert reached.wait(60)
                family = _children(process.pid)
            finally:
                process.kill()
                process.wait(10)
        # While the store still keeps all of them waiting.
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family), 20)
        go_on.set()
        store.judge = lambda asked: passed_on(url, asked)
        assert same(asked_in_process(config, *AT).document, undisturbed)
    assert bool(family) == (workers > 1)


def _children(pid: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        children += map(int, (task / "children").read_text().split())
    return children


def test_a_second_look_at_the_same_place_is_refused(tmp_path: Path, url: str) -> None:
    """The message names the owner and the remedy; the first run is not disturbed."""
    reached = threading.Event()
    go_on = threading.Event()

    def judge(asked: StoreRequest) -> Reply:
        reached.set()
        go_on.wait(30)
        return passed_on(url, asked)

    with faulty_store() as store:
        store.judge = judge
        config = configured(tmp_path, store.url, **DENSE)
        with subprocess.Popen(
            look_command(config, *AT), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as first:
            assert reached.wait(30)
            said = asked_in_process(config, *AT)
            go_on.set()
            out, _ = first.communicate(timeout=40)
    assert said.status == 1
    assert said.refusal == (
        f"the day cache '{tmp_path}/fleet.db' is being written by process {first.pid}; stop that "
        "run or service, or give this one another fleet.path"
    )
    assert json.loads(out)["findings"]


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path, url: str) -> None:
    """A run needs a cache folder, and the message names the setting."""
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "fleet.db", Path("/proc/nowhere/fleet.db")):
        config = configured(tmp_path, url, path=str(place), **DENSE)
        said = asked_in_process(config, *AT)
        assert said.status == 1
        assert said.refusal.startswith(f"the day cache '{place}' cannot be written: ")
        assert said.refusal.endswith("make the folder writable for this user or set fleet.path")


def test_a_disk_that_is_full_is_reported(tmp_path: Path, url: str) -> None:
    """By a limit on file size; with more room the run continues."""
    config = configured(tmp_path, url, **DENSE)
    said = fleet_process(config, *AT, prefix=("prlimit", "--fsize=40000"))
    assert said.status == 1
    assert said.refusal.startswith(f"the day cache '{tmp_path}/fleet.db'")
    assert "full" in said.refusal or "I/O" in said.refusal
    assert asked_in_process(config, *AT).status == 0


def test_broken_days_are_set_aside_and_read_again(
    tmp_path: Path, url: str, undisturbed: dict[str, Any]
) -> None:
    """They can be fetched again, so nothing needs to be done; it is still reported."""
    (tmp_path / "fleet.db").write_bytes(b"no database at all, " * 999)
    config = configured(tmp_path, url, **DENSE)
    document = asked_in_process(config, *AT).document
    (aside,) = tmp_path.glob("fleet.db.corrupt-*")
    note = f"The day cache was broken and is now '{aside}'; all days were read again."
    assert note in document["notes"]
    assert same(document, undisturbed)


def test_days_that_break_within_are_read_again(
    tmp_path: Path, url: str, undisturbed: dict[str, Any]
) -> None:
    """Overwritten pages, as on a failing disk."""
    config = configured(tmp_path, url, **DENSE)
    assert asked_in_process(config, *AT).status == 0
    file = tmp_path / "fleet.db"
    raw = bytearray(file.read_bytes())
    raw[2048:] = os.urandom(len(raw) - 2048)
    file.write_bytes(raw)
    assert same(asked_in_process(config, *AT).document, undisturbed)


@pytest.mark.parametrize(
    ("name", "what", "flags"),
    [
        ("fleet.db", "the day cache", ()),
        ("fleet-advice.db", "the fleet's ledger", ("--save",)),
    ],
)
def test_state_of_a_newer_program_is_left_alone(
    tmp_path: Path, url: str, name: str, what: str, flags: tuple[str, ...]
) -> None:
    """It is neither read nor set aside."""
    with closing(sqlite3.connect(tmp_path / name)) as connection:
        connection.execute("CREATE TABLE later (x)")
        connection.execute("PRAGMA user_version = 99")
        connection.commit()
    said = asked_in_process(configured(tmp_path, url, **DENSE), *AT, *flags)
    assert said.status == 1
    assert said.refusal.startswith(f"{what} '{tmp_path / name}' has schema 99, this program knows")
    assert said.refusal.endswith("upgrade rightsizer or set fleet.path to another file")
    with closing(sqlite3.connect(tmp_path / name)) as connection:
        assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("later",)]


def test_an_interrupt_ends_it_quietly(tmp_path: Path, url: str) -> None:
    """Control-C gives no traceback, and fetched data is kept."""
    reached = threading.Event()
    go_on = threading.Event()

    def judge(asked: StoreRequest) -> Reply:
        reached.set()
        go_on.wait(5)
        return passed_on(url, asked)

    with faulty_store() as store:
        store.judge = judge
        config = configured(tmp_path, store.url, **DENSE)
        with subprocess.Popen(
            look_command(config, *AT), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert reached.wait(30)
            process.send_signal(signal.SIGINT)
            # A fast run would end before the signal arrives.
            go_on.wait(1)
            go_on.set()
            _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, b"")
