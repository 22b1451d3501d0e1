"""What reports and advice rest on."""

import json
from pathlib import Path
from typing import Any

import pytest

from rightsizer.cli.main import main
from rightsizer.model.device import Device
from rightsizer.model.evidence import EvidenceKind
from rightsizer.model.state import State, Tier, UnknownReason
from rightsizer.model.units import HOUR
from rightsizer.model.window import Window
from rightsizer.report.evidence import accounts_evidence, rests_on


def test_what_weighs_most_comes_first() -> None:
    """Assumed capacities and utilization alone before time without a state; what is read last."""
    device = Device("gpu-0", 0, board="A100-PCIE-40GB", assumed=("memory_total_bytes",))
    window = Window(
        "gpu-0",
        0,
        10 * HOUR,
        states={State.PRODUCTIVE: 8 * HOUR, State.UNKNOWN: 2 * HOUR},
        unknown_reasons={UnknownReason.NO_READING: 2 * HOUR},
        tiers={Tier.BASIC: 8 * HOUR},
    )
    evidence = tuple(accounts_evidence([(device, window)]))
    assert [each.kind for each in evidence] == [
        EvidenceKind.ASSUMED,
        EvidenceKind.ASSUMED,
        EvidenceKind.DROPPED,
        EvidenceKind.READ,
    ]
    memory, utilization, unknown = rests_on(evidence)
    assert memory.startswith("assumed: memory_total_bytes of 1 GPU (from A100-PCIE-40GB in the")
    assert "work of 1 GPU by utilization alone" in utilization
    assert unknown.startswith("dropped: 2.0 GPU-hours without a state; ")
    assert evidence[-1].text == "read: 8.0 GPU-hours of 1 GPU"


@pytest.mark.parametrize("command", ["advise", "report"])
def test_answers_of_a_history_carry_their_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """The same record as of a replay: text shows what matters, JSON has all."""
    log = tmp_path / "log.csv"
    rows = "".join(f"{1767571200 + at},0,{at % 2 * 90},900\n" for at in range(0, 7200, 10))
    log.write_text(f"time,gpu,util_pct,memory_used_mib\n{rows}")
    history = tmp_path / "history.db"
    assert main(["replay", str(log), "--into", str(history)]) == 0
    capsys.readouterr()
    asked = [command, "--history.path", str(history)]
    text, data = ([], ["--json"])
    if command == "report":
        text, data = (["--format", "text"], ["--format", "json"])
    assert main([*asked, *text]) == 0
    assert "work of 1 GPU by utilization alone" in " ".join(capsys.readouterr().out.split())
    assert main([*asked, *data]) == 0
    evidence: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["evidence"]
    assert evidence[-1]["kind"] == "read"
