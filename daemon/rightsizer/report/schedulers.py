"""Facts about a node for schedulers: gres.conf, labels, NodeResourceTopology."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from rightsizer.model.values import MIB, Device, LinkKind, Nanoseconds, Topology, cpu_list, seconds

_HEAD: Final = (
    "# gres.conf of this node, in place of AutoDetect; docs/slurm.md tells where it is from.",
)
_UNNAMED: Final = "gpu"


def gres_conf(
    devices: Iterable[Device],
    topology: Topology,
    files: Mapping[str, Sequence[str]],
    cores: Mapping[int, int],
    host: str,
) -> str:
    """Return Slurm's gres.conf: one line per device, and comments with lines for slurm.conf.

    `Cores` are core numbers of Slurm, omitted if the kernel does not report thread siblings;
    `Links` counts NVLinks in line order, and is omitted for MIG instances, which have none. `Type`
    is the board's name as Slurm's AutoDetect spells it. GPUs divided into instances are omitted; a
    device without `files` gets a comment instead of a line. `cores` maps the kernel's CPUs to
    Slurm's cores.
    """
    all_devices = tuple(devices)
    names = {device.uuid: device.name for device in all_devices}
    given = [device for device in all_devices if device.is_given_out]
    listed = [device for device in given if device.uuid in files]
    has_links = len(listed) > 1 and all(device.mig is None for device in listed)
    lines = []
    absent = []
    counts = Counter[str]()
    for device in given:
        if device.uuid not in files:
            name = f"{device.name or _UNNAMED} {device.uuid}"
            absent.append(f"# {name}: its device file is not known, so no job gets it")
            continue
        board = device.board_uuid
        kind = _spelled(names.get(board, "")) + (f"_{device.mig.profile}" if device.mig else "")
        counts[kind] += 1
        device_files = files[device.uuid]
        place = topology.placements.get(board)
        file = (
            f"File={device_files[0]}"
            if len(device_files) == 1
            else f"MultipleFiles={','.join(device_files)}"
        )
        words = ["Name=gpu", f"Type={kind}", file]
        cpus = () if place is None else place.cpus
        if near := cpu_list(cores[cpu] for cpu in cpus if cpu in cores):
            words.append(f"Cores={near}")
        if has_links:
            links = (str(_links(device.uuid, other.uuid, topology)) for other in listed)
            words.append(f"Links={','.join(links)}")
        lines.append(" ".join(words))
    kinds = ",".join(f"gpu:{kind}:{count}" for kind, count in counts.items())
    ending = [f"# slurm.conf: GresTypes=gpu, and NodeName={host} Gres={kinds}"] if kinds else []
    return "\n".join([*_HEAD, *lines, *absent, *ending])


def _links(one: str, other: str, topology: Topology) -> int:
    if one == other:
        return -1
    if (link := topology.link(one, other)) is None or link.kind is not LinkKind.NVLINK:
        return 0
    # The driver may use NVLinks without reporting their number.
    return max(1, link.nvlinks)


def _spelled(name: str) -> str:
    # A colon, comma or blank would end the word in slurm.conf.
    return re.sub(r"[^a-z0-9._+-]+", "_", name.lower()).strip("_") or _UNNAMED


_MOST: Final = 63
_SEVERAL: Final = "mixed"
_PREFIX: Final = "rightsizer"
_NAMESPACE: Final = "feature.node.kubernetes.io"
"""Kubernetes' own namespace that needs no permission."""


class NodeFacts(Struct, frozen=True):
    """Lasting facts that labels are made of."""

    devices: tuple[Device, ...]
    topology: Topology
    healthy: frozenset[str]
    """Uuids of the GPUs that have been healthy for long enough."""


def labels(facts: NodeFacts) -> Mapping[str, str]:
    """Return the labels by name, without prefix, in alphabetical order; unknown ones are omitted.

    Values are valid label values: at most 63 letters, digits, `-`, `_` and `.`, with a letter or
    digit first and last.
    """
    boards = [device for device in facts.devices if device.mig is None]
    uuids = [board.uuid for board in boards]
    nodes = Counter(
        place.numa_node
        for uuid, place in facts.topology.placements.items()
        if uuid in uuids and place.numa_node is not None
    )

    def same(value: Callable[[Device], object]) -> object:
        """Return the common value, or `mixed`."""
        values = {value(board) for board in boards}
        return _SEVERAL if len(values) > 1 else next(iter(values), None)

    def mebibytes(device: Device) -> int | None:
        size = device.memory_total_bytes
        return None if size is None else int(size / MIB)

    label_values: dict[str, object] = {
        "gpu-count": len(boards),
        "gpu-healthy-count": sum(uuid in facts.healthy for uuid in uuids),
        "gpu-product": same(lambda device: device.name),
        "gpu-memory-mib": same(mebibytes),
        # Size of the largest set fully connected by NVLink; 1 if none are connected.
        "nvlink-set-size": _largest(0, set(uuids), facts.topology.nvlink_peers(uuids)),
        "numa-nodes": len(facts.topology.numa_nodes) or None,
        "gpus-per-numa-node": "-".join(str(nodes[node]) for node in sorted(nodes)) or None,
        "pcie-generation": same(lambda device: device.pcie_generation_maximum),
        "pcie-width": same(lambda device: device.pcie_width_maximum),
    }
    profiles = Counter(device.mig.profile for device in facts.devices if device.mig is not None)
    label_values |= {f"mig-{profile}": count for profile, count in profiles.items()}
    return {
        f"{_PREFIX}.{_word(name)}": _word(str(value))
        for name, value in sorted(label_values.items())
        if value is not None and _word(str(value))
    }


