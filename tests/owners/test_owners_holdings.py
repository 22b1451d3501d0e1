"""Shares of a device: by memory, with allocations that do not run."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.model.device import Device
from rightsizer.model.reading import Process
from rightsizer.model.workload import Workload, WorkloadKind
from rightsizer.owners.collector import OwnerCollector
from rightsizer.owners.holdings import holdings_on, workloads_on

GPU = Device("GPU-0", 0)
UIDS = ["0f1c2d3e-aaaa-bbbb-cccc-000000000001", "0f1c2d3e-aaaa-bbbb-cccc-000000000002"]


def pod(name: str, container: str = "") -> Workload:
    """A pod with a name, or one with its UID only."""
    is_named = name not in UIDS
    return Workload(
        f"kubernetes:{name}",
        WorkloadKind.KUBERNETES,
        name,
        namespace="ml" if is_named else "",
        pod=name if is_named else "",
        container=container,
    )


def job(name: str) -> Workload:
    """A Slurm job."""
    return Workload(f"slurm:{name}", WorkloadKind.SLURM, name)


class Table(OwnerCollector):
    """Owners by a table."""

    def __init__(self, table: Mapping[int, Workload]) -> None:
        self._table = table

    def workload_of(self, pid: int) -> Workload | None:
        """Workload in the table."""
        return self._table.get(pid)

    def allocations(self) -> Mapping[str, tuple[Workload, ...]]:
        """No allocations."""
        return {}


def shares(
    table: Mapping[int, Workload], *given: Workload, is_known: bool = True
) -> dict[str, tuple[float, bool]]:
    """Holders of a GPU with one process for each entry."""
    processes = [Process(pid, 100) for pid in table]
    pairs = workloads_on(processes, Table(table)) if is_known else None
    found = holdings_on(GPU, pairs, {"GPU-0": given})
    return {each.workload.key: (each.share_ratio, each.has_process) for each in found}


def test_given_and_unused() -> None:
    """An unused device is shared equally by its allocations."""
    assert shares({}) == {}
    assert shares({}, pod("a")) == {"kubernetes:a": (1.0, False)}
    assert shares({}, pod("a"), job("7")) == {
        "kubernetes:a": (0.5, False),
        "slurm:7": (0.5, False),
    }


def test_given_and_used_by_others() -> None:
    """An allocation that does not run has no share of a used device, but is listed."""
    assert shares({1: pod("b")}, pod("a")) == {
        "kubernetes:a": (0.0, False),
        "kubernetes:b": (1.0, True),
    }


def test_given_and_used() -> None:
    """dcgm-exporter PR#594: a holder's share is that of its processes, allocated or not."""
    assert shares({1: pod("a"), 2: pod("b")}, pod("a")) == {
        "kubernetes:a": (0.5, True),
        "kubernetes:b": (0.5, True),
    }


def test_unknown_processes_are_not_none() -> None:
    """If the driver lists no processes, holders may still have some."""
    assert shares({}, pod("a"), pod("b"), is_known=False) == {
        "kubernetes:a": (0.5, True),
        "kubernetes:b": (0.5, True),
    }


@pytest.mark.parametrize(
    ("running", "given", "keys"),
    [
        ([pod(UIDS[0])], [pod("a")], ["kubernetes:a"]),
        ([pod(UIDS[0]), pod("b")], [pod("a"), pod("b")], ["kubernetes:a", "kubernetes:b"]),
        # With two of one side and one of the other, the match is unknown.
        (
            [pod(UIDS[0]), pod(UIDS[1])],
            [pod("a")],
            [f"kubernetes:{UIDS[0]}", f"kubernetes:{UIDS[1]}", "kubernetes:a"],
        ),
        (
            [pod(UIDS[0])],
            [pod("a"), pod("b")],
            [f"kubernetes:{UIDS[0]}", "kubernetes:a", "kubernetes:b"],
        ),
        ([pod(UIDS[0])], [job("7_1")], [f"kubernetes:{UIDS[0]}", "slurm:7_1"]),
        ([job("9")], [job("7_1")], ["slurm:7_1"]),
        ([job("9")], [job("7")], ["slurm:7", "slurm:9"]),
    ],
)
def test_two_halves_of_a_name(
    running: list[Workload], given: list[Workload], keys: list[str]
) -> None:
    """Names by kernel and scheduler are merged where the match is unambiguous."""
    assert list(shares(dict(enumerate(running)), *given)) == keys


def test_pods_of_one_workload_name_neither() -> None:
    """Two replicas on one device are one holder, without either pod's name."""
    replicas = {
        1: Workload("k", WorkloadKind.KUBERNETES, "web", pod="web-1", container="main"),
        2: Workload("k", WorkloadKind.KUBERNETES, "web", pod="web-2", container="main"),
    }
    (found,) = holdings_on(GPU, workloads_on([Process(1), Process(2)], Table(replicas)))
    assert (found.workload.pod, found.workload.container) == ("", "main")
    assert found.share_ratio == 1.0


def test_shares_are_those_of_memory_and_never_copied() -> None:
    """dcgm-exporter#582: shares of a GPU sum to at most one GPU."""
    table = {1: pod("a"), 2: pod("b")}
    processes = [Process(1, 300), Process(2, 100), Process(3, 100)]
    holdings = holdings_on(GPU, workloads_on(processes, Table(table)))
    shares = {holding.workload.key: holding.share_ratio for holding in holdings}
    assert shares == pytest.approx({"kubernetes:a": 0.6, "kubernetes:b": 0.2})


workloads = st.sampled_from(
    [pod("a"), pod("b"), pod("a", "side"), *map(pod, UIDS), job("7"), job("7_1"), job("9")]
)


@given(
    st.lists(
        st.builds(Process, st.integers(1, 20), st.one_of(st.none(), st.integers(0, 2**40))),
        max_size=12,
    ),
    st.dictionaries(st.integers(1, 20), workloads),
    st.dictionaries(st.sampled_from(["GPU-0", "index:0", "GPU-1"]), st.lists(workloads)),
)
def test_nothing_is_given_twice(
    processes: list[Process], table: dict[int, Workload], given_to: dict[str, list[Workload]]
) -> None:
    """For any processes, owners and allocations, shares sum to at most the whole."""
    allocations = {key: tuple(found) for key, found in given_to.items()}
    holdings = holdings_on(GPU, workloads_on(processes, Table(table)), allocations)
    assert sum(holding.share_ratio for holding in holdings) <= 1 + 1e-9
    keys = [holding.workload.key for holding in holdings]
    assert len(keys) == len(set(keys))
    # No running workload is lost, and none is from another device.
    assert sum(table.get(process.pid) is not None for process in processes) == 0 or keys
    here = {each.key for key in ("GPU-0", "index:0") for each in allocations.get(key, ())}
    here |= {table[process.pid].key for process in processes if process.pid in table}
    assert set(keys) <= here


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 2**40)), min_size=1, max_size=8))
def test_all_of_a_known_device_is_somebodys(held: list[tuple[int, int]]) -> None:
    """If every process has an owner, the shares sum to the whole."""
    processes = [Process(pid, size) for pid, size in held]
    table = {pid: pod(chr(96 + pid)) for pid, _ in held}
    holdings = holdings_on(GPU, workloads_on(processes, Table(table)))
    assert sum(holding.share_ratio for holding in holdings) == pytest.approx(1.0)
