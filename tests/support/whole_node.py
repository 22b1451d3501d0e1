"""Eight H100 with all features, below one tick of the agent: driver, host, owners, accounts."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from host_tree import HostTree
from instrumented_library import InstrumentedLibrary
from nvml_driver import patient_settings
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.io.clock import FastClock
from rightsizer.model.report import AgentReport, Report
from rightsizer.model.units import NANOSECONDS_PER_SECOND, nanoseconds
from rightsizer.owners.resolver import OwnerResolver
from rightsizer.owners.settings import OwnerSettings
from rightsizer.simulator.node import SimulatedNode
from rightsizer.telemetry.host_context import HostContextCollector, NodeHostProbe
from rightsizer.telemetry.live import LiveSource
from rightsizer.telemetry.nvml.library import use_library
from simulated_driver import hour, node_of

__all__ = ["WholeNode", "whole_node"]

_SCENARIO: Final = "eight-gpu-node"


@dataclass
class WholeNode:
    """The node, and the agent's heartbeat on it."""

    node: SimulatedNode
    library: InstrumentedLibrary
    clock: FastClock
    source: LiveSource
    accounting: AccountingService
    driver: Any
    """What the bindings call: the library, or something around it."""

    def tick(self) -> Report:
        """Read, account and publish, as the coordinator does; then a second passes."""
        snapshot = self.source.read()
        report = self.accounting.post(
            snapshot, (), lambda: AgentReport("0", "whole", self.clock.wall_time(), 1.0)
        )
        self.pass_second()
        return report

    def tick_until_read(self) -> None:
        """Tick until each GPU has a reading; a busy machine may take more than one deadline."""
        while any(device.reading is None for device in self.tick().devices):
            pass

    def pass_second(self) -> None:
        """Advance the time."""
        self.clock.wait_until(self.clock.time() + NANOSECONDS_PER_SECOND, threading.Event())

    @property
    def calls(self) -> Counter[str]:
        """Number of calls of each driver function until now."""
        return Counter(self.library.calls)


@contextmanager
def whole_node(
    root: Path,
    *,
    latency: Callable[[str], float] | None = None,
    counts_calls: bool = False,
    around: Callable[[InstrumentedLibrary], Any] = lambda library: library,
    **settings: Any,
) -> Iterator[WholeNode]:
    """The node at noon.

    Args:
        root: Where the files of its host are written.
        latency: Seconds that each function of the driver takes.
        counts_calls: Whether calls are counted.
        around: Puts something between the bindings and the driver.
        settings: Of the live source.
    """
    start = hour(12)
    node = node_of(_SCENARIO, start)
    clock = FastClock(start)
    library = InstrumentedLibrary(node, clock.wall_time, latency=latency, counts_calls=counts_calls)
    tree = _host(root, node, clock)
    owners = OwnerResolver.on_host(
        tree.procfs, sysfs=tree.sysfs, settings=OwnerSettings(kubelet_socket="")
    )
    driver = around(library)
    use_library(driver)
    source = LiveSource(
        clock=clock,
        interval=nanoseconds(1),
        settings=patient_settings(**settings),
        catalogue=built_in(),
        host_context=HostContextCollector(NodeHostProbe(tree.host(), owners, tree.sysfs)),
        sysfs=tree.sysfs,
        root=root,
    )
    accounting = AccountingService(AccountingSettings())
    try:
        yield WholeNode(node, library, clock, source, accounting, driver)
    finally:
        library.faults.clear()
        source.close()
        use_library(None)


def _host(root: Path, node: SimulatedNode, clock: FastClock) -> HostTree:
    """The host, with the node's processes in pods, one for each workload of the first GPU on."""
    tree = HostTree(root)
    tree.clock = clock
    tree.online("0-111")
    tree.stat(1, 2, 3, 4, 5, 6, 7, 8)
    for name in ("cpu", "io", "memory"):
        tree.pressure(tree.procfs / "pressure" / name, 1)
    tree.disk("nvme0n1", "259:0")
    tree.diskstats(nvme0n1=(1, 1))
    for index, unit in enumerate(node.units):
        pod = f"kubepods.slice/kubepods-burstable.slice/pod{index}/container"
        _pod(tree, pod)
        for process in node.processes(unit.device.uuid, clock.time()):
            tree.process(process.pid, pod, cpus="0-55", network=f"pod{index}")
            tree.traffic(process.pid, lo=(1, 1), eth0=(1, 1))
    return tree


def _pod(tree: HostTree, path: str) -> None:
    folder = tree.cgroups / path
    tree.write(folder / "cpu.stat", "usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_throttled 0")
    tree.write(folder / "cpu.max", "800000 100000")
    tree.write(folder / "cpuset.cpus.effective", "0-111")
    tree.write(folder / "io.stat", "259:0 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0")
    for name in ("cpu", "io", "memory"):
        tree.pressure(folder / f"{name}.pressure", 1)
