"""The timeline of a recording: exact, merged, and present only when complete."""

import csv
import resource
from pathlib import Path

import pytest

from readings import EPOCH, entry
from rightsizer.model.errors import RightsizerError
from rightsizer.model.state import Condition, State
from rightsizer.model.window import Entry
from rightsizer.report.timeline import Timeline

HEADER = "device,start,end,state,second_cause,score,conditions"
START = EPOCH // 10**9


def written(path: Path, *entries: Entry) -> list[dict[str, str]]:
    """The lines of a timeline of the entries."""
    with Timeline.open(path) as timeline:
        for each in entries:
            timeline.write(each)
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_entries_that_say_the_same_are_one_line(tmp_path: Path) -> None:
    """Its score is the mean over its time."""
    rows = written(
        tmp_path / "t.csv",
        entry(0, 1, State.IDLE_HELD, score=0.6),
        entry(1, 4, State.IDLE_HELD, score=1.0),
        entry(4, 5, State.PRODUCTIVE),
    )

    assert [(row["start"], row["end"], row["state"], row["score"]) for row in rows] == [
        (f"{START}", f"{START + 4}", "idle_held", "0.900"),
        (f"{START + 4}", f"{START + 5}", "productive", "1.000"),
    ]


@pytest.mark.parametrize(
    "other",
    [
        entry(1, 2, State.IDLE_EMPTY),
        entry(1, 2, second_cause=State.HOST_BOUND),
        entry(1, 2, conditions=frozenset({Condition.POWER_THROTTLED})),
        entry(1.5, 2),
        entry(1, 2, uuid="GPU-1"),
    ],
    ids=["state", "second cause", "condition", "gap", "device"],
)
def test_state_change_begins_a_line(tmp_path: Path, other: Entry) -> None:
    """A line is true from its start to its end."""
    assert len(written(tmp_path / "t.csv", entry(0, 1), other)) == 2


def test_the_jitter_of_a_live_nodes_clocks_breaks_no_line(tmp_path: Path) -> None:
    """Own recordings keep both clocks, which differ by microseconds from tick to tick."""
    rows = written(tmp_path / "t.csv", entry(0, 1), entry(1.000002, 2), entry(1.999998, 3))

    assert [row["end"] for row in rows] == [f"{START + 3}"]


def test_devices_do_not_break_each_others_lines(tmp_path: Path) -> None:
    """Entries of several devices alternate, as polls do."""
    rows = written(
        tmp_path / "t.csv",
        *(entry(at, at + 1, uuid=uuid) for at in range(3) for uuid in ("GPU-0", "GPU-1")),
    )

    assert [(row["device"], row["end"]) for row in rows] == [
        ("GPU-0", f"{START + 3}"),
        ("GPU-1", f"{START + 3}"),
    ]


def test_times_are_as_exact_as_the_recordings(tmp_path: Path) -> None:
    """A float would lose the nanoseconds of this century."""
    one = entry(0, 1)
    exact = Entry(
        **{name: getattr(one, name) for name in one.__struct_fields__}
        | {"start": EPOCH + 1, "end": EPOCH + 1_500_000_000}
    )
    (row,) = written(tmp_path / "t.csv", exact)

    assert (row["start"], row["end"]) == (f"{START}.000000001", f"{START + 1}.5")


def test_conditions_stand_in_alphabetical_order(tmp_path: Path) -> None:
    """The same conditions give the same text."""
    both = frozenset({Condition.THERMAL_THROTTLED, Condition.NEAR_OUT_OF_MEMORY})
    (row,) = written(tmp_path / "t.csv", entry(0, 1, conditions=both))

    assert row["conditions"] == "near_out_of_memory thermal_throttled"


def test_a_recording_without_entries_gives_the_heading(tmp_path: Path) -> None:
    """A single poll has no length, which is a valid answer."""
    assert written(tmp_path / "t.csv") == []
    assert (tmp_path / "t.csv").read_text() == f"{HEADER}\n"


def test_failed_write_leaves_only_the_old_file(tmp_path: Path) -> None:
    """A partial timeline is not mistaken for a complete one."""
    path = tmp_path / "t.csv"
    path.write_text("before")

    def break_off() -> None:
        with Timeline.open(path) as timeline:
            timeline.write(entry(0, 1))
            raise ValueError("the recording is torn")

    with pytest.raises(ValueError, match="torn"):
        break_off()
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("t.csv", "before")]


@pytest.mark.parametrize("place", ["", "missing/t.csv"])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, place: str) -> None:
    """Before any reading, not at the end."""
    with pytest.raises(RightsizerError, match=r"timeline '.*' cannot be written: .*name a file"):
        Timeline.open(tmp_path / place).__enter__()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    """The partial file is removed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    states = (State.PRODUCTIVE, State.IDLE_HELD)

    def fill() -> None:
        with Timeline.open(tmp_path / "t.csv") as timeline:
            for at in range(2000):
                timeline.write(entry(at, at + 1, states[at % 2]))

    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(RightsizerError, match="has room"):
            fill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
