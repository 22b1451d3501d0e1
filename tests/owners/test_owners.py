"""Owner of a process, and shares of a device."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nvml_driver import FakeDriver, FakeGpu, reading
from owner_trees import host_in, write_process
from rightsizer.io.clock import FastClock
from rightsizer.model.device import Device
from rightsizer.model.reading import Process
from rightsizer.model.workload import Workload, WorkloadKind
from rightsizer.owners.collector import NodeCollector
from rightsizer.owners.holdings import holdings_on, workloads_on
from rightsizer.owners.resolver import OwnerResolver
from rightsizer.owners.settings import OwnerSettings
from rightsizer.owners.systemd import SystemdCollector


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/vllm.service\n", "vllm.service"),
        ("0::/system.slice/vllm@gpu0.service\n", "vllm@gpu0.service"),
        ("4:memory:/x.service\n1:name=systemd:/system.slice/old.service\n0::/\n", "old.service"),
        ("0::/../../system.slice/vllm.service\n", "vllm.service"),
        ("0::/system.slice/vllm.service/payload\n", "vllm.service"),
        (r"0::/machine.slice/machine-qemu\x2d1.scope/libvirt/emulator", r"machine-qemu\x2d1.scope"),
        # Of the same name as another user's, another container's and the host's.
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/nb.service\n",
            "user@1000.service/nb.service",
        ),
        ("0::/lxc.payload.lab/system.slice/nb.service\n", "lxc.payload.lab/nb.service"),
        ("0::/lxc/101/ns/system.slice/nb.service\n", "lxc/101/ns/nb.service"),
        (
            "0::/machine.slice/systemd-nspawn@lab.service/payload/system.slice/nb.service\n",
            "systemd-nspawn@lab.service/payload/nb.service",
        ),
        # Versions, workers and containers of a unit are no workloads, and new at each start.
        ("0::/system.slice/foo.service/workers/v2\n", "foo.service"),
        (
            "0::/system.slice/containerd.service/kubepods-podx.slice:cri-containerd:4f1c\n",
            "containerd.service",
        ),
        # All jobs of a batch system are in one unit.
        ("0::/pbs_jobs.service/jobid/1001.server\n", "pbs_jobs.service/jobid/1001.server"),
    ],
)
def test_systemd_unit(tmp_path: Path, cgroup: str, unit: str) -> None:
    """The innermost unit names the workload, with what tells it from others of its name."""
    write_process(tmp_path, 11, cgroup=cgroup, session=11)
    workload = SystemdCollector(host_in(tmp_path)).workload_of(11)
    assert workload is not None
    assert replace(workload, unproven="") == Workload(
        f"systemd:{unit}", WorkloadKind.SYSTEMD, unit, unproven=""
    )


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/user.slice/user-1000.slice/session-3.scope\n",
        "0::/user.slice/user-1000.slice/user@1000.service/init.scope\n",
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-5e.scope\n",
        "0::/\n",
        "",
        "nonsense\n",
    ],
)
def test_launcher_holds_what_its_ranks_hold(tmp_path: Path, cgroup: str) -> None:
    """A job is identified by its launcher, though each rank has a session, as with torchrun."""
    write_process(tmp_path, 5, cgroup=cgroup, session=5, name="bash")
    write_process(tmp_path, 6, cgroup=cgroup, session=5, parent=5, start=777, name="torchrun")
    for rank in (11, 12):
        write_process(tmp_path, rank, cgroup=cgroup, session=rank, parent=6, name="python3")
    owners = SystemdCollector(host_in(tmp_path))
    assert owners.workload_of(11) == owners.workload_of(12)
    launcher = owners.workload_of(11)
    assert launcher is not None
    assert (launcher.key, launcher.name) == ("session:6@777", "torchrun 6")
    assert (launcher.kind, launcher.confidence_ratio) == (WorkloadKind.SESSION, 0.95)


def test_processes_of_one_shell_are_workloads_of_their_own(tmp_path: Path) -> None:
    """Processes started by a shell or service manager share only their user."""
    write_process(tmp_path, 1, name="systemd")
    write_process(tmp_path, 4, session=4, name="systemd")
    write_process(tmp_path, 5, session=5, parent=4, name="tmux: server")
    write_process(tmp_path, 6, session=6, parent=5, name="sweep.sh")
    for pid, parent in ((11, 1), (12, 4), (13, 5), (14, 6), (15, 6)):
        write_process(tmp_path, pid, session=6, parent=parent, start=pid, name="python3")
    owners = SystemdCollector(host_in(tmp_path))
    found = [owners.workload_of(pid) for pid in range(11, 16)]
    assert [each and (each.name, each.confidence_ratio) for each in found] == [
        (f"python3 {pid}", 1.0) for pid in range(11, 16)
    ]


def test_children_of_another_program_are_one_workload_less_surely(tmp_path: Path) -> None:
    """Those of torch.multiprocessing are an example, and their parent belongs to them."""
    write_process(tmp_path, 5, session=5, name="bash")
    write_process(tmp_path, 6, session=5, parent=5, name="python3")
    write_process(tmp_path, 11, session=5, parent=6, name="python3")
    owners = SystemdCollector(host_in(tmp_path))
    parent, child = (owners.workload_of(pid) for pid in (6, 11))
    assert parent is not None
    assert child is not None
    assert (parent.key, parent.confidence_ratio) == (child.key, 1.0)
    assert child.confidence_ratio == 0.85


def test_shell_around_each_rank_does_not_part_them(tmp_path: Path) -> None:
    """Processes between a launcher and a rank do not matter; shells' names are settings."""
    write_process(tmp_path, 6, session=5, name="our-launcher")
    for rank in (11, 12):
        write_process(tmp_path, rank, session=5, parent=6, name="bash")
        write_process(tmp_path, 10 * rank, session=5, parent=rank, name="python3")
    apart = SystemdCollector(host_in(tmp_path))
    assert apart.workload_of(110) != apart.workload_of(120)
    owners = SystemdCollector(host_in(tmp_path, OwnerSettings(launchers=("our-*",))))
    assert owners.workload_of(110) == owners.workload_of(120)


