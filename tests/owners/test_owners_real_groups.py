"""Real processes in real control groups, of both versions, where the machine allows it."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from owner_trees import write_gpu
from rightsizer.model.workload import Workload, WorkloadKind
from rightsizer.owners.resolver import OwnerResolver
from rightsizer.owners.settings import OwnerSettings
from rightsizer.owners.slurm import SlurmCollector

UID = "0f1c2d3e-aaaa-bbbb-cccc-0123456789ab"
ID = "ab12" * 16
KUBEPODS = "rightsizer-test-kubepods.slice"
POD = (
    f"{KUBEPODS}/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
    f"/cri-containerd-{ID}.scope"
)
JOB = "rightsizer-test_slurmstepd.scope/job_4711/step_0/user/task_0"
JOB_OF_VERSION_1 = "slurm_rightsizer-test/uid_0/job_4711"
CGROUPS = Path("/sys/fs/cgroup")


@pytest.fixture(params=["0::", "1:name=systemd:"])
def hierarchy(request: pytest.FixtureRequest) -> Path:
    """Mount of the version 2 hierarchy, or of systemd's version 1."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        is_wanted = kind == "cgroup2" if request.param == "0::" else "name=systemd" in options
        if kind.startswith("cgroup") and is_wanted:
            return Path(place)
    pytest.skip(f"no hierarchy '{request.param}' is mounted here")


@contextmanager
def group(root: Path, path: str) -> Iterator[Path]:
    """A control group, created with its parents and removed again."""
    with ExitStack() as stack:
        folder = root
        for part in Path(path).parts:
            folder /= part
            if not folder.exists():
                try:
                    folder.mkdir()
                except OSError as error:
                    pytest.skip(f"control groups cannot be made here: {error}")
                stack.callback(_remove, folder)
        yield folder


def _remove(folder: Path) -> None:
    """The kernel takes a moment to notice that a group is empty."""
    for _ in range(100):
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.02)
        else:
            return
    folder.rmdir()


@contextmanager
def process_in(folder: Path) -> Iterator[int]:
    """A process that runs in a control group."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        try:
            (folder / "cgroup.procs").write_text(str(process.pid))
            yield process.pid
        finally:
            process.kill()


def owners(**changes: object) -> OwnerResolver:
    """All the sources of this machine; no socket is queried."""
    settings = OwnerSettings(kubelet_socket="", pod_log_folder="", **changes)  # type: ignore[arg-type]
    return OwnerResolver.on_host(Path("/proc"), settings=settings)


def test_a_pod(hierarchy: Path) -> None:
    """A process in a pod's control group is the pod's, even without a name."""
    with group(hierarchy, POD) as folder, process_in(folder) as pid:
        found = owners().workload_of(pid)
    assert found == Workload(
        f"kubernetes:{UID}", WorkloadKind.KUBERNETES, UID, container="ab12ab12ab12"
    )


def test_a_slurm_job(hierarchy: Path) -> None:
    """A process in a step's control group is the job's."""
    with group(hierarchy, JOB) as folder, process_in(folder) as pid:
        found = owners().workload_of(pid)
    assert found is not None
    assert (found.key, found.step) == ("slurm:4711", "0")


def test_a_container(hierarchy: Path) -> None:
    """A process in a container's scope is the container's, not a systemd unit's."""
    with (
        group(hierarchy, f"rightsizer-test.slice/docker-{ID}.scope") as folder,
        process_in(folder) as pid,
    ):
        found = owners().workload_of(pid)
    assert found is not None
    assert found.key == "container:ab12ab12ab12"


def test_a_source_that_is_off_is_not_asked(hierarchy: Path) -> None:
    """With containers disabled the scope is a unit like any other."""
    with (
        group(hierarchy, f"rightsizer-test.slice/docker-{ID}.scope") as folder,
        process_in(folder) as pid,
    ):
        found = owners(sources=("session",)).workload_of(pid)
    assert found is not None
    assert found.key == f"systemd:docker-{ID}.scope"


def test_a_process_that_ended_is_nobodys(hierarchy: Path) -> None:
    """Its cached result is dropped early."""
    known = owners()
    with group(hierarchy, JOB) as folder, process_in(folder) as pid:
        assert known.workload_of(pid) is not None
    assert known.workload_of(pid) is None


def test_allocation_by_device_group(tmp_path: Path) -> None:
    """A job with access to a GPU and no process is known by its devices control group only."""
    devices = CGROUPS / "devices"
    if not (devices / "devices.list").exists():
        pytest.skip("no devices controller of version 1 is mounted here")
    write_gpu(tmp_path, "0000:1b:00.0", 3)
    write_gpu(tmp_path, "0000:3b:00.0", 0)
    slurm = SlurmCollector(tmp_path, Path("/sys"), OwnerSettings(first_wait_seconds=5))
    with group(devices, JOB_OF_VERSION_1) as folder:
        # Slurm's own way: all devices are denied, then single ones allowed.
        (folder / "devices.deny").write_text("a")
        for rule in ("c 1:3 rwm", "c 195:3 rwm", "c 195:255 rwm"):
            (folder / "devices.allow").write_text(rule)
        found = slurm.allocations()
        slurm.close()
    assert {key: [job.key for job in jobs] for key, jobs in found.items()} == {
        "0000:1b:00.0": ["slurm:4711"]
    }


def test_a_job_that_is_not_constrained_is_given_nothing(tmp_path: Path) -> None:
    """If every job may use every device, access does not show an allocation."""
    devices = CGROUPS / "devices"
    if not (devices / "devices.list").exists():
        pytest.skip("no devices controller of version 1 is mounted here")
    write_gpu(tmp_path, "0000:1b:00.0", 0)
    slurm = SlurmCollector(tmp_path, Path("/sys"), OwnerSettings(first_wait_seconds=5))
    with group(devices, JOB_OF_VERSION_1):
        assert slurm.allocations() == {}
        slurm.close()
