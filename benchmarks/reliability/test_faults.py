"""The list of faults, and the document with their results."""

from pathlib import Path
from typing import Final

from benchmarks.reliability.faults import FAULTS, Fault
from benchmarks.reliability.node import Node
from benchmarks.reliability.run import merged
from benchmarks.reliability.trial import Outcome
from rightsizer.catalogue.catalogue import built_in
from rightsizer.simulator.scenario_reader import load_scenario

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "reliability.md"


def test_every_fault_can_be_planted(tmp_path: Path) -> None:
    """It has its own name, a valid scenario, and a fault."""
    names = [each.name for each in FAULTS]

    assert len(set(names)) == len(names)
    for fault in FAULTS:
        Node.in_folder(tmp_path, fault.scenario, fault.config)
        scenario = load_scenario(str(tmp_path / "scenario.yaml"), built_in())
        assert len(scenario.faults) >= len(fault.scenario)
        assert fault.scenario or fault.plant or fault.prepare


def test_the_document_has_a_line_of_every_fault() -> None:
    """`make reliability` writes them; none is missing, none is obsolete."""
    _, _, written = DOCUMENT.read_text("utf-8").partition("<!-- make reliability: begin -->")
    cells = [line.split("|")[1].strip() for line in written.splitlines() if line.startswith("| ")]
    shared = [name for cell in cells if cell != "faults" for name in cell.split("; ")]
    names = [each.removesuffix(" (both)") for each in shared]
    names += [f"{each}, as the agent starts" for each in names if f"{each} (both)" in shared]

    assert sorted(names) == sorted(each.name for each in FAULTS)


def test_faults_with_the_same_result_share_a_line() -> None:
    """With their worst figures; the same fault at the start and later is named once."""
    faults = [Fault("disk", name) for name in ("a", "a, as the agent starts", "b", "c")]
    first, second, other, logged = faults
    outcomes = [
        Outcome(first, 90, 0, 0.05, 0.1, (0.0, 0.0), opens=True, warnings_logged=()),
        Outcome(second, 80, 0, 0.2, 0.4, (0.0, 0.2), opens=True, warnings_logged=()),
        Outcome(other, 90, 1, 0.05, 3.5, (0.0, 0.0), opens=True, warnings_logged=()),
        Outcome(logged, 90, 0, 0.05, 0.1, (0.0, 0.0), opens=True, warnings_logged=("xid",)),
    ]

    assert [row[:4] + row[5:] for row in merged(outcomes)] == [
        ("a (both)", "0 of 170", "200", "at once", "0", ""),
        ("b", "1 of 90", "50", "at most 3.5", "0", ""),
        ("c", "0 of 90", "50", "at once", "0", "`xid`"),
    ]
