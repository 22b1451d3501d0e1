"""Values kept once and shared by several users."""

from datetime import timedelta
from itertools import chain
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from readings import DAY, EPOCH, HOUR, MINUTE, entry, workload
from rightsizer.accounting.device_account import DeviceWindows
from rightsizer.accounting.rings import deduplicate
from rightsizer.accounting.rollup_store import RollupStore, WindowQuery
from rightsizer.accounting.workload_accounts import WorkloadAccounts
from rightsizer.model.block import Measure
from rightsizer.model.state import State
from rightsizer.model.window import Entry
from rightsizer.model.workload import Holding

JOB: Final = workload("job")
QUARTER: Final = int(timedelta(minutes=15).total_seconds())


def forms(window_query: WindowQuery) -> list[bytes]:
    """All closed windows remembered, in stored form."""
    rings = (window_query.fine, window_query.hours, window_query.days)
    return list(chain.from_iterable(ring.encoded for ring in rings))


def quarters(hours: int, uuid: str = "GPU-0") -> list[Entry]:
    """Stretches of a quarter of an hour, each in another state than the previous one."""
    states = (State.PRODUCTIVE, State.HOST_BOUND)
    return [
        entry(at * QUARTER, (at + 1) * QUARTER, states[at % 2], uuid=uuid)
        for at in range(4 * hours)
    ]


@given(st.lists(st.binary(max_size=3), max_size=400))
def test_deduplicated_bytes_equal_the_given_ones(found: list[bytes]) -> None:
    """Whatever was shared before, and however much."""
    assert [deduplicate(data) for data in found] == found


def test_equal_bytes_are_one_object() -> None:
    """Built separately, stored once."""
    first, second = (bytes(bytearray(b"a window")) for _ in range(2))
    assert first is not second
    assert deduplicate(first) is deduplicate(second)


def test_a_workload_on_one_device_takes_no_room_for_its_windows() -> None:
    """Its five minutes, hours and days are the device's own objects."""
    device = DeviceWindows("GPU-0")
    workloads = WorkloadAccounts()
    for quarter in quarters(hours=50):
        device.add(quarter)
        workloads.post({"GPU-0": (Holding(JOB, 1.0),)}, [quarter])
    remembered = workloads.window_query(JOB.key)
    assert remembered is not None
    mine = forms(device.rollups.window_query())
    its = forms(remembered)
    assert len(mine) > 600
    assert [id(document) for document in mine] == [id(document) for document in its]


def test_days_of_blocks_are_one_object_too() -> None:
    """Equal measurements share the same packed days."""
    stores = [RollupStore("GPU-0"), RollupStore("workload:job")]
    for at in range(EPOCH, EPOCH + 3 * DAY, HOUR):
        for store in stores:
            store.go_to(at)
            store.add(entry((at - EPOCH) / 1e9, (at - EPOCH + 5 * MINUTE) / 1e9))
            store.measure({Measure.BUSY: 0.5}, 5 * MINUTE)
    one, other = (store.window_query().stored_blocks.days for store in stores)
    assert len(one) == 2
    assert all(mine[1] is its[1] for mine, its in zip(one, other, strict=True))


def test_cells_of_one_state_share_it() -> None:
    """The strip of a calm day is one table; each cell keeps its own values."""
    device = DeviceWindows("GPU-0")
    for quarter in quarters(hours=24):
        device.add(quarter)
    cells = device.strip(EPOCH + DAY)
    assert len({id(cell.states) for cell in cells[:-1]}) == 2
    assert {cell.end - cell.start for cell in cells} == {5 * MINUTE}
    assert {state for cell in cells for state in cell.states} == {
        State.PRODUCTIVE,
        State.HOST_BOUND,
    }
