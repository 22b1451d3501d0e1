"""Assignment of processes to leases, for arbitrary process tables."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from process_files import ProcessFolder
from rightsizer.broker.launch import LEASE, environment_tags, found_leases
from rightsizer.broker.lease import LeaseOwner
from rightsizer.broker.process_tracker import ProcessTracker
from rightsizer.host.process_table import ProcessTable, user_name

CLIENT = LeaseOwner(os.getuid(), "ada", 10, 100)


@pytest.fixture
def processes(tmp_path: Path) -> ProcessFolder:
    """The client alone, below init."""
    folder = ProcessFolder(tmp_path / "proc")
    folder.start(1)
    folder.start(10)
    return folder


def watcher_of(processes: ProcessFolder, maximum: int = 1000) -> ProcessTracker:
    """A tracker before its first scan."""
    return ProcessTracker(ProcessTable(processes.path), maximum)


def test_a_tree_is_its_clients_descendants_and_nobody_else(processes: ProcessFolder) -> None:
    """In any order, even with a child's pid below its parent's."""
    watcher = watcher_of(processes)
    processes.start(30, parent=10)
    processes.start(20, parent=30)
    processes.start(40, parent=1)
    seen = watcher.observe({"a": CLIENT})["a"]
    assert (seen.pids, seen.is_alive) == ({10, 20, 30}, True)
    processes.start(50, parent=20)
    processes.end(30)
    assert watcher.observe({"a": CLIENT})["a"].pids == {10, 20, 50}


def test_orphans_keep_a_lease_alive(processes: ProcessFolder) -> None:
    """A process seen as a member stays one below another parent, to its end."""
    watcher = watcher_of(processes)
    processes.start(20, parent=10)
    assert watcher.observe({"a": CLIENT})["a"].pids == {10, 20}
    processes.end(10)
    processes.start(20, parent=1)
    assert watcher.observe({"a": CLIENT})["a"].is_alive
    processes.end(20)
    assert not watcher.observe({"a": CLIENT})["a"].is_alive


def test_a_daemon_that_forks_twice_is_known_by_its_session(processes: ProcessFolder) -> None:
    """Its parents ended between two scans; the session started by one of them identifies it."""
    watcher = watcher_of(processes)
    processes.start(20, parent=10, session=20)
    watcher.observe({"a": CLIENT})
    processes.start(30, parent=1, session=20)
    processes.start(31, parent=1, session=1)
    processes.end(10)
    assert watcher.observe({"a": CLIENT})["a"].pids == {20, 30}
    processes.end(20)
    assert watcher.observe({"a": CLIENT})["a"].pids == {30}
    processes.end(30)
    processes.start(40, parent=1, session=20)
    assert watcher.observe({"a": CLIENT})["a"].pids == frozenset()


def test_a_number_that_is_used_again_is_somebody_else(processes: ProcessFolder) -> None:
    """The same holds for children and for waiting clients."""
    watcher = watcher_of(processes)
    processes.start(20, parent=10)
    watcher.observe({"a": CLIENT})
    processes.start(10, started=900)
    processes.start(20, started=900)
    assert not watcher.observe({"a": CLIENT})["a"].is_alive
    assert not watcher.is_alive(CLIENT)
    assert watcher.is_alive(replace(CLIENT, started_ticks=900))


def test_a_zombie_is_not_alive(processes: ProcessFolder) -> None:
    """It only waits for a parent that does not reap it."""
    processes.start(10, state="Z")
    assert not watcher_of(processes).observe({"a": CLIENT})["a"].is_alive
    assert not watcher_of(processes).is_alive(CLIENT)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Kernel errors by the suffix of the opened or listed path."""
    numbers: dict[str, int] = {}

    def fails(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Any, *arguments: Any, **words: Any) -> Any:
            for end, number in numbers.items():
                if str(path).endswith(end):
                    raise OSError(number, os.strerror(number), path)
            return call(path, *arguments, **words)

        return called

    monkeypatch.setattr(os, "open", fails(os.open))
    monkeypatch.setattr(os, "listdir", fails(os.listdir))
    return numbers


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.EACCES])
def test_a_read_that_fails_is_no_death(
    processes: ProcessFolder, failing: dict[str, int], number: int
) -> None:
    """The member and its session stay; its end is noticed once it is readable."""
    watcher = watcher_of(processes)
    processes.start(20, parent=10, session=20)
    watcher.observe({"a": CLIENT})
    failing["/stat"] = number
    seen = watcher.observe({"a": CLIENT})["a"]
    assert (seen.pids, seen.is_alive) == ({10, 20}, None)
    assert watcher.is_alive(CLIENT) is None
    failing.clear()
    assert watcher.observe({"a": CLIENT})["a"].is_alive
    processes.end(10)
    processes.end(20)
    assert watcher.observe({"a": CLIENT})["a"].is_alive is False
    assert watcher.is_alive(CLIENT) is False


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOENT])
def test_a_process_table_that_cannot_be_listed_is_no_death(
    processes: ProcessFolder, failing: dict[str, int], number: int
) -> None:
    """Nor is an empty table: it was not read."""
    watcher = watcher_of(processes)
    watcher.observe({"a": CLIENT})
    failing["/stat"] = errno.ENOENT
    failing["/proc"] = number
    seen = watcher.observe({"a": CLIENT})["a"]
    assert (seen.pids, seen.is_alive) == ({10}, None)
    assert watcher.is_alive(CLIENT) is None
    failing.clear()
    assert watcher.observe({"a": CLIENT})["a"].is_alive


