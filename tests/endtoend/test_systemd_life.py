"""The service's life under a real systemd, installed from the .deb on a small machine."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from built_packages import built, other_version
from systemd_machine import Machine, booted, held, layered, pristine_root

# The first run makes a root file system and fetches the libraries.
pytestmark = pytest.mark.timeout(600)

CONFIGURATION: Final = """\
sources: {simulated: {scenario: /etc/rightsizer/node.yaml}, nvml: {abandon_after: 2s}}
sampling: {interval: 200ms}
history: {flush_interval: 1s}
web: {metrics: {level: full}}
"""
SCENARIO: Final = """\
name: node
boards: [{board: H100-SXM5-80GB, count: 2}]
workloads:
  - name: train
    gpus: [0, 1]
    memory_gib: 10
    allocator: growing
    phases: [{activity: matrix_training, state: compute_bound}]
"""
HANGS: Final = "faults: [{kind: hang, gpus: [1], after: 4s}]\n"
WATCHDOG: Final = "[Service]\nWatchdogSec=3\nRestartSec=1\n"
DROP_INS: Final = Path("etc/systemd/system/rightsizer.service.d")


@pytest.fixture(scope="module")
def package() -> Path:
    """The .deb of this checkout."""
    return built("deb")


@pytest.fixture(scope="module")
def root_with_package(
    package: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Path]]:
    """A root with the package installed and configured, as a base layer."""
    pristine = pristine_root()
    with layered(pristine, tmp_path_factory.mktemp("installed")) as root:
        shutil.copy(package, root / "root" / "package.deb")
        Machine.inside(root, "dpkg", "--install", "/root/package.deb")
        folder = root / "etc" / "rightsizer"
        (folder / "rightsizer.yaml").write_text(CONFIGURATION)
        (folder / "node.yaml").write_text(SCENARIO)
        (root / DROP_INS).mkdir(parents=True)
        (root / DROP_INS / "watchdog.conf").write_text(WATCHDOG)
        yield pristine, root.parent / "upper"


@pytest.fixture
def root(root_with_package: tuple[Path, Path], tmp_path: Path) -> Iterator[Path]:
    """A root of the test's own, before it boots."""
    pristine, installed = root_with_package
    with layered(Path(f"{installed}:{pristine}"), tmp_path / "machine") as own:
        yield own


def samples(machine: Machine) -> float:
    """Number of ticks of this process."""
    for line in machine.get("/metrics").splitlines():
        if line.startswith("rightsizer_samples_total"):
            return float(line.split()[-1])
    return 0.0


def is_ready(machine: Machine) -> bool:
    """Whether samples are fresh."""
    return machine.get("/-/ready") == "ready\n"


def test_it_starts_with_the_machine_reloads_and_comes_back_after_a_kill(root: Path) -> None:
    """Its package enables it, it obeys `systemctl reload`, and it survives kill -9."""
    with booted(root) as machine:
        machine.until(lambda: is_ready(machine))
        assert machine.show("StatusText").startswith("Devices sampled: 2")
        modes = machine.run("stat", "-c", "%A %U %G", "/run/rightsizer", "/run/rightsizer/api.sock")
        assert modes.splitlines() == [
            "drwxr-x--- rightsizer rightsizer",
            "srw-rw---- rightsizer rightsizer",
        ]

        process = machine.show("MainPID")
        machine.run("systemctl", "reload", "rightsizer")
        machine.until(lambda: "event=reloaded" in machine.journal())
        machine.until(lambda: machine.show("ActiveState") == "active")
        assert machine.show("MainPID") == process

        machine.run("kill", "-9", process)
        machine.until(lambda: machine.show("MainPID") not in {process, "0"} and is_ready(machine))
        assert machine.show("NRestarts") == "1"


def test_a_hung_driver_does_not_stop_the_watchdog_and_a_hung_coordinator_does(root: Path) -> None:
    """Only the coordinator feeds the watchdog, whatever the driver does."""
    (root / "etc/rightsizer/node.yaml").write_text(SCENARIO + HANGS)
    with booted(root) as machine:
        machine.until(lambda: "rightsizer_workers_abandoned 1.0" in machine.get("/metrics"))
        before = samples(machine)
        machine.until(lambda: samples(machine) > before + 5 * 4)  # Four seconds; three are allowed.
        assert machine.show("NRestarts") == "0"

        with held(machine.outer_pid()):
            assert machine.get("/-/healthy")
            machine.until(lambda: machine.show("NRestarts") == "1")
        assert "Watchdog timeout" in machine.journal()
        assert "status=6/ABRT" in machine.journal()
        machine.until(lambda: is_ready(machine))


