"""CSV whose heading is made of our own words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.errors import RecordingError, UsageError
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.workload import WorkloadKind

Replays = Callable[..., Any]
Writes = Callable[..., Path]


@pytest.mark.parametrize(
    "times",
    [
        ("1717200000", "1717200010"),
        ("1717200000.0", "1717200010.0"),
        ("1717200000000", "1717200010000"),
        ("1717200000000000000", "1717200010000000000"),
        ("2024-06-01T00:00:00Z", "2024-06-01T02:00:10+02:00"),
        ("2024-06-01 00:00:00", "2024-06-01 00:00:10"),
    ],
)
def test_times_in_any_unit(replay: Replays, write: Writes, times: tuple[str, str]) -> None:
    """The magnitude tells the unit of an epoch; ISO 8601 is read as well."""
    text = f"timestamp,device,gpu_busy\n{times[0]},a,0.5\n{times[1]},a,0.25\n"
    played = replay(write(text))
    assert played.snapshots[0].wall_time == 1_717_200_000_000_000_000
    assert played.source.interval == 10_000_000_000
    assert played.values("a", Signal.GPU_BUSY) == [0.5, 0.25]


def test_every_signal_can_be_a_column(replay: Replays, write: Writes) -> None:
    """Ratios and quantities alike, under the name that they have everywhere else."""
    heading = ",".join(["timestamp", "device", *Signal])
    text = f"{heading}\n5,a,{','.join('1' for _ in Signal)}\n"
    [reading] = replay(write(text)).readings("a")
    assert reading.values == dict.fromkeys(Signal, 1.0)


def test_an_empty_cell_is_missing(replay: Replays, write: Writes) -> None:
    """It is neither 0 nor what the row before said."""
    text = "timestamp,device,gpu_busy,power_watts\n1,a,0.5,300\n2,a,,310\n"
    reading = replay(write(text)).readings("a")[1]
    assert reading.values == {Signal.POWER_WATTS: 310.0}
    assert reading.missing == {Signal.GPU_BUSY: Missing.NO_SAMPLE}


def test_the_workload_column_says_who_holds_the_device(replay: Replays, write: Writes) -> None:
    """From its row on until another row says otherwise; an empty cell is no one."""
    text = 'device,timestamp,workload,gpu_busy\na,1,"train, big",1\na,2,,0\nb,2,serve,1\n'
    played = replay(write(text))
    [holding] = played.snapshots[0].holdings["a"]
    assert (holding.workload.name, holding.share_ratio) == ("train, big", 1.0)
    assert holding.workload.kind is WorkloadKind.RECORDED
    assert played.snapshots[1].holdings["a"] == ()
    assert played.snapshots[1].holdings["b"][0].workload.name == "serve"


def test_the_board_comes_from_the_operator(replay: Replays, write: Writes) -> None:
    """Where the log does not name it; what the log does say goes before the board."""
    text = "timestamp,device,gpu_busy,memory_total_bytes\n1,a,0.5,9e10\n"
    [device] = replay(write(text), board="H200-SXM-141GB").source.devices
    assert (device.board, device.architecture) == ("H200-SXM-141GB", "Hopper")
    assert device.memory_total_bytes == 9e10
    assert device.power_limit_watts == 700


def test_an_unknown_board_is_a_wrong_flag(replay: Replays, write: Writes) -> None:
    """The catalogue suggests what was meant."""
    with pytest.raises(UsageError, match="board 'H10' is not in the catalogue"):
        replay(write("timestamp,device,gpu_busy\n1,a,0.5\n"), board="H10")


def test_a_column_that_is_no_signal_is_reported(replay: Replays, write: Writes) -> None:
    """It is left out, with the signal that it may have meant."""
    played = replay(write("timestamp,device,gpu_busy,gpu_bussy\n1,a,0.5,0.5\n"))
    assert "column 'gpu_bussy' is not a signal and is left out; did you mean" in played.warnings


def test_lines_of_other_length_are_counted(replay: Replays, write: Writes) -> None:
    """With the first one's place; the heading again is no such line."""
    played = replay(
        write(
            "timestamp,device,gpu_busy\n1,a,0.5\n\n2,a\ntimestamp,device,gpu_busy\n"
            "3,,0.1\n4,a,0.5,9\n5,a,0.6"
        )
    )
    assert played.values("a", Signal.GPU_BUSY) == [0.5, 0.6]
    assert [line.rpartition("log.csv:")[2] for line in played.source.warnings[1:]] == [
        "4: line of another length: '2,a', the first of 2",
        "6: row without a device",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "device,gpu_busy\na,1\n",
            r":1: this is in no known format: .* name its columns timestamp",
        ),
        (
            "timestamp,device,phase\n1,a,1\n",
            r":1: this is in no known format: 'timestamp,device,ph",
        ),
        ("timestamp,device,gpu_busy\n", "there is no reading of any device in it"),
        ("timestamp,device,gpu_busy\nnoon,a,1\n", "unreadable timestamp: 'noon'"),
    ],
)
def test_a_heading_that_lacks_something_is_refused(
    replay: Replays, write: Writes, text: str, message: str
) -> None:
    """The error says which columns there are and what to add."""
    with pytest.raises(RecordingError, match=message):
        replay(write(text))
