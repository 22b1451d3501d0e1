"""JSON that scripts log, whose keys name what their values are."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.errors import RecordingError
from rightsizer.model.signal import Signal

Replays = Callable[..., Any]
Writes = Callable[..., Path]

START = 1714550400


def flat(at: int) -> dict[str, Any]:
    """A record of one GPU."""
    return {"timestamp": START + at, "gpu_index": 1, "gpu_util": 90, "gpu_mem_used_mb": 1024}


def of_gpus(at: int) -> dict[str, Any]:
    """A record with a list of GPUs, without their numbers."""
    idle = {"utilization_pct": 0, "memory": {"used_mb": 1}}
    busy = {"utilization_pct": 90, "memory": {"used_mb": 1024}}
    return {"ts": f"2024-05-01T08:00:0{at}Z", "loss": None, "gpus": [idle, busy]}


def by_number(at: int) -> dict[str, Any]:
    """A record with an object for each GPU, by its number."""
    gpus = {"0": {"util": 0, "mem_used": 4}, "1": {"util": 90, "mem_used": 1024}}
    return {"system": {"time": START + at}, "gpu": gpus}


@pytest.mark.parametrize("record", [flat, of_gpus, by_number])
@pytest.mark.parametrize(
    "text",
    [
        lambda records: "\n".join(map(json.dumps, records)),
        json.dumps,
        lambda records: json.dumps({"name": "run", "samples": records}, indent=1),
        lambda records: "\n".join(
            json.dumps({"data": record, "level": "info"}) for record in records
        ),
    ],
    ids=["lines", "list", "document", "within"],
)
def test_keys_tell_what_values_are(
    replay: Replays,
    write: Writes,
    record: Callable[[int], dict[str, Any]],
    text: Callable[[Any], str],
) -> None:
    """A record a line, or in a list; outer keys count where they are about a GPU."""
    played = replay(write(text([record(at) for at in range(4)]) + "\n", "log.json"))
    assert played.values("index:1", Signal.GPU_BUSY) == [0.9] * 4
    assert played.values("index:1", Signal.MEMORY_USED_BYTES) == [2.0**30] * 4
    assert played.source.interval == 10**9
    assert "write it as CSV" in played.warnings


def test_other_events_are_passed_over(replay: Replays, write: Writes) -> None:
    """Null is a missing value; a torn line is counted."""
    lines = [
        {"event": "start", "argv": ["x"]},
        flat(0),
        {"timestamp": START + 1, "loss": 0.5},
        flat(2) | {"gpu_util": None},
        flat(3),
    ]
    path = write("\n".join(map(json.dumps, lines)) + '\n{"timestamp": 17145', "log.json")
    played = replay(path)
    assert played.values("index:1", Signal.GPU_BUSY) == [0.9, None, 0.9]
    assert "damaged or torn JSON" in played.warnings


def test_json_without_gpus_is_refused(replay: Replays, write: Writes) -> None:
    """The host's load is no GPU's."""
    record = {"timestamp": START, "cpu": {"util": 90}, "util": 3}
    with pytest.raises(RecordingError, match="write it as CSV with the columns"):
        replay(write(json.dumps(record), "log.json"))


def test_deep_objects_are_no_crash(replay: Replays, write: Writes) -> None:
    """They are counted; the others are read."""
    deep = '{"a":' * 600 + json.dumps(flat(1)) + "}" * 600
    played = replay(write("\n".join((json.dumps(flat(0)), deep, json.dumps(flat(2)), ""))))
    assert 2 <= len(played.values("index:1", Signal.GPU_BUSY)) <= 3


def test_values_beside_a_list_of_gpus_are_not_theirs(replay: Replays, write: Writes) -> None:
    """Memory and power are the host's there, and a name is the run's; a mean is of no GPU."""
    beside = {"name": "run-7", "memory_used_mb": 50_000, "power_w": 900, "gpu_util": 50}
    records = [beside | of_gpus(at) | {"gpu_model": "NVIDIA L4"} for at in range(4)]
    played = replay(write("\n".join(map(json.dumps, records)) + "\n", "log.json"))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.0] * 4
    assert played.values("index:1", Signal.MEMORY_USED_BYTES) == [2.0**30] * 4
    assert played.values("index:1", Signal.POWER_WATTS) == [None] * 4
    assert {device.board for device in played.source.devices} == {"L4"}


def test_records_within_an_object_are_of_its_node(replay: Replays, write: Writes) -> None:
    """A document a node: GPUs of one index are several."""
    nodes = [{"host": host, "samples": [flat(at) for at in range(4)]} for host in ("a", "b")]
    played = replay(write("\n".join(map(json.dumps, nodes)) + "\n", "log.json"))
    assert [device.uuid for device in played.source.devices] == ["a GPU 1", "b GPU 1"]


def test_all_lists_of_gpus_are_read(replay: Replays, write: Writes) -> None:
    """A list for each node, without names: the GPUs are counted on."""
    record = {"nodes": {host: {"gpus": of_gpus(0)["gpus"]} for host in ("a", "b")}}
    records = [{"time": START + at, **record} for at in range(4)]
    played = replay(write("\n".join(map(json.dumps, records)) + "\n", "log.json"))
    assert played.values("index:3", Signal.GPU_BUSY) == [0.9] * 4


@pytest.mark.parametrize("key", [None, "gpu_data"])
def test_values_beside_their_units_are_read(
    replay: Replays, write: Writes, key: str | None
) -> None:
    """As amd-smi writes them: its objects of a topic, its MB, and GPU 3 alone in its list."""

    def of(value: float, unit: str) -> dict[str, Any]:
        return {"value": value, "unit": unit}

    gpu = {
        "gpu": 3,
        "usage": {"gfx_activity": of(97, "%"), "umc_activity": of(40, "%"), "mm_activity": "N/A"},
        "power": {"socket_power": of(712, "W"), "gfx_voltage": "N/A"},
        "temperature": {"edge": "N/A", "mem": of(38, "C")},
        "mem_usage": {"total_vram": of(196592, "MB"), "used_vram": of(5000, "MB")},
    }
    time = {"timestamp": START}
    played = replay(write(json.dumps({**time, key: [gpu]} if key else time | gpu) + "\n"))
    assert played.readings("index:3")[0].values == {
        Signal.GPU_BUSY: 0.97,
        Signal.POWER_WATTS: 712.0,
        Signal.MEMORY_TOTAL_BYTES: 196592 * 2.0**20,
        Signal.MEMORY_USED_BYTES: 5000 * 2.0**20,
    }


def test_host_in_an_object_of_its_own_is_not_the_gpu(replay: Replays, write: Writes) -> None:
    """A value of the GPU may stand in any object, one of the host in the host's alone."""
    record = {"ts": START, "gpu": {"util_pct": 90}, "cpu": {"util_pct": 5, "power_w": 90}}
    played = replay(write(json.dumps(record) + "\n"))
    assert played.readings("index:0")[0].values == {Signal.GPU_BUSY: 0.9}


