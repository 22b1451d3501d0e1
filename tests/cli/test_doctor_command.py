"""`rightsizer doctor`: its output, and exit status 0."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rightsizer.agent.doctor import CHECKS
from rightsizer.agent.doctor.check import Check, Verdict
from rightsizer.cli.doctor import doctor_blocks
from rightsizer.cli.main import main
from rightsizer.report.block_text import text_of

CHECKED = (
    Check("driver", Verdict.OK, "driver 580.95.05, devices: 8"),
    Check(
        "kubelet",
        Verdict.LIMITED,
        "/var/lib/kubelet/pod-resources/kubelet.sock is closed to this user",
        "the pod of a GPU before its first process",
        "add rightsizer.service.d/kubelet.conf, or run the agent as a DaemonSet that mounts the "
        "socket, whichever is easier",
    ),
    Check("pressure", Verdict.MISSING, "there is none", "host_bound"),
    Check("Grafana", Verdict.UNUSED, "grafana.url is not set"),
)


def test_missing_item_is_followed_by_its_cost_and_remedy(
    golden: Callable[[str, str], None],
) -> None:
    """One line per check, further ones below for details, and a summary."""
    golden("doctor.txt", text_of(doctor_blocks(CHECKED)) + "\n")


def test_it_answers_in_json_and_succeeds_without_a_gpu(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Whatever is missing, the exit status is 0; each check has all five keys."""
    file = tmp_path / "rightsizer.yaml"
    file.write_text(f"path: {{procfs: {tmp_path}, sysfs: {tmp_path}}}\nhistory: {{path: ''}}\n")
    assert main(["doctor", "--json", "--config.file", str(file)]) == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert len(checks) == len(CHECKS)
    assert all(set(check) == {"name", "verdict", "found", "lost", "remedy"} for check in checks)
    assert {check["verdict"] for check in checks} <= set(Verdict)


def test_a_faulty_configuration_is_told_as_everywhere(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The doctor examines machines; files belong to check-config."""
    file = tmp_path / "rightsizer.yaml"
    file.write_text("nonsense: 1\n")
    assert main(["doctor", "--config.file", str(file)]) == 78
    assert "nonsense" in capsys.readouterr().err
