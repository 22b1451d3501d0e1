"""Labels of a Kubernetes node: a feature file for node-feature-discovery's local source.

Each line is `prefix/name=value`: newer releases no longer put a prefix before names that have none.
What is after an expiry line goes when its time has come, so that a node whose agent is gone loses
its labels. Values are label values: 63 characters at most, letters, digits, `-`, `_` and `.`, the
first and last a letter or digit.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from rightsizer.model.device import Device
from rightsizer.model.frozen import dataclass
from rightsizer.model.topology import Topology
from rightsizer.model.units import MIB, Nanoseconds, seconds

_MOST: Final = 63
_SEVERAL: Final = "mixed"
_PREFIX: Final = "rightsizer"
_NAMESPACE: Final = "feature.node.kubernetes.io"
"""The one of Kubernetes' own that may be used without permission."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What labels are made of: what stays, and not what changes by the second."""

    devices: tuple[Device, ...]
    """All that the driver offers."""
    topology: Topology
    healthy: frozenset[str]
    """Uuids of the GPUs that have been healthy for long enough."""


def labels(facts: NodeFacts) -> Mapping[str, str]:
    """The labels by name, without the prefix, in alphabetical order; the unknown have none."""
    boards = [each for each in facts.devices if each.mig is None]
    uuids = [each.uuid for each in boards]
    nodes = Counter(
        place.numa_node
        for uuid, place in facts.topology.placements.items()
        if uuid in uuids and place.numa_node is not None
    )

    def same(value: Callable[[Device], object]) -> object:
        """What all have; a word of its own where they differ."""
        found = {value(each) for each in boards}
        return _SEVERAL if len(found) > 1 else next(iter(found), None)

    def mebibytes(device: Device) -> int | None:
        size = device.memory_total_bytes
        return None if size is None else int(size / MIB)

    found: dict[str, object] = {
        "gpu-count": len(boards),
        "gpu-healthy-count": sum(uuid in facts.healthy for uuid in uuids),
        "gpu-product": same(lambda each: each.name),
        "gpu-memory-mib": same(mebibytes),
        # How many NVLink joins each to each, 1 where it joins none.
        "nvlink-set-size": _largest(0, set(uuids), facts.topology.nvlink_peers(uuids)),
        "numa-nodes": len(facts.topology.numa_nodes) or None,
        "gpus-per-numa-node": "-".join(str(nodes[node]) for node in sorted(nodes)) or None,
        "pcie-generation": same(lambda each: each.pcie_generation_maximum),
        "pcie-width": same(lambda each: each.pcie_width_maximum),
    }
    profiles = Counter(each.mig.profile for each in facts.devices if each.mig is not None)
    found |= {f"mig-{profile}": count for profile, count in profiles.items()}
    return {
        f"{_PREFIX}.{_word(name)}": _word(str(value))
        for name, value in sorted(found.items())
        if value is not None and _word(str(value))
    }


def feature_file(named: Mapping[str, str], expires: Nanoseconds | None) -> str:
    """The file's text; without an expiry (wall time) the labels hold for good."""
    lines = [f"{_NAMESPACE}/{name}={value}" for name, value in named.items()]
    if expires is not None:
        until = datetime.fromtimestamp(int(seconds(expires)), UTC)
        lines.insert(0, f"# +expiry-time={until:%Y-%m-%dT%H:%M:%SZ}")
    return "".join(f"{line}\n" for line in lines)


def _largest(chosen: int, candidates: set[str], peers: Mapping[str, set[str]]) -> int:
    """The size of the largest set of which each is joined with each other (Bron and Kerbosch)."""
    if not candidates:
        return chosen
    # One that is joined with all that are left is in the largest set: switches end here at once.
    best, left = chosen, set(candidates)
    for uuid in sorted(candidates):
        if chosen + len(left) <= best:
            break
        best = max(best, _largest(chosen + 1, left & peers[uuid], peers))
        left.discard(uuid)
        if peers[uuid] >= left:
            break
    return best


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:_MOST].strip("-._")
