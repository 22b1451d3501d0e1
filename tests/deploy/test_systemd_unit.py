"""The units: checked by systemd, and promises that systemd does not check."""

import argparse
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from rightsizer.cli.config import WholeSettings
from rightsizer.fleet.command import COMMAND

ROOT: Final = Path(__file__).resolve().parents[2]
SYSTEMD: Final = ROOT / "systemd"
DROP_INS: Final = sorted((SYSTEMD / "rightsizer.service.d").glob("*.conf"))
UNITS: Final = sorted(path for path in SYSTEMD.iterdir() if path.suffix in {".service", ".timer"})
MAXIMUM_EXPOSURE: Final = 2.0
DOCUMENTATION: Final = (ROOT / "docs" / "install.md").read_text()
CHOICES: Final = [
    *((SYSTEMD / "rightsizer.service", drop_in) for drop_in in (None, *DROP_INS)),
    (SYSTEMD / "rightsizer-advise.service", None),
    (SYSTEMD / "rightsizer-doctor.service", None),
    (SYSTEMD / "rightsizer-fleet.service", None),
    (SYSTEMD / "rightsizer-fleet-look.service", None),
]


def keys(path: Path) -> dict[str, list[str]]:
    """The assignments of a unit file, by key; a key may repeat."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


SERVICE: Final = keys(SYSTEMD / "rightsizer.service")
ADVISE: Final = keys(SYSTEMD / "rightsizer-advise.service")
DOCTOR: Final = keys(SYSTEMD / "rightsizer-doctor.service")
FLEET: Final = keys(SYSTEMD / "rightsizer-fleet.service")
LOOK: Final = keys(SYSTEMD / "rightsizer-fleet-look.service")


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze, or skip the test with a reason."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze on this machine")
    command = [program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def installed(folder: Path, unit: Path, drop_in: Path | None) -> Path:
    """A unit on a machine with the command installed, alone or with a drop-in."""

    def put(source: Path, target: Path) -> Path:
        target.parent.mkdir(exist_ok=True)
        text = source.read_text()
        for command in ("/usr/bin/rightsizer", "/bin/kill"):
            text = text.replace(command, shutil.which("true") or "")
        target.write_text(text)
        return target

    for socket in SYSTEMD.glob("*.socket"):
        put(socket, folder / socket.name)
    for other in UNITS:
        put(other, folder / other.name)
    if drop_in is not None:
        put(drop_in, folder / f"{unit.name}.d" / drop_in.name)
    return folder / unit.name


@pytest.fixture(params=CHOICES, ids=lambda choice: choice[1].stem if choice[1] else choice[0].stem)
def choice(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """Name of a unit with a drop-in in the documentation, and its path."""
    unit, drop_in = request.param
    return (drop_in or unit).name, installed(tmp_path, unit, drop_in)


def exposure(unit: Path) -> float:
    """Exposure according to systemd-analyze, from 0 to 10."""
    said = analyze("security", "--offline=true", "--no-pager", unit).stdout
    found = re.search(r"Overall exposure level for \S+: (\d+\.\d)", said)
    assert found is not None, said
    return float(found[1])


def test_systemd_knows_every_key(choice: tuple[str, Path]) -> None:
    """`verify` prints nothing; its output is read since it exits 0 even on unknown keys."""
    result = analyze("verify", "--man=no", choice[1])
    assert (result.returncode, result.stderr) == (0, "")


def test_timer_and_socket_are_known_to_systemd(tmp_path: Path) -> None:
    """The other kinds of units are verified too."""
    for name in ("rightsizer-advise.timer", "rightsizer-fleet.timer", "rightsizer.socket"):
        installed(tmp_path, SYSTEMD / name, None)
        result = analyze("verify", "--man=no", tmp_path / name)
        assert (result.returncode, result.stderr) == (0, "")


def test_exposure_is_small_and_documented(choice: tuple[str, Path]) -> None:
    """The sandbox scores 2.0 or better with any one drop-in, as documented in its row."""
    name, unit = choice
    measured = exposure(unit)
    assert measured <= MAXIMUM_EXPOSURE
    row = next(line for line in DOCUMENTATION.splitlines() if line.startswith(f"| `{name}` "))
    assert row.endswith(f"| {measured} |")


def test_naive_unit_would_fail(tmp_path: Path) -> None:
    """The threshold distinguishes a sandbox from none."""
    naive = tmp_path / "naive.service"
    naive.write_text("[Service]\nExecStart=/bin/true\n")
    assert exposure(naive) > MAXIMUM_EXPOSURE


def test_starts_the_documented_command() -> None:
    """The agent checks its own file: ExecStartPre would be restarted in spite of its 78."""
    file = "/etc/rightsizer/rightsizer.yaml"
    assert "ExecStartPre" not in SERVICE
    assert SERVICE["ExecStart"] == [f"/usr/bin/rightsizer agent --config.file={file}"]
    assert ADVISE["ExecStart"] == [f"/usr/bin/rightsizer advise --save --config.file={file}"]
    assert DOCTOR["ExecStart"] == [f"/usr/bin/rightsizer doctor --config.file={file}"]


def test_reloads_at_a_hang_up() -> None:
    """`systemctl reload` sends the signal on which the agent reads its files again."""
    assert SERVICE["ExecReload"] == ["/bin/kill -HUP $MAINPID"]


def test_is_watched() -> None:
    """The agent reports readiness and liveness, and unrecoverable failures stop it for good."""
    assert SERVICE["Type"] == ["notify"]
    assert SERVICE["WatchdogSec"] == ["30"]
    assert SERVICE["Restart"] == ["on-failure"]
    assert SERVICE["RestartPreventExitStatus"] == ["2 78"]


def test_sees_what_it_has_to() -> None:
    """Hardening must hide neither the devices nor the processes that hold them."""
    assert SERVICE["ProtectProc"] == ["default"]
    assert SERVICE["PrivateUsers"] == ["no"]
    assert SERVICE["PrivateDevices"] == ["no"]
    assert "char-nvidia rw" in SERVICE["DeviceAllow"]
    assert "char-nvidia-caps r" in SERVICE["DeviceAllow"]


def test_keeps_its_state_where_the_design_says() -> None:
    """State, configuration and socket are in the folders of the service's name."""
    for key in ("StateDirectory", "ConfigurationDirectory", "RuntimeDirectory"):
        assert SERVICE[key] == ["rightsizer"]
    assert SERVICE["RuntimeDirectoryMode"] == ["0750"]


