"""Slurm's own parser of gres.conf: `slurmd -G` of Debian's packages, over device files of ours.

It runs as anyone, asks no one, and ends; the node is of as many sockets and cores as is said.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Final

from debian_program import unpacked

__all__ = ["slurm_faults"]

_PACKAGES: Final = ("slurmd", "slurm-wlm-basic-plugins", "libhwloc15")
_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
_FAULT: Final = re.compile(r": ((?:error|fatal): .*)")
_OF_THE_MACHINE: Final = ("hwloc", "Domain socket", "differs from hardware")


def slurm_faults(gres_conf: str, folder: Path, *, sockets: int, cores_each: int) -> list[str]:
    """What Slurm does not understand of a node's gres.conf; nothing where all is well.

    Args:
        gres_conf: The file's text; files below `/dev` are put into the folder and made.
        folder: Where all this is written.
        sockets: Of the node.
        cores_each: Cores of a socket.
    """
    text = re.sub(r"/dev/(nvidia[a-z0-9/-]*)", lambda found: _made(folder, found[1]), gres_conf)
    (folder / "gres.conf").write_text(text)
    (folder / "cgroup.conf").write_text(f"CgroupPlugin=cgroup/v1\nCgroupMountpoint={folder}\n")
    roots = {package: unpacked(package) for package in _PACKAGES}
    plugins = roots["slurm-wlm-basic-plugins"] / _LIBRARIES / "slurm-wlm"
    node = f"Sockets={sockets} CoresPerSocket={cores_each} ThreadsPerCore=1"
    (folder / "slurm.conf").write_text(
        "ClusterName=one\nSlurmctldHost=localhost\nGresTypes=gpu\nAuthType=auth/none\n"
        "CredType=cred/none\nProctrackType=proctrack/pgid\nTaskPlugin=task/none\n"
        f"SlurmdParameters=config_overrides\nPluginDir={plugins}\nSlurmdSpoolDir={folder}\n"
        f"NodeName=gpu-1 NodeAddr=127.0.0.1 {node}{_promised(gres_conf)}\n"
        "PartitionName=all Nodes=gpu-1\n"
    )
    paths = [str(root / _LIBRARIES) for root in roots.values()] + [str(plugins)]
    done = subprocess.run(
        [roots["slurmd"] / "usr/sbin/slurmd-wlm", "-D", "-G", "-N", "gpu-1"],
        env={
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(paths),
            "SLURM_CONF": str(folder / "slurm.conf"),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    output = done.stdout + done.stderr
    faults = [
        found[1]
        for found in _FAULT.finditer(output)
        if not any(word in found[1] for word in _OF_THE_MACHINE)
    ]
    # One that ends early has parsed nothing, and says so in words that we do not know.
    return faults if done.returncode == 0 or faults else [f"rc {done.returncode}: {output}"]


def _made(folder: Path, name: str) -> str:
    place = folder / "dev" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()
    return str(place)


def _promised(gres_conf: str) -> str:
    """What the last comment says that slurm.conf has to say."""
    found = re.search(r"NodeName=\S+( Gres=\S+)", gres_conf)
    return found[1] if found else ""
