"""System metrics of Weights & Biases as JSON lines."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal

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


def test_null_is_missing_and_what_cannot_be_read_is_told(replay: Replays, write: Writes) -> None:
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
    assert "log.csv:3: line of GPU metrics without a time" in played.warnings
    assert "log.csv:4: damaged or torn JSON" in played.warnings
    assert "log.csv:5: unreadable value of 'system.gpu.0.gpu': 'x'" in played.warnings


def test_gpus_of_several_nodes_are_not_one(replay: Replays, write: Writes) -> None:
    """In shared mode the key names the node."""
    said = {"_runtime": 5, "system/gpu.0.gpu/l:node-a": 10, "system/gpu.0.gpu/l:node-b": 90}
    played = replay(write(json.dumps(said) + "\n"))
    assert {device.uuid for device in played.source.devices} == {
        "index:0/l:node-a",
        "index:0/l:node-b",
    }
    assert "counted from 1970-01-01 on by '_runtime'" in played.warnings
