"""CSV with one value a row, as stores of metrics, dashboards and pandas write it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.signal import Signal

Replays = Callable[..., Any]
Writes = Callable[..., Path]

UUID = "GPU-5fd4f087-86f3-7a43-b711-4771313afc50"


def table(heading: str, *rows: str, times: int = 4) -> str:
    """A table with the rows at each time."""
    lines = (row.format(at=1714550400 + 10 * at) for at in range(times) for row in rows)
    return "\n".join([heading, *lines, ""])


@pytest.mark.parametrize(
    ("device", "text"),
    [
        (
            UUID,
            table(
                "timestamp,metric_name,gpu_id,device,uuid,modelName,Hostname,pod,value,labels_raw",
                f'{{at}},DCGM_FI_DEV_GPU_UTIL,3,nvidia3,{UUID},NVIDIA L4,a,,90,"x=""1"""',
                f"{{at}},DCGM_FI_DEV_POWER_USAGE,3,nvidia3,{UUID},NVIDIA L4,a,,60,",
            ),
        ),
        (
            UUID,
            table(
                '"series","time","value"',
                f'"DCGM_FI_DEV_GPU_UTIL{{{{gpu=""3"",UUID=""{UUID}""}}}}",{{at}},90',
                f'"DCGM_FI_DEV_POWER_USAGE{{{{gpu=""3"",UUID=""{UUID}""}}}}",{{at}},60',
            ),
        ),
        (
            UUID,
            table(
                "metric,timestamp,value,labels",
                f'nvidia_smi_utilization_gpu_ratio,{{at}},0.9,"{{{{""uuid"": ""{UUID[4:]}""}}}}"',
                f'nvidia_smi_power_draw_watts,{{at}},60,"{{{{""uuid"": ""{UUID[4:]}""}}}}"',
            ),
        ),
        (
            "a GPU 3",
            table(
                "time,metric,tags,value",
                '{at},nvml.gpu_utilization,"gpu:3,host:a",90',
                '{at},nvml.power_usage,"gpu:3,host:a",60000',
            ),
        ),
        (
            "index:3",
            table(
                "time;gpu;variable;value",
                "{at};GPU 3;utilization.gpu [%];90,0",
                "{at};GPU 3;power.draw [W];60,0",
            ),
        ),
        (
            "one",
            table("time,scope,metric,value", "{at},one,gpu_util,90", "{at},one,gpu_power_w,60"),
        ),
    ],
    ids=["dcgm-exporter", "series", "nvidia_gpu_exporter", "Datadog", "pandas", "scope"],
)
def test_metrics_and_labels_are_read(
    replay: Replays, write: Writes, device: str, text: str
) -> None:
    """A metric by its name or its words; its GPU by columns, labels, or whatever labels differ."""
    played = replay(write(text))
    assert [each.uuid for each in played.source.devices] == [device]
    assert played.values(device, Signal.GPU_BUSY)[-3:] == pytest.approx([0.9] * 3)
    assert played.values(device, Signal.POWER_WATTS)[-3:] == [60.0] * 3
    assert played.warnings == ""


def test_facts_of_labels_are_the_devices(replay: Replays, write: Writes) -> None:
    """Index and board, and the pod that holds the GPU."""
    row = f"{{at}},DCGM_FI_DEV_GPU_UTIL,3,{UUID},NVIDIA L4,ml,train-0,90"
    played = replay(write(table("time,metric,gpu,UUID,modelName,namespace,pod,value", row)))
    (device,) = played.source.devices
    assert (device.index, device.name, device.board) == (3, "NVIDIA L4", "L4")
    ((holding,),) = played.snapshots[-1].holdings.values()
    assert (holding.workload.namespace, holding.workload.pod) == ("ml", "train-0")


def test_gpus_that_only_an_unknown_label_names_are_apart(replay: Replays, write: Writes) -> None:
    """Two loads are not read as one GPU's."""
    rows = ("{at},slot-a,gpu_util,90", "{at},slot-b,gpu_util,10")
    played = replay(write(table("time,slot,metric,value", *rows)))
    assert played.values("slot-a", Signal.GPU_BUSY) == [0.9] * 4
    assert played.values("slot-b", Signal.GPU_BUSY) == [0.1] * 4


def test_missing_values_are_no_zeros(replay: Replays, write: Writes) -> None:
    """Rows of other metrics are passed over, unreadable numbers are counted."""
    text = table("time,gpu,metric,value", "{at},0,gpu_util,90", "{at},0,loss,0.1") + (
        "1714550450,0,gpu_util,NA\n1714550460,0,gpu_util,high\n1714550470,0,gpu_util\n"
    )
    played = replay(write(text))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.9] * 4
    assert "unreadable sample: '1714550460 high'" in played.warnings
    assert "line of another length" in played.warnings


def test_metric_without_a_unit_is_left_out_where_it_is_ambiguous(
    replay: Replays, write: Writes
) -> None:
    """1 may be a percent or all; 0 is 0 in any unit."""
    rows = ("{at},gpu_util,1", "{at},gpu_memory_used,40", "{at},gpu_power_w,0")
    played = replay(write(table("time,metric,value", *rows)))
    assert played.readings("index:0")[-1].values == {Signal.POWER_WATTS: 0.0}
    assert "the unit of 'gpu_util' is not known" in played.warnings
    assert "the unit of 'gpu_memory_used' is not known" in played.warnings
    played = replay(write(table("time,metric,value", "{at},gpu_util,0")))
    assert played.values("index:0", Signal.GPU_BUSY)[-1] == 0.0
