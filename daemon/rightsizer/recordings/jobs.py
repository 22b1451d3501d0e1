"""Jobs of a recording without holders, as holders of its GPUs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from rightsizer.model.values import (
    Device,
    Holding,
    Nanoseconds,
    UsageError,
    Workload,
    WorkloadKind,
    cpu_list,
)

NO_JOBS: Final = "none"
"""Stated instead of GPUs: they share no job."""


class RecordedJob(Struct, frozen=True):
    """GPUs of a job with its wall time; `None` for an open end."""

    devices: tuple[Device, ...]
    workload: Workload
    why: str = ""
    """Reason of the inference; empty if stated."""
    start: Nanoseconds | None = None
    end: Nanoseconds | None = None

    def holds_at(self, time: Nanoseconds) -> bool:
        """Whether the job exists at a time."""
        return (self.start is None or self.start <= time) and (self.end is None or time <= self.end)


class RecordedJobs:
    """Jobs of a recording as holders of its GPUs."""

    def __init__(self, jobs: Iterable[RecordedJob]) -> None:
        self.jobs = tuple(jobs)
        self._present: tuple[RecordedJob, ...] = ()
        self._holdings: Mapping[str, tuple[Holding, ...]] = {}

    def holdings_at(
        self, time: Nanoseconds, recorded: Mapping[str, tuple[Holding, ...]]
    ) -> Mapping[str, tuple[Holding, ...]]:
        """Return the recorded holdings, with the jobs present at a time added."""
        if not self.jobs:
            return recorded
        present = tuple([job for job in self.jobs if job.holds_at(time)])
        if present != self._present:
            self._present = present
            self._holdings = {
                device.uuid: (Holding(job.workload, 1.0),)
                for job in present
                for device in job.devices
            }
        return {**recorded, **self._holdings}

    def remarks(self) -> Iterator[str]:
        """Yield remarks on inferred jobs."""
        for job in self.jobs:
            if job.why:
                named = gpu_list(job.devices)
                yield (
                    f"no column says who holds the GPUs: {named} are read as one job, since "
                    f"{job.why} (confidence {job.workload.confidence_ratio:.2f}); confirm it with "
                    f"--job {named}, or read each for itself with --job {NO_JOBS}"
                )


def stated_jobs(stated: Sequence[str], devices: Sequence[Device]) -> list[RecordedJob]:
    """Parse stated jobs such as `0-3,5` or device names; reject invalid ones."""
    taken: dict[str, str] = {}
    jobs = []
    for text in stated:
        if text == NO_JOBS:
            continue
        of_job = [device for part in text.split(",") for device in _named(part, text, devices)]
        for device in of_job:
            if device.uuid in taken:
                raise UsageError(
                    f"--job {text}: {device.title} is named in --job {taken[device.uuid]} too; "
                    "a GPU is of one job"
                )
            taken[device.uuid] = text
        key = gpu_list(of_job)
        workload = Workload(f"recorded:job {key}", WorkloadKind.RECORDED, f"job {key}")
        jobs.append(RecordedJob(tuple(of_job), workload))
    return jobs


def _named(part: str, text: str, devices: Sequence[Device]) -> list[Device]:
    name = part.strip()
    low, _, high = name.partition("-")
    if low.isdecimal() and (high or low).isdecimal():
        wanted = range(int(low), int(high or low) + 1)
        matching = [device for device in devices if device.index in wanted]
        missing = len(wanted) - len({device.index for device in matching})
    else:
        matching = [device for device in devices if name in {device.uuid, device.pci_bus_id}]
        missing = 0 if matching else 1
    if missing or not matching:
        gpu_names = ", ".join(
            str(device.index) if device.has_index else device.uuid for device in devices
        )
        raise UsageError(
            f"--job {text}: '{name}' is not in the recording; its GPUs are {gpu_names}"
        )
    return matching


def gpu_list(devices: Sequence[Device]) -> str:
    """Format devices for `--job`: `0-3,5`, or names."""
    if not all(device.has_index for device in devices):
        return ",".join(device.uuid for device in devices)
    return cpu_list(device.index for device in devices)