def test_runs_as_the_user_of_sysusers() -> None:
    """Unit and sysusers.d agree; the dynamic user is a drop-in, with the same name."""
    (user,) = re.findall(r"(?m)^u (\S+) ", (SYSTEMD / "rightsizer.sysusers").read_text())
    for unit in (SERVICE, ADVISE, DOCTOR, FLEET, LOOK):
        assert (unit["User"], unit["Group"]) == ([user], [user])
        assert "DynamicUser" not in unit
    assert keys(SYSTEMD / "rightsizer.service.d/dynamic-user.conf") == {"DynamicUser": ["yes"]}


def test_never_disturbs_the_workload() -> None:
    """Memory, tasks and CPU are bounded."""
    assert {"MemoryHigh", "MemoryMax", "TasksMax", "CPUQuota"} <= set(SERVICE)
    assert {"MemoryMax", "TasksMax", "CPUQuota"} <= set(ADVISE)
    # Beside the store that it queries: leftover CPU, and no more memory than was measured.
    assert {"MemoryMax", "TasksMax", "CPUWeight"} <= set(FLEET)


def test_doctor_has_the_sandbox_of_the_agent() -> None:
    """It sees what the agent sees: the units differ only in how they start."""
    own = {"Description", "Type", "ExecStart", "TimeoutStartSec"}
    agents = own | {
        "ExecReload",
        "NotifyAccess",
        "WatchdogSec",
        "TimeoutStopSec",
        "WantedBy",
        "Restart",
        "RestartSec",
        "RestartPreventExitStatus",
        "Wants",
        "After",
        "StartLimitIntervalSec",
        "StartLimitBurst",
    }
    sandbox = {key: value for key, value in SERVICE.items() if key not in agents}
    doctors = {key: value for key, value in DOCTOR.items() if key not in own}
    # It must not remove the agent's socket when it ends.
    assert doctors.pop("RuntimeDirectoryPreserve") == ["yes"]
    assert doctors == sandbox


