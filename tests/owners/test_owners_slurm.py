"""A Slurm node: jobs by control group, allocations by the site's job folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from owner_trees import host_in, write_process
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.reading import Process
from rightsizer.model.workload import WorkloadClass, WorkloadKind
from rightsizer.owners.holdings import holdings_on, workloads_on
from rightsizer.owners.resolver import OwnerResolver
from rightsizer.owners.settings import OwnerSettings
from rightsizer.owners.slurm import JobMapError, SlurmCollector, read_job_map

UUID = "GPU-8ba15a3a-9c15-45e7-ad2f-0b1c6b14b9e0"
GPU = Device(UUID, 3, pci_bus_id="00000000:1B:00.0")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty job folder."""
    found = tmp_path / "jobs"
    found.mkdir()
    return found


@pytest.fixture
def owners(tmp_path: Path, folder: Path) -> Iterator[SlurmCollector]:
    """A node with that folder."""
    settings = OwnerSettings(job_map_folder=str(folder), first_wait_seconds=5)
    found = SlurmCollector(host_in(tmp_path / "proc", settings, tmp_path / "sys"))
    yield found
    found.close()


def held(owners: SlurmCollector, device: Device, *pids: int) -> dict[str, tuple[float, bool]]:
    """Holders of a device: share, and whether it runs."""
    processes = [Process(pid, 100) for pid in pids]
    found = holdings_on(device, workloads_on(processes, owners), owners.allocations())
    return {each.workload.key: (each.share_ratio, each.has_process) for each in found}


def run(root: Path, pid: int, job: int, step: str = "0") -> None:
    """Start a process in a job's step."""
    path = f"/system.slice/slurmstepd.scope/job_{job}/step_{step}/user/task_0"
    write_process(root / "proc", pid, cgroup=f"0::{path}\n")


def test_files_are_named_after_devices(folder: Path) -> None:
    """Names are index, index and instance, or UUID; other files are skipped."""
    (folder / "3").write_text("4711\n")
    (folder / "3.7").write_text("1\n2\n\n 2 \n")
    (folder / UUID).write_text("12_3\n12+1")
    for name in ("README", "3.7.1", "-1", "GPU-1", ".3.swp"):
        (folder / name).write_text("9\n")
    assert read_job_map(folder) == {
        "index:3": ("4711",),
        "index:3/gi7": ("1", "2"),
        UUID: ("12_3", "12+1"),
    }


def test_hostile_files_are_passed_over(folder: Path) -> None:
    """A pipe does not block, a large file is truncated, and an invalid job is ignored."""
    os.mkfifo(folder / "0")
    (folder / "1").mkdir()
    (folder / "2").symlink_to("/nowhere")
    (folder / "3").write_bytes(b'a"}\n\xff\xfe\n' + b"x" * 65 + b"\n17\n")
    (folder / "4").write_text("1234567\n" * 100_000)
    (folder / "5").write_text("")
    assert read_job_map(folder) == {"index:3": ("17",), "index:4": ("1234567",)}


def test_folder_with_too_many_files_is_reported(folder: Path) -> None:
    """It is no map of a node's GPUs, and listing it could take for ever."""
    for each in range(5000):
        (folder / f"note-{each}").touch()
    with pytest.raises(JobMapError, match="has more than 4096 files"):
        read_job_map(folder)


def test_missing_folder_is_reported(folder: Path) -> None:
    """The message names setting and folder."""
    with pytest.raises(JobMapError, match=r"job_map_folder: .*elsewhere cannot be listed"):
        read_job_map(folder / "elsewhere")


def test_missing_folder_is_a_failure_of_the_collector(tmp_path: Path) -> None:
    """The operator who configured it is informed."""
    settings = OwnerSettings(job_map_folder=str(tmp_path / "no"), first_wait_seconds=5)
    slurm = SlurmCollector(host_in(tmp_path, settings))
    assert slurm.allocations() == {}
    assert not slurm.outcomes()["slurm_jobs"].success
    slurm.close()


def test_without_slurm_nothing_is_read(tmp_path: Path) -> None:
    """A node without Slurm has no such collector."""
    slurm = SlurmCollector(host_in(tmp_path))
    assert slurm.allocations() == {}
    assert slurm.outcomes() == {}


