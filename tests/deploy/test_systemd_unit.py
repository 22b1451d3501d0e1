"""The unit: what systemd says of it, and the promises that systemd does not check."""

import shutil
import subprocess
from pathlib import Path

import pytest

SYSTEMD = Path(__file__).resolve().parents[2] / "systemd"
UNIT = SYSTEMD / "rightsizer.service"
DROP_INS = sorted((SYSTEMD / "rightsizer.service.d").glob("*.conf"))
MAXIMUM_EXPOSURE_TENTHS = 20


def keys(path: Path) -> dict[str, list[str]]:
    """The assignments of a unit file, by key; a key may repeat."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


SERVICE = keys(UNIT)


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze; the test is skipped, and says so, where there is none."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze on this machine")
    command = [program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(params=[None, *DROP_INS], ids=lambda path: path.stem if path else "alone")
def installed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The unit as on a machine that has the command, alone or with one of its drop-ins."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/usr/bin/rightsizer", shutil.which("true") or ""))
    if request.param is not None:
        folder = tmp_path / f"{UNIT.name}.d"
        folder.mkdir()
        shutil.copy(request.param, folder)
    return unit


def test_systemd_knows_every_key(installed: Path) -> None:
    """`verify` has nothing to say; it exits 0 even on unknown keys, so its words are read."""
    result = analyze("verify", "--man=no", installed)
    assert (result.returncode, result.stderr) == (0, "")


def test_exposure_is_small(installed: Path) -> None:
    """The sandbox scores 2.0 or better, whichever drop-in is chosen."""
    options = ("--offline=true", "--no-pager", f"--threshold={MAXIMUM_EXPOSURE_TENTHS}")
    result = analyze("security", *options, installed)
    assert result.returncode == 0, result.stdout.splitlines()[-1]


def test_naive_unit_would_fail(tmp_path: Path) -> None:
    """The threshold tells a sandbox from none."""
    naive = tmp_path / "naive.service"
    naive.write_text("[Service]\nExecStart=/bin/true\n")
    options = ("--offline=true", "--no-pager", f"--threshold={MAXIMUM_EXPOSURE_TENTHS}")
    assert analyze("security", *options, naive).returncode != 0


def test_starts_the_documented_command() -> None:
    """The agent checks its file itself: a check before it would be restarted in spite of its 78."""
    file = "/etc/rightsizer/rightsizer.yaml"
    assert "ExecStartPre" not in SERVICE
    assert SERVICE["ExecStart"] == [f"/usr/bin/rightsizer agent --config.file={file}"]


def test_offers_no_reload() -> None:
    """A new configuration takes a restart; a hang-up would end the agent."""
    assert "ExecReload" not in SERVICE


def test_is_watched() -> None:
    """Readiness and liveness come from the agent, and hopeless failures end it for good."""
    assert SERVICE["Type"] == ["notify"]
    assert SERVICE["WatchdogSec"] == ["30"]
    assert SERVICE["Restart"] == ["on-failure"]
    assert SERVICE["RestartPreventExitStatus"] == ["2 78"]


def test_sees_what_it_has_to() -> None:
    """Hardening must not hide the devices, nor the processes that hold them."""
    assert SERVICE["ProtectProc"] == ["default"]
    assert SERVICE["PrivateUsers"] == ["no"]
    assert SERVICE["PrivateDevices"] == ["no"]
    assert "char-nvidia rw" in SERVICE["DeviceAllow"]
    assert "char-nvidia-caps r" in SERVICE["DeviceAllow"]


def test_keeps_its_state_where_the_design_says() -> None:
    """State, configuration and socket lie in the folders of the service's name."""
    for key in ("StateDirectory", "ConfigurationDirectory", "RuntimeDirectory"):
        assert SERVICE[key] == ["rightsizer"]


def test_never_disturbs_the_workload() -> None:
    """Memory, tasks and CPU are bounded."""
    assert {"MemoryHigh", "MemoryMax", "TasksMax", "CPUQuota"} <= set(SERVICE)


def test_token_comes_as_a_credential() -> None:
    """The token is handed over under the name that the agent asks for, by a drop-in only."""
    token = keys(SYSTEMD / "rightsizer.service.d" / "grafana-token.conf")
    assert token == {"LoadCredential": ["grafana-token:/etc/rightsizer/grafana-token"]}
    assert "LoadCredential" not in SERVICE


def test_privilege_is_off_by_default() -> None:
    """No capability without the drop-in that says what it is for."""
    assert SERVICE["CapabilityBoundingSet"] == [""]
    ptrace = keys(SYSTEMD / "rightsizer.service.d" / "ptrace.conf")
    assert set(ptrace) == {"CapabilityBoundingSet", "AmbientCapabilities"}
    assert all(value == ["CAP_SYS_PTRACE"] for value in ptrace.values())
