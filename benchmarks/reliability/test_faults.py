"""The list of faults, and the document with their results."""

from pathlib import Path
from typing import Final

from benchmarks.reliability.faults import FAULTS
from benchmarks.reliability.node import Node
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
    rows = [line.split("|")[1].strip() for line in written.splitlines() if line.startswith("| ")]

    assert sorted(set(rows) - {"fault"}) == sorted(each.name for each in FAULTS)
