"""What `dcgmi dmon` prints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.errors import RecordingError
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal

Replays = Callable[..., Any]
Writes = Callable[..., Path]


def test_polls_without_times_are_a_second_apart(replay: Replays, data: Path) -> None:
    """An entity that comes again starts a poll; that a second was assumed is said."""
    played = replay(data / "dmon_mig.txt")
    assert [snapshot.wall_time // 1_000_000_000 for snapshot in played.snapshots] == [0, 1, 2]
    assert played.values("index:0", Signal.TENSOR_ACTIVE) == [0.816, 0.817, 0.0]
    assert played.values("index:0", Signal.POWER_WATTS) == [301.512, 302.1, 90.25]
    assert played.values("gpu-instance:0", Signal.GPU_BUSY) == [0.986, 0.987, 0.0]
    assert len(played.readings("compute-instance:0")) == 2
    assert "one second from poll to poll is assumed" in played.warnings
    assert "dmon_mig.txt:13: torn last line" in played.warnings


def test_unavailable_value_of_an_entity_is_missing(replay: Replays, data: Path) -> None:
    """`N/A` of an instance's power is not zero."""
    played = replay(data / "dmon_mig.txt")
    reading = played.readings("gpu-instance:0")[0]
    assert reading.missing == {Signal.POWER_WATTS: Missing.NOT_SUPPORTED}


def test_stamps_before_the_lines_are_the_times(replay: Replays, data: Path) -> None:
    """`ts %.s` before each line gives every reading its own time, whatever the interval."""
    played = replay(data / "dmon_stamped.txt")
    assert played.source.interval == 10_000_100_000 - 100_000
    assert played.readings("index:0")[0].time == 1_717_200_000_250_200_000
    assert played.source.warnings == ()
    assert played.readings("index:1")[1].values == {
        Signal.GPU_BUSY: 0.0,
        Signal.MEMORY_CONTROLLER_BUSY: 0.0,
        Signal.ENERGY_JOULES: 1007.0,
        Signal.SM_CLOCK_HERTZ: 345e6,
        Signal.TEMPERATURE_CELSIUS: 30.0,
        Signal.PCIE_TRANSMIT_BYTES_PER_SECOND: 1000.0,
        Signal.PCIE_RECEIVE_BYTES_PER_SECOND: 2000.0,
    }


@pytest.mark.parametrize(
    "stamp", ["2024-06-01 00:00:00.250", "[2024-06-01T00:00:00.250Z]", "1717200000.250"]
)
def test_stamps_in_other_spellings(replay: Replays, write: Writes, stamp: str) -> None:
    """ISO with or without brackets, or an epoch."""
    text = f"{stamp} #Entity GPUTL\n{stamp} ID\n{stamp} GPU 0     7\n"
    assert replay(write(text)).snapshots[0].wall_time == 1_717_200_000_250_000_000


def test_stamps_without_a_year_are_times(replay: Replays, write: Writes) -> None:
    """What `ts` writes by itself: a year is assumed, and said to be."""
    lines = "".join(f"Feb 29 00:00:{at:02} GPU 0 7\n" for at in (5, 15, 25))
    played = replay(write(f"Feb 29 00:00:00 #Entity GPUTL\n{lines}Feb 30 00:00:00 GPU 0 7\n"))
    assert played.source.interval == 10_000_000_000
    assert "have no year: 1972 is assumed" in played.warnings


def test_the_engine_goes_before_the_utilization(replay: Replays, write: Writes) -> None:
    """GRACT measures what GPUTL only samples, so it is the one that is believed."""
    text = "#Entity GRACT GPUTL\nID\nGPU 0 0.150 98\nGPU 0 N/A 97\n"
    assert replay(write(text)).values("index:0", Signal.GPU_BUSY) == [0.15, 0.97]


def test_fields_that_say_nothing_of_load_are_refused(replay: Replays, write: Writes) -> None:
    """The error names fields that would."""
    with pytest.raises(RecordingError, match=r"log.csv:3: none of the columns XIDER.*-e 203"):
        replay(write("#Entity XIDER\nID\nGPU 0 0\n"))
