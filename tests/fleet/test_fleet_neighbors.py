"""Cases on one node know each other, and are therefore in the same batch."""

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from cached_fleet import FIRST_DAY, estate_device
from cases import case, window
from readings import DAY
from rightsizer.fleet.cache.day_cache import HoldingRow
from rightsizer.fleet.cache.grid import FINE_STEP, Grid
from rightsizer.fleet.cases.case import BatchRequest, batches_of
from rightsizer.fleet.cases.occupancy import Occupancy, neighbors_of, node_of
from rightsizer.model.finding import Case, Node
from rightsizer.model.state import State
from rightsizer.model.workload import Workload, WorkloadKind

GRID = Grid(FIRST_DAY, FINE_STEP)
DEVICES = {each.device.uuid: each for each in map(estate_device, range(16))}
UUIDS = list(DEVICES)


def held(name: str, *numbers: int) -> Case:
    """A workload on some of a node's eight GPUs."""
    workload = Workload(name, WorkloadKind.KUBERNETES, name)
    devices = [DEVICES[UUIDS[number]].device for number in numbers]
    return case([window({State.PRODUCTIVE: 1.0})] * len(numbers), workload, devices)


def row(number: int, name: str, last: int = 287, share: float = 1.0) -> HoldingRow:
    """Holder of a GPU from the beginning of the day."""
    return HoldingRow(UUIDS[number], "rightsizer", GRID, name, 0, last, share)


def nodes(given: Sequence[Case], rows: Callable[[str], Sequence[HoldingRow]]) -> Mapping[str, Node]:
    """Nodes of cases, by their keys."""
    workloads = {each.key: each.workload for each in given if each.workload is not None}
    neighbors = neighbors_of(given, DEVICES)
    return {
        each.key: replace(
            node_of(neighbors.get(each.key) or [each], rows, workloads),
            cases=tuple(neighbors.get(each.key, ())),
        )
        for each in given
    }


def test_neighbors_are_those_of_the_same_node() -> None:
    """A workload on two nodes has no neighbors and is no neighbor."""
    given = [held("one", 0), held("two", 1), held("far", 8), held("wide", 2, 9)]
    rows = {UUIDS[0]: [row(0, "one")], UUIDS[1]: [row(1, "one", 3), row(1, "two")]}
    found = nodes(given, lambda it: rows.get(it, []))
    assert found["one"] == found["two"]
    assert [each.key for each in found["one"].cases] == ["one", "two"]
    assert all(each.node is None for each in found["one"].cases)
    assert found["wide"].cases == ()
    assert [each.key for each in found["far"].cases] == ["far"]


def test_current_holders_of_a_device_are_known() -> None:
    """Both of two that share it are listed; one that has left is not."""
    rows = [row(0, "gone", 5), row(0, "one", share=0.5), row(0, "two", share=0.5)]
    given = [held("one", 0), held("two", 0), held("gone", 1)]
    node = nodes(given, lambda it: rows if it == UUIDS[0] else [])["one"]
    assert [each.workload.key for each in node.holdings[UUIDS[0]]] == ["one", "two"]
    assert node.readings == {}


def test_a_free_device_has_no_neighbors_of_its_own() -> None:
    """It has no workload to share it with, but is still listed on its node."""
    free = case([window({State.IDLE_EMPTY: 1.0})], None, [DEVICES[UUIDS[3]].device])
    found = nodes([free, held("one", 0)], lambda _: [])
    assert found[free.key] == found["one"]
    assert [each.key for each in found["one"].cases] == ["one"]


def test_a_batch_has_all_neighbors() -> None:
    """This holds for any names and any size of batch."""
    present = {f"{number % 2}-{number}": (UUIDS[number],) for number in range(16)}
    ever = {key: (row(int(key[2:]), key),) for key in present}
    order = BatchRequest(Occupancy(present, ever), DEVICES, {}, FIRST_DAY, (FIRST_DAY + 1) * DAY)
    batches = list(batches_of(order, devices=3))
    nodes = [
        {DEVICES[present[key][0]].node for key in batch.occupancy.present} for batch in batches
    ]
    assert nodes == [{"node-0"}, {"node-1"}]
    assert sorted(key for batch in batches for key in batch.occupancy.present) == sorted(present)
