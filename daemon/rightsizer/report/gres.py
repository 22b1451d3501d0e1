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
    has_links = len(told) > 1 and all(each.mig is None for each in told)
    lines, absent, counts = [], [], Counter[str]()
    for each in given:
        if each.uuid not in files:
            name = f"{each.name or _UNNAMED} {each.uuid}"
            absent.append(f"# {name}: its device file is not known, so no job gets it")
            continue
        board = each.uuid if each.mig is None else each.mig.parent_uuid
        kind = _spelled(names.get(board, "")) + (f"_{each.mig.profile}" if each.mig else "")
        counts[kind] += 1
        own, place = files[each.uuid], topology.placements.get(board)
        file = f"File={own[0]}" if len(own) == 1 else f"MultipleFiles={','.join(own)}"
        words = ["Name=gpu", f"Type={kind}", file]
        cpus = () if place is None else place.cpus
        near = cpu_list(tuple(sorted({cores[cpu] for cpu in cpus if cpu in cores})))
        if near is not None:
            words.append(f"Cores={near}")
        if has_links:
            links = (str(_links(each.uuid, other.uuid, topology)) for other in told)
            words.append(f"Links={','.join(links)}")
        lines.append(" ".join(words))
    kinds = ",".join(f"gpu:{kind}:{count}" for kind, count in counts.items())
    ending = [f"# slurm.conf: GresTypes=gpu, and NodeName={host} Gres={kinds}"] if kinds else []
    return "\n".join([*_HEAD, *lines, *absent, *ending])


def _links(one: str, other: str, topology: Topology) -> int:
    if one == other:
        return -1
    link = topology.link(one, other)
    if link is None or link.kind is not LinkKind.NVLINK:
        return 0
    # The driver may use them and not tell how many.
    return max(1, link.nvlinks)


def _spelled(name: str) -> str:
    # A colon, comma or blank would end the word in slurm.conf.
    return re.sub(r"[^a-z0-9._+-]+", "_", name.lower()).strip("_") or _UNNAMED
