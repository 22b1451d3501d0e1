"""JSON of range queries and exports."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.errors import RecordingError
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal

Replays = Callable[..., Any]
Writes = Callable[..., Path]

START = 1_714_560_000


def _labels(gpu: int, name: str = "DCGM_FI_DEV_GPU_UTIL") -> dict[str, str]:
    return {"__name__": name, "gpu": str(gpu), "UUID": f"GPU-{gpu}", "modelName": "NVIDIA L4"}


def _series(gpu: int, values: list[str]) -> dict[str, Any]:
    pairs = [[START + 15 * at + 0.25, value] for at, value in enumerate(values)]
    return {"metric": _labels(gpu), "values": pairs}


def _answer(*series: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "matrix", "result": series}}


BOTH = (_series(0, ["0", "0", "0"]), _series(1, ["90", "91", "92"]))
EXPORT = "".join(
    json.dumps(
        {
            "metric": _labels(gpu),
            "values": [float(value) for _, value in BOTH[gpu]["values"]],
            "timestamps": [int(time * 1000) for time, _ in BOTH[gpu]["values"]],
        }
    )
    + "\n"
    for gpu in (0, 1)
)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(_answer(*BOTH)),
        json.dumps(_answer(*BOTH), indent=2),
        json.dumps(BOTH, separators=(",", ":")),
        "".join(json.dumps(_answer(one)) + "\n" for one in BOTH),
        EXPORT,
    ],
    ids=["answer", "indented", "result alone", "two answers", "a series a line"],
)
def test_every_form_gives_the_same(replay: Replays, write: Writes, text: str) -> None:
    """Series of one time are one snapshot, whichever way they were written down."""
    played = replay(write(text, "range.json"))
    assert played.source.interval == 15_000_000_000
    assert [snapshot.wall_time for snapshot in played.snapshots] == [
        (START + at * 15) * 10**9 + 250_000_000 for at in range(3)
    ]
    assert played.values("GPU-0", Signal.GPU_BUSY) == [0.0, 0.0, 0.0]
    assert played.values("GPU-1", Signal.GPU_BUSY) == [0.9, 0.91, 0.92]
    assert [device.board for device in played.source.devices] == ["L4", "L4"]
    assert played.source.warnings == ()


def test_not_a_number_is_missing(replay: Replays, write: Writes) -> None:
    """NaN and infinities are no zeros; what is no pair is counted with its line."""
    broken = _series(0, ["NaN", "50", "+Inf"])
    broken["values"] += [["x", "1"], 5]
    played = replay(write(json.dumps(_answer(broken))))
    assert played.values("GPU-0", Signal.GPU_BUSY) == [None, 0.5, None]
    assert played.readings("GPU-0")[0].missing == {Signal.GPU_BUSY: Missing.INVALID}
    assert 'log.csv:1: unreadable sample: \'["x", "1"]\', the first of 2' in played.warnings


def test_series_longer_than_a_piece(replay: Replays, write: Writes) -> None:
    """A series comes whole wherever the file is cut for reading."""
    values = [str(at % 101) for at in range(8000)]
    played = replay(write(json.dumps(_answer(_series(0, values), _series(1, values)), indent=1)))
    wanted = [float(value) for value in values]
    got = [100 * value for value in played.values("GPU-1", Signal.GPU_BUSY)]
    assert got == pytest.approx(wanted)
    assert len(played.snapshots) == 8000


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_that_breaks_off(
    replay: Replays, tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    """The whole series before the tear count, and the torn one is told."""
    text = json.dumps(_answer(*BOTH))[:-60].encode()
    path = tmp_path / "range.json"
    path.write_bytes(pack(text))
    played = replay(path)
    assert [device.uuid for device in played.source.devices] == ["GPU-0"]
    assert "damaged or torn JSON" in played.warnings


def test_a_damaged_series_costs_no_other(replay: Replays, write: Writes) -> None:
    """What stands behind it is read, and the damage is told."""
    text = json.dumps(_answer(*BOTH, _series(2, ["5"]))).replace('"91"]', '"91"', 1)
    played = replay(write(text))
    assert [device.uuid for device in played.source.devices] == ["GPU-0", "GPU-2"]
    assert "log.csv:1: damaged or torn JSON" in played.warnings


def test_a_series_without_a_name(replay: Replays, write: Writes) -> None:
    """An aggregate has lost the metric's name; the error says what to ask for."""
    series = {"metric": {"gpu": "0"}, "values": [[START, "1"]]}
    with pytest.raises(RecordingError, match="without a metric's name; ask for the metrics"):
        replay(write(json.dumps(_answer(series))))


def test_an_error_in_the_place_of_an_answer(replay: Replays, write: Writes) -> None:
    """What the server said is told."""
    text = '{"status":"error","errorType":"bad_data","error":"parse error"}'
    with pytest.raises(RecordingError, match=r"log.csv:1: holds an error.*parse error"):
        replay(write(text))


