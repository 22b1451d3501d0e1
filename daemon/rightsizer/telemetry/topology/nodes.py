"""The NUMA nodes of the machine."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rightsizer.telemetry.topology.files import parse_cpus, read_names, read_text

__all__ = ["Nodes", "read_nodes"]

_NODE: Final = re.compile(r"node([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Nodes:
    """All nodes that the kernel has."""

    cpus: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """By node; none for nodes that are memory alone, as a Grace-Hopper's GPUs are."""
    has_one: bool = False
    """Whether there is surely no more than one node with CPUs."""

    def checked(self, node: int | None) -> int | None:
        """A node that exists; kernels write -1 where the firmware does not say."""
        return node if node in self.cpus else None


def read_nodes(sysfs: Path) -> Nodes:
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
    return Nodes(cpus, has_one=is_whole and is_told and with_cpus == 1)
