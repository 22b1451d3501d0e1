"""Reports of `nvidia-smi -q`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.reading import Process, ProcessKind
from rightsizer.model.signal import Signal

Replays = Callable[..., Any]
Writes = Callable[..., Path]

_TEXT = """
==============NVSMI LOG==============

Timestamp                                 : Mon Jan  5 00:00:{second:02} 2026
Driver Version                            : 550.54.14

Attached GPUs                             : 1
GPU 00000000:01:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    MIG Mode
        Current                           : Disabled
    GPU UUID                              : GPU-1
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : 4096 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
        Used                              : 1 MiB
    Utilization
        Gpu                               : {busy} %
        Memory                            : 7 %
    GPU Power Readings
        Power Draw                        : 300.50 W
        Instantaneous Power Draw          : N/A
        Current Power Limit               : 700.00 W
    Module Power Readings
        Power Draw                        : 9999.00 W
    Clocks
        SM                                : 1980 MHz
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 4242
            Type                          : C
            Name                          : python
            Used GPU Memory               : 4000 MiB
"""


def test_reports_one_behind_the_other_are_read(replay: Replays, write: Writes) -> None:
    """Each section's own values, whole GPUs alone, at the time of each report."""
    text = "".join(_TEXT.format(second=second, busy=80 + second) for second in range(3))
    found = replay(write(text, "q.log"))
    (device,) = found.source.devices
    assert (device.uuid, device.name) == ("GPU-1", "NVIDIA H100 80GB HBM3")
    assert found.values("GPU-1", Signal.GPU_BUSY) == [0.8, 0.81, 0.82]
    assert found.values("GPU-1", Signal.MEMORY_USED_BYTES) == [4096 * 2.0**20] * 3
    assert found.values("GPU-1", Signal.POWER_WATTS) == [300.5] * 3
    assert found.values("GPU-1", Signal.POWER_LIMIT_WATTS) == [700.0] * 3
    assert found.values("GPU-1", Signal.SM_CLOCK_HERTZ) == [1980e6] * 3
    assert found.source.interval == 1_000_000_000
    (process,) = found.readings("GPU-1")[0].processes
    assert process == Process(4242, 4000 * 2**20, ProcessKind.COMPUTE)
    assert found.warnings == ""


def test_torn_report_is_read_as_far_as_it_goes(replay: Replays, write: Writes) -> None:
    """What is not there of the last GPU is missing, and never 0."""
    whole = _TEXT.format(second=0, busy=50) + _TEXT.format(second=1, busy=60)
    found = replay(write(whole[: whole.rindex("60")], "q.log"))
    assert found.values("GPU-1", Signal.GPU_BUSY) == [0.5, None]


def test_gpus_without_a_uuid_are_named_by_their_address(replay: Replays, write: Writes) -> None:
    """With `-d UTILIZATION,MEMORY` a report has no uuid; without a time it is counted."""
    text = "".join(_TEXT.format(second=second, busy=1 + second) for second in range(2))
    lines = [line for line in text.splitlines(keepends=True) if "UUID" not in line]
    found = replay(write("".join(lines), "q.log"))
    assert found.values("00000000:01:00.0", Signal.GPU_BUSY) == [0.01, 0.02]
    assert found.source.devices[0].pci_bus_id == "00000000:01:00.0"
    for wrong in (
        text.replace("Timestamp                                 : Mon Jan  5 00:00:00 2026", "", 1),
        text.replace("Mon Jan  5", "Mon", 1),
    ):
        timeless = replay(write(wrong, "q.log"))
        assert "unreadable timestamp" in timeless.warnings
        assert timeless.values("GPU-1", Signal.GPU_BUSY) == [0.02]
    lines = [line for line in text.splitlines(keepends=True) if "Timestamp" not in line]
    assert "keep its line 'Timestamp'" in replay(write("".join(lines), "q.log")).warnings


