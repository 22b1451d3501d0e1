"""How far NUMA nodes are from each other, as the firmware says."""

from collections.abc import Mapping
from pathlib import Path

from rightsizer.telemetry.topology.files import parse_cpus, read_text

__all__ = ["read_distances"]


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
