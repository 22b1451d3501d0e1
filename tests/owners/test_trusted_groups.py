"""Trusted part of control groups: who chose each name, and what owners make of it."""

import ctypes
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owner_trees import of_root, write_process
from pretended_owner import USER
from rightsizer.host.process_table import ProcessTable
from rightsizer.host.trusted_groups import (
    TrustedGroupReader,
    other_writer,
    parts_of,
    why_not_of_root,
)
from rightsizer.model.workload import Workload, WorkloadKind
from rightsizer.owners.resolver import OwnerResolver
from rightsizer.owners.settings import OwnerSettings

ID, OTHER = "ab12" * 16, "cd34" * 16
UID = "0f1c2d3e-aaaa-bbbb-cccc-0123456789ab"
POD: Final = f"/kubepods/burstable/pod{UID}/{ID}"
JOB: Final = "/slurm/uid_0/job_4242/step_0"
_SET_DUMPABLE: Final = 4
"""PR_SET_DUMPABLE of prctl(2)."""
UID_ = UID.replace("-", "_")
MANAGER: Final = "/user.slice/user-1000.slice/user@1000.service"


def owner_of(
    root: Path, path: str, writers: Mapping[str, str] | None = None, *, hierarchy: str = ""
) -> Workload | None:
    """Owner of a process in a group; `writers` has those of groups that are not root's alone."""
    top = root / "sys/fs/cgroup"
    known = {f"{top}{group}": writer for group, writer in (writers or {}).items()}
    settings = OwnerSettings(kubelet_socket="", pod_log_folder="")
    write_process(root, 5, session=5, name="bash")
    write_process(root, 11, cgroup=f"0:{hierarchy}:{path}\n", session=5, parent=5)
    resolver = OwnerResolver.on_host(
        root, sysfs=root / "sys", settings=settings, writer_of=lambda path: known.get(path, "")
    )
    return resolver.workload_of(11)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        # Slurm: version 1, version 2, several daemons, another slice, without systemd.
        (JOB, "slurm:4242"),
        ("/slurm_node7/uid_1000/job_4242/step_0", "slurm:4242"),
        ("/system.slice/slurmstepd.scope/job_4242/step_0/user/task_0", "slurm:4242"),
        ("/system.slice/node7_slurmstepd.scope/job_4242", "slurm:4242"),
        ("/gpu.slice/slurmstepd.scope/job_4242/step_0", "slurm:4242"),
        # The kubelet with either driver, with --cgroup-root, k3s, and static pods.
        (POD, f"kubernetes:{UID}"),
        (
            f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/crio-{ID}.scope",
            f"kubernetes:{UID}",
        ),
        (f"/kubelet/kubepods/pod{UID}/{ID}", f"kubernetes:{UID}"),
        (
            f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID}.slice/cri-containerd-{ID}.scope",
            f"kubernetes:{UID}",
        ),
        # Engines: cgroupfs, systemd, Podman, another cgroup-parent.
        (f"/docker/{ID}", "container:ab12ab12ab12"),
        (f"/system.slice/docker-{ID}.scope", "container:ab12ab12ab12"),
        (f"/machine.slice/libpod-{ID}.scope/container", "container:ab12ab12ab12"),
        (f"/libpod_parent/{OTHER}/libpod-{ID}", "container:ab12ab12ab12"),
        (f"/gpu.slice/docker-{ID}.scope", "container:ab12ab12ab12"),
        ("/system.slice/vllm.service", "systemd:vllm.service"),
    ],
)
def test_group_that_root_named_is_proven(tmp_path: Path, path: str, key: str) -> None:
    """With every driver and version, in the hierarchy of either."""
    for hierarchy in ("", "name=systemd"):
        workload = owner_of(tmp_path, path, hierarchy=hierarchy)
        assert workload is not None
        assert (workload.key, workload.unproven) == (key, "")


