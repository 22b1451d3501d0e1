"""Cases on one node know each other, and are therefore in the same batch."""

from collections.abc import Mapping, Sequence
from functools import cache, partial

from cached_fleet import FIRST_DAY, day_frame, estate_device
from readings import DAY
from rightsizer.fleet.cache.day_cache import HoldingRow
from rightsizer.fleet.cache.grid import FINE_STEP, Grid
from rightsizer.fleet.cases.case import BatchRequest, FleetCases, batches_of
from rightsizer.fleet.cases.occupancy import Occupancy
from rightsizer.model.finding import Node
from rightsizer.model.workload import Workload, WorkloadKind

GRID = Grid(FIRST_DAY, FINE_STEP)
DEVICES = {each.device.uuid: each for each in map(estate_device, range(16))}
UUIDS = list(DEVICES)


def row(number: int, name: str, last: int = 287, share: float = 1.0) -> HoldingRow:
    """Holder of a GPU from the beginning of the day."""
    return HoldingRow(UUIDS[number], "rightsizer", GRID, name, 0, last, share)


def nodes(
    present: Mapping[str, Sequence[int]], rows: Sequence[HoldingRow] = ()
) -> Mapping[str, Node]:
    """Nodes of workloads on some GPUs by their keys; that of a free GPU is its uuid."""
    uuids = {key: tuple(UUIDS[number] for number in numbers) for key, numbers in present.items()}
    held = {key: numbers for key, numbers in present.items() if key not in DEVICES}
    rows = rows or [row(number, key) for key, numbers in held.items() for number in numbers]
    ever = {key: tuple(one for one in rows if one.workload == key) for key in held}
    workloads = {key: Workload(key, WorkloadKind.KUBERNETES, key) for key in held}
    days = {uuid: [day_frame(FIRST_DAY, FINE_STEP)] for uuid in UUIDS}
    request = BatchRequest(
        Occupancy(uuids, ever), DEVICES, workloads, FIRST_DAY, (FIRST_DAY + 1) * DAY
    )
    cases = FleetCases(request, days, rows)
    with_node = partial(cases.with_node, cache(cases.case), span=None)
    found = {key: with_node(key).node for key in present}
    return {key: node for key, node in found.items() if node is not None}


def test_neighbors_are_those_of_the_same_node() -> None:
    """A workload on two nodes has no neighbors and is no neighbor."""
    found = nodes(
        {"one": [0], "two": [1], "far": [8], "wide": [2, 9]},
        [
            row(0, "one"),
            row(1, "one", 3),
            row(1, "two"),
            row(2, "wide"),
            row(8, "far"),
            row(9, "wide"),
        ],
    )
    assert found["one"] == found["two"]
    assert [each.key for each in found["one"].cases] == ["one", "two"]
    assert all(each.node is None for each in found["one"].cases)
    assert found["wide"].cases == ()
    assert [each.key for each in found["far"].cases] == ["far"]


def test_current_holders_of_a_device_are_known() -> None:
    """Both of two that share it are listed; one that has left is not."""
    rows = [row(0, "gone", 5), row(0, "one", share=0.5), row(0, "two", share=0.5), row(1, "gone")]
    node = nodes({"one": [0], "two": [0], "gone": [1]}, rows)["one"]
    assert [each.workload.key for each in node.holdings[UUIDS[0]]] == ["one", "two"]
    assert all(reading.values == {} for reading in node.readings.values())


def test_a_free_device_has_no_neighbors_of_its_own() -> None:
    """It has no workload to share it with, but is still listed on its node."""
    found = nodes({UUIDS[3]: [3], "one": [0]})
    assert found[UUIDS[3]] == found["one"]
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
