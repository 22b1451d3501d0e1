"""System metrics of experiment trackers, as JSON lines and as CSV."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.recordings.records import CSV_RECORDS

Replays = Callable[..., Any]
Writes = Callable[..., Path]


def _line(at: float, **gpu: Any) -> str:
    metrics = {f"system.gpu.0.{name}": value for name, value in gpu.items()}
    said = {"_wandb": True, "_timestamp": at, "_runtime": at - 100, "system.cpu": 3.5, **metrics}
    said |= {"system.gpu.1.gpu": 0, "system.gpu.process.0.gpu": 1.0}
    return json.dumps(said)


def test_each_gpu_of_a_line_is_a_row(replay: Replays, write: Writes) -> None:
    """Percent, bytes and watts in base units; GPUs by their index."""
    lines = [
        _line(1714564801.25 + 15 * at, gpu=50, memoryAllocated=25.0, powerWatts=99.5, temp=40)
        for at in range(3)
    ]
    played = replay(write("\n".join(lines) + "\n", "wandb-events.jsonl"))
    assert [device.uuid for device in played.source.devices] == ["index:0", "index:1"]
    assert played.source.interval == 15_000_000_000
    assert played.snapshots[0].wall_time == 1_714_564_801_250_000_000
    assert played.readings("index:0")[0].values == {
        Signal.GPU_BUSY: 0.5,
        Signal.MEMORY_USED: 0.25,
        Signal.POWER_WATTS: 99.5,
        Signal.TEMPERATURE_CELSIUS: 40.0,
    }
    assert played.values("index:1", Signal.GPU_BUSY) == [0.0, 0.0, 0.0]
    assert played.source.warnings == ()


def test_null_is_missing_and_what_cannot_be_read_is_reported(
    replay: Replays, write: Writes
) -> None:
    """Lines of the training itself are passed over without a word."""
    lines = [
        _line(1.0e9, gpu=None),
        json.dumps({"loss": 0.5, "_timestamp": 1}),
        json.dumps({"system.gpu.0.gpu": 5}),
        _line(1.0e9 + 15, gpu="x")[:-9],
        _line(1.0e9 + 30, gpu="x"),
    ]
    played = replay(write("\n".join(lines) + "\n"))
    first, last = played.readings("index:0")
    assert first.missing == {Signal.GPU_BUSY: Missing.NO_SAMPLE}
    assert last.missing == {Signal.GPU_BUSY: Missing.INVALID}
    assert "log.csv:3: unreadable timestamp" in played.warnings
    assert "log.csv:4: damaged or torn JSON" in played.warnings
    assert "log.csv:5: unreadable cell in 'system.gpu.0.gpu': 'x'" in played.warnings


def test_gpus_of_several_nodes_are_not_one(replay: Replays, write: Writes) -> None:
    """In shared mode the key names the node."""
    said = {"_runtime": 5, "system/gpu.0.gpu/l:node-a": 10, "system/gpu.0.gpu/l:node-b": 90}
    played = replay(write(json.dumps(said) + "\n"))
    assert {device.uuid for device in played.source.devices} == {"node-a GPU 0", "node-b GPU 0"}
    assert "counted from 1970-01-01 on by '_runtime'" in played.warnings


MLFLOW: dict[str, float] = {
    "system/gpu_0_utilization_percentage": 50,
    "system/gpu_0_memory_usage_megabytes": 2000,
    "system/gpu_0_power_usage_watts": 99.5,
    "system/cpu_utilization_percentage": 7,
}
NVITOP: dict[str, float] = {
    "metrics-daemon/host/cuda:1 (gpu:0)/gpu_utilization (%)/mean": 50,
    "metrics-daemon/host/cuda:1 (gpu:0)/gpu_utilization (%)/max": 90,
    "metrics-daemon/host/cuda:1 (gpu:0)/memory_used (MiB)/mean": 2000,
    "metrics-daemon/host/cuda:1 (gpu:0)/power_usage (W)/mean": 99.5,
}
COMET: dict[str, float] = {
    "sys.gpu.0.gpu_utilization": 50,
    "sys.gpu.0.used_memory": 2e9,
    "sys.gpu.0.power_usage": 99.5,
}


def _long(metrics: dict[str, float], at: int) -> str:
    """A line for each metric."""
    return "\n".join(
        json.dumps({"key": key, "value": value, "timestamp": at, "step": 1})
        for key, value in metrics.items()
    )


def _csv(metrics: dict[str, float], times: list[int]) -> str:
    values = ",".join(map(str, metrics.values()))
    return "\n".join([f"timestamp,{','.join(metrics)}", *(f"{at},{values}" for at in times)])


TIMES = [1714564801000 + 15000 * at for at in range(3)]


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("\n".join(_long(MLFLOW, at) for at in TIMES), 2e9),
        ("\n".join(json.dumps({**MLFLOW, "timestamp": at}) for at in TIMES), 2e9),
        ("\n".join(json.dumps({**COMET, "timestamp": at}) for at in TIMES), 2e9),
        (_csv(NVITOP, TIMES), 2000 * 2.0**20),
        (_csv(MLFLOW, TIMES) + "\n1714", 2e9),
    ],
)
def test_other_trackers_have_other_names(
    replay: Replays, write: Writes, text: str, used: float
) -> None:
    """MLflow in long and wide form, Comet, nvitop's collector; a torn line is told."""
    played = replay(write(text + "\n"))
    assert played.source.interval == 15_000_000_000
    readings = played.readings("index:0")
    assert len(readings) == 3
    assert readings[-1].values == {
        Signal.GPU_BUSY: 0.5,
        Signal.MEMORY_USED_BYTES: used,
        Signal.POWER_WATTS: 99.5,
    }
    assert ("another length" in played.warnings) is text.endswith("1714")