def test_a_new_process_that_could_not_be_read_is_looked_at_again(
    processes: ProcessFolder, failing: dict[str, int]
) -> None:
    """Until then it may be the one that keeps a lease alive."""
    watcher = watcher_of(processes)
    processes.start(20, parent=10, session=20)
    watcher.observe({"a": CLIENT})
    processes.start(30, parent=20, session=20)
    failing["/30/stat"] = errno.EMFILE
    assert watcher.observe({"a": CLIENT})["a"].pids == {10, 20}
    failing.clear()
    assert watcher.observe({"a": CLIENT})["a"].pids == {10, 20, 30}
    processes.start(40)
    failing["/40/stat"] = errno.EMFILE
    for pid in (10, 20, 30):
        processes.end(pid)
    assert watcher.observe({"a": CLIENT})["a"].is_alive is None
    failing["/40/stat"] = errno.EACCES
    assert watcher.observe({"a": CLIENT})["a"].is_alive is False


def test_a_fork_bomb_is_looked_at_in_parts(processes: ProcessFolder) -> None:
    """Until all were read, the lease counts as alive; the work is bounded."""
    table = ProcessTable(processes.path)
    watcher = ProcessTracker(table, 50)
    for pid in range(100, 500):
        processes.start(pid, parent=10)
    looked_at: list[int] = []
    read = table.find
    table.find = lambda pid: (looked_at.append(pid), read(pid))[1]  # type: ignore[method-assign]  # To count.
    assert len(watcher.observe({"a": CLIENT})["a"].pids) <= 51
    for _ in range(12):
        looked_at.clear()
        assert watcher.observe({"a": CLIENT})["a"].is_alive
        assert len(looked_at) <= 100
    assert len(watcher.observe({"a": CLIENT})["a"].pids) == 401
    processes.end(10)
    for pid in range(100, 500):
        processes.end(pid)
    alive = [watcher.observe({"a": CLIENT})["a"].is_alive for _ in range(12)]
    assert alive[-1] is False


def test_a_mark_is_believed_of_the_same_user_alone(processes: ProcessFolder) -> None:
    """Anyone can write a lease's id into an environment."""
    processes.start(60, parent=1, **{LEASE: "a"})
    processes.start(61, parent=1, **{LEASE: "other"})
    assert watcher_of(processes).observe({"a": CLIENT})["a"].pids == {10, 60}
    stranger = replace(CLIENT, uid=os.getuid() + 1)
    assert watcher_of(processes).observe({"a": stranger})["a"].pids == {10}


def test_child_found_as_the_last_process_ends_keeps_the_lease(processes: ProcessFolder) -> None:
    """A child may start, and all known processes end, between two scans."""
    watcher = watcher_of(processes)
    watcher.observe({"a": CLIENT})
    processes.end(10)
    processes.start(60, parent=1, **{LEASE: "a"})

    seen = watcher.observe({"a": CLIENT})["a"]

    assert (seen.pids, seen.is_alive) == ({60}, True)


def test_a_lease_that_has_just_begun_takes_in_what_begins_after(processes: ProcessFolder) -> None:
    """Existing processes of others stay outsiders."""
    watcher = watcher_of(processes)
    processes.start(70)
    watcher.observe({"a": CLIENT})
    processes.start(71, parent=70)
    other = LeaseOwner(CLIENT.uid, "ada", 70, 100)
    assert watcher.observe({"a": CLIENT, "b": other})["b"].pids == {70, 71}
    assert watcher.observe({"b": other}).keys() == {"b"}


def test_processes_tell_the_lease_that_they_carry(processes: ProcessFolder) -> None:
    """Invalid marks are skipped."""
    marks = environment_tags(
        "abcdefgh", ("GPU-1", "GPU-2"), (1e9, 2e9), is_shared=True, ends=77, socket="/s"
    )
    processes.start(60, started=5, **marks)
    processes.start(61, **{LEASE: "ijklmnop", "RIGHTSIZER_LEASE_GPUS": "GPU-1=nan"})
    processes.start(62, **{LEASE: "qrstuvwx"})
    processes.start(63, state="Z", **marks)
    (found,) = found_leases(ProcessTable(processes.path), user_name, "/s")
    assert not list(found_leases(ProcessTable(processes.path), user_name, "/of/another/agent"))
    assert (found.id, found.uuids, found.memory_bytes) == (
        "abcdefgh",
        ("GPU-1", "GPU-2"),
        (1e9, 2e9),
    )
    assert (found.is_shared, found.ends) == (True, 77)
    assert (found.client.pid, found.client.started_ticks) == (60, 5)
