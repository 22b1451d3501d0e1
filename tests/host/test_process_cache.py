"""Cache of processes: read in turn, new ones at once, and none held for too long."""

import threading
from pathlib import Path

import pytest

from host_tree import HostTree
from owner_trees import of_root
from rightsizer.host.process_cache import ROW_HELD_SECONDS, ROWS_A_PASS, CachedProcessTable
from rightsizer.io.clock import FastClock
from rightsizer.model.device import Device
from rightsizer.model.reading import Process
from rightsizer.model.units import nanoseconds
from rightsizer.owners.resolver import OwnerResolver
from rightsizer.owners.settings import OwnerSettings
from rightsizer.telemetry.host_context import HostQuery, NodeHostProbe

MANY = 500
PIDS = range(100, 100 + MANY)


def started(table: CachedProcessTable, pids: range) -> list[int | None]:
    """Start of each process, in a pass."""
    table.begin_pass()
    return [table.started_ticks(pid) for pid in pids]


def filled(tmp_path: Path, pids: range = PIDS) -> tuple[HostTree, CachedProcessTable]:
    """A host of processes that a pass has read."""
    tree = HostTree(tmp_path)
    for pid in pids:
        tree.process(pid, "a.service", started=1)
    table = CachedProcessTable(tree.procfs, tree.clock.time)
    started(table, pids)
    for pid in pids:
        tree.process(pid, "b.service", started=2)
    tree.tick()
    return tree, table


def test_few_processes_are_read_each_pass(tmp_path: Path) -> None:
    """As many as fit into a pass are never old."""
    pids = range(100, 100 + ROWS_A_PASS)
    _, table = filled(tmp_path, pids)
    assert set(started(table, pids)) == {2}


def test_many_processes_are_read_in_turn(tmp_path: Path) -> None:
    """A pass reads a bounded number again, with their control groups."""
    tree, table = filled(tmp_path)
    read = []
    while 1 in (found := started(table, PIDS)):
        read.append(found.count(2))
        tree.tick()
    assert read == [ROWS_A_PASS * (number + 1) for number in range(len(read))]
    assert len(read) == MANY // ROWS_A_PASS


@pytest.mark.parametrize("is_late", [False, True])
def test_no_row_is_held_for_long(tmp_path: Path, *, is_late: bool) -> None:
    """However many there are, each is read again once it is too old."""
    tree, table = filled(tmp_path)
    tree.tick(ROW_HELD_SECONDS - 1 - (not is_late))
    assert set(started(table, PIDS)) == ({2} if is_late else {1, 2})


def test_one_that_was_away_is_read_at_once(tmp_path: Path) -> None:
    """Another process may have the pid of one that held no GPU for a while."""
    _, table = filled(tmp_path)
    started(table, range(0))
    assert set(started(table, PIDS)) == {2}


def test_a_moved_process_loses_its_owner(tmp_path: Path) -> None:
    """Its former unit is gone once the bound of a row's age has passed, though none looks longer.

    Its start stays the same, and the resolver would hold its owner for three times as long.
    """
    tree = HostTree(tmp_path)
    for pid in PIDS:
        tree.process(pid, "a.service")
    clock = FastClock(0)
    table = CachedProcessTable(tree.procfs, clock.time)
    settings = OwnerSettings(kubelet_socket="", pod_log_folder="")
    owners = OwnerResolver.on_host(
        tree.procfs,
        sysfs=tree.sysfs,
        settings=settings,
        now=lambda: clock.time() / 1e9,
        writer_of=of_root,
        processes=table,
    )
    host = tree.host()
    probe = NodeHostProbe(host, owners, None, table)
    query = HostQuery((Device("GPU-0", 0),), {"GPU-0": tuple(map(Process, PIDS))})
    probe.collect(query)
    for pid in PIDS:
        tree.process(pid, "b.service")
    clock.wait_until(clock.time() + nanoseconds(ROW_HELD_SECONDS), threading.Event())
    (holding,) = probe.collect(query).holdings["GPU-0"]
    assert holding.workload.key == "systemd:b.service"
    assert not holding.workload.unproven
