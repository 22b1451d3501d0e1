"""Pod, container and job by the path of a control group, in every known spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owner_trees import of_root
from rightsizer.host.trusted_groups import TrustedGroup, parts_of
from rightsizer.owners.containers import container_in
from rightsizer.owners.kubernetes import pod_in
from rightsizer.owners.slurm import job_in
from rightsizer.owners.systemd import unit_in

UID = "0f1c2d3e-aaaa-bbbb-cccc-0123456789ab"
UID_ = UID.replace("-", "_")
STATIC = "d41d8cd98f00b204e9800998ecf8427e"
ID = "ab12" * 16
OTHER = "cd34" * 16


def groups_at(*paths: str) -> list[TrustedGroup]:
    """Control groups at some paths, all of root."""
    return [TrustedGroup("", parts_of(path, of_root)) for path in paths]


@pytest.mark.parametrize(
    ("path", "uid", "container"),
    [
        (
            (
                f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice"
                f"/cri-containerd-{ID}.scope"
            ),
            UID,
            ID,
        ),
        (f"/kubepods.slice/kubepods-pod{UID_}.slice/crio-{ID}.scope", UID, ID),
        (f"/kubepods.slice/kubepods-pod{UID_}.slice/crio-{ID}.scope/container", UID, ID),
        (
            (
                f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID_}.slice"
                f"/docker-{ID}.scope"
            ),
            UID,
            ID,
        ),
        (f"/kubepods/burstable/pod{UID}/{ID}", UID, ID),
        (f"/kubepods/pod{UID}/{ID}", UID, ID),
        (f"/kubepods/besteffort/pod{UID}", UID, ""),
        # A static pod has the hash of its manifest.
        (f"/kubepods/burstable/pod{STATIC}/{ID}", STATIC, ID),
        (f"/kubepods.slice/kubepods-pod{STATIC}.slice/crio-{ID}.scope", STATIC, ID),
        # kind: the node itself is a container.
        (f"/docker/{OTHER}/kubelet/kubepods/burstable/pod{UID}/{ID}", UID, ID),
        (
            (
                f"/system.slice/docker-{OTHER}.scope/kubelet.slice/kubelet-kubepods.slice"
                f"/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{UID_}.slice"
                f"/cri-containerd-{ID}.scope"
            ),
            UID,
            ID,
        ),
        # A container engine inside a pod's container.
        (f"/kubepods/burstable/pod{UID}/{ID}/docker/{OTHER}", UID, ID),
        # Seen from within a control group namespace.
        (f"/../../kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID}.scope", UID, ID),
        (f"/../pod{UID}/{ID}", UID, ID),
        # containerd with the wrong driver.
        (
            (
                f"/system.slice/containerd.service/kubepods-burstable-pod{UID_}.slice"
                f":cri-containerd:{ID}"
            ),
            UID,
            ID,
        ),
    ],
)
def test_pods(path: str, uid: str, container: str) -> None:
    """Covers both drivers and all runtimes, nested or not."""
    found = pod_in(groups_at(path))
    assert found is not None
    assert found[:2] == (uid, container)


def test_pod_is_found_in_any_hierarchy() -> None:
    """With version 1, the memory controller may have a path that systemd's hierarchy lacks."""
    groups = groups_at("/", "/init.scope", f"/kubepods/pod{UID}/{ID}")
    assert pod_in(groups) == (UID, ID, "")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/system.slice/kubelet.service",
        f"/machine.slice/machine-libpod_pod_{ID}.slice/libpod-{OTHER}.scope",
        f"/docker/{ID}",
        f"/kubepods/burstable/pod{UID}0/{ID}",
        f"/kubepods/burstable/mypod{UID}/{ID}",
        "/kubepods/burstable/pod-of-mine",
    ],
)
def test_near_misses_are_no_pods(path: str) -> None:
    """Similar paths are not taken for pods."""
    assert pod_in(groups_at(path)) is None


@pytest.mark.parametrize(
    ("path", "container"),
    [
        (f"/docker/{ID}", ID),
        (f"/system.slice/docker-{ID}.scope", ID),
        (f"/docker/{ID}/init", ID),
        (f"/system.slice/nerdctl-{ID}.scope", ID),
        (f"/default/{ID}", ID),
        (f"/machine.slice/libpod-{ID}.scope", ID),
        (f"/machine.slice/libpod-{ID}.scope/container", ID),
        (
            f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container",
            ID,
        ),
        (
            (
                "/user.slice/user-1000.slice/user@1000.service/user.slice/user-libpod_pod_"
                f"{OTHER}.slice/libpod-{ID}.scope"
            ),
            ID,
        ),
        (f"/libpod_parent/libpod-{ID}", ID),
        (f"/libpod_parent/{OTHER}/libpod-{ID}", ID),
        (f"/system.slice/cri-containerd-{ID}.scope", ID),
        # The host's engine knows the outer one.
        (f"/system.slice/docker-{ID}.scope/docker/{OTHER}", ID),
        (f"/{ID}", ID),
    ],
)
def test_containers(path: str, container: str) -> None:
    """Covers Docker, containerd and Podman, with root or without."""
    found = container_in(groups_at(path))
    assert found is not None
    assert found.id == container


@pytest.mark.parametrize(
    "path",
    [
        "/",
        f"/machine.slice/libpod-conmon-{ID}.scope",
        f"/process_api/{ID[:32]}",
        f"/x/{ID}0",
        f"/x/y{ID}",
        "/system.slice/docker.service",
    ],
)
def test_container_monitors_are_no_containers(path: str) -> None:
    """A container's monitor is outside it, and other numbers are no IDs."""
    assert container_in(groups_at(path)) is None


@pytest.mark.parametrize(
    ("path", "job", "step"),
    [
        ("/slurm/uid_1000/job_4711/step_0", "4711", "0"),
        ("/slurm/uid_1000/job_4711/step_0/task_3", "4711", "0"),
        ("/slurm_node7/uid_0/job_1/step_batch", "1", "batch"),
        ("/slurm/uid_1000/job_4711", "4711", ""),
        ("/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", "4711", "0"),
        ("/system.slice/slurmstepd.scope/job_4711/step_extern/user/task_special", "4711", "extern"),
        ("/system.slice/node7_slurmstepd.scope/job_4711/step_interactive", "4711", "interactive"),
    ],
)
def test_jobs(path: str, job: str, step: str) -> None:
    """Covers both versions, with one daemon on a node or several."""
    found = job_in(groups_at("/", path))
    assert found is not None
    assert (found.name, found.step, found.unproven) == (job, step, "")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/system.slice/slurmstepd.scope/system",
        "/system.slice/slurmd.service",
        "/user.slice/job_4711/step_0",
        "/slurm/uid_1000/job_x/step_0",
    ],
)
def test_slurm_daemons_are_no_jobs(path: str) -> None:
    """Slurm's own daemons run no job."""
    assert job_in(groups_at(path)) is None


@given(
    st.lists(st.text(alphabet="/podkubes.slice-_:0123456789abcdef@\n", max_size=120), max_size=3)
)
def test_any_path_is_read(paths: list[str]) -> None:
    """For any path, the result is a workload or none."""
    groups = groups_at(*paths)
    pod = pod_in(groups)
    container = container_in(groups)
    job = job_in(groups)
    unit = unit_in(groups)
    assert pod is None or len(pod[0]) in (32, 36)
    assert container is None or len(container.id) == 64
    assert job is None or job.name.isdecimal()
    assert unit is None or not unit[0].startswith("/")
