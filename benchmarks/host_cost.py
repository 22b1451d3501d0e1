"""Cost of a host reading with 500 processes on eight GPUs."""

import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from benchmarks.options import Options
from host_tree import HostTree
from measured import Figure, quantile
from rightsizer.host.collector import ProcHostCollector
from rightsizer.host.process_cache import CachedProcessTable
from rightsizer.model.device import Device
from rightsizer.model.reading import Process
from rightsizer.model.topology import Bridge, Placement
from rightsizer.model.units import seconds
from rightsizer.owners.resolver import OwnerResolver
from rightsizer.owners.settings import OwnerSettings
from rightsizer.telemetry.host_context import HostQuery, NodeHostProbe

_PROCESSES: Final = 500
_GPUS: Final = 8
_PODS: Final = 110
"""As many as a kubelet starts on a node unless told otherwise."""
_PASSES: Final = 130
_CEILING_MILLISECONDS: Final = 50.0
_FEW: Final = 8
_TICK_CEILING_MILLISECONDS: Final = 20.0
"""Two percent of a core at a tick a second."""
_CGROUPS: Final = Path("/sys/fs/cgroup")


def measure(_: Options) -> Iterator[Figure]:
    """Over files, in few groups and in many, and over real processes."""
    with tempfile.TemporaryDirectory() as name:
        for groups in (_GPUS, _PODS):
            tree = _tree(Path(name) / str(groups), groups)
            yield from _figures(tree, range(100, 100 + _PROCESSES), f"in {groups} pods of files")
        machine = HostTree(Path(name))
        machine.procfs = Path("/proc")
        machine.sysfs = Path("/sys")
        machine.cgroups = _CGROUPS
        with _real_processes() as (pids, where):
            yield from _figures(machine, pids, where)
            for count in (_FEW, _PROCESSES):
                milliseconds = _tick_milliseconds(machine, pids[:count])
                what = f"{count} processes {where}, CPU of a tick for host and owners"
                ceiling = _TICK_CEILING_MILLISECONDS
                yield Figure(what, milliseconds, "ms", ceiling, "mean of thirty")


