"""The host's signals in a snapshot."""

from pathlib import Path

from host_tree import HostTree
from nvml_driver import FakeDriver, FakeGpu, reading
from rightsizer.io.clock import FastClock
from rightsizer.model.signal import Signal

GROUP = "system.slice/vllm.service"


def test_snapshot_has_node_and_owner_apart(tmp_path: Path) -> None:
    """The node's signals are the snapshot's; an owner's are those of its devices."""
    tree = HostTree(tmp_path)
    tree.pressure(tree.procfs / "pressure/io", 0, 10.0)
    tree.process(11, GROUP)
    tree.pressure(tmp_path / "cgroup" / GROUP / "io.pressure", 0, 70.0)
    driver = FakeDriver(FakeGpu("GPU-0", processes={11: 1 << 30}), FakeGpu("GPU-1"))
    with reading(driver, FastClock(0), tmp_path) as source:
        snapshot = source.read()
    assert snapshot.host == {Signal.IO_PRESSURE: 0.1}
    assert snapshot.readings["GPU-0"].get(Signal.IO_PRESSURE) == 0.7
    assert snapshot.readings["GPU-1"].get(Signal.IO_PRESSURE) is None
