"""Real processes in real control groups, of both versions, where the machine allows it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from owner_trees import host_in, write_gpu
from pretended_owner import (
    PRETENDED,
    USER,
    hierarchies,
    made_group,
    pretended_owner,
    process_in,
)
from rightsizer.host.trusted_groups import TrustedGroupReader
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


@pytest.fixture(params=["", "name=systemd"])
def hierarchy(request: pytest.FixtureRequest) -> Path:
    """Mount of the version 2 hierarchy, or of systemd's version 1."""
    mounts = hierarchies()
    if request.param not in mounts:
        pytest.skip(f"no hierarchy '{request.param}' is mounted here")
    return mounts[request.param]


@contextmanager
def group(root: Path, path: str) -> Iterator[Path]:
    """A control group of root, if the machine allows it."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(made_group(root, path))
        except OSError as error:
            pytest.skip(f"control groups cannot be made here: {error}")
        yield folder


def owners(**changes: object) -> OwnerResolver:
    """All the sources of this machine; no socket is queried."""
    settings = OwnerSettings(kubelet_socket="", pod_log_folder="", **changes)  # type: ignore[arg-type]
    return OwnerResolver.on_host(Path("/proc"), settings=settings)


def test_a_pod(hierarchy: Path) -> None:
    """A process in a pod's control group is the pod's, even without a name."""
    with group(hierarchy, POD) as folder, process_in(folder) as pid:
        found = owners().workload_of(pid)
    assert found == Workload(
        f"kubernetes:{UID}", WorkloadKind.KUBERNETES, UID, container="ab12ab12ab12", unproven=""
    )


def test_a_slurm_job(hierarchy: Path) -> None:
    """A process in a step's control group is the job's."""
    with group(hierarchy, JOB) as folder, process_in(folder) as pid:
        found = owners().workload_of(pid)
    assert found is not None
    assert (found.key, found.step, found.unproven) == ("slurm:4711", "0", "")


def test_a_container(hierarchy: Path) -> None:
    """A process in a container's scope is the container's, not a systemd unit's."""
    with (
        group(hierarchy, f"rightsizer-test.slice/docker-{ID}.scope") as folder,
        process_in(folder) as pid,
    ):
        found = owners().workload_of(pid)
    assert found is not None
    assert (found.key, found.unproven) == ("container:ab12ab12ab12", "")


def test_a_source_that_is_off_is_not_asked(hierarchy: Path) -> None:
    """With containers disabled the scope is a unit like any other."""
    with (
        group(hierarchy, f"rightsizer-test.slice/docker-{ID}.scope") as folder,
        process_in(folder) as pid,
    ):
        found = owners(sources=("session",)).workload_of(pid)
    assert found is not None
    assert (found.key, found.unproven) == (f"systemd:docker-{ID}.scope", "")


@pytest.mark.parametrize("path", PRETENDED)
def test_what_a_user_pretends_in_the_users_own_groups(hierarchy: Path, path: str) -> None:
    """Whatever a user calls own groups, the process is the user's, and nothing is proven."""
    with pretending(path, hierarchy) as pid:
        workload = owners().workload_of(pid)
    assert workload is not None
    is_session = workload.kind is WorkloadKind.SESSION
    assert is_session or f"user@{USER}.service/" in workload.name
    assert workload.kind not in (WorkloadKind.SLURM, WorkloadKind.KUBERNETES)
    assert workload.unproven


@pytest.mark.parametrize("path", PRETENDED)
def test_what_a_user_pretends_in_a_unit_of_the_system(hierarchy: Path, path: str) -> None:
    """A unit that delegates its group to a user (Delegate=, User=) counts as that unit."""
    unit = f"system.slice/rightsizer-test-{USER}.service"
    with pretending(path, hierarchy, unit) as pid:
        workload = owners(sources=("slurm", "kubernetes", "session")).workload_of(pid)
        container = owners(sources=("container",)).workload_of(pid)
    assert workload is not None
    assert (workload.key, workload.unproven) == (f"systemd:rightsizer-test-{USER}.service", "")
    assert container is None or container.key.startswith(
        f"container:rightsizer-test-{USER}.service/"
    )
    assert container is None or container.unproven


@contextmanager
def pretending(path: str, hierarchy: Path, delegated: str = "") -> Iterator[int]:
    """A pretended owner, if the machine allows it."""
    with ExitStack() as stack:
        try:
            pid = stack.enter_context(pretended_owner(path, root=hierarchy, delegated=delegated))
        except OSError as error:
            pytest.skip(f"no group can be handed to a user here: {error}")
        yield pid


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
    slurm = SlurmCollector(
        replace(
            host_in(tmp_path, OwnerSettings(first_wait_seconds=5), Path("/sys")),
            groups=TrustedGroupReader(tmp_path),
        )
    )
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
    slurm = SlurmCollector(
        replace(
            host_in(tmp_path, OwnerSettings(first_wait_seconds=5), Path("/sys")),
            groups=TrustedGroupReader(tmp_path),
        )
    )
    with group(devices, JOB_OF_VERSION_1):
        assert slurm.allocations() == {}
        slurm.close()