def _tick_milliseconds(tree: HostTree, pids: Sequence[int]) -> float:
    """Mean over the interval in which each owner is looked up once again."""
    table = CachedProcessTable(tree.procfs, tree.clock.time)
    host = ProcHostCollector(
        tree.procfs, tree.cgroups, tree.clock, sysfs=tree.sysfs, processes=table
    )
    owners = OwnerResolver.on_host(
        tree.procfs,
        sysfs=tree.sysfs,
        now=lambda: seconds(tree.clock.time()),
        processes=table,
    )
    probe = NodeHostProbe(host, owners, tree.sysfs, table)
    share = -(-len(pids) // _GPUS)
    processes = {
        f"GPU-{gpu}": tuple(
            Process(pid, memory_used_bytes=2**30) for pid in pids[gpu * share : (gpu + 1) * share]
        )
        for gpu in range(_GPUS)
    }
    query = HostQuery(tuple(Device(f"GPU-{gpu}", gpu) for gpu in range(_GPUS)), processes)
    interval = int(OwnerSettings().time_to_live_seconds)
    for _ in range(interval):
        probe.collect(query)
        tree.tick()
    started = time.thread_time()
    for _ in range(interval):
        probe.collect(query)
        tree.tick()
    duration_seconds = time.thread_time() - started
    probe.close()
    return 1e3 * duration_seconds / interval


def _figures(host_tree: HostTree, pids: Sequence[int], where: str) -> Iterator[Figure]:
    """A pass asks for the node, the ports, and the holders and the fabric of each GPU."""
    host = host_tree.host()
    times = []
    each = len(pids) // _GPUS + 1
    for _ in range(_PASSES):
        started = time.thread_time()
        host.node()
        host.ports()
        for gpu in range(_GPUS):
            near = _placement(gpu)
            signals = host.owner(pids[gpu * each : (gpu + 1) * each], near)
            host.device(near)
        times.append(1e3 * (time.thread_time() - started))
        host_tree.tick()
    what = f"{len(pids)} processes {where}, CPU of a pass"
    note = f"{len(signals)} signals of an owner"
    yield Figure(f"{what}, p50", quantile(times, 0.5), "ms", _CEILING_MILLISECONDS, note)
    yield Figure(f"{what}, p99", quantile(times[1:], 0.99), "ms", is_row=True)
    yield Figure(f"{what}, the first", times[0], "ms", note="nothing is known yet", is_row=True)


def _placement(gpu: int) -> Placement:
    node = gpu // 4
    cpus = tuple(range(64 * node, 64 * (node + 1)))
    bridges = (Bridge(f"0000:{gpu:02x}:00.0"),)
    return Placement(f"GPU-{gpu}", numa_node=node, cpus=cpus, bridges=bridges)


def _tree(root: Path, groups: int) -> HostTree:
    """Two sockets, eight GPUs, as many adapters, and pods with everything that is accounted."""
    tree = HostTree(root)
    tree.online("0-127")
    tree.write(tree.sysfs / "devices/system/node/has_cpu", "0-1")
    tree.stat(1, 2, 3, 4, 5, 6, 7, 8)
    for name in ("cpu", "io", "memory"):
        tree.pressure(tree.procfs / "pressure" / name, 1)
    tree.disk("nvme0n1", "259:0")
    tree.diskstats(nvme0n1=(1, 1))
    tree.process(1, "init.scope")
    for gpu in range(_GPUS):
        port = tree.port(f"mlx5_{gpu}", f"pci0000:00/0000:{gpu:02x}:00.0/0000:{gpu + 16:02x}:00.0")
        tree.words(port, 1, 1)
    for number in range(groups):
        _pod(tree, f"kubepods.slice/kubepods-burstable.slice/pod{number}/container")
    for number in range(_PROCESSES):
        group = number * groups // _PROCESSES
        pod = f"kubepods.slice/kubepods-burstable.slice/pod{group}/container"
        tree.process(100 + number, pod, cpus="0-63", network=f"pod{group}")
        tree.traffic(100 + number, lo=(1, 1), eth0=(1, 1))
    return tree


def _pod(tree: HostTree, path: str) -> None:
    folder = tree.cgroups / path
    files = {
        "cpu.stat": "usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_periods 0\nnr_throttled 0",
        "cpu.max": "800000 100000",
        "cpuset.cpus.effective": "0-127",
        "io.stat": "259:0 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0",
        "memory.numa_stat": "anon N0=5 N1=1\nfile N0=0 N1=0\nshmem N0=1 N1=0",
    }
    for name, text in files.items():
        tree.write(folder / name, text)
    for name in ("cpu", "io", "memory"):
        tree.pressure(folder / f"{name}.pressure", 1)


@contextmanager
def _real_processes() -> Iterator[tuple[list[int], str]]:
    """Processes that sleep, each eighth of them in a group of its own where that is allowed."""
    top = next(
        (each for each in (_CGROUPS / "unified", _CGROUPS) if (each / "cgroup.procs").exists()),
        _CGROUPS,
    )
    # A group of version 1 that we run in ourselves would hide those of version 2.
    roots = [each for each in _CGROUPS.iterdir() if (each / "release_agent").exists()]
    processes = [subprocess.Popen(["sleep", "300"]) for _ in range(_PROCESSES)]
    folders = [top / f"rightsizer-benchmark-{number}" for number in range(_GPUS)]
    try:
        where = "of this machine"
        with suppress(OSError):
            for folder in folders:
                folder.mkdir()
            for number, process in enumerate(processes):
                folder = folders[number * _GPUS // _PROCESSES]
                for each in (*roots, folder):
                    (each / "cgroup.procs").write_text(str(process.pid))
            where = f"of this machine in {_GPUS} control groups"
        yield [process.pid for process in processes], where
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for folder in folders:
            with suppress(OSError):
                folder.rmdir()