@pytest.mark.parametrize("path", [JOB, POD, f"/docker/{ID}", f"/system.slice/docker-{ID}.scope"])
@pytest.mark.parametrize("writer", ["user 1000", "group docker", "everyone"])
@pytest.mark.parametrize("folder", [MANAGER, "/lab", "/lab.slice", "/system.slice/lab.service"])
def test_name_below_a_delegated_group_is_a_claim(
    tmp_path: Path, folder: str, path: str, writer: str
) -> None:
    """Whoever may write a group's folder names what is in it."""
    workload = owner_of(tmp_path, f"{folder}{path}", {folder: writer})
    assert workload is not None
    assert workload.kind not in (WorkloadKind.SLURM, WorkloadKind.KUBERNETES)
    last = folder.rpartition("/")[2]
    if workload.kind is WorkloadKind.CONTAINER:
        assert workload.key == f"container:{last}/ab12ab12ab12"
        assert workload.unproven == f"{writer} may name what is in control group {folder}"
    elif last == "lab.service":
        assert (workload.key, workload.unproven) == ("systemd:lab.service", "")
    else:
        assert workload.unproven


def test_user_manager_is_of_its_user_even_if_its_owner_is_unknown(tmp_path: Path) -> None:
    """By its place: systemd gives it to the user."""
    for writers in ({}, {MANAGER: "user 1000"}):
        workload = owner_of(tmp_path, f"{MANAGER}{JOB}", writers)
        assert workload is not None
        assert workload.kind is WorkloadKind.SESSION
        assert workload.unproven


def test_unit_of_a_user_is_shown_as_the_users(tmp_path: Path) -> None:
    """A user may call a unit like one of the system; its name begins with the user's manager."""
    workload = owner_of(tmp_path, f"{MANAGER}/system.slice/vllm.service")
    assert workload is not None
    assert workload.key == "systemd:user@1000.service/vllm.service"
    assert workload.unproven == f"a user may name what is in control group {MANAGER}"


def test_unit_in_a_slice_of_a_user_is_no_unit_of_the_system(tmp_path: Path) -> None:
    """A slice is left out of a unit's name, so what a user made in one has no name at all."""
    workload = owner_of(tmp_path, "/lab.slice/vllm.service", {"/lab.slice": "user 1000"})
    assert workload is not None
    assert workload.kind is WorkloadKind.SESSION


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (f"/docker/{ID}/kubelet/kubepods/pod{UID}/{OTHER}", f"kubernetes:{UID}"),
        (f"/kubepods/pod{UID}/{ID}/system.slice/slurmstepd.scope/job_7/step_0", "slurm:7"),
        ("/lxc.payload.c1/slurm/uid_0/job_7", "slurm:7"),
        ("/lxc/101/ns/slurm/uid_0/job_7", None),
        ("/machine.slice/machine-c1.scope/payload/slurm/uid_0/job_7", "slurm:7"),
    ],
)
def test_name_within_a_container_is_shown_and_not_proven(
    tmp_path: Path, path: str, key: str | None
) -> None:
    """Kubelets in containers and slurmd in pods: the container's root could make it all up."""
    workload = owner_of(tmp_path, path)
    assert workload is not None
    assert key is None or workload.key == key
    assert key is None or "root of container" in workload.unproven


def test_containers_root_that_is_a_user_names_nothing(tmp_path: Path) -> None:
    """In a user namespace the container's group is another user's."""
    container = f"/system.slice/docker-{ID}.scope"
    workload = owner_of(tmp_path, f"{container}{JOB}", {container: "user 100000"})
    assert workload is not None
    assert (workload.key, workload.unproven) == ("container:ab12ab12ab12", "")


