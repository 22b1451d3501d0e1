"""Which Slurm job may use which GPU, by the devices control groups of version 1.

With version 2 the kernel keeps this in a program that nobody can read.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rightsizer.telemetry.owners.device_key import MinorOf

__all__ = ["has_job_devices", "read_job_devices"]

_JOB: Final = re.compile(r"job_(\d{1,10})")
_GPU: Final = re.compile(r"c 195:(\d{1,3}) [rwm]+")
"""NVIDIA's major number; one device a line."""
_CONTROL_MINOR: Final = 254
"""From here on the minor numbers are those of the driver itself."""


def has_job_devices(sysfs: Path) -> bool:
    """Whether Slurm keeps jobs in the devices control groups of version 1."""
    return any(_root(sysfs).glob("slurm*"))


def read_job_devices(sysfs: Path, minor_of: MinorOf) -> Mapping[str, tuple[str, ...]]:
    """Jobs by the device's key; a job whose devices are not constrained says nothing."""
    found: dict[str, list[str]] = {}
    for folder in sorted(_root(sysfs).glob("slurm*/uid_*/job_*")):
        job = _JOB.fullmatch(folder.name)
        try:
            text = (folder / "devices.list").read_text()
        except OSError:
            continue  # It has ended meanwhile.
        minors = [int(found[1]) for found in map(_GPU.fullmatch, text.splitlines()) if found]
        for minor in minors:
            key = minor_of(minor) if minor < _CONTROL_MINOR else None
            if job is not None and key is not None:
                found.setdefault(key, []).append(job[1])
    return {key: tuple(jobs) for key, jobs in found.items()}


def _root(sysfs: Path) -> Path:
    return sysfs / "fs" / "cgroup" / "devices"
