"""Slurm: jobs by control group, devices by the job map or the devices control groups."""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rightsizer.host.device_files import gpu_addresses
from rightsizer.host.trusted_groups import (
    TrustedGroup,
    WriterOf,
    other_writer,
    why_not_of_root,
)
from rightsizer.io.document import DocumentLimits, DocumentReading
from rightsizer.model.values import (
    BY_INDEX,
    DocumentError,
    Workload,
    WorkloadClass,
    WorkloadKind,
    workload_of_job,
)
from rightsizer.owners.background_fetcher import BackgroundFetcher
from rightsizer.owners.collector import OwnerHost, SchedulerCollector
from rightsizer.owners.device_keys import MinorOf
from rightsizer.owners.owner import Scheduler
from rightsizer.owners.workload_limits import LimitedAllocations, limited_allocations

_BY_INDEX: Final = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?")
_BY_UUID: Final = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F-]{36}")
_JOB: Final = re.compile(r"[\w.+-]{1,64}", re.ASCII)
_FILE_BYTES_MAXIMUM: Final = 65536
_LIMITS: Final = DocumentLimits(_FILE_BYTES_MAXIMUM, 4096, "files")
"""Source: four times what may be kept, for what the prolog writes beside."""
_JOBS_MAXIMUM: Final = 256


class JobMapError(Exception):
    """Unreadable job map folder, with a message for operators."""


def read_job_map(folder: Path) -> Mapping[str, tuple[str, ...]]:
    """Jobs by the device that their file is named for; raises `JobMapError` if unlistable."""
    jobs_by_key: dict[str, tuple[str, ...]] = {}
    reading = DocumentReading(f"job_map_folder: {folder}", _LIMITS)
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                reading.count()
                key = _key_of(entry.name)
                jobs = _jobs(folder / entry.name) if key is not None else ()
                if key is not None and jobs:
                    jobs_by_key[key] = jobs
    except OSError as error:
        raise JobMapError(f"job_map_folder: {folder} cannot be listed: {error.strerror}") from None
    except DocumentError as error:
        raise JobMapError(str(error)) from None
    return jobs_by_key


def _key_of(name: str) -> str | None:
    if _BY_UUID.fullmatch(name):
        return name
    by_index = _BY_INDEX.fullmatch(name)
    if by_index is None:
        return None
    key = f"{BY_INDEX}{int(by_index[1])}"
    return key if by_index[2] is None else f"{key}/gi{int(by_index[2])}"


def _jobs(path: Path) -> tuple[str, ...]:
    """Jobs in one file; empty if it disappeared or is not a regular file."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its other end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ()
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ()
        text = os.read(descriptor, _FILE_BYTES_MAXIMUM).decode(errors="replace")
    except OSError:
        return ()
    finally:
        os.close(descriptor)
    lines = (line.strip() for line in text.splitlines()[:_JOBS_MAXIMUM])
    return tuple(dict.fromkeys(line for line in lines if _JOB.fullmatch(line)))


_JOB_FOLDER: Final = re.compile(r"job_(\d{1,10})")
_GPU: Final = re.compile(r"c 195:(\d{1,3}) [rwm]+")
"""NVIDIA's major number; one device per line."""
_CONTROL_MINOR: Final = 254
"""First of the minor numbers that belong to the driver itself."""


def read_job_devices(
    sysfs: Path, minor_of: MinorOf, writer_of: WriterOf = other_writer
) -> Mapping[str, tuple[str, ...]]:
    """Jobs by device key, in groups of root; jobs with unconstrained devices are omitted."""
    jobs_by_key: dict[str, list[str]] = {}
    for folder in sorted(_root(sysfs).glob("slurm*/uid_*/job_*")):
        if any(writer_of(str(above)) != "" for above in (folder.parent, folder.parent.parent)):
            continue
        job = _JOB_FOLDER.fullmatch(folder.name)
        try:
            text = (folder / "devices.list").read_text()
        except OSError:
            continue  # It ended in the meantime.
        minors = [int(match[1]) for match in map(_GPU.fullmatch, text.splitlines()) if match]
        for minor in minors:
            key = minor_of(minor) if minor < _CONTROL_MINOR else None
            if job is not None and key is not None:
                jobs_by_key.setdefault(key, []).append(job[1])
    return {key: tuple(jobs) for key, jobs in jobs_by_key.items()}