@pytest.mark.parametrize("between", [" ", "\n"], ids=["before", "above"])
def test_time_before_or_above_an_object_is_its_time(
    replay: Replays, write: Writes, between: str
) -> None:
    """As collectors of logs, or a loop of nvtop, write it; the object's own time counts first."""
    text = "".join(
        f"2024-05-01T08:00:0{at}Z{between}{json.dumps({'gpu_index': 1, 'gpu_util': 9 * at})}\n"
        for at in range(1, 4)
    )
    played = replay(write(text, "log.json"))
    assert played.values("index:1", Signal.GPU_BUSY) == [0.09, 0.18, 0.27]
    assert [snapshot.wall_time // 10**9 - START for snapshot in played.snapshots] == [1, 2, 3]
    own = "".join(f"2024-05-01T09:00:00Z {json.dumps(flat(at))}\n" for at in range(3))
    assert replay(write(own)).snapshots[2].wall_time == (START + 2) * 10**9


def test_objects_behind_one_time_all_have_it(replay: Replays, write: Writes) -> None:
    """A logger may write the GPUs of a moment on one line."""
    text = "".join(
        f"2024-05-01T08:00:0{at}Z "
        + " ".join(json.dumps({"gpu_index": gpu, "gpu_util": 9 * at + gpu}) for gpu in (0, 1))
        + "\n"
        for at in range(1, 6)
    )
    played = replay(write(text, "log.json"))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.09, 0.18, 0.27, 0.36, 0.45]
    assert played.values("index:1", Signal.GPU_BUSY) == [0.1, 0.19, 0.28, 0.37, 0.46]
    assert [snapshot.wall_time // 10**9 - START for snapshot in played.snapshots] == [1, 2, 3, 4, 5]


def test_records_that_have_a_key_of_another_tool_are_read(replay: Replays, write: Writes) -> None:
    """The tool is known by what its output begins with."""
    lines = [
        json.dumps({"timestamp": START + at, "gpu": 0, "util_pct": 50, "resourceMetrics": "none"})
        for at in range(3)
    ]
    assert (
        replay(write("\n".join(lines), "gpu.jsonl")).values("index:0", Signal.GPU_BUSY) == [0.5] * 3
    )
