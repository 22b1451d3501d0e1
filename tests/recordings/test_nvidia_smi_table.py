"""Tables of `nvidia-smi` without a query, of several drivers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal

Replays = Callable[..., Any]
Writes = Callable[..., Path]

RULE = "+----------------------+"
NEW = """\
| NVIDIA-SMI 550.54.15     Driver Version: 550.54.15     CUDA Version: 12.4     |
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    0 |
| N/A   33C    P0             67W /  400W |   10240MiB /  81920MiB |     57%      Default |
|                                         |                        |             Disabled |
|   1  NVIDIA A100-SXM4-80GB          On  |   00000000:0F:00.0 Off |                    0 |
|ERR!   ERR! ERR!            ERR! / ERR!  |       4MiB /  81920MiB |     ERR!     Default |
|                                         |                        |             Disabled |
| Processes:                                                                              |
|    0   N/A  N/A     12345      C   python                                      10234MiB |
"""
OLD = """\
| NVIDIA-SMI 440.33.01    Driver Version: 440.33.01    CUDA Version: 10.2     |
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
|   0  Tesla V100-SXM2...  On   | 00000000:00:1E.0 Off |                    0 |
| N/A   41C    P0    42W / 300W |      0MiB / 16160MiB |      7%      Default |
| Processes:                                                       GPU Memory |
|    0     12345      C   python                                      10234MiB |
"""
SMALL = """\
| NVIDIA-SMI 580.95.05    KMD Version: 580.95.05    CUDA Version: 13.0     |
|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |
| N/A   36C    P8              4W /  N/A  | Not Supported          |      3%      Default |
|  No running processes found                                                 |
"""


def tables(table: str, times: int = 3) -> str:
    """The table each second, with its date."""
    return "".join(f"Wed May  1 08:00:0{at} 2024       \n{RULE}\n{table}" for at in range(times))


def test_values_of_each_gpu(replay: Replays, write: Writes) -> None:
    """With name, address, limit and size; what could not be read has a reason."""
    played = replay(write(tables(NEW), "smi.txt"))
    first, second = played.source.devices
    assert (first.name, first.pci_bus_id) == ("NVIDIA A100-SXM4-80GB", "00000000:07:00.0")
    assert played.values("index:0", Signal.GPU_BUSY) == [0.57] * 3
    assert played.values("index:0", Signal.POWER_WATTS) == [67.0] * 3
    assert played.values("index:0", Signal.POWER_LIMIT_WATTS) == [400.0] * 3
    assert played.values("index:0", Signal.MEMORY_USED_BYTES) == [10240 * 2.0**20] * 3
    assert played.values("index:0", Signal.TEMPERATURE_CELSIUS) == [33.0] * 3
    reading = played.readings("index:1")[-1]
    assert reading.missing[Signal.GPU_BUSY] is Missing.FAILED
    assert second.memory_total_bytes == 81920 * 2.0**20
    assert played.source.interval == 10**9


@pytest.mark.parametrize("table", [NEW, OLD])
def test_processes_are_the_gpus(replay: Replays, write: Writes, table: str) -> None:
    """In both layouts."""
    (process,) = replay(write(tables(table), "smi.txt")).readings("index:0")[-1].processes
    assert (process.pid, process.memory_used_bytes) == (12345, 10234 << 20)


def test_no_process_listed_may_be_one_that_is_not_seen(replay: Replays, write: Writes) -> None:
    """As in a container; memory that is not supported is missing, not 0."""
    reading = replay(write(tables(SMALL), "smi.txt")).readings("index:0")[-1]
    assert reading.processes is None
    assert reading.missing[Signal.MEMORY_USED_BYTES] is Missing.NOT_SUPPORTED
    assert reading.values[Signal.POWER_WATTS] == 4.0


def test_tables_without_dates_are_a_second_apart(replay: Replays, write: Writes) -> None:
    """A warning says so; a torn last table counts as far as it goes."""
    played = replay(write(OLD * 3 + OLD[:250], "smi.txt"))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.07] * 3
    assert "one second from poll to poll is assumed" in played.warnings


def test_mig_instances_are_said_to_be_left_out(replay: Replays, write: Writes) -> None:
    """The table gives no utilization of them."""
    divided = NEW.replace("57%", "N/A") + "| MIG devices:                    |\n"
    assert "split into MIG instances" in replay(write(tables(divided), "smi.txt")).warnings


def test_impossible_date_is_reported(replay: Replays, write: Writes) -> None:
    """Its table has no time, and is left out beside those that have one."""
    text = tables(OLD) + tables(OLD).replace("May  1", "May 99")
    played = replay(write(text, "smi.txt"))
    line = text[: text.index("May 99")].count("\n") + 1
    assert f":{line}: unreadable timestamp: 'Wed May 99 08:00:00 2024'" in played.warnings
    assert len(played.readings("index:0")) == text.count("Driver Version") // 2


def test_torn_last_table_is_told(replay: Replays, write: Writes) -> None:
    """It has fewer GPUs than the one before; what is whole of it is read."""
    torn = tables(NEW).rpartition("|   1  NVIDIA")[0]
    played = replay(write(torn, "smi.txt"))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.57] * 3
    assert len(played.readings("index:1")) == 2
    assert "torn last page" in played.warnings


def test_table_torn_within_the_first_line_of_a_gpu_is_told(replay: Replays, write: Writes) -> None:
    """Of which there is a name and no value."""
    torn = tables(NEW).rpartition("Off |                    0 |\n|ERR!")[0]
    played = replay(write(torn, "smi.txt"))
    assert len(played.readings("index:1")) == 2
    assert "torn last page" in played.warnings


def test_gpu_that_is_missing_in_a_table_without_a_date(replay: Replays, write: Writes) -> None:
    """Tables are as whole as before, whichever GPU comes first in them."""
    start = NEW.index("|   0  NVIDIA")
    second = NEW.index("|   1  NVIDIA")
    without = NEW[:start] + NEW[second:]
    played = replay(write(NEW * 2 + without + NEW * 2, "smi.txt"))
    assert len(played.readings("index:0")) == 4
    assert len(played.readings("index:1")) == len(played.snapshots) == 5
    assert "torn last page" not in played.warnings