def test_the_fleets_units_start_what_there_is() -> None:
    """The service runs as a server, the timer's unit once; both use flags of the command."""
    for unit, document in ((FLEET, "serve"), (LOOK, "save")):
        (line,) = unit["ExecStart"]
        program, command, *flags = line.split()
        assert (program, command) == ("/usr/bin/rightsizer", "fleet")
        parser = argparse.ArgumentParser()
        COMMAND.configure(parser)
        arguments = parser.parse_args(flags)
        assert getattr(arguments, document) is True
        assert arguments.config_file == Path("/etc/rightsizer/fleet.yaml")
    timer = keys(SYSTEMD / "rightsizer-fleet.timer")
    assert timer["Unit"] == ["rightsizer-fleet-look.service"]


def test_the_fleets_service_is_watched() -> None:
    """Like the agent; it has no reload, and so declares none."""
    assert FLEET["Type"] == ["notify"]
    assert FLEET["WatchdogSec"] == ["120"]
    assert FLEET["RestartPreventExitStatus"] == ["2 78"]
    assert "ExecReload" not in FLEET


def test_the_fleet_has_a_sandbox_without_devices_and_one_ledger() -> None:
    """Both units have the same view; neither takes the agent's socket."""
    own = {"Type", "ExecStart", "TimeoutStartSec", "Wants", "After", "Description"}
    alone = {
        "NotifyAccess",
        "WatchdogSec",
        "TimeoutStopSec",
        "Restart",
        "RestartSec",
        "RestartPreventExitStatus",
        "StartLimitIntervalSec",
        "StartLimitBurst",
        "WantedBy",
        "RuntimeDirectory",
        "RuntimeDirectoryMode",
    }
    service = {key: value for key, value in FLEET.items() if key not in own | alone}
    assert service == {key: value for key, value in LOOK.items() if key not in own}
    assert service["PrivateDevices"] == ["yes"]
    settings = WholeSettings()
    assert FLEET["RuntimeDirectory"] == [Path(settings.fleet.api_socket).parent.name]
    assert FLEET["RuntimeDirectory"] != SERVICE["RuntimeDirectory"]
    assert FLEET["StateDirectory"] == [Path(settings.history.path).parent.name]


def test_token_comes_as_a_credential() -> None:
    """The token is passed under the agent's name for it, only by a drop-in."""
    token = keys(SYSTEMD / "rightsizer.service.d" / "grafana-token.conf")
    assert token == {"LoadCredential": ["grafana-token:/etc/rightsizer/grafana-token"]}
    assert "LoadCredential" not in SERVICE


def test_privilege_is_off_by_default() -> None:
    """Every capability has a drop-in of its own that states its purpose."""
    assert SERVICE["CapabilityBoundingSet"] == [""]
    for name, capability in (("ptrace", "CAP_SYS_PTRACE"), ("kubelet", "CAP_DAC_OVERRIDE")):
        drop_in = keys(SYSTEMD / "rightsizer.service.d" / f"{name}.conf")
        assert drop_in["CapabilityBoundingSet"] == [capability]
        assert drop_in["AmbientCapabilities"] == [capability]


def test_socket_and_service_change_over_together() -> None:
    """The drop-in starts the same command, on the sockets of the socket unit."""
    drop_in = keys(SYSTEMD / "rightsizer.service.d" / "socket.conf")
    assert drop_in["ExecStart"] == ["", f"{SERVICE['ExecStart'][0]} --web.systemd-socket"]
    assert drop_in["Requires"] == ["rightsizer.socket"]
    assert keys(SYSTEMD / "rightsizer.socket")["ListenStream"] == ["19400"]