def test_a_dump_with_the_name_among_the_labels(replay: Replays, write: Writes) -> None:
    """`promtool tsdb dump` sorts labels, and capitals come before the name."""
    text = "".join(
        f'{{Hostname="n1", UUID="GPU-{gpu}", __name__="DCGM_FI_DEV_GPU_UTIL"{more}}} '
        f"{gpu * 90} {(START + 15 * at) * 1000}\n"
        for gpu, more in ((0, ', gpu="0"'), (1, ""))
        for at in range(3)
    )
    played = replay(write(text))
    assert played.values("GPU-0", Signal.GPU_BUSY) == [0.0, 0.0, 0.0]
    assert played.values("GPU-1", Signal.GPU_BUSY) == [0.9, 0.9, 0.9]


def test_metrics_of_nvidia_gpu_exporter_are_those_of_nvidia_smi(
    replay: Replays, write: Writes
) -> None:
    """In base units; it leaves out how uuids begin, and a GPU's name has a metric of its own."""
    uuid = "1f0c2d3e-0000-1111-2222-333344445555"
    series = {
        "nvidia_smi_gpu_info": 1,
        "nvidia_smi_utilization_gpu_ratio": 0.35,
        "nvidia_smi_memory_used_bytes": 2**30,
        "nvidia_smi_power_draw_watts": 61.5,
        "nvidia_smi_clocks_current_sm_clock_hz": 1.98e9,
        "nvidia_smi_fan_speed_ratio": 0.3,
    }
    result = [
        {
            "metric": {"__name__": name, "uuid": uuid, "name": "NVIDIA L4"},
            "values": [[1_767_571_200 + 15 * at, str(value)] for at in range(2)],
        }
        for name, value in series.items()
    ]
    found = replay(write(json.dumps({"data": {"resultType": "matrix", "result": result}})))
    (device,) = found.source.devices
    assert (device.uuid, device.board) == (f"GPU-{uuid}", "L4")
    assert found.readings(device.uuid)[-1].values == {
        Signal.GPU_BUSY: 0.35,
        Signal.MEMORY_USED_BYTES: 2**30,
        Signal.POWER_WATTS: 61.5,
        Signal.SM_CLOCK_HERTZ: 1.98e9,
    }
    lines = "".join(
        f'{name}{{name="NVIDIA L4",uuid="{uuid}"}} {value} {1_767_571_200_000 + 15_000 * at}\n'
        for at in range(2)
        for name, value in series.items()
    )
    text = replay(write(lines, "scrapes.prom"))
    assert text.readings(device.uuid)[-1].values == found.readings(device.uuid)[-1].values


@pytest.mark.parametrize("reasons", ["clocks_event_reasons", "clocks_throttle_reasons"])
def test_nvidia_gpu_exporter_tells_throttling_and_the_limits_of_a_gpu(
    replay: Replays, write: Writes, reasons: str
) -> None:
    """Its name is a label of one metric alone; reasons are named as the driver names them."""
    uuid = "1f0c2d3e-0000-1111-2222-333344445555"
    series = {
        "gpu_info": 1,
        f"{reasons}_active": 0x20,
        f"{reasons}_supported": 511,
        "index": 3,
        "power_default_limit_watts": 72,
        "power_max_limit_watts": 75,
        "pcie_link_gen_max": 4,
        "pcie_link_gen_current": 1,
        "pcie_link_width_max": 16,
        "pcie_link_width_current": 8,
        "clocks_current_graphics_clock_hz": 1.2e9,
        "clocks_max_graphics_clock_hz": 2.04e9,
    }
    result: list[dict[str, Any]] = []
    lines: list[str] = []
    for name, value in series.items():
        labels = {"uuid": uuid} | ({"name": "NVIDIA L4"} if name == "gpu_info" else {})
        written = ",".join(f'{label}="{text}"' for label, text in labels.items())
        times = [1_767_571_200 + 15 * at for at in range(2)]
        result.append(
            {
                "metric": {"__name__": f"nvidia_smi_{name}", **labels},
                "values": [[time, str(value)] for time in times],
            }
        )
        lines += (f"nvidia_smi_{name}{{{written}}} {value} {time}000\n" for time in times)
    for text in (json.dumps({"data": {"resultType": "matrix", "result": result}}), "".join(lines)):
        found = replay(write(text))
        (device,) = found.source.devices
        assert (device.board, device.index, device.power_limit_watts) == ("L4", 3, 72)
        assert (device.pcie_generation_maximum, device.pcie_width_maximum) == (4, 16)
        assert found.readings(device.uuid)[-1].values == {
            Signal.CLOCK_EVENT_REASONS: 0x20,
            Signal.PCIE_LINK_GENERATION: 1,
            Signal.PCIE_LINK_WIDTH: 8,
            Signal.SM_CLOCK_HERTZ: 1.2e9,
            Signal.SM_CLOCK_MAXIMUM_HERTZ: 2.04e9,
        }
