"""What `nvidia-smi dmon` prints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.errors import RecordingError
from rightsizer.model.reading import Missing, ProcessKind
from rightsizer.model.signal import Signal

Replays = Callable[..., Any]
Writes = Callable[..., Path]

STAMPED = """\
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem     fb  rxpci   pclk
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %     MB   MB/s    MHz
 20240104   13:54:35      0    250     61      -     93     40   2048      5   1410
 20240104   13:54:35      1     52     33      -      0      0      3      0    210

#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem     fb  rxpci   pclk
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %     MB   MB/s    MHz
 20240104   13:54:45      0    251     61      -     94     41   2048      5   1410
 20240104   13:54:45      1     52     33      -      0      0      3      0    210
 20240104   13:54:55      0    25"""


def test_date_and_time_are_the_times(replay: Replays, write: Writes) -> None:
    """With `-o DT`: the interval is what it was, headings may come again, a torn line is told."""
    played = replay(write(STAMPED, "dmon.log"))
    assert played.source.interval == 10_000_000_000
    assert played.snapshots[0].wall_time == 1_704_376_475_000_000_000
    assert played.values("index:0", Signal.GPU_BUSY) == [0.93, 0.94]
    assert "dmon.log:10: torn last line" in played.warnings


def test_columns_have_their_units(replay: Replays, write: Writes) -> None:
    """What a GPU has not is missing, and never zero."""
    reading = replay(write(STAMPED)).readings("index:0")[0]
    assert reading.values == {
        Signal.POWER_WATTS: 250.0,
        Signal.TEMPERATURE_CELSIUS: 61.0,
        Signal.GPU_BUSY: 0.93,
        Signal.MEMORY_CONTROLLER_BUSY: 0.4,
        Signal.MEMORY_USED_BYTES: 2.0**31,
        Signal.PCIE_RECEIVE_BYTES_PER_SECOND: 5e6,
        Signal.SM_CLOCK_HERTZ: 1.41e9,
    }
    assert reading.missing == {Signal.MEMORY_TEMPERATURE_CELSIUS: Missing.NO_SAMPLE}


def test_messages_name_a_column_as_the_log_does(replay: Replays, write: Writes) -> None:
    """It is no other column than that under the heading `pwr`."""
    played = replay(write(STAMPED.replace("250", "2x0", 1), "dmon.log"))
    assert "dmon.log:3: unreadable cell in 'pwr': '2x0'" in played.warnings


def test_columns_of_a_later_run_are_read(replay: Replays, write: Writes) -> None:
    """A log that goes on with other counters, however long it was before."""
    text = "# gpu sm\n" + "    0 50\n" * 1001 + "# gpu sm pwr\n    0 60 250\n"
    last = replay(write(text)).readings("index:0")[-1]
    assert last.values == {Signal.GPU_BUSY: 0.6, Signal.POWER_WATTS: 250.0}


def test_counters_have_columns_of_their_own(replay: Replays, write: Writes) -> None:
    """With `--gpm-metrics`: the first poll has none, as each is a difference to the one before."""
    text = (
        "#Time        gpu     sm     smutil     mmaact       dram\n"
        "#HH:MM:SS    Idx      %      GPM:%      GPM:%      GPM:%\n"
        " 10:00:00      0    100          -          -          -\n"
        " 10:00:01      0    100         62         31         40\n"
    )
    first, second = replay(write(text)).readings("index:0")
    assert first.missing[Signal.SM_ACTIVE] is Missing.NO_SAMPLE
    assert second.values == {
        Signal.GPU_BUSY: 1.0,
        Signal.SM_ACTIVE: 0.62,
        Signal.TENSOR_ACTIVE: 0.31,
        Signal.DRAM_ACTIVE: 0.4,
    }


def test_times_of_day_go_on_past_midnight(replay: Replays, write: Writes) -> None:
    """With `-o T` there is no date; that one was assumed is said."""
    lines = "".join(f" {time}  0  50\n" for time in ("23:59:58", "23:59:59", "00:00:00"))
    played = replay(write(f"#Time        gpu    sm\n#HH:MM:SS    Idx     %\n{lines}"))
    assert [snapshot.wall_time // 10**9 for snapshot in played.snapshots] == [86398, 86399, 86400]
    (warning,) = (text for text in played.source.warnings if "has no dates" in text)
    assert warning.endswith("record with 'nvidia-smi dmon -s pucm -o DT'")


def test_times_of_day_of_processes_need_the_option_of_their_program(
    replay: Replays, write: Writes
) -> None:
    """The remedy is pmon's own."""
    lines = "".join(f" 12:00:0{at}  0  77  C  50  10  -  -  python\n" for at in range(3))
    text = f"#Time        gpu    pid   type    sm    mem    enc    dec    command\n{lines}"
    assert "record with 'nvidia-smi pmon -o DT'" in replay(write(text)).warnings


