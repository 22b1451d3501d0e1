"""The table of faults, the document with their results, and one row of each kind."""

from pathlib import Path
from typing import Final

import pytest

from benchmarks.reliability.fault import Fault, Group
from benchmarks.reliability.faults import FAULTS
from benchmarks.reliability.node import Node
from benchmarks.reliability.run import HEADINGS, row, summary
from benchmarks.reliability.scraper import DeviceSample, Scrape, parsed
from benchmarks.reliability.trial import Outcome, lost_seconds
from rightsizer.catalogue.catalogue import built_in
from rightsizer.simulator.scenario_reader import load_scenario

DOCUMENT: Final = Path(__file__).with_name("RESULTS.md")
FEWEST_ROWS: Final = 140


def test_every_fault_can_be_planted(tmp_path: Path) -> None:
    """It has its own name, a valid scenario, and a fault."""
    names = [fault.name for fault in FAULTS]

    assert len(set(names)) == len(names)
    assert len(names) >= FEWEST_ROWS
    for fault in FAULTS:
        Node.in_folder(tmp_path, fault.scenario, fault.config)
        scenario = load_scenario(str(tmp_path / "scenario.yaml"), built_in())
        assert len(scenario.faults) >= len(fault.scenario)
        assert fault.scenario or fault.plant or fault.prepare


def test_every_group_has_faults() -> None:
    """None is empty."""
    assert {fault.group for fault in FAULTS} == set(Group)


def test_the_document_has_a_line_of_every_fault() -> None:
    """`make reliability` writes them; none is missing, none is obsolete."""
    _, _, written = DOCUMENT.read_text("utf-8").partition("<!-- make reliability: begin -->")
    cells = [line.split("|")[1].strip() for line in written.splitlines() if line.startswith("| ")]

    assert sorted(cell for cell in cells if cell != HEADINGS[0]) == sorted(
        fault.name for fault in FAULTS
    )


def outcome(**facts: object) -> Outcome:
    """A trial in which nothing was lost."""
    usual: dict[str, object] = {
        "group": Group.DISK.name,
        "fault": "the disk is full",
        "scrapes": 90,
        "unanswered": 0,
        "longest_seconds": 0.05,
        "recovered_seconds": 0.1,
        "has_faulty_gpus": False,
        "lost_seconds": (0.0, 0.2),
        "history_lost_seconds": 0.1,
        "logged": ("job_failed",),
        "counted": ("rightsizer_job_failures_total",),
        "strangers": (),
        "peak_mebibytes": 50.0,
        "ended_seconds": 0.3,
        "exit_status": 0,
    }
    return Outcome(**usual | facts)  # type: ignore[arg-type]


def test_row_tells_what_was_lost_and_said() -> None:
    """Less than half a second is nothing."""
    said = "`job_failed`; `job_failures_total`"

    assert row(outcome()) == (
        *("the disk is full", "0 of 90", "50", "at once", "0", "0", said, "50", "0.3"),
    )
    assert row(outcome(has_faulty_gpus=True, lost_seconds=(8.0, 0.0)))[4] == "8; others 0"
    assert row(outcome(history_lost_seconds=None))[5] == "unreadable"


@pytest.mark.parametrize(
    ("facts", "trouble"),
    [
        ({"strangers": ("4242",)}, "acted for 4242"),
        ({"recovered_seconds": None}, "all GPUs are not read again"),
        ({"history_lost_seconds": None}, "the history cannot be read"),
        ({"ended_seconds": 9.0}, "SIGTERM did not end it in time"),
        ({"exit_status": -9}, "exit status -9"),
        ({"was_planted": False}, "the fault has met nothing"),
        ({"devices": 208}, "208 GPUs are listed"),
        ({"refusal": "no space"}, "it does not start: no space"),
    ],
)
def test_summary_names_what_must_not_be(facts: dict[str, object], trouble: str) -> None:
    """Nothing of that kind is hidden in a column."""
    assert outcome().troubles == ()
    assert f"- **the disk is full**: {trouble}" in summary([outcome(**facts)])


def test_agent_that_never_starts_has_one_trouble() -> None:
    """Whatever else it lacks follows from that."""
    never = outcome(refusal="no space", scrapes=0, recovered_seconds=None, exit_status=1)

    assert never.troubles == ("it does not start: no space",)


def test_scrape_is_reduced_to_devices_and_trouble() -> None:
    """Instances count for their GPU; states but `unknown` are known time."""
    page = """\
rightsizer_device_info{uuid="MIG-1",gpu="3/0"} 1.0
rightsizer_device_up{uuid="MIG-1"} 1.0
rightsizer_device_last_sample_timestamp_seconds{uuid="MIG-1"} 7.5
rightsizer_state_seconds_total{uuid="MIG-1",state="productive"} 3.0
rightsizer_state_seconds_total{uuid="MIG-1",state="unknown"} 2.0
rightsizer_job_failures_total{name="flush"} 1.0
rightsizer_job_failures_total{name="prune"} 2.0
rightsizer_collector_success{collector="a"} 1.0
rightsizer_collector_success{collector="b"} 0.0
"""

    scrape = parsed(page, 1.0, 0.1, 200)

    assert scrape.devices == {"MIG-1": DeviceSample("3", True, 7.5, 5.0, 3.0)}
    assert scrape.counters == {"rightsizer_job_failures_total": 3.0}
    assert scrape.switches == {
        "rightsizer_collector_success": 0.0,
        "rightsizer_device_up": 1.0,
    }


def test_lost_time_is_told_apart_by_gpu() -> None:
    """A counter that begins again after a restart has counted what it shows."""

    def scrape(time: float, known: float, faulty_known: float) -> Scrape:
        devices = {
            "a": DeviceSample("0", True, time, known, known),
            "b": DeviceSample("3", True, time, known, faulty_known),
        }
        return Scrape(time, 0.1, 200, devices)

    scrapes = [scrape(100.0, 0.0, 0.0), scrape(110.0, 10.0, 4.0), scrape(120.0, 9.0, 9.0)]
    fault = Fault(Group.DRIVER, "a GPU hangs", gpus=(3,))

    assert lost_seconds(fault, scrapes) == (11.0, 1.0)


def test_clock_that_is_set_loses_no_time() -> None:
    """The agent's wall clock tells nothing then; that of the scrapes does."""
    scrapes = [
        Scrape(time, 0.1, 200, {"a": DeviceSample("0", True, wall, known, known)})
        for time, wall, known in ((100.0, -3500.0, 0.0), (110.0, 110.0, 10.0))
    ]

    assert lost_seconds(Fault(Group.CLOCK, "an hour back"), scrapes) == (0.0, 0.0)
