"""Points of Telegraf's `nvidia_smi` plugin."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.signal import Signal

Replays = Callable[..., Any]
Writes = Callable[..., Path]

_START = 1_767_571_200
_LINES = "".join(
    rf"nvidia_smi,host=n1,index={gpu},name=NVIDIA\ L4,pstate=P0,uuid=GPU-{gpu} "
    rf'driver_version="550, 54",memory_used=1024i,power_draw=70.5,utilization_gpu={50 + gpu}i '
    f"{_START + second}000000000\n"
    for second in range(3)
    for gpu in range(2)
)
_JSON = "".join(
    f'{{"fields":{{"memory_used":1024,"power_draw":70.5,"utilization_gpu":{50 + gpu}}},'
    f'"name":"nvidia_smi","tags":{{"index":"{gpu}","name":"NVIDIA L4","uuid":"GPU-{gpu}"}},'
    f'"timestamp":{_START + second}}}\n'
    for second in range(3)
    for gpu in range(2)
)
_BATCHES = "".join(
    f'{{"metrics":[{",".join(_JSON.splitlines()[at : at + 2])}]}}\n' for at in (0, 2, 4)
)
_ANNOTATED = (
    "#group,false,false,false,false,true,true,true,true\n"
    "#datatype,string,long,dateTime:RFC3339,double,string,string,string,string\n"
    "#default,_result,,,,,,,\n"
    ",result,table,_time,_value,_field,index,name,uuid\n"
) + "".join(
    f",,{table},2026-01-05T00:00:0{second}Z,{value},{field},{gpu},NVIDIA L4,GPU-{gpu}\n"
    for gpu in range(2)
    for table, (field, value) in enumerate(
        {"utilization_gpu": 50 + gpu, "memory_used": 1024, "power_draw": 70.5}.items()
    )
    for second in range(3)
)


_TRIED = "".join(f"> {line}\n" for line in _LINES.splitlines())


@pytest.mark.parametrize(
    "text",
    [_LINES, _TRIED, _JSON, _BATCHES, _ANNOTATED],
    ids=["line protocol", "telegraf --test", "JSON", "batches", "annotated CSV"],
)
def test_points_are_read(replay: Replays, write: Writes, text: str) -> None:
    """All spellings say the same of each GPU, in the units of nvidia-smi."""
    found = replay(write(text, "points"))
    assert [(device.uuid, device.index) for device in found.source.devices] == [
        ("GPU-0", 0),
        ("GPU-1", 1),
    ]
    assert {device.name for device in found.source.devices} == {"NVIDIA L4"}
    for gpu in range(2):
        last = found.readings(f"GPU-{gpu}")[-1]
        assert last.get(Signal.GPU_BUSY) == (50 + gpu) / 100
        assert last.get(Signal.MEMORY_USED_BYTES) == 2.0**30
        assert last.get(Signal.POWER_WATTS) == 70.5
    assert found.source.interval == 1_000_000_000


def test_points_of_other_plugins_and_torn_lines_are_left_out(
    replay: Replays, write: Writes
) -> None:
    """Telegraf writes all of a host into one file."""
    text = f"cpu,cpu=cpu0,host=n1 usage_idle=97.5 {_START}000000000\n{_LINES}nvidia_smi,host=n1"
    found = replay(write(text, "points"))
    assert len(found.readings("GPU-0")) == 3
    assert "torn last line" in found.warnings
    assert "without a device" not in found.warnings


def test_gpus_of_two_hosts_without_uuid_are_distinguished(replay: Replays, write: Writes) -> None:
    """An index alone is of one host."""
    text = "".join(
        f"nvidia_smi,host={host},index=0 utilization_gpu=5i {_START + second}000000000\n"
        for second in range(2)
        for host in ("n1", "n2")
    )
    found = replay(write(text, "points"))
    assert [device.uuid for device in found.source.devices] == ["n1 GPU 0", "n2 GPU 0"]


def test_clocks_are_read_in_the_long_spelling(replay: Replays, write: Writes) -> None:
    """Telegraf names them as nvidia-smi's report does; the clock of the SMs comes first."""
    fields = "clocks_current_memory=6250i,clocks_current_sm=1980i,clocks_current_graphics=1980i"
    lines = "".join(
        f"nvidia_smi,index=0,uuid=GPU-0 {fields} {_START + second}000000000\n"
        for second in range(2)
    )
    assert replay(write(lines, "points")).readings("GPU-0")[-1].values == {
        Signal.MEMORY_CLOCK_HERTZ: 6.25e9,
        Signal.SM_CLOCK_HERTZ: 1.98e9,
    }
