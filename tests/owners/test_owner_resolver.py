"""All owners combined: precedence, caches, bounds, and health."""

import os
import pwd
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from owner_trees import host_in, of_root, write_process
from rightsizer.config.loader import read_document
from rightsizer.host.process_table import user_name
from rightsizer.io.yaml import load_yaml
from rightsizer.model.device import Device
from rightsizer.model.errors import ConfigurationError
from rightsizer.model.reading import Process
from rightsizer.model.workload import Holding, Workload, WorkloadKind
from rightsizer.owners.collector import SERVER, NodeCollector
from rightsizer.owners.holdings import holdings_on, workloads_on
from rightsizer.owners.registry import SOURCES
from rightsizer.owners.resolver import OwnerResolver
from rightsizer.owners.settings import OwnerSettings
from rightsizer.owners.systemd import SystemdCollector
from rightsizer.owners.users import UserCollector
from rightsizer.owners.workload_limits import OTHER_WORKLOADS, WorkloadNameLimiter

UID = "0f1c2d3e-aaaa-bbbb-cccc-0123456789ab"
ID = "ab12" * 16


def on_node(root: Path, **changes: object) -> OwnerResolver:
    """All sources over a procfs-like tree; no socket is queried."""
    settings = OwnerSettings(kubelet_socket="", pod_log_folder="", **changes)  # type: ignore[arg-type]
    return OwnerResolver.on_host(root, sysfs=root / "sys", settings=settings, writer_of=of_root)


def key_of(owners: OwnerResolver, pid: int) -> str | None:
    """Key of a process's workload."""
    found = owners.workload_of(pid)
    return found.key if found else None


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (f"/docker/{ID}/kubepods/pod{UID}/{ID}", f"kubernetes:{UID}"),
        (f"/system.slice/slurmstepd.scope/job_7/step_0/docker/{ID}", "slurm:7"),
        # A node of Slurm may be a pod.
        (f"/kubepods/pod{UID}/{ID}/system.slice/slurmstepd.scope/job_7/step_0", "slurm:7"),
        (f"/system.slice/docker-{ID}.scope", "container:ab12ab12ab12"),
        ("/system.slice/vllm.service", "systemd:vllm.service"),
        ("/user.slice/user-0.slice/session-3.scope", "session:11@10"),
        # Quadlet's containers have another id after each start.
        (f"/system.slice/vllm.service/libpod-payload-{ID}", "systemd:vllm.service"),
        (
            f"/user.slice/user-7.slice/user@7.service/app.slice/a.service/libpod-payload-{ID}",
            "systemd:user@7.service/a.service",
        ),
        # Of Nomad, ECS, CRI-O, a container with a namespace of its own, kind, Incus and LSF.
        (f"/nomad.slice/share.slice/{UID}.train.scope", f"systemd:{UID}.train.scope"),
        (f"/nomad.slice/share.slice/docker-{ID}.scope", "container:ab12ab12ab12"),
        (f"/ecs/{ID[:32]}/{ID}", "container:ab12ab12ab12"),
        (f"/kubepods/besteffort/pod{UID}/crio-{ID}", f"kubernetes:{UID}"),
        (f"/../../kubepods-pod{UID}.slice/crio-{ID}.scope", f"kubernetes:{UID}"),
        (f"/system.slice/docker-{ID}.scope/kubelet-kubepods-pod{UID}.slice", f"kubernetes:{UID}"),
        ("/lxc.payload.c1/system.slice/vllm.service", "systemd:lxc.payload.c1/vllm.service"),
        ("/lxc.payload.c1", "session:11@10"),
        ("/lsf/cluster/job.12.34.56", "session:11@10"),
    ],
)
def test_precedence(tmp_path: Path, path: str, key: str) -> None:
    """A job precedes a pod, a scheduler the container, the container the unit."""
    write_process(tmp_path, 5, cgroup="0::/\n", session=5, start=9)
    write_process(tmp_path, 11, cgroup=f"0::{path}\n", session=5, start=10)
    assert key_of(on_node(tmp_path), 11) == key


def test_every_source_has_a_collector(tmp_path: Path) -> None:
    """Every source allowed by the settings can be created."""
    assert on_node(tmp_path, sources=[source.name for source in SOURCES]).collectors() == {}


def test_unknown_source_is_refused() -> None:
    """The message lists the known ones."""
    names = ", ".join(source.name for source in SOURCES)
    document = load_yaml("sources: [k8s]", "owners.yaml")
    with pytest.raises(ConfigurationError, match=rf"sources\[0\]: must be one of {names}"):
        read_document(OwnerSettings, document)


def test_users_are_off_unless_asked_for(tmp_path: Path) -> None:
    """By default no user is looked up; when enabled, units still precede users."""
    write_process(tmp_path, 11, cgroup="0::/user.slice/session-3.scope\n", session=11, start=9)
    write_process(tmp_path, 12, cgroup="0::/system.slice/vllm.service\n", session=12, start=9)
    name = pwd.getpwuid(0).pw_name
    sources = (*OwnerSettings().sources, "user")
    assert key_of(on_node(tmp_path), 11) == "session:11@9"
    assert key_of(on_node(tmp_path, sources=sources), 11) == f"user:{name}"
    assert key_of(on_node(tmp_path, sources=sources), 12) == "systemd:vllm.service"


def test_user_without_a_name_has_a_number(tmp_path: Path) -> None:
    """A container's user is not in the host's files; a process that ended has none."""
    write_process(tmp_path, 11, cgroup="0::/\n")
    owners = UserCollector(host_in(tmp_path), lambda user: user_name(user + 2**30))
    assert owners.workload_of(12) is None
    number = str(2**30)
    assert owners.workload_of(11) == Workload(
        f"user:{number}", WorkloadKind.USER, number, unproven=""
    )


