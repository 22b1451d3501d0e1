"""Slurm: jobs by control group, devices by the job map or the devices control groups."""

import os
import re
import shlex
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from rightsizer.host.device_files import gpu_addresses
from rightsizer.host.process_table import ProcessTable
from rightsizer.model.finding import Action, Instruction
from rightsizer.model.workload import Workload, WorkloadClass, WorkloadKind
from rightsizer.owners.background_fetcher import BackgroundFetcher
from rightsizer.owners.device_keys import MinorOf
from rightsizer.owners.owner import (
    THIS_NODE,
    Allocations,
    Instructions,
    NodeCollector,
    NumaHome,
    Scheduler,
    shell,
)
from rightsizer.owners.settings import OwnerSettings

_BY_INDEX: Final = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?")
_BY_UUID: Final = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F-]{36}")
_JOB: Final = re.compile(r"[\w.+-]{1,64}", re.ASCII)
_FILES_MAXIMUM: Final = 1024
_FILE_BYTES_MAXIMUM: Final = 65536
_JOBS_MAXIMUM: Final = 256


class JobMapError(Exception):
    """A folder of jobs that cannot be read, in words for an operator."""


def read_job_map(folder: Path) -> Mapping[str, tuple[str, ...]]:
    """Jobs by the device's key; files that are not named after a device are passed over.

    Raises:
        JobMapError: the folder cannot be listed.
    """
    found: dict[str, tuple[str, ...]] = {}
    try:
        files = sorted(folder.iterdir())[:_FILES_MAXIMUM]
    except OSError as error:
        raise JobMapError(f"job_map_folder: {folder} cannot be listed: {error.strerror}") from None
    for file in files:
        key = _key_of(file.name)
        jobs = _jobs(file) if key is not None else ()
        if key is not None and jobs:
            found[key] = jobs
    return found


def _key_of(name: str) -> str | None:
    if _BY_UUID.fullmatch(name):
        return name
    by_index = _BY_INDEX.fullmatch(name)
    if by_index is None:
        return None
    key = f"index:{int(by_index[1])}"
    return key if by_index[2] is None else f"{key}/gi{int(by_index[2])}"


def _jobs(path: Path) -> tuple[str, ...]:
    """The jobs of one file; none where it went away or is no file."""
    try:
        # Opening a pipe would wait for its other end.
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
        job = _JOB_FOLDER.fullmatch(folder.name)
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


_SLURM: Final = re.compile(
    r"/(?:slurm(?:_[^/]+)?/uid_\d+|(?:[^/]+_)?slurmstepd\.scope)"
    r"/job_(?P<job>\d{1,10})(?:/step_(?P<step>[^/]{1,64}))?(?=/|$)"
)


def job_in(paths: Sequence[str]) -> tuple[str, str] | None:
    """Job and step (`0`, `batch`, `extern`, or empty), with control groups of either version."""
    for path in paths:
        if found := _SLURM.search(path):
            return found["job"], found["step"] or ""
    return None