_CONDITION_TEXT = """
    GPU Link Info
        PCIe Generation
            Max                           : 4
            Current                       : 1
            Device Max                    : 5
        Link Width
            Max                           : 16x
            Current                       : 8x
    {Clocks} Reasons
        Idle                              : Active
        SW Power Cap                      : Not Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Active
    Temperature
        GPU Current Temp                  : 61 C
        Memory Current Temp               : 72 C
"""


@pytest.mark.parametrize("release", ["Clocks Throttle", "Clocks Event"])
def test_report_tells_why_clocks_are_low_and_what_the_link_is(
    replay: Replays, write: Writes, release: str
) -> None:
    """As a log of the same columns does; releases until 530 call the reasons 'throttle'."""
    behind = "    Clocks\n"
    added = _CONDITION_TEXT.format(Clocks=release)
    text = _TEXT.replace(behind, added.lstrip("\n") + behind)
    found = replay(write("".join(text.format(second=at, busy=9) for at in range(2)), "q.log"))
    (device,) = found.source.devices
    assert (device.pcie_generation_maximum, device.pcie_width_maximum) == (4, 16)
    last = found.readings("GPU-1")[-1].values
    assert last[Signal.CLOCK_EVENT_REASONS] == 0x001 | 0x040
    assert (last[Signal.PCIE_LINK_GENERATION], last[Signal.PCIE_LINK_WIDTH]) == (1, 8)
    assert last[Signal.TEMPERATURE_CELSIUS] == 61
    assert last[Signal.MEMORY_TEMPERATURE_CELSIUS] == 72
    assert found.warnings == ""


def test_instances_in_a_report_are_not_the_gpu(replay: Replays, write: Writes) -> None:
    """As text, an instance's memory stands before that of its GPU; what is not read is said."""
    instance = """    MIG Device
        Index                             : 0
        GPU Instance ID                   : 1
        FB Memory Usage
            Total                         : 10240 MiB
            Used                          : 3 MiB
"""
    text = "".join(_TEXT.format(second=second, busy=1) for second in range(2))
    found = replay(write(text.replace("    GPU UUID", f"{instance}    GPU UUID"), "q.log"))
    assert found.values("GPU-1", Signal.MEMORY_USED_BYTES) == [4096 * 2.0**20] * 2
    assert "has GPUs split into MIG instances" in found.warnings


def test_lost_gpu_is_not_named_by_its_error(replay: Replays, write: Writes) -> None:
    """A GPU that fell off the bus has the error in the place of each value."""
    lost = _TEXT.replace("NVIDIA H100 80GB HBM3", "GPU is lost").replace("4096 MiB", "GPU is lost")
    whole = _TEXT.format(second=0, busy=1) + lost.format(second=1, busy=1)
    found = replay(write(whole, "q.log"))
    assert found.source.devices[0].name == "NVIDIA H100 80GB HBM3"
    assert found.values("GPU-1", Signal.MEMORY_USED_BYTES) == [4096 * 2.0**20, None]
    (alone,) = replay(write(lost.format(second=1, busy=1), "q.log")).source.devices
    assert alone.name == ""


@pytest.mark.parametrize(
    ("letters", "program", "kind"),
    [
        ("C+G", r"C:\Windows\explorer.exe", ProcessKind.GRAPHICS),
        ("G", "/usr/lib/xorg/Xorg", ProcessKind.GRAPHICS),
        ("C", "/usr/lib/xorg/Xorg", ProcessKind.GRAPHICS),
        ("M+C", "python", ProcessKind.MPS),
    ],
)
def test_desktop_programs_in_a_report_do_not_compute(
    replay: Replays, write: Writes, letters: str, program: str, kind: ProcessKind
) -> None:
    """Under Windows and WSL each is of both kinds, and the driver tells no memory of it."""
    text = _TEXT.replace("Type                          : C", f"Type : {letters}")
    text = text.replace("Name                          : python", f"Name : {program}")
    text = text.replace(": 4000 MiB", ": Not available in WDDM driver model")
    (reading,) = replay(write(text.format(second=1, busy=1), "q.log")).readings("GPU-1")
    assert reading.processes == (Process(4242, None, kind),)
