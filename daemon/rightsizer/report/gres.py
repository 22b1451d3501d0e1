"""The node's GPUs as Slurm's gres.conf describes them, with near cores and links."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rightsizer.model.device import Device
from rightsizer.model.topology import LinkKind, Topology
from rightsizer.report.json_encoder import cpu_list

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
    """One line for each device, and what slurm.conf has to say of them.

    `Cores` are Slurm's numbers of cores, and left out where the kernel does not tell which CPU is
    a thread of which; `Links` counts NVLinks in the order of the lines, and is left out for MIG
    instances, which have none. `Type` is the board's name as Slurm's own AutoDetect spells it.

    Args:
        devices: All of the node; GPUs that are cut up are left out.
        topology: Of the node.
        files: The device files of each, by uuid; one without gets a comment for a line.
        cores: Slurm's core by the kernel's CPU.
        host: The node's name.
    """
    known = tuple(devices)
    names = {each.uuid: each.name for each in known}
    given = [each for each in known if each.is_given_out]
    told = [each for each in given if each.uuid in files]
    kinds = {each.uuid: _kind(each, names) for each in told}
    lines = [_line(each, kinds[each.uuid], told, topology, files, cores) for each in told]
    absent = [
        f"# {each.name or _UNNAMED} {each.uuid}: its device file is not known, so no job gets it"
        for each in given
        if each.uuid not in files
    ]
    counts = ",".join(f"gpu:{kind}:{count}" for kind, count in Counter(kinds.values()).items())
    ending = [f"# slurm.conf: GresTypes=gpu, and NodeName={host} Gres={counts}"] if counts else []
    return "\n".join([*_HEAD, *lines, *absent, *ending])


def _line(  # noqa: PLR0913, PLR0917 - the columns of a line.
    device: Device,
    kind: str,
    told: Sequence[Device],
    topology: Topology,
    files: Mapping[str, Sequence[str]],
    cores: Mapping[int, int],
) -> str:
    own = files[device.uuid]
    words = ["Name=gpu", f"Type={kind}"]
    words.append(f"File={own[0]}" if len(own) == 1 else f"MultipleFiles={','.join(own)}")
    place = topology.placements.get(device.uuid if device.mig is None else device.mig.parent_uuid)
    near = _cores(() if place is None else place.cpus, cores)
    if near is not None:
        words.append(f"Cores={near}")
    if len(told) > 1 and all(each.mig is None for each in told):
        links = [_links(device.uuid, each.uuid, topology) for each in told]
        words.append(f"Links={','.join(map(str, links))}")
    return " ".join(words)


def _cores(cpus: Iterable[int], cores: Mapping[int, int]) -> str | None:
    return cpu_list(tuple(sorted({cores[cpu] for cpu in cpus if cpu in cores})))


def _links(one: str, other: str, topology: Topology) -> int:
    if one == other:
        return -1
    link = topology.link(one, other)
    if link is None or link.kind is not LinkKind.NVLINK:
        return 0
    # The driver may use them and not tell how many.
    return max(1, link.nvlinks)


def _kind(device: Device, names: Mapping[str, str]) -> str:
    if device.mig is None:
        return _spelled(device.name)
    return f"{_spelled(names.get(device.mig.parent_uuid, ''))}_{device.mig.profile}"


def _spelled(name: str) -> str:
    # A colon, comma or blank would end the word in slurm.conf.
    return re.sub(r"[^a-z0-9._+-]+", "_", name.lower()).strip("_") or _UNNAMED