def test_a_real_process_has_a_user() -> None:
    """A process of our own has our user."""
    with subprocess.Popen(["sleep", "60"]) as process:
        procfs = Path("/proc")
        users = UserCollector(host_in(procfs), lambda user: f"number {user}")
        found = users.workload_of(process.pid)
        process.kill()
    assert found is None or found.name == f"number {os.getuid()}"


def test_a_reused_pid_and_a_moved_process_are_looked_up_again(tmp_path: Path) -> None:
    """The start time and the control groups tell at once that the owner may be another."""
    owners = on_node(tmp_path)
    write_process(tmp_path, 11, cgroup="0::/\n", session=11, start=100)
    assert key_of(owners, 11) == "session:11@100"
    write_process(tmp_path, 11, cgroup="0::/\n", session=11, start=101)
    assert key_of(owners, 11) == "session:11@101"
    write_process(tmp_path, 11, cgroup="0::/b.service\n", session=11, start=101)
    assert key_of(owners, 11) == "systemd:b.service"


def test_another_pid_namespace_names_nobody(tmp_path: Path) -> None:
    """In a pod with the host's /proc but its own pids, a number is somebody else's process."""
    write_process(tmp_path, 11, cgroup="0::/a.service\n")
    status = tmp_path / "self" / "status"
    status.parent.mkdir()
    status.write_text("Name:\trightsizer\nNSpid:\t4242\t7\n")
    owners = on_node(tmp_path)
    assert owners.workload_of(11) is None
    assert "hostPID" in (owners.blindness() or "")
    status.write_text("Name:\trightsizer\nNSpid:\t4242\n")
    assert key_of(on_node(tmp_path), 11) == "systemd:a.service"


def test_servers_of_all_gpus_hold_none(tmp_path: Path) -> None:
    """A display's server has a few MiB on every GPU, whoever they are allocated to."""
    write_process(tmp_path, 11, cgroup="0::/system.slice/gdm.service\n", name="Xorg")
    write_process(tmp_path, 12, cgroup="0::/system.slice/train.service\n", name="python")
    owners = on_node(tmp_path)
    assert owners.workload_of(11) is SERVER
    device = Device("GPU-0", 0)
    train = Workload("slurm:7", WorkloadKind.SLURM, "7")
    display = Process(11, 4 * 2**20)
    work = Process(12, 2**30)
    shown = workloads_on((display,), owners)
    assert holdings_on(device, shown) == ()
    assert holdings_on(device, shown, {"GPU-0": (train,)}) == (
        Holding(train, 1.0, has_process=False),
    )
    (held,) = holdings_on(device, workloads_on((display, work), owners))
    assert (held.workload.name, held.share_ratio) == ("train.service", 1.0)
    assert key_of(on_node(tmp_path, servers=()), 11) == "systemd:gdm.service"


class Given(NodeCollector):
    """A scheduler with given allocations."""

    def __init__(self, **given: str) -> None:
        self._given = given

    def workload_of(self, pid: int) -> Workload | None:
        """A workload for each process."""
        return Workload(f"w{pid}", WorkloadKind.SESSION, f"w{pid}")

    def allocations(self) -> Mapping[str, tuple[Workload, ...]]:
        """One workload for each device."""
        return {
            device: (Workload(name, WorkloadKind.SLURM, name),)
            for device, name in self._given.items()
        }


def test_allocations_of_all_schedulers() -> None:
    """A node may have two; a device allocated by both has two holders, each once."""
    owners = OwnerResolver([Given(a="x", b="y"), Given(b="z"), Given(a="x")], OwnerSettings())
    assert {
        device: [each.key for each in allocation]
        for device, allocation in owners.allocations().items()
    } == {"a": ["x"], "b": ["y", "z"]}


def test_named_workloads_are_bounded() -> None:
    """Workloads beyond the bound share one name; named ones keep theirs; it is logged once."""
    now = [0.0]
    with capture_logs() as logs:
        owners = OwnerResolver([Given()], OwnerSettings(workloads_maximum=2), now=lambda: now[0])
        for _ in range(3):
            assert [key_of(owners, pid) for pid in (1, 2, 3, 4)] == ["w1", "w2", "other", "other"]
    assert [line["log_level"] for line in logs] == ["warning"]
    assert logs[0]["workloads_maximum"] == 2


def test_room_is_made_by_those_that_end() -> None:
    """A workload that is no longer seen gives its place to the next."""
    now = [0.0]
    roll = WorkloadNameLimiter(1, 30.0, lambda: now[0])
    first, second = (Workload(key, WorkloadKind.SESSION, key) for key in "ab")
    assert roll.name(first) is first
    now[0] = 30.0
    assert roll.name(second) is OTHER_WORKLOADS
    now[0] = 30.1
    assert roll.name(second) is second
    assert len(roll) == 1


def test_memory_of_the_roll_is_bounded() -> None:
    """No more are kept than may be named, however many there are over time."""
    now = [0.0]
    roll = WorkloadNameLimiter(10, 30.0, lambda: now[0])
    for number in range(1000):
        now[0] += 1.0
        roll.name(Workload(str(number), WorkloadKind.SESSION, ""))
        assert len(roll) <= 10


def test_bound_holds_for_allocations_too() -> None:
    """Workloads with allocations count like running ones."""
    owners = OwnerResolver([Given(a="x", b="y")], OwnerSettings(workloads_maximum=1))
    assert owners.allocations()["b"] == (OTHER_WORKLOADS,)


def test_sources_without_sockets_are_no_collectors(tmp_path: Path) -> None:
    """World-readable files need no health metric."""
    owners = OwnerResolver([SystemdCollector(host_in(tmp_path))], OwnerSettings())
    assert owners.collectors() == {}
    owners.close()
