"""What `gpustat --json` prints."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal

Replays = Callable[..., Any]
Writes = Callable[..., Path]


def _answer(second: int, busy: int | None) -> dict[str, Any]:
    return {
        "hostname": "node",
        "driver_version": "550.54.14",
        "query_time": f"2024-05-01T12:00:0{second}.250000",
        "gpus": [
            {
                "index": 3,
                "uuid": "GPU-3",
                "name": "NVIDIA L4",
                "temperature.gpu": 40,
                "utilization.gpu": busy,
                "utilization.enc": 0,
                "power.draw": None,
                "memory.used": 1024,
                "memory.total": 23034,
                "processes": [{"username": "a", "gpu_memory_usage": 1000, "pid": 1}],
            }
        ],
    }


@pytest.mark.parametrize("indent", [None, 4])
def test_answers_one_behind_the_other(replay: Replays, write: Writes, indent: int | None) -> None:
    """Values in base units; null is missing and never zero."""
    answers = [_answer(1, 50), _answer(2, None), _answer(3, 52)]
    played = replay(write("\n".join(json.dumps(answer, indent=indent) for answer in answers)))
    assert played.source.interval == 1_000_000_000
    assert played.snapshots[0].wall_time == 1_714_564_801_250_000_000
    assert played.values("GPU-3", Signal.GPU_BUSY) == [0.5, None, 0.52]
    reading = played.readings("GPU-3")[0]
    assert reading.values[Signal.MEMORY_USED_BYTES] == 2.0**30
    assert reading.values[Signal.ENCODER] == 0.0
    assert reading.missing == {Signal.POWER_WATTS: Missing.NO_SAMPLE}
    [device] = played.source.devices
    assert (device.board, device.index) == ("L4", 3)


@pytest.mark.parametrize("listed", ["(Not Supported)", None, 3, "null", "[1", [2]])
def test_list_of_processes_that_is_none_is_of_no_process(
    replay: Replays, write: Writes, listed: object
) -> None:
    """Where the driver tells none, the GPU is read nevertheless."""
    answers = [_answer(second, 50) for second in (1, 2, 3)]
    answers[1]["gpus"][0]["processes"] = listed
    played = replay(write("\n".join(map(json.dumps, answers))))
    assert played.values("GPU-3", Signal.GPU_BUSY) == [0.5] * 3
    assert not played.readings("GPU-3")[1].processes
    assert len(played.readings("GPU-3")[2].processes) == 1


def test_invalid_report_is_refused_with_the_reason(replay: Replays, write: Writes) -> None:
    """A time that is none, an empty GPU, a value of another kind, a torn end."""
    broken = _answer(2, 1)
    broken["gpus"] += [{}, 5, {"index": 0, "utilization.gpu": "x"}]
    answers = [_answer(1, 1), broken, {**_answer(3, 1), "query_time": "noon"}]
    text = "\n".join(map(json.dumps, answers)) + json.dumps(_answer(4, 1))[:50]
    played = replay(write(text))
    assert len(played.snapshots) == 2
    assert "log.csv:3: unreadable timestamp: 'noon'" in played.warnings
    assert "log.csv:2: unreadable cell in 'gpu utilization.gpu': 'x'" in played.warnings
    assert "damaged or torn JSON" in played.warnings
