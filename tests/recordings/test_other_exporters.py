"""Prometheus metrics of exporters that are known by the words of their metrics alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.signal import Signal

Replays = Callable[..., Any]
Writes = Callable[..., Path]

UUID = "GPU-5fd4f087-86f3-7a43-b711-4771313afc50"
START = 1_772_532_000
MIB = float(2**20)


def _answer(metrics: dict[str, list[float]], labels: dict[str, str]) -> str:
    """An answer to a query over a range, a sample a second."""
    result = [
        {
            "metric": {"__name__": name, **labels},
            "values": [[START + at, str(value)] for at, value in enumerate(values)],
        }
        for name, values in metrics.items()
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def _page(metrics: dict[str, list[float]], labels: dict[str, str]) -> str:
    """Scrapes below each other, with times."""
    named = ",".join(f'{name}="{value}"' for name, value in labels.items())
    count = len(next(iter(metrics.values())))
    return "".join(
        f"{name}{{{named}}} {values[at]} {(START + at) * 1000}\n"
        for at in range(count)
        for name, values in metrics.items()
    )


@pytest.mark.parametrize(
    ("device", "labels", "factors"),
    [
        (
            UUID,
            {"minor_number": "1", "name": "NVIDIA L4", "uuid": UUID, "instance": "a:9445"},
            {
                "nvidia_gpu_duty_cycle": 1,
                "nvidia_gpu_memory_used_bytes": MIB,
                "nvidia_gpu_power_usage_milliwatts": 1000,
            },
        ),
        (
            UUID,
            {"acc_id": UUID, "make": "nvidia", "model": "NVIDIA L4"},
            {
                "container_accelerator_duty_cycle": 1,
                "container_accelerator_memory_used_bytes": MIB,
                "gpu_power_watts": 1,
            },
        ),
        (
            "a GPU 0",
            {"GpuDeviceName": "NVIDIA L4", "GpuIndex": "0", "instance": "a"},
            {
                "ray_node_gpus_utilization": 1,
                "ray_node_gram_used": 1,
                "ray_node_gpu_power_watts": 1,
            },
        ),
        (
            UUID,
            {"gpu": "NVIDIA L4", "name": "NVIDIA L4", "uuid": UUID, "index": "0"},
            {
                "all_smi_gpu_utilization": 1,
                "all_smi_gpu_memory_used_bytes": MIB,
                "all_smi_gpu_power_consumption_watts": 1,
            },
        ),
    ],
    ids=["nvidia_gpu_prometheus_exporter", "cAdvisor", "Ray", "all-smi"],
)
def test_metrics_are_read_by_their_words(
    replay: Replays,
    write: Writes,
    device: str,
    labels: dict[str, str],
    factors: dict[str, float],
) -> None:
    """In the units of their names, or those that their values can only have."""
    of_gpu = ((0, 80, 90), (600, 2000, 2000), (20, 60, 60))
    metrics = {
        name: [value * factor for value in values]
        for (name, factor), values in zip(factors.items(), of_gpu, strict=True)
    }
    for spell in (_answer, _page):
        played = replay(write(spell(metrics, labels)))
        (found,) = played.source.devices
        assert (found.uuid, found.name) == (device, "NVIDIA L4")
        assert played.readings(device)[-1].values == {
            Signal.GPU_BUSY: 0.9,
            Signal.MEMORY_USED_BYTES: 2000 * MIB,
            Signal.POWER_WATTS: 60.0,
        }


def test_metrics_of_the_host_are_not_the_gpus(replay: Replays, write: Writes) -> None:
    """Memory and power without a word for a GPU are of something else."""
    metrics: dict[str, list[float]] = {
        "node_memory_used_bytes": [9 * MIB, 8 * MIB],
        "power_watts": [500.0, 600.0],
        "gpu_utilization": [80.0, 90.0],
    }
    played = replay(write(_answer(metrics, {"gpu": "0", "instance": "a"})))
    assert played.readings("a GPU 0")[-1].values == {Signal.GPU_BUSY: 0.9}


def test_memory_of_the_host_in_a_table_is_not_the_gpus(replay: Replays, write: Writes) -> None:
    """Beside metrics of the host, where neither name nor label is of a GPU."""
    rows = ("gpu_utilization,90", "memory_used,20000", "cpu_percent,12")
    lines = (f"{START + at},a,{row}\n" for at in range(3) for row in rows)
    played = replay(write("".join(["time,host,metric,value\n", *lines])))
    assert played.readings("a GPU 0")[-1].values == {Signal.GPU_BUSY: 0.9}


def test_units_are_inferred_however_late_a_metric_begins(replay: Replays, write: Writes) -> None:
    """Exports write one metric after the other."""
    spans = {"gpu_util": range(10_000), "gpu_memory_used": range(10_000, 10_010)}
    lines = (
        f"{START + at},0,{metric},{90 if metric == 'gpu_util' else 2000}\n"
        for metric, span in spans.items()
        for at in span
    )
    played = replay(write("".join(["time,gpu,metric,value\n", *lines])))
    assert played.readings("index:0")[-1].values[Signal.MEMORY_USED_BYTES] == 2000 * MIB


def test_clearml_names_the_metric_in_its_variant(replay: Replays, write: Writes) -> None:
    """Its metric is a group of charts."""
    rows = (
        ":monitor:gpu,gpu_1_utilization,90",
        ":monitor:machine,memory_used_gb,20.5",
        ":monitor:machine,cpu_usage,12",
    )
    lines = (f"{(START + at) * 1000},{row}\n" for at in range(3) for row in rows)
    played = replay(write("".join(["timestamp,metric,variant,value\n", *lines])))
    assert [device.uuid for device in played.source.devices] == ["index:1"]
    assert played.readings("index:1")[-1].values == {Signal.GPU_BUSY: 0.9}