def test_job_and_step(owners: SlurmCollector, tmp_path: Path) -> None:
    """The steps of a job are one batch workload."""
    run(tmp_path, 11, 4711, "0")
    run(tmp_path, 12, 4711, "batch")
    first = owners.workload_of(11)
    second = owners.workload_of(12)
    assert first is not None
    assert second is not None
    assert first.key == second.key == "slurm:4711"
    assert (first.step, second.step) == ("0", "batch")
    assert first.workload_class is WorkloadClass.BATCH


@pytest.mark.parametrize(
    ("title", "key", "step"),
    [
        ("slurmstepd: [4711.batch]", "slurm:4711", "batch"),
        ("slurmstepd: [4711.0]", "slurm:4711", "0"),
        ("slurmstepd: [4711]", "slurm:4711", ""),
        ("slurmstepd: [4711+1.0]", "slurm:4711+1", "0"),
        ("slurmstepd: [x.0]", "systemd:slurmd.service", ""),
        ("/usr/sbin/slurmstepd infinity", "systemd:slurmd.service", ""),
    ],
)
def test_job_by_the_daemon_of_its_step(tmp_path: Path, title: str, key: str, step: str) -> None:
    """With proctrack/linuxproc or pgid, the jobs of all users are in slurmd's unit."""
    group = "0::/system.slice/slurmd.service\n"
    write_process(tmp_path, 10, cgroup=group, session=10, name="slurmstepd", title=title)
    write_process(tmp_path, 11, cgroup=group, session=10, parent=10, name="slurm_script")
    write_process(tmp_path, 12, cgroup=group, session=10, parent=11, name="python")
    owners = OwnerResolver.on_host(tmp_path, sysfs=tmp_path / "sys")
    found = owners.workload_of(12)
    assert found is not None
    assert (found.key, found.step) == (key, step)


def test_a_users_program_is_no_daemon_of_a_step(tmp_path: Path) -> None:
    """Anyone can give a program the daemon's name and title, and hang GPUs onto another's job."""
    title = "slurmstepd: [4242.0]"
    write_process(tmp_path, 10, session=10, name="slurmstepd", title=title, uid=1000)
    write_process(tmp_path, 11, session=10, parent=10, name="python", uid=1000)
    found = OwnerResolver.on_host(tmp_path, sysfs=tmp_path / "sys").workload_of(11)
    assert found is not None
    assert found.kind is WorkloadKind.SESSION


def test_allocation_without_a_process(owners: SlurmCollector, folder: Path, tmp_path: Path) -> None:
    """slurm-job-exporter#65: a job with an allocated but unused GPU is listed."""
    (folder / "3").write_text("4711\n")
    run(tmp_path, 11, 4712)
    assert held(owners, GPU) == {"slurm:4711": (1.0, False)}
    # A job that computes without an allocation does not hide it either.
    assert held(owners, GPU, 11) == {"slurm:4711": (0.0, False), "slurm:4712": (1.0, True)}


def test_allocation_of_an_instance(owners: SlurmCollector, folder: Path) -> None:
    """The file of an instance covers that instance only."""
    (folder / "3.7").write_text("4711\n")
    mig = MigInstance(UUID, "1g.10gb", 7, 0, 1 / 7, 1 / 8)
    other = MigInstance(UUID, "1g.10gb", 8, 0, 1 / 7, 1 / 8)
    assert held(owners, Device("MIG-a", 3, mig=mig)) == {"slurm:4711": (1.0, False)}
    assert held(owners, Device("MIG-b", 3, mig=other)) == {}
    assert held(owners, GPU) == {}


@pytest.mark.parametrize("task", ["12_3", "12+1"])
def test_a_task_by_its_two_names(
    owners: SlurmCollector, folder: Path, tmp_path: Path, task: str
) -> None:
    """A prolog may write an array's task; the kernel only has the task's own number."""
    (folder / "3").write_text(task)
    run(tmp_path, 11, 130)
    assert held(owners, GPU, 11) == {f"slurm:{task}": (1.0, True)}


def test_a_stale_map_names_nobody_else(
    owners: SlurmCollector, folder: Path, tmp_path: Path
) -> None:
    """A number that an epilog left behind is not that of the running job."""
    (folder / "3").write_text("100")
    run(tmp_path, 11, 200)
    assert held(owners, GPU, 11) == {"slurm:100": (0.0, False), "slurm:200": (1.0, True)}