def test_an_upgrade_keeps_the_history_and_a_purge_takes_it_away(
    root: Path, package: Path, tmp_path: Path
) -> None:
    """One restart and no lost windows; removal keeps all, purging leaves nothing but the user."""
    newer = other_version(package, "99.0", tmp_path)
    shutil.move(newer, root / "root" / "newer.deb")
    with booted(root) as machine:
        machine.until(lambda: samples(machine) > 10)
        machine.run("rm", "/root/package.deb")
        process = machine.show("MainPID")
        machine.run("dpkg", "--install", "/root/newer.deb")
        machine.until(lambda: machine.show("MainPID") not in {process, "0"} and is_ready(machine))
        assert (
            "event=history_restored component=agent windows=0"
            not in machine.journal().rpartition("Stopped rightsizer.service")[2]
        )
        assert (root / "etc/rightsizer/rightsizer.yaml").read_text() == CONFIGURATION

        machine.run("dpkg", "--remove", "rightsizer")
        assert machine.run("systemctl", "is-active", "rightsizer", check=False) == "inactive\n"
        assert (root / "var/lib/rightsizer/history.db").exists()
        assert not (root / "usr/lib/rightsizer").exists()
        machine.run("dpkg", "--purge", "rightsizer")
        assert not (root / "var/lib/rightsizer").exists()
        assert not (root / "etc/rightsizer/rightsizer.yaml").exists()
        assert "rightsizer:" in (root / "etc/passwd").read_text()


def test_drop_ins_work(root: Path) -> None:
    """A dynamic user keeps the history; port, capability and token are passed."""
    shared = root / "usr/share/rightsizer/drop-ins"
    with booted(root) as machine:
        machine.until(lambda: samples(machine) > 10)
        for name in ("dynamic-user.conf", "socket.conf", "ptrace.conf", "grafana-token.conf"):
            shutil.copy(shared / name, root / DROP_INS)
        (root / "etc/rightsizer/grafana-token").write_text("secret")
        (root / "etc/rightsizer/grafana-token").chmod(0o600)
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "restart", "rightsizer.service")
        machine.until(lambda: is_ready(machine))
        assert machine.show("ActiveState", "rightsizer.socket") == "active"
        assert "windows=0" not in machine.journal().rpartition("Stopped rightsizer.service")[2]
        assert machine.run("test", "-e", "/var/lib/private/rightsizer/history.db") == ""
        process = f"/proc/{machine.show('MainPID')}"
        assert "CapEff:\t0000000000080000" in machine.run("cat", f"{process}/status")
        credentials = machine.run("cat", f"{process}/environ").partition("CREDENTIALS_DIRECTORY=")
        folder = credentials[2].partition("\0")[0]
        assert machine.run("cat", f"{process}/root{folder}/grafana-token") == "secret"

        (root / DROP_INS / "dynamic-user.conf").unlink()
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "restart", "rightsizer.service")
        machine.until(lambda: is_ready(machine))
        assert "windows=0" not in machine.journal().rpartition("Stopped rightsizer.service")[2]
        owner = machine.run("stat", "-c", "%U %F", "/var/lib/rightsizer")
        assert owner == "rightsizer directory\n"


def test_doctor_tells_what_the_sandbox_allows(root: Path) -> None:
    """From inside the sandbox: what is visible, what is closed, and the drop-in that opens it."""
    bind = "import socket; socket.socket(socket.AF_UNIX).bind('/var/lib/kubelet/{}')"
    socket = "pod-resources/kubelet.sock"
    with booted(root) as machine:
        machine.run("mkdir", "-p", "--mode=0750", "/var/lib/kubelet/pod-resources")
        machine.run("python3", "-c", bind.format(socket))
        machine.until(lambda: is_ready(machine))

        def said() -> str:
            machine.run("systemctl", "start", "rightsizer-doctor")
            return machine.journal("rightsizer-doctor.service").rpartition("Starting ")[2]

        alone = said()
        for expected in (
            "ok       history: /var/lib/rightsizer/history.db",
            "ok       local socket: an agent answers",
            "ok       processes of others: ",
            f"limited  kubelet: /var/lib/kubelet/{socket} is closed to this user",
            "rightsizer.service.d/kubelet.conf",
        ):
            assert expected in alone
        # The agent's socket survives the other unit that uses its folder.
        assert is_ready(machine)
        machine.run("test", "-S", "/run/rightsizer/api.sock")

        drop_ins = (root / DROP_INS).with_name("rightsizer-doctor.service.d")
        drop_ins.mkdir()
        shutil.copy(root / "usr/share/rightsizer/drop-ins/kubelet.conf", drop_ins)
        machine.run("systemctl", "daemon-reload")
        opened = said()
        assert "is closed to this user" not in opened
        assert "limited  kubelet: " in opened  # Nothing listens there.


def test_the_timer_for_advice_refuses_beside_the_agent(root: Path) -> None:
    """The history has one writer: the one-shot run works only without an agent."""
    with booted(root) as machine:
        machine.until(lambda: samples(machine) > 10)
        machine.run("systemctl", "start", "rightsizer-advise", check=False)
        assert machine.show("Result", "rightsizer-advise.service") == "exit-code"
        assert "history.db" in machine.journal("rightsizer-advise.service")
        machine.run("systemctl", "stop", "rightsizer.service")
        machine.run("systemctl", "start", "rightsizer-advise")
        assert machine.show("Result", "rightsizer-advise.service") == "success"
