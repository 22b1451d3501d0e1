"""Processes of a lease are known to a later agent, and no others."""

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from process_files import ProcessFolder
from rightsizer.broker.lease import LeaseOwner, LeaseProcesses
from rightsizer.broker.process_tracker import ObservedProcesses, ProcessTracker
from rightsizer.host.process_table import ProcessTable

CLIENT = LeaseOwner(os.getuid(), "ada", 10, 100)


@pytest.fixture
def procfs(tmp_path: Path) -> ProcessFolder:
    """The client below init, and its orphaned daemon without a mark."""
    folder = ProcessFolder(tmp_path / "proc")
    folder.start(1)
    folder.start(10)
    folder.start(20, parent=10, session=20, started=200)
    return folder


def looked(
    procfs: ProcessFolder, members: LeaseProcesses | None = None, maximum: int = 1000
) -> ObservedProcesses:
    """The view of a tracker without earlier scans."""
    watcher = ProcessTracker(ProcessTable(procfs.path), maximum)
    return watcher.observe({"a": CLIENT}, {} if members is None else {"a": members})["a"]


def orphaned(procfs: ProcessFolder) -> LeaseProcesses:
    """State from while the client was alive; it has ended since."""
    members = looked(procfs).processes
    procfs.end(10)
    procfs.start(20, parent=1, session=20, started=200)
    return members


def test_an_orphan_is_known_to_who_comes_after(procfs: ProcessFolder) -> None:
    """Although neither its parent nor its environment identifies it."""
    members = orphaned(procfs)
    assert members == LeaseProcesses(((10, 100), (20, 200)), (20,))
    assert looked(procfs).is_alive is False
    seen = looked(procfs, members)
    assert (seen.pids, seen.is_alive) == ({20}, True)
    assert seen.processes == LeaseProcesses(((20, 200),), (20,))
    procfs.end(20)
    assert looked(procfs, members).is_alive is False


def test_child_of_an_orphan_belongs_to_the_lease(procfs: ProcessFolder) -> None:
    """By its parent, or by the orphan's session."""
    members = orphaned(procfs)
    procfs.start(30, parent=20, session=30)
    procfs.start(40, parent=1, session=20)
    procfs.start(50, parent=1, session=50)
    assert looked(procfs, members).pids == {20, 30, 40}


def test_a_number_that_is_somebody_elses_by_now_is_nobody(procfs: ProcessFolder) -> None:
    """The same holds for a session without known processes."""
    members = orphaned(procfs)
    procfs.start(20, parent=1, session=20, started=900)
    procfs.start(21, parent=20, session=20, started=901)
    seen = looked(procfs, members)
    assert (seen.pids, seen.is_alive, seen.processes) == (frozenset(), False, LeaseProcesses())


def test_a_session_is_not_believed_before_somebody_known_is_seen_in_it(
    procfs: ProcessFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until all known processes were read, it neither admits nor drops any."""
    members = orphaned(procfs)
    procfs.start(20, parent=1, session=1, started=200)
    procfs.start(60, parent=1, session=20, started=900)
    read = os.open

    def hidden(path: str, *arguments: int, **words: int) -> int:
        if str(path).endswith("/20/stat"):
            raise PermissionError(13, "hidden", path)
        return read(path, *arguments, **words)

    monkeypatch.setattr(os, "open", hidden)
    seen = looked(procfs, members)
    assert (seen.pids, seen.is_alive) == ({20}, None)
    assert seen.processes.sessions == (20,)


def test_of_a_crowd_the_oldest_are_kept(procfs: ProcessFolder) -> None:
    """As many as a scan reads; the others are found below them."""
    for pid in range(100, 140):
        procfs.start(pid, parent=20, session=20, started=pid * 10)
    watcher = ProcessTracker(ProcessTable(procfs.path), 20)
    for _ in range(4):
        seen = watcher.observe({"a": CLIENT})["a"]
    assert len(seen.pids) == 42
    assert len(seen.processes.processes) == 20
    assert seen.processes.processes[:3] == ((10, 100), (20, 200), (100, 1000))
    assert looked(procfs, seen.processes).pids == seen.pids


@dataclass
class Machine:
    """Processes that come and go, and which of them are really the client's."""

    procfs: ProcessFolder
    alive: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Session and start by pid."""
    family: set[int] = field(default_factory=set)
    sessions: set[int] = field(default_factory=set)
    """Sessions started by the family."""
    now: int = 100
    parents: dict[int, int] = field(default_factory=dict)

    def fork(self, pid: int, parent: int, *, is_leader: bool) -> None:
        """Start a process under a free pid; a session's number is not free."""
        if pid in self.alive or any(session == pid for session, _ in self.alive.values()):
            return
        self.now += 1
        session = pid if is_leader else self.alive[parent][0]
        self.alive[pid] = (session, self.now)
        self.parents[pid] = parent
        self.procfs.start(pid, parent, session, self.now)
        if parent in self.family or session in self.sessions:
            self.family.add(pid)
            if is_leader:
                self.sessions.add(pid)

    def end(self, pid: int) -> None:
        """End a process; its children go to init, and its pid may be reused."""
        self.procfs.end(pid)
        del self.alive[pid]
        for child in [each for each, parent in self.parents.items() if parent == pid]:
            self.parents[child] = 1
            if child in self.alive:
                session, started = self.alive[child]
                self.procfs.start(child, 1, session, started)
        self.family.discard(pid)
        self.sessions &= {session for session, _ in self.alive.values()}


STEPS = st.lists(
    st.tuples(st.sampled_from(["fork", "fork", "end", "look"]), st.integers(0, 30), st.booleans()),
    max_size=40,
)


@given(steps=STEPS, away=STEPS)
def test_restarted_tracker_keeps_known_processes_and_adds_no_stranger(
    steps: list[tuple[str, int, bool]], away: list[tuple[str, int, bool]]
) -> None:
    """For any starts and ends before and during the agent's absence; pids are reused."""
    folder = Path(tempfile.mkdtemp())
    machine = Machine(ProcessFolder(folder))
    try:
        machine.alive |= {1: (1, 1), 10: (1, 100)}
        machine.procfs.start(1, 0, 1, 1)
        machine.procfs.start(10, 1, 1, 100)
        machine.family.add(10)
        watcher = ProcessTracker(ProcessTable(folder), 1000)
        seen = watcher.observe({"a": CLIENT})["a"]
        for step in steps:
            if step[0] == "look":
                seen = watcher.observe({"a": CLIENT})["a"]
            _lived(machine, step)
        known = {pid for pid, start in seen.processes.processes if (pid, start) in _alive(machine)}
        for step in away:
            _lived(machine, step)
            known = {pid for pid in known if pid in machine.family}
        after = ProcessTracker(ProcessTable(folder), 1000).observe(
            {"a": CLIENT}, {"a": seen.processes}
        )["a"]
        assert known <= after.pids <= machine.family
        assert after.is_alive is bool(after.pids)
    finally:
        shutil.rmtree(folder)


def _alive(machine: Machine) -> set[tuple[int, int]]:
    return {(pid, started) for pid, (_, started) in machine.alive.items()}


def _lived(machine: Machine, step: tuple[str, int, bool]) -> None:
    what, pick, is_leader = step
    others = sorted(machine.alive.keys() - {1})
    if what == "fork":
        parents = sorted(machine.alive)
        machine.fork(20 + pick % 8, parents[pick % len(parents)], is_leader=is_leader)
    elif what == "end" and others:
        machine.end(others[pick % len(others)])
