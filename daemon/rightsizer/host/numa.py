"""NUMA nodes, their distances, and cores of CPUs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rightsizer.host.files import parse_cpus, read_integer, read_names, read_text

_NODE: Final = re.compile(r"node([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class NumaNodes:
    """All nodes that the kernel has."""

    cpus: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """By node; none for nodes that are memory alone, as a Grace-Hopper's GPUs are."""
    has_one: bool = False
    """Whether there is surely no more than one node with CPUs."""

    def checked(self, node: int | None) -> int | None:
        """A node that exists; kernels write -1 where the firmware does not say."""
        return node if node in self.cpus else None


def read_nodes(sysfs: Path) -> NumaNodes:
    """The nodes; none on kernels that are built without."""
    folder = sysfs / "devices/system/node"
    texts = {
        int(match[1]): read_text(folder / name / "cpulist")
        for name in read_names(folder)
        if (match := _NODE.fullmatch(name))
    }
    cpus = {node: parse_cpus(text) for node, text in texts.items()}
    # A node that is not listed, or does not tell its CPUs, may be the second.
    is_whole = parse_cpus(read_text(folder / "online")) == tuple(sorted(cpus))
    is_told = all(cpus[node] or text == "" for node, text in texts.items())
    with_cpus = sum(bool(of_node) for of_node in cpus.values())
    return NumaNodes(cpus, has_one=is_whole and is_told and with_cpus == 1)


def read_distances(sysfs: Path) -> Mapping[tuple[int, int], int]:
    """The distance (10 is the node itself) by two nodes; empty where nobody tells."""
    folder = sysfs / "devices/system/node"
    nodes = parse_cpus(read_text(folder / "online"))
    found: dict[tuple[int, int], int] = {}
    for node in nodes:
        words = (read_text(folder / f"node{node}" / "distance") or "").split()
        if len(words) != len(nodes) or not all(word.isdecimal() for word in words):
            return {}
        found |= {(node, other): int(word) for other, word in zip(nodes, words, strict=True)}
    return found


_CPU: Final = re.compile(r"cpu([0-9]{1,5})")


def read_cores(sysfs: Path) -> Mapping[int, int]:
    """Slurm's core by the kernel's CPU; empty where the kernel does not tell all of them.

    Slurm counts cores, not threads, socket by socket (gres.conf(5), `Cores`), where the kernel
    mostly numbers the second threads of all cores after the first ones.
    """
    folder = sysfs / "devices/system/cpu"
    numbers = [int(match[1]) for name in read_names(folder) if (match := _CPU.fullmatch(name))]
    core_by_cpu: dict[int, tuple[int, int]] = {}
    for cpu in numbers:
        told = folder / f"cpu{cpu}" / "topology"
        package = read_integer(told / "physical_package_id")
        threads = parse_cpus(read_text(told / "thread_siblings_list"))
        if package is None or cpu not in threads:
            # A CPU that is off tells nothing, and shifts the number of every core behind it.
            return {}
        core_by_cpu[cpu] = (package, threads[0])
    order = {core: at for at, core in enumerate(sorted(set(core_by_cpu.values())))}
    return {cpu: order[core] for cpu, core in core_by_cpu.items()}