def feature_file(named: Mapping[str, str], expires: Nanoseconds | None) -> str:
    """Format labels of a Kubernetes node for node-feature-discovery's local source.

    Each line is `prefix/name=value`: newer releases no longer prefix plain names. Labels after an
    expiry line are dropped at its time (wall time), so that a node whose agent is gone loses them;
    without one they are kept.
    """
    lines = [f"{_NAMESPACE}/{name}={value}" for name, value in named.items()]
    if expires is not None:
        until = datetime.fromtimestamp(int(seconds(expires)), UTC)
        lines.insert(0, f"# +expiry-time={until:%Y-%m-%dT%H:%M:%SZ}")
    return "".join(f"{line}\n" for line in lines)


def _largest(chosen: int, candidates: set[str], peers: Mapping[str, set[str]]) -> int:
    """Return the size of the largest clique (Bron and Kerbosch)."""
    if not candidates:
        return chosen
    # A node connected to all others is in the largest clique: with switches this ends at once.
    best = chosen
    left = set(candidates)
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


_VERSION: Final = "topology.node.k8s.io/v1alpha2"
_GPU: Final = "nvidia.com/gpu"
_MIG: Final = "nvidia.com/mig-"
_CPU: Final = "cpu"
_HERE: Final = 10
"""Distance of a node to itself by the firmware's convention (ACPI, SLIT)."""


def resource_topology(
    devices: Iterable[Device],
    topology: Topology,
    distances: Mapping[tuple[int, int], int],
    held: Collection[str],
    host: str,
) -> dict[str, Any]:
    """Return the node's NodeResourceTopology, by which topology-aware schedulers place pods.

    There is a zone for each NUMA node with CPUs or devices; GPUs divided into instances are in
    none. `distances` are between NUMA nodes, `held` are uuids in use.

    `available` excludes devices held by processes or allocation. For CPUs only the capacity is
    known: their allocation is known to the kubelet alone. Resources have the names of NVIDIA's
    device plugin (mixed strategy). Devices of unknown node are in the zone of a single-node
    machine, else in none.
    """
    given = {device.uuid: device for device in devices if device.is_given_out}
    homes = {uuid: _node_of(device, topology) for uuid, device in given.items()}
    nodes = {*topology.numa_nodes, *(node for node in homes.values() if node is not None)}
    zones = sorted(node for node in nodes if node >= 0) or [0]
    if len(zones) == 1:
        homes = {uuid: zones[0] if node is None else node for uuid, node in homes.items()}
    return {
        "apiVersion": _VERSION,
        "kind": "NodeResourceTopology",
        "metadata": {"name": host},
        "zones": [
            {
                "name": f"node-{node}",
                "type": "Node",
                "costs": _costs(node, zones, distances),
                "resources": list(
                    _resources(
                        [given[uuid] for uuid, home in homes.items() if home == node],
                        topology.numa_nodes.get(node, ()),
                        held,
                    )
                ),
            }
            for node in zones
        ],
    }


def _resources(
    devices: Iterable[Device], cpus: Collection[int], held: Collection[str]
) -> Iterator[dict[str, str]]:
    """Yield each resource with its total and its free number."""
    counts: Counter[str] = Counter()
    free: Counter[str] = Counter()
    for device in devices:
        name = _GPU if device.mig is None else f"{_MIG}{device.mig.profile}"
        counts[name] += 1
        free[name] += device.uuid not in held
    amounts = sorted(counts.items())
    if cpus:
        amounts.append((_CPU, len(cpus)))
        free[_CPU] = len(cpus)
    for name, count in amounts:
        capacity = str(count)
        available = str(free[name])
        yield {"name": name, "capacity": capacity, "allocatable": capacity, "available": available}


def _node_of(device: Device, topology: Topology) -> int | None:
    place = topology.placements.get(device.board_uuid)
    node = None if place is None else place.numa_node
    return device.numa_node if node is None else node


def _costs(
    node: int, zones: list[int], distances: Mapping[tuple[int, int], int]
) -> list[dict[str, Any]]:
    if len(zones) > 1 and not all((node, other) in distances for other in zones):
        return [{"name": f"node-{node}", "value": _HERE}]
    return [
        {"name": f"node-{other}", "value": distances.get((node, other), _HERE)} for other in zones
    ]