def test_group_of_unknown_owner_is_shown_and_not_proven(tmp_path: Path) -> None:
    """Without the host's /sys, in a namespace, or if even the root group is not root's."""
    settings = OwnerSettings(kubelet_socket="", pod_log_folder="")
    write_process(tmp_path, 11, cgroup=f"0::{JOB}\n")
    write_process(tmp_path, 12, cgroup=f"0::/../pod{UID}/{ID}\n")
    for writer_of in (lambda _: None, lambda _: "user 65534"):
        resolver = OwnerResolver.on_host(
            tmp_path, sysfs=tmp_path / "sys", settings=settings, writer_of=writer_of
        )
        job = resolver.workload_of(11)
        assert job is not None
        assert job.key == "slurm:4242"
        assert "path.sysfs" in job.unproven
    resolver = OwnerResolver.on_host(
        tmp_path, sysfs=tmp_path / "sys", settings=settings, writer_of=of_root
    )
    pod = resolver.workload_of(12)
    assert pod is not None
    assert pod.key == f"kubernetes:{UID}"
    assert "path.sysfs" in pod.unproven


@given(
    st.lists(
        st.sampled_from(
            [
                "a.slice",
                "user-1.slice",
                "user@1.service",
                ID,
                "lxc",
                "c1",
                "..",
                f"docker-{ID}.scope",
            ]
        ),
        max_size=8,
    ),
    st.lists(st.sampled_from(["", "user 1", None]), min_size=9, max_size=9),
)
def test_parts_are_the_whole_path(names: list[str], writers: list[str | None]) -> None:
    """Nothing is lost or moved, and below a user's group nothing is proven."""
    path = "/" + "/".join(names)
    parts = parts_of(path, lambda group: writers[0 if group == "/" else group.count("/")])
    assert "".join(part.path for part in parts) == path
    assert all(part.unproven for part in parts[1:])
    assert not any(part.is_of_user for part in parts[:-1])
    first = parts[0].path.count("/") if path != "/" else 0
    # The proven part ends at the first group that is not root's.
    if not parts[0].unproven:
        assert all(writer == "" for writer in writers[:first])


def test_folder_proves_something_if_root_alone_writes_it(tmp_path: Path) -> None:
    """By owner and mode; a group of root is root."""
    assert other_writer(str(tmp_path / "absent")) is None
    assert "cannot be seen" in why_not_of_root(tmp_path / "absent")
    tmp_path.chmod(0o777)
    writer = other_writer(str(tmp_path))
    assert writer == ("everyone" if os.getuid() == 0 else f"user {os.getuid()}")
    assert f"{writer} may write {tmp_path}" in why_not_of_root(tmp_path)
    assert why_not_of_root(tmp_path, of_root) == ""
    if os.getuid() == 0:
        tmp_path.chmod(0o755)
        assert other_writer(str(tmp_path)) == ""
        os.chown(tmp_path, USER, -1)
        assert other_writer(str(tmp_path)) == f"user {USER}"


def test_group_handed_over_later_is_noticed(tmp_path: Path) -> None:
    """Owners of groups are looked up again."""
    now = [0.0]
    writers = {"": ""}
    reader = TrustedGroupReader(
        tmp_path, tmp_path, lambda path: writers.get(path[-4:], ""), lambda: now[0]
    )
    write_process(tmp_path, 11, cgroup=f"0::/lab{JOB}\n")
    assert [part.unproven for part in reader.of(11)[0].parts] == [""]
    writers["/lab"] = "user 1"
    now[0] = 31.0
    assert [bool(part.unproven) for part in reader.of(11)[0].parts] == [False, True]


def test_process_that_hands_its_folder_to_root_stays_its_users() -> None:
    """A user's program can make root own its folder in procfs (PR_SET_DUMPABLE)."""
    if os.getuid() != 0:
        pytest.skip("only root can start a process of another user")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
        os.write(writer, b"ready")
        time.sleep(60)
        os._exit(0)
    try:
        assert os.read(reader, 5) == b"ready"
        assert ProcessTable("/proc").user(pid) == USER
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reader)
        os.close(writer)
    assert ProcessTable("/proc").user(os.getpid()) == 0
    assert ProcessTable("/proc").user(pid) is None
