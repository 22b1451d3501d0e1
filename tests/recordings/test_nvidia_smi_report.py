"""Reports of `nvidia-smi -q`, as text and as XML."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
_XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
\t<timestamp>Mon Jan  5 00:00:{second:02} 2026</timestamp>
\t<gpu id="00000000:01:00.0">
\t\t<product_name>NVIDIA H100 80GB HBM3</product_name>
\t\t<mig_devices>
\t\t\tNone
\t\t</mig_devices>
\t\t<uuid>GPU-1</uuid>
\t\t<fb_memory_usage>
\t\t\t<total>81559 MiB</total>
\t\t\t<used>4096 MiB</used>
\t\t</fb_memory_usage>
\t\t<bar1_memory_usage>
\t\t\t<used>1 MiB</used>
\t\t</bar1_memory_usage>
\t\t<utilization>
\t\t\t<gpu_util>{busy} %</gpu_util>
\t\t\t<memory_util>7 %</memory_util>
\t\t</utilization>
\t\t<gpu_power_readings>
\t\t\t<power_draw>300.50 W</power_draw>
\t\t\t<instant_power_draw>N/A</instant_power_draw>
\t\t\t<current_power_limit>700.00 W</current_power_limit>
\t\t</gpu_power_readings>
\t\t<module_power_readings>
\t\t\t<power_draw>9999.00 W</power_draw>
\t\t</module_power_readings>
\t\t<clocks>
\t\t\t<sm_clock>1980 MHz</sm_clock>
\t\t</clocks>
\t\t<processes>
\t\t\t<process_info>
\t\t\t\t<pid>4242</pid>
\t\t\t\t<type>C</type>
\t\t\t</process_info>
\t\t</processes>
\t</gpu>
</nvidia_smi_log>
"""


@pytest.mark.parametrize("report", [_TEXT, _XML], ids=["text", "xml"])
def test_reports_one_behind_the_other_are_read(replay: Replays, write: Writes, report: str) -> None:
    """Each section's own values, whole GPUs alone, at the time of each report."""
    text = "".join(report.format(second=second, busy=80 + second) for second in range(3))
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
    assert process.pid == 4242
    assert found.warnings == ""


@pytest.mark.parametrize("report", [_TEXT, _XML], ids=["text", "xml"])
def test_torn_report_is_read_as_far_as_it_goes(replay: Replays, write: Writes, report: str) -> None:
    """What is not there of the last GPU is missing, and never 0."""
    whole = report.format(second=0, busy=50) + report.format(second=1, busy=60)
    found = replay(write(whole[: whole.rindex("60")], "q.log"))
    assert found.values("GPU-1", Signal.GPU_BUSY) == [0.5, None]


def test_gpus_without_a_uuid_are_named_by_their_address(replay: Replays, write: Writes) -> None:
    """With `-d UTILIZATION,MEMORY` a report has no uuid; without a time it is counted."""
    text = "".join(_TEXT.format(second=second, busy=1 + second) for second in range(2))
    lines = [line for line in text.splitlines(keepends=True) if "UUID" not in line]
    found = replay(write("".join(lines), "q.log"))
    assert found.values("00000000:01:00.0", Signal.GPU_BUSY) == [0.01, 0.02]
    assert found.source.devices[0].pci_bus_id == "00000000:01:00.0"
    timeless = write(text.replace("Timestamp  ", "Driver  ", 1), "q.log")
    assert "report without a timestamp" in replay(timeless).warnings
