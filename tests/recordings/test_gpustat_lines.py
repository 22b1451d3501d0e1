"""What `gpustat` prints in a loop."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.signal import Signal

Replays = Callable[..., Any]
Writes = Callable[..., Path]

HEADER = "node1   Wed May  1 12:00:0{at} 2024  550.54.15\n"
GPU_0 = (
    "[0] NVIDIA L4 | 45'C,  30 %,  97 %,   60 /  72 W |  9000 / 23034 MB | ann:python/123(8900M)\n"
)
GPU_1 = "[1] NVIDIA L4 | 46°C,  30 %,  ?? %,   20 /  72 W |     4 / 23034 MB |\n"
MIB = float(2**20)


def test_lines_below_a_header_are_of_its_time(replay: Replays, write: Writes) -> None:
    """Fan, utilization and power stand in one cell; what the driver does not tell is missing."""
    pages = (f"{HEADER.format(at=at)}{GPU_0}{GPU_1}" for at in range(3))
    played = replay(write("".join(pages), "gpustat.log"))
    assert played.source.warnings == ()
    assert [snapshot.wall_time // 10**9 for snapshot in played.snapshots] == [
        1714564800 + at for at in range(3)
    ]
    assert [(device.name, device.memory_total_bytes) for device in played.source.devices] == [
        ("NVIDIA L4", 23034 * MIB)
    ] * 2
    assert played.readings("index:0")[-1].values == {
        Signal.TEMPERATURE_CELSIUS: 45.0,
        Signal.POWER_WATTS: 60.0,
        Signal.POWER_LIMIT_WATTS: 72.0,
        Signal.MEMORY_USED_BYTES: 9000 * MIB,
        Signal.MEMORY_TOTAL_BYTES: 23034 * MIB,
        Signal.GPU_BUSY: 0.97,
    }
    assert played.values("index:1", Signal.GPU_BUSY) == [None] * 3


@pytest.mark.parametrize("date", ["Wed 01 May 2024 12:00:00 PM", "Wed 01 May 2024 12:00:00"])
def test_header_has_the_date_of_the_locale(replay: Replays, write: Writes, date: str) -> None:
    """Here en_US and en_GB; power may stand without its limit."""
    line = GPU_0.replace("60 /  72 W", "60 W")
    played = replay(write(f"node1   {date}  550.54.15\n{line}", "gpustat.log"))
    assert played.snapshots[0].wall_time == 1714564800 * 10**9
    assert played.values("index:0", Signal.POWER_WATTS) == [60.0]
    assert played.values("index:0", Signal.GPU_BUSY) == [0.97]


def test_short_lines_in_color_without_a_header(replay: Replays, write: Writes) -> None:
    """A second from page to page is assumed."""
    line = (
        "\x1b[36m[0]\x1b(B\x1b[m Tesla T4  | \x1b[31m 45'C\x1b(B\x1b[m,  97 % | 9000 / 15360 MB |\n"
    )
    played = replay(write(line * 3, "gpustat.log"))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.97] * 3
    assert "has no times: one second from poll to poll is assumed" in played.warnings
