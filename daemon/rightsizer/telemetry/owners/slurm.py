"""Workloads of a Slurm node: jobs and their steps by control group."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rightsizer.domain.snapshot import CollectorOutcome
from rightsizer.domain.workload import Workload, WorkloadClass, WorkloadKind
from rightsizer.telemetry.owners.asked import Asked
from rightsizer.telemetry.owners.control_group import job_in
from rightsizer.telemetry.owners.job_devices import has_job_devices, read_job_devices
from rightsizer.telemetry.owners.job_map import read_job_map
from rightsizer.telemetry.owners.minors import Minors
from rightsizer.telemetry.owners.owner import Allocations
from rightsizer.telemetry.owners.process_files import ProcessFiles
from rightsizer.telemetry.owners.settings import OwnerSettings

__all__ = ["SlurmOwners", "workload_of_job"]


class SlurmOwners:
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
        """Reads nothing yet."""
        self._files = ProcessFiles(procfs)
        self._minors = Minors(procfs)
        self._sysfs = sysfs
        self._map = Path(settings.job_map_folder) if settings.job_map_folder else None
        # The map may lie on a file system of the network.
        self._given = Asked(
            "slurm_jobs",
            self._read,
            settings,
            interval_seconds=settings.floor_seconds,
            is_there=lambda: self._map is not None or has_job_devices(sysfs),
            now=now,
        )

    def workload_of(self, pid: int) -> Workload | None:
        """The job and step that a process runs in."""
        group = job_in(self._files.groups(pid))
        return workload_of_job(group.job, group.step) if group is not None else None

    def allocations(self) -> Allocations:
        """The devices that jobs were given, as far as somebody says so."""
        found = self._given.latest()
        return found if found is not None else {}

    def outcomes(self) -> Mapping[str, CollectorOutcome]:
        """How the last look at the allocations went; nothing where there are none to look at."""
        return self._given.outcomes()

    def close(self) -> None:
        """Let go of the thread that reads."""
        self._given.close()

    def _read(self) -> Allocations:
        """On the thread of its own; the map goes before the control groups where it has both."""
        jobs = dict(read_job_devices(self._sysfs, self._minors.addresses().get))
        if self._map is not None:
            jobs |= read_job_map(self._map)
        return {key: tuple(workload_of_job(job) for job in found) for key, found in jobs.items()}


def workload_of_job(job: str, step: str = "") -> Workload:
    """A job as a workload; its steps are the same workload."""
    return Workload(f"slurm:{job}", WorkloadKind.SLURM, job, WorkloadClass.BATCH, step=step)
