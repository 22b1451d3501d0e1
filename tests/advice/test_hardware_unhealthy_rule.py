"""The rule for faulty hardware."""

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from cases import NOW, case, window
from readings import DAY, HOUR, gpu, workload
from rightsizer.advice.rules.hardware_unhealthy import RULE
from rightsizer.model.driver_codes import CRITICAL_XIDS, XidLog
from rightsizer.model.finding import Action, Case, FindingKind, Reason, Severity
from rightsizer.model.signal import Signal
from rightsizer.model.state import State
from rightsizer.model.topology import Nvlink
from standing_cases import around, instance

JOB = workload()


def working(count: int = 1) -> Case:
    """A job on some GPUs, all healthy."""
    return case([window({State.PRODUCTIVE: 10})] * count, JOB)


def with_xids(log: XidLog, judged: Case | None = None) -> Case:
    """The first GPU with the given Xids."""
    return around(judged or working(), xids={"GPU-0": log})


@pytest.mark.parametrize(
    ("signal", "value", "severity", "remedy"),
    [
        (Signal.REMAPPED_ROWS_FAILED, 1, Severity.CRITICAL, "nvidia-bug-report.sh"),
        (Signal.REMAPPED_ROWS_PENDING, 1, Severity.MEDIUM, "--gpu-reset -i GPU-0"),
        (Signal.RETIRED_PAGES_PENDING, 1, Severity.MEDIUM, "systemctl reboot"),
        (Signal.RETIRED_PAGES_UNCORRECTABLE, 60, Severity.HIGH, "nvidia-bug-report.sh"),
        (Signal.ECC_UNCORRECTED_ERRORS, 1, Severity.HIGH, "--gpu-reset -i GPU-0"),
        (Signal.RECOVERY_ACTION, 1, Severity.HIGH, "--gpu-reset -i GPU-0"),
        (Signal.RECOVERY_ACTION, 2, Severity.HIGH, "systemctl reboot"),
        (Signal.RECOVERY_ACTION, 9, Severity.HIGH, "--gpu-reset -i GPU-0"),
        (Signal.FABRIC_STATE, 1, Severity.HIGH, "nvidia-fabricmanager"),
        (Signal.NVLINK_ERRORS, 5000, Severity.LOW, "nvidia-smi nvlink -e -i GPU-0"),
        (Signal.PCIE_REPLAYS, 5000, Severity.LOW, "reseat the board"),
    ],
)
def test_each_trouble_has_its_severity_and_remedy(
    signal: Signal, value: float, severity: Severity, remedy: str
) -> None:
    """The kind of trouble decides, not how long it was seen."""
    found = RULE.judge(around(working(), {"GPU-0": {signal: value}}))
    assert found.kind is FindingKind.DEGRADED
    assert found.reasons == (Reason.HARDWARE_UNHEALTHY,)
    assert found.action is Action.RESEAT_OR_DRAIN
    assert found.severity is severity
    assert "scontrol update" in found.instructions[0].text
    assert any(remedy in instruction.text for instruction in found.instructions)


def test_healthy_hardware_is_no_finding() -> None:
    """Known normal signs count too: corrected errors, a few replays, a lifetime's count."""
    usual = {
        Signal.ECC_CORRECTED_ERRORS: 1e6,
        Signal.ECC_UNCORRECTED_ERRORS_LIFETIME: 3.0,
        Signal.REMAPPED_ROWS_CORRECTABLE: 2.0,
        Signal.RETIRED_PAGES_CORRECTABLE: 5.0,
        Signal.PCIE_REPLAYS: 12.0,
        Signal.NVLINK_ERRORS: 40.0,
    }
    found = RULE.judge(around(working(), {"GPU-0": usual}))
    assert not found.is_actionable
    assert found.abstained is None


@pytest.mark.parametrize("code", sorted(CRITICAL_XIDS))
def test_a_recent_critical_xid_is_a_finding(code: int) -> None:
    """With its number, its count and its time."""
    found = RULE.judge(with_xids(XidLog({code: 2}, code, NOW - HOUR)))
    assert f"Xid {code} 2 times, last 1 h ago" in found.summary
    assert found.confidence == 0.999


@pytest.mark.parametrize("code", [13, 31, 43, 45])
def test_a_programs_own_xid_is_no_fault_of_the_hardware(code: int) -> None:
    """However often it occurs."""
    assert not RULE.judge(with_xids(XidLog({code: 50}, code, NOW))).is_actionable