def test_torchrun_is_known_by_the_name_it_gives_itself(tmp_path: Path) -> None:
    """PyTorch 2.6 and later, with a shell around each rank."""
    write_process(tmp_path, 6, session=5, name="pt_elastic")
    for rank in (11, 12):
        write_process(tmp_path, rank, session=5, parent=6, name="sh")
        write_process(tmp_path, 10 * rank, session=5, parent=rank, name="pt_main_thread")
    owners = SystemdCollector(host_in(tmp_path))
    assert owners.workload_of(110) == owners.workload_of(120)


def test_unit_of_a_process_manager_is_no_workload(tmp_path: Path) -> None:
    """Covers a notebook server's kernels and supervisord's programs; a unit's script is its own."""
    for unit, top, name in (("hub", 20, "jupyterhub"), ("serve", 30, "start.sh")):
        cgroup = f"0::/system.slice/{unit}.service\n"
        write_process(tmp_path, top, cgroup=cgroup, session=top, name=name)
        for pid in (top + 1, top + 2):
            write_process(tmp_path, pid, cgroup=cgroup, session=pid, parent=top, name="python3")
    owners = SystemdCollector(host_in(tmp_path))
    found = [owners.workload_of(pid) for pid in (21, 22, 31, 32)]
    assert [each and each.name for each in found] == [
        "python3 21",
        "python3 22",
        "serve.service",
        "serve.service",
    ]


@pytest.mark.parametrize(
    ("above", "group"),
    [
        (("condor_startd", "condor_starter"), "condor.service/condor_var_slot1_1@gpu-1"),
        (("pbs_mom",), "pbs.service"),
        (("sge_execd", "sge_shepherd-71"), "sgeexecd.service"),
        (("sbatchd", "res"), "lsfd.service"),
    ],
)
def test_jobs_of_a_batch_system_are_workloads_of_their_own(
    tmp_path: Path, above: tuple[str, ...], group: str
) -> None:
    """Jobs are in the unit of the system's daemon, or in a group that the next job takes over."""
    unit, *_ = group.split("/")
    for job in (100, 200):
        for pid, name in enumerate(above, start=job):
            parent = 1 if pid == job else pid - 1
            cgroup = f"0::/system.slice/{unit}\n"
            write_process(tmp_path, pid, cgroup=cgroup, session=job, parent=parent, name=name)
        for pid, parent in ((job + 50, job + len(above) - 1), (job + 51, job + 50)):
            cgroup = f"0::/system.slice/{group}\n"
            write_process(
                tmp_path, pid, cgroup=cgroup, session=job, parent=parent, name="train", start=pid
            )
    owners = SystemdCollector(host_in(tmp_path))
    found = [owners.workload_of(pid) for pid in (151, 251)]
    assert [each and each.key for each in found] == ["session:150@150", "session:250@250"]


def test_tree_that_ends_in_itself_ends(tmp_path: Path) -> None:
    """A reused PID may seem to be its own ancestor."""
    write_process(tmp_path, 11, session=5, parent=12)
    write_process(tmp_path, 12, session=5, parent=11)
    assert SystemdCollector(host_in(tmp_path)).workload_of(11) is not None


def test_process_that_ended_is_nobodys(tmp_path: Path) -> None:
    """A process that is gone, or of another namespace, has no workload."""
    write_process(tmp_path, 11, cgroup="0::/\n", session=0)
    (tmp_path / "13").mkdir()
    (tmp_path / "13/stat").write_text("13 (torn) S 1 1 x" + " 0" * 20)
    owners = SystemdCollector(host_in(tmp_path))
    assert [owners.workload_of(pid) for pid in (11, 12, 13)] == [None, None, None]