def _root(sysfs: Path) -> Path:
    return sysfs / "fs" / "cgroup" / "devices"


_SLURM: Final = re.compile(
    r"(?:/slurm(?:_[^/]+)?/uid_\d+|(?:/\.\.)*(?:/[^/]+\.slice)*/(?:[^/]+_)?slurmstepd\.scope)"
    r"/job_(?P<job>\d{1,10})(?:/step_(?P<step>[^/]{1,64}))?(?=/|$)"
)
"""From the root of the node or of slurmd's container: version 1, and version 2 with or without
systemd (`IgnoreSystemd`)."""


def job_in(groups: Sequence[TrustedGroup]) -> Workload | None:
    """Outermost job with its step (`0`, `batch`, `extern`, or empty), in groups of any version."""
    for group in groups:
        for part in group.containment:
            if match := _SLURM.match(part.path):
                return workload_of_job(match["job"], match["step"] or "", part.unproven)
    return None


_DAEMON: Final = "slurmstepd"
_TITLE: Final = re.compile(
    r"slurmstepd: \[(?P<job>\d{1,10}(?:\+\d{1,4})?)(?:\.(?P<step>[^\]]{1,64}))?\]"
)
"""Of the daemon of each step; an older one for a batch script has no step."""
_ROOT: Final = 0
"""Slurm runs the daemon as root, and anyone can start a program with its name and title."""
_TITLED: Final = (
    "the title of a program above it names it, and no control group: let Slurm track processes by "
    "control groups (ProctrackType=proctrack/cgroup)"
)


class SlurmOwner(Scheduler):
    """Owner of jobs, with commands of Slurm and lines of batch scripts and settings."""

    kinds = (WorkloadKind.SLURM,)
    texts = "slurm"

    def workload_by_key(self, key: str, kind: str, name: str) -> Workload:
        """Batch job of a key."""
        return Workload(key, kind, name, WorkloadClass.BATCH)

    def may_match(self, running: Workload, given: Workload) -> bool:
        """A plain number may be `12_3` of an array, or `12+1` of a heterogeneous job."""
        return running.name.isdecimal() and not given.name.isdecimal()

    def job_of(self, workload: Workload) -> str:
        """Number or name of the job."""
        return workload.name


class SlurmCollector(SchedulerCollector):
    """Finds jobs of processes by control group or step daemon, and idle allocations by job map.

    Every array task and every part of a heterogeneous job has its own number, which control
    groups use.
    """

    def __init__(self, host: OwnerHost) -> None:
        super().__init__(host)
        settings = host.settings
        self._map = Path(settings.job_map_folder) if settings.job_map_folder else None
        # The map may be on a network file system.
        self.fetcher = BackgroundFetcher(
            "slurm_jobs",
            self._read,
            settings,
            interval_seconds=settings.floor_seconds,
            # Slurm may record jobs in the devices control groups of version 1.
            is_there=lambda: self._map is not None or any(_root(host.sysfs).glob("slurm*")),
            now=host.now,
        )

    def workload_of(self, pid: int) -> Workload | None:
        """Job and step that a process runs in."""
        return job_in(self.host.groups.of(pid)) or self._job_above(pid)

    def _job_above(self, pid: int) -> Workload | None:
        """Job by the step's daemon, where Slurm tracks processes without control groups."""
        row = self.host.processes.row(pid)
        for ancestor in self.host.processes.ancestors(row) if row is not None else ():
            is_daemon = ancestor.name == _DAEMON and self.host.processes.user(ancestor.pid) == _ROOT
            title = self.host.processes.command_line(ancestor.pid) if is_daemon else ""
            if match := _TITLE.match(title):
                return workload_of_job(match["job"], match["step"] or "", _TITLED)
        return None

    def _read(self) -> LimitedAllocations:
        """Read on the background thread; the map takes precedence over control groups."""
        minor_of = gpu_addresses(self.host.procfs).get
        allocations = {
            key: tuple(workload_of_job(job, unproven="") for job in jobs)
            for key, jobs in read_job_devices(
                self.host.sysfs, minor_of, self.host.groups.writer_of
            ).items()
        }
        if self._map is not None:
            why = why_not_of_root(self._map, self.host.groups.writer_of)
            for key, jobs in read_job_map(self._map).items():
                allocations[key] = tuple(workload_of_job(job, unproven=why) for job in jobs)
        return limited_allocations(allocations, self.host.settings.workloads_maximum)