def test_times_of_day_of_an_appended_run_are_of_the_next_day(
    replay: Replays, write: Writes
) -> None:
    """With `-o T` a run that begins earlier in the day than another ended is not among it."""
    heading = "#Time        gpu    sm\n#HH:MM:SS    Idx     %\n"
    runs = [("12:00:00", "12:00:01"), ("09:00:00", "09:00:01")]
    text = "".join(heading + "".join(f" {time}  0  50\n" for time in run) for run in runs)
    played = replay(write(text))
    assert [snapshot.wall_time // 10**9 for snapshot in played.snapshots] == [
        43_200,
        43_201,
        118_800,
        118_801,
    ]
    assert "its times go back by hours" in played.warnings


@pytest.mark.parametrize(
    "text",
    [
        "# gpu    sm   mem\n# Idx     %     %\n    0    50     1\n    1    60     2\n" * 2,
        "#gpu, sm, mem\n#Idx, %, %\n0, 50, 1\n1, 60, 2\n0, 50, 1\n1, 60, 2\n",
    ],
)
def test_without_times_a_poll_is_a_second(replay: Replays, write: Writes, text: str) -> None:
    """As a table or as CSV; that a second was assumed is said, with how to do better."""
    played = replay(write(text))
    assert played.values("index:1", Signal.GPU_BUSY) == [0.6, 0.6]
    assert played.source.interval == 1_000_000_000
    assert "one second from poll to poll is assumed" in played.warnings
    assert "-o DT" in played.warnings


def test_lines_that_cannot_be_read_are_counted(replay: Replays, write: Writes) -> None:
    """A day that is none, and a GPU without a number."""
    played = replay(
        write(
            f"{STAMPED}\n 20240199 13:54:56 0 1 1 1 1 1 1 1 1\n"
            " 20240104 13:54:57 x 1 1 1 1 1 1 1 1\n"
        )
    )
    assert "unreadable timestamp" in played.warnings
    assert "row without a GPU's index" in played.warnings


PMON = """\
# gpu         pid   type     sm    mem    fb    command
# Idx           #    C/G      %      %    MB    name
    0       4711     C     50     20   1024    python3
    0       4712     C     60     20   1024    my program
    0         88     G      -      -      4    Xorg
    1          -     -      -      -     -    -
    0       4711     C      -      -   1024    python3
    1         88     G      -      -      4    Xorg
"""


def test_pmon_reports_the_processes_of_each_gpu(replay: Replays, write: Writes) -> None:
    """Their parts add up to the GPU's; a dash is of one that did nothing, or of no process."""
    played = replay(write(PMON))
    first, second = played.readings("index:0")
    assert [(process.pid, process.kind) for process in first.processes] == [
        (4711, ProcessKind.COMPUTE),
        (4712, ProcessKind.COMPUTE),
        (88, ProcessKind.GRAPHICS),
    ]
    assert first.values == {
        Signal.PROCESS_COUNT: 2.0,
        Signal.GPU_BUSY: 1.0,
        Signal.MEMORY_USED_BYTES: 2052 * 2.0**20,
    }
    assert second.values[Signal.GPU_BUSY] == 0.0
    assert played.readings("index:1")[0].values == {
        Signal.PROCESS_COUNT: 0.0,
        Signal.GPU_BUSY: 0.0,
    }


def test_pmon_without_shares_does_not_tell_rest(replay: Replays, write: Writes) -> None:
    """A driver that samples no process shows dashes alone; a log of GPUs beside it counts more."""
    lines = "".join(f" 20240104   13:54:{s:02}   0   7   C   -   -   python3\n" for s in range(3))
    pmon = write(f"#Date  Time  gpu  pid  type  sm  mem  command\n{lines}", "pmon.log")
    assert replay(pmon).values("index:0", Signal.GPU_BUSY) == [None] * 3
    shared = write(pmon.read_text().replace("C   -", "C   9"), "shared.log")
    dmon = write(
        "#Date  Time  gpu  sm\n"
        + "".join(f" 20240104   13:54:{s:02}   0   95\n" for s in range(3)),
        "dmon.log",
    )
    for files in ((shared, dmon), (dmon, shared)):
        played = replay(*files)
        assert played.values("index:0", Signal.GPU_BUSY) == [0.95] * 3
        assert played.readings("index:0")[0].processes[0].pid == 7


def test_columns_that_say_nothing_of_load_are_refused(replay: Replays, write: Writes) -> None:
    """The error names them, and how to record."""
    with pytest.raises(RecordingError, match=r"none of the columns sbecc, dbecc .*dmon"):
        replay(write("# gpu sbecc dbecc\n# Idx errs errs\n    0     0     0\n"))


@pytest.mark.parametrize(
    ("heading", "row", "remedy"),
    [
        ("# gpu pwr sm", "0 250 90", "'nvidia-smi dmon -s pucm -o DT'"),
        ("# gpu pid type sm mem command", "0 17 C 90 10 python", "'nvidia-smi pmon -o DT'"),
        ("#Entity GPUTL", "GPU 0 90", "'dcgmi dmon -e 203,252,155,1001,1002 | ts %.s'"),
    ],
)
def test_the_program_that_printed_them_has_times(
    replay: Replays, write: Writes, heading: str, row: str, remedy: str
) -> None:
    """The warning tells its option, and that of no other program."""
    warnings = replay(write(f"{heading}\n{row}\n{row}\n")).warnings
    assert remedy in warnings
    assert sum(name in warnings for name in ("smi dmon", "pmon", "dcgmi")) == 1