def test_real_process_has_a_session() -> None:
    """This process is found in the machine's own procfs, by unit or session."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("this machine has no procfs")
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        workload = OwnerResolver.on_host(Path("/proc")).workload_of(process.pid)
        process.kill()
    assert workload is not None
    assert workload.kind in (WorkloadKind.SYSTEMD, WorkloadKind.SESSION)


def test_answers_are_remembered_for_a_while(tmp_path: Path) -> None:
    """Files are read once in the lifetime of a result, also of an empty one."""
    now = [0.0]
    owners = OwnerResolver(
        [SystemdCollector(host_in(tmp_path))],
        OwnerSettings(time_to_live_seconds=30),
        now=lambda: now[0],
    )
    assert owners.workload_of(11) is None
    write_process(tmp_path, 11, cgroup="0::/a.service\n")
    now[0] = 29.0
    assert owners.workload_of(11) is None
    now[0] = 30.0
    workload = owners.workload_of(11)
    assert workload is not None
    assert workload.name == "a.service"


def test_memory_is_bounded(tmp_path: Path) -> None:
    """Processes that are no longer queried are forgotten."""
    now = [0.0]
    owners = OwnerResolver(
        [SystemdCollector(host_in(tmp_path))],
        OwnerSettings(time_to_live_seconds=30),
        now=lambda: now[0],
    )
    for pid in range(1000):
        now[0] += 1.0
        owners.workload_of(pid)
    assert owners.remembered <= 60


class Table(NodeCollector):
    """Owners by a table."""

    def __init__(self, names: dict[int, str]) -> None:
        self._names = names

    def workload_of(self, pid: int) -> Workload | None:
        """Workload in the table."""
        name = self._names.get(pid)
        return Workload(name, WorkloadKind.SESSION, name) if name else None

    def allocations(self) -> Mapping[str, tuple[Workload, ...]]:
        """No allocations."""
        return {}


def test_first_source_that_knows_wins() -> None:
    """Sources are queried in order, until one knows the owner."""
    owners = OwnerResolver(
        [Table({1: "pod"}), Table({1: "session", 2: "session"})], OwnerSettings()
    )
    names = [owners.workload_of(pid) for pid in (1, 2, 3)]
    assert [name.name if name else None for name in names] == ["pod", "session", None]


def test_shares_follow_memory() -> None:
    """A workload's share is that of its processes' memory; unknown processes' share remains."""
    processes = [Process(1, 300), Process(2, 100), Process(3, 500), Process(4, 100)]
    holdings = holdings_on(
        Device("GPU-0", 0), workloads_on(processes, Table({1: "a", 2: "a", 3: "b"}))
    )
    assert {holding.workload.name: holding.share_ratio for holding in holdings} == {
        "a": 0.4,
        "b": 0.5,
    }


@pytest.mark.parametrize("unknown", [None, 0])
def test_shares_are_equal_where_memory_is_unknown(unknown: int | None) -> None:
    """Without memory values each process counts the same."""
    processes = [Process(1, unknown), Process(2, unknown), Process(3, unknown)]
    holdings = holdings_on(
        Device("GPU-0", 0), workloads_on(processes, Table({1: "a", 2: "a", 3: "b"}))
    )
    assert [holding.share_ratio for holding in holdings] == [
        pytest.approx(2 / 3),
        pytest.approx(1 / 3),
    ]


@given(
    st.lists(
        st.builds(Process, st.integers(1, 20), st.one_of(st.none(), st.integers(0, 2**40))),
        max_size=20,
    ),
    st.dictionaries(st.integers(1, 20), st.sampled_from("abc")),
)
def test_shares_sum_to_at_most_one(processes: list[Process], names: dict[int, str]) -> None:
    """For any processes and owners, no more than a device is held."""
    holdings = holdings_on(Device("GPU-0", 0), workloads_on(processes, Table(names)))
    assert sum(holding.share_ratio for holding in holdings) <= 1 + 1e-9
    assert all(0 <= holding.share_ratio <= 1 for holding in holdings)
    keys = [holding.workload.key for holding in holdings]
    assert len(keys) == len(set(keys))


def test_holdings_of_a_snapshot(tmp_path: Path) -> None:
    """The live source reports each device's holders, and none where there are none."""
    write_process(tmp_path / "proc", 11, cgroup="0::/system.slice/vllm.service\n")
    driver = FakeDriver(FakeGpu("GPU-0", processes={11: 1 << 30}), FakeGpu("GPU-1"))
    with reading(driver, FastClock(0), tmp_path) as source:
        holdings = source.read().holdings
    assert list(holdings) == ["GPU-0"]
    assert [(found.workload.key, found.share_ratio) for found in holdings["GPU-0"]] == [
        ("systemd:vllm.service", 1.0)
    ]