class SlurmOwner(Scheduler):
    """Jobs: commands of Slurm, lines of batch scripts and of its configuration."""

    kinds = (WorkloadKind.SLURM,)

    def workload_by_key(self, key: str, kind: WorkloadKind, name: str) -> Workload:
        """A batch job."""
        return Workload(key, kind, name, WorkloadClass.BATCH)

    def may_match(self, running: Workload, given: Workload) -> bool:
        """A number of its own may be `12_3` of an array, or `12+1` of a heterogeneous job."""
        return running.name.isdecimal() and not given.name.isdecimal()

    def job_of(self, workload: Workload) -> str:
        """The job's number, or its name."""
        return workload.name

    def release(self, workload: Workload) -> Instructions:
        """Cancels the job, by its name where that is all that is known."""
        name = workload.name
        is_number = name.replace("_", "").isdecimal()
        job = name if is_number else f"--name={shlex.quote(name)}"
        return shell("End the Slurm job", f"scancel {job}")

    def bind(self, homes: Sequence[NumaHome]) -> Instructions:
        """Flags of srun."""
        del homes
        return shell(
            "Slurm: give each task the GPU that is nearest to its CPUs",
            "srun --gpus-per-task=1 --gpu-bind=closest --cpu-bind=cores --mem-bind=local ...",
        )

    def request_cpus(self, title: str, per_gpu: int, gpus: int) -> Instructions:
        """A line of the batch script."""
        del gpus
        return shell(title, f"#SBATCH --cpus-per-gpu={per_gpu}")

    def request_gpus(self, workload: Workload, count: int) -> Instructions:
        """A line of the batch script."""
        del workload
        return shell("Ask for fewer GPUs", f"#SBATCH --gpus={count}")

    def prefer_neighbors(self) -> Instructions:
        """A line of gres.conf."""
        title = "Slurm: let it know the links, so that it chooses neighbors (gres.conf)"
        return (Instruction(title, "AutoDetect=nvml"),)

    def drain(self, why: str) -> Instructions:
        """States of the node."""
        update = f'scontrol update NodeName="{THIS_NODE}" State='
        return (
            *shell(
                "Slurm: let jobs end and start none on the node",
                f'{update}DRAIN Reason="rightsizer: {why}"',
            ),
            *shell("Slurm: use the node again, when it is repaired", f"{update}RESUME"),
        )

    def drain_node(self, node: str) -> str:
        """A state of the node."""
        return f"scontrol update nodename={shlex.quote(node)} state=drain reason=spare"

    def scale_nodes(self, minimum: int, maximum: int, lead_seconds: float) -> Instruction:
        """Lines of slurm.conf."""
        del maximum
        return Instruction(
            "Slurm: power saving (slurm.conf)",
            "SuspendTime=1800\n"
            f"ResumeTimeout={max(600, round(2 * lead_seconds))}\n"
            f"SuspendExcNodes=NODES:{minimum}\n"
            "# SuspendProgram and ResumeProgram turn machines off and on.\n",
        )

    def pack_tightly(self) -> Instructions:
        """Lines of slurm.conf."""
        text = (
            "SelectTypeParameters=CR_Core_Memory,CR_Pack_Nodes\n# and no LLN=yes on the partition\n"
        )
        return (Instruction("Slurm: fill nodes one after the other (slurm.conf)", text),)

    def share_gpus(self, action: Action, most_together: int) -> Instructions:
        """Lines of gres.conf, and of the jobs."""
        name, count, part = "shard", most_together, 1
        if action is Action.SHARE_MPS:
            name, count, part = "mps", 100, 100 // most_together
        text = (
            "# gres.conf, on the nodes that share\n"
            f"Name={name} Count={count}\n"
            f"# and in the jobs: --gres={name}:{part}\n"
        )
        return (Instruction("Slurm: give out parts of a GPU", text),)

    def request_pool(self, pool: str, product: str) -> Instructions:
        """A line of the batch script."""
        del product
        return shell("Ask for the other partition", f"#SBATCH --partition={pool}\n")

    def request_nodes(self, gpus: int, nodes: int) -> Instructions:
        """Lines of the batch script."""
        return shell("Ask for fewer nodes", f"#SBATCH --nodes={nodes}\n#SBATCH --gpus={gpus}\n")


class SlurmCollector(NodeCollector):
    """Jobs of processes by the kernel; jobs without a process by the site's map of jobs.

    Every task of an array and every part of a heterogeneous job has a number of its own, which
    the control groups go by.
    """

    def __init__(
        self,
        procfs: Path,
        sysfs: Path,
        settings: OwnerSettings,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._processes = ProcessTable(procfs)
        self._procfs = procfs
        self._sysfs = sysfs
        self._map = Path(settings.job_map_folder) if settings.job_map_folder else None
        # The map may lie on a file system of the network.
        self.fetcher = BackgroundFetcher(
            "slurm_jobs",
            self._read,
            settings,
            interval_seconds=settings.floor_seconds,
            is_there=lambda: self._map is not None or has_job_devices(sysfs),
            now=now,
        )

    def workload_of(self, pid: int) -> Workload | None:
        """The job and step that a process runs in."""
        found = job_in(self._processes.groups(pid))
        return workload_of_job(*found) if found is not None else None

    def allocations(self) -> Allocations:
        """The devices of jobs, by the job map or the devices control groups."""
        return (self.fetcher.latest() if self.fetcher else None) or {}

    def _read(self) -> Allocations:
        """On the thread of its own; the map goes before the control groups where it has both."""
        jobs = dict(read_job_devices(self._sysfs, gpu_addresses(self._procfs).get))
        if self._map is not None:
            jobs |= read_job_map(self._map)
        return {key: tuple(workload_of_job(job) for job in found) for key, found in jobs.items()}


def workload_of_job(job: str, step: str = "") -> Workload:
    """A job as a workload; its steps are the same workload."""
    return Workload(f"slurm:{job}", WorkloadKind.SLURM, job, WorkloadClass.BATCH, step=step)