def test_an_old_xid_is_forgotten() -> None:
    """A persistent fault would have shown again."""
    assert not RULE.judge(with_xids(XidLog({48: 1}, 48, NOW - 2 * DAY))).is_actionable


def test_an_xid_whose_time_is_not_known_is_less_sure() -> None:
    """A later Xid followed it, most often as a consequence."""
    found = RULE.judge(with_xids(XidLog({48: 1, 45: 1}, 45, NOW - HOUR)))
    assert found.is_actionable
    assert found.confidence == 0.6
    assert found.severity is Severity.MEDIUM


def test_a_gpu_off_the_bus_needs_no_reading() -> None:
    """It has no readings, which is the fault."""
    gone = case([window({State.UNKNOWN: 10})], JOB)
    judged = with_xids(XidLog({79: 1}, 79, NOW - HOUR), gone)
    assert judged.node is not None
    found = RULE.judge(replace(judged, node=replace(judged.node, readings={})))
    assert found.severity is Severity.CRITICAL
    assert "fallen off the bus" in found.summary
    assert RULE.conduct(JOB).minimum_known_seconds == 0.0


def test_links_that_are_down_are_reported_by_the_neighbors() -> None:
    """A board without bridges has links without a peer."""
    down = {Signal.NVLINK_LINKS_UP: 16.0}
    found = RULE.judge(around(working(), {"GPU-0": down}, others=(gpu(1),)))
    assert "2 of 18 NVLinks are down" in found.summary
    assert not RULE.judge(around(working(), {"GPU-0": down})).is_actionable
    everywhere = {"GPU-0": down, "GPU-1": down}
    assert not RULE.judge(around(working(), everywhere, others=(gpu(1),))).is_actionable


def test_links_that_are_down_on_all_gpus_are_reported_by_their_past() -> None:
    """A dead NVSwitch takes those of each GPU; what never had more is as it was built."""
    down = {Signal.NVLINK_LINKS_UP: 0.0}
    judged = around(working(), {"GPU-0": down, "GPU-1": down}, others=(gpu(1),))
    assert not RULE.judge(judged).is_actionable
    assert judged.node is not None
    past = {"GPU-0": 18.0, "GPU-1": 18.0}
    found = RULE.judge(replace(judged, node=replace(judged.node, nvlinks_up=past)))
    assert "18 of 18 NVLinks are down: it had 18 up" in found.summary
    assert found.severity is Severity.HIGH
    assert found.confidence == pytest.approx(0.9)


def test_links_that_were_trained_again_count() -> None:
    """Each time traffic stopped."""
    judged = around(working())
    assert judged.node is not None
    reading = replace(
        judged.node.readings["GPU-0"], nvlinks=(Nvlink(0, is_up=True, recovery_errors=3),)
    )
    node = replace(judged.node, readings={"GPU-0": reading})
    assert "retrained 3 times" in RULE.judge(replace(judged, node=node)).summary


def test_the_worst_of_several_decides() -> None:
    """All of them are listed, each with its GPU."""
    values = {
        "GPU-0": {Signal.REMAPPED_ROWS_PENDING: 1.0, Signal.RECOVERY_ACTION: 1.0},
        "GPU-2": {Signal.REMAPPED_ROWS_FAILED: 1.0},
    }
    found = RULE.judge(around(working(3), values))
    assert found.severity is Severity.CRITICAL
    assert found.culprits == ("GPU-0", "GPU-2")
    assert found.summary.startswith("GPU 0: the driver asks for a reset: ")
    texts = [instruction.text for instruction in found.instructions]
    assert len(texts) == len(set(texts))


def test_an_instance_is_as_healthy_as_its_parent() -> None:
    """The hardware is the parent's."""
    judged = case([window({State.PRODUCTIVE: 10})], JOB, [instance()])
    sick = {"GPU-0": {Signal.RECOVERY_ACTION: 1.0}}
    found = RULE.judge(around(judged, sick, others=(gpu(0),)))
    assert found.is_actionable
    assert any("-i GPU-0" in instruction.text for instruction in found.instructions)


def test_a_history_knows_nothing_of_the_hardware() -> None:
    """Without a node there is no verdict."""
    assert RULE.judge(working()).reasons == (Reason.UNSUPPORTED_TELEMETRY,)


def test_faults_are_found_after_the_package_was_replaced() -> None:
    """Texts are read with the program, since an upgrade moves its files under a running agent."""
    script = Path(__file__).parents[1] / "support" / "judged_after_upgrade.py"
    done = subprocess.run(
        [sys.executable, script], check=False, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("high")
    assert "--gpu-reset -i GPU-0" in done.stdout