@pytest.mark.parametrize("time", ["Relative Time (Process)", "Relative Time (Wall)", "Wall Time"])
def test_charts_that_were_exported(replay: Replays, write: Writes, time: str) -> None:
    """Runs of a chart have GPUs of their own; bounds of each point are left out."""
    name = "{} - system/gpu.{}.gpu"
    one = [name.format("calm-sun-1", at) for at in (0, 1)]
    rows = "15,90,90,80\n30,10,10,85\n"
    played = replay(write(f'"{time}","{one[0]}","{one[0]}__MAX","{one[1]}"\n{rows}'))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.9, 0.1]
    assert played.values("index:1", Signal.GPU_BUSY) == [0.8, 0.85]
    other = name.format("wild-sea-2", 0)
    played = replay(write(f'"{time}","{one[0]}","{one[0]}__MAX","{other}"\n{rows}'))
    assert played.values("calm-sun-1 GPU 0", Signal.GPU_BUSY) == [0.9, 0.1]
    assert played.values("wild-sea-2 GPU 0", Signal.GPU_BUSY) == [0.8, 0.85]


@pytest.mark.parametrize("key", ["key", "metric"])
def test_one_metric_a_line_of_csv(replay: Replays, write: Writes, key: str) -> None:
    """As MLflow's charts and `mlflow.artifacts` give them."""
    rows = "".join(
        f"abc,system/gpu_0_utilization_percentage,{1772532000000 + 10000 * at},{90 + at}\n"
        for at in range(2)
    )
    played = replay(write(f"run_id,{key},timestamp,value\n{rows}"))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.9, 0.91]


def test_metrics_of_one_answer(replay: Replays, write: Writes) -> None:
    """MLflow's REST API has a list of them, each with its time in milliseconds."""
    metrics = [
        {"key": f"system/gpu_{gpu}_utilization_percentage", "value": 90 + gpu, "timestamp": time}
        for gpu in range(2)
        for time in (1_772_532_000_000, 1_772_532_010_000)
    ]
    played = replay(write(json.dumps({"metrics": [*metrics, {"key": "loss", "value": 1}]})))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.9, 0.9]
    assert played.values("index:1", Signal.GPU_BUSY) == [0.91, 0.91]
    assert played.source.interval == 10_000_000_000


@pytest.mark.parametrize("is_list", [True, False])
def test_metrics_of_an_export_of_comet(replay: Replays, write: Writes, *, is_list: bool) -> None:
    """A list on one line, or an object a line; numbers are texts."""
    metrics = [
        {"metricName": f"sys.gpu.0.{name}", "metricValue": value, "timestamp": 1714564801000 + at}
        for at in (0, 60_000)
        for name, value in (("gpu_utilization", "34.0"), ("used_memory", "1034000000"))
    ]
    text = json.dumps(metrics) if is_list else "\n".join(map(json.dumps, metrics))
    assert replay(write(text)).values("index:0", Signal.GPU_BUSY) == [0.34, 0.34]


def test_long_heading_takes_no_longer_than_its_length() -> None:
    """Many ends of a run's name are no reason to try each."""
    text = f"Wall Time,{'a - ' * 16_000}\n"
    assert not CSV_RECORDS.recognizes((text,) * 64)
