"""Prometheus text with times, of a dcgm-exporter or of our own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.dcgm_fields import DCGM_FIELDS
from rightsizer.model.errors import DriverError, RecordingError
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.units import convert
from rightsizer.telemetry.dcgm.series import DcgmExpositionParser

Replays = Callable[..., Any]
Writes = Callable[..., Path]
BUSY = "GPU-aaaaaaaa-0000-0000-0000-000000000000"
IDLE = "GPU-bbbbbbbb-0000-0000-0000-000000000000"


def test_scrapes_one_after_the_other(replay: Replays, data: Path) -> None:
    """Every scrape is a snapshot; the better of two fields with one signal is believed."""
    played = replay(data / "dcgm_scrapes.prom")
    assert played.source.interval == 15_000_000_000
    assert [len(snapshot.readings) for snapshot in played.snapshots] == [2, 2, 2]
    assert played.values(BUSY, Signal.GPU_BUSY) == [0.4, 0.41, 0.42]
    assert played.values(BUSY, Signal.ENERGY_JOULES) == [1000.0, 1900.0, 2800.0]


def test_a_blank_of_dcgm_is_invalid(replay: Replays, data: Path) -> None:
    """2^63 - 14 is no ratio; the weaker field that has a value stands in."""
    reading = replay(data / "dcgm_scrapes.prom").readings(IDLE)[0]
    assert reading.values[Signal.GPU_BUSY] == 0.0
    assert reading.missing == {Signal.MEMORY_TEMPERATURE_CELSIUS: Missing.NOT_SUPPORTED}


def test_labels_tell_device_and_holder(replay: Replays, data: Path) -> None:
    """Memory in all is the sum of its parts, as no exporter gives it by default."""
    played = replay(data / "dcgm_scrapes.prom")
    device = played.source.devices[0]
    assert (device.uuid, device.board, device.index) == (BUSY, "L4", 0)
    assert device.memory_total_bytes == (10000 + 470 + 12563) * 2.0**20
    [holding] = played.snapshots[-1].holdings[BUSY]
    assert (holding.workload.namespace, holding.workload.pod) == ("shop", "ranker-0")
    assert played.snapshots[-1].holdings.get(IDLE, ()) == ()


@pytest.mark.parametrize("is_by_series", [False, True])
def test_size_of_memory_is_not_a_pods_part(
    replay: Replays,
    write: Writes,
    is_by_series: bool,  # noqa: FBT001 - a parameter.
) -> None:
    """dcgm-exporter 4.6 writes the pods' parts before the GPU's memory in use."""
    gpu = f'gpu="0",UUID="{BUSY}",modelName="NVIDIA Unknown"'
    pod = 'namespace="n",pod'
    sizes = {
        f'DCGM_FI_DEV_FB_USED{{{gpu},{pod}="x"}}': 10_000,
        f'DCGM_FI_DEV_FB_USED{{{gpu},{pod}="y"}}': 30_000,
        f"DCGM_FI_DEV_FB_USED{{{gpu}}}": 40_000,
        f"DCGM_FI_DEV_FB_FREE{{{gpu}}}": 41_000,
        f"DCGM_FI_DEV_FB_RESERVED{{{gpu}}}": 559,
    }
    samples = [(head, at) for at in range(10) for head in sizes]
    text = "".join(
        f"{head} {sizes[head] + 9 * at} {1_700_000_000 + 10 * at}000\n"
        for head, at in (sorted(samples) if is_by_series else samples)
    )
    played = replay(write(f"# TYPE x gauge\n{text}", "parts.prom"))
    assert played.source.devices[0].memory_total_bytes == 81_559 * 2.0**20


def test_series_one_after_the_other(replay: Replays, data: Path, write: Writes) -> None:
    """A dump that has all times of one series before the next gives the same readings."""
    scrapes = (data / "dcgm_scrapes.prom").read_text().splitlines(keepends=True)
    samples = sorted(line for line in scrapes if not line.startswith("#"))
    by_scrape = replay(data / "dcgm_scrapes.prom")
    by_series = replay(write("# a dump\n# TYPE x gauge\n" + "".join(samples), "dump.prom"))
    assert [snapshot.readings for snapshot in by_series.snapshots] == [
        snapshot.readings for snapshot in by_scrape.snapshots
    ]


def test_openmetrics_has_seconds(replay: Replays, write: Writes) -> None:
    """Times with a point are seconds, and exemplars are passed over."""
    text = (
        "# TYPE rightsizer_gpu_busy_ratio gauge\n"
        'rightsizer_gpu_busy_ratio{uuid="GPU-1"} 0.5 1717200000.250 # {trace="x"} 1\n'
        'rightsizer_memory_used_bytes{uuid="GPU-1"} 1e9 1717200000.250\n'
        'rightsizer_device_info{uuid="GPU-1",gpu="3",model="NVIDIA L4"} 1 1717200000.250\n'
        "# EOF\n"
    )
    played = replay(write(text))
    [reading] = played.readings("GPU-1")
    assert reading.time == 1_717_200_000_250_000_000
    assert reading.values == {Signal.GPU_BUSY: 0.5, Signal.MEMORY_USED_BYTES: 1e9}
    assert (played.source.devices[0].index, played.source.devices[0].board) == (3, "L4")


def test_pods_that_share_a_gpu_have_equal_parts(replay: Replays, write: Writes) -> None:
    """A time-sliced GPU is exported once a pod; the parts sum to one and readings are not added."""
    line = 'DCGM_FI_DEV_GPU_UTIL{{gpu="0",uuid="GPU-1",pod="{}",namespace="n"}} 60 1717200000000\n'
    played = replay(
        write("# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n" + line.format("a") + line.format("b"))
    )
    assert played.values("GPU-1", Signal.GPU_BUSY) == [0.6]
    holdings = played.snapshots[0].holdings["GPU-1"]
    assert [(holding.workload.pod, holding.share_ratio) for holding in holdings] == [
        ("a", 0.5),
        ("b", 0.5),
    ]


@pytest.mark.parametrize("step", [1, -1])
def test_parts_of_pods_are_no_readings_of_the_gpu(
    replay: Replays, write: Writes, step: int
) -> None:
    """dcgm-exporter 4.6 writes each pod's part of the busy share beside the GPU's."""
    busy = {"": 60, ',pod="a",namespace="n"': 45, ',pod="b",namespace="n"': 0}
    written = [
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",uuid="GPU-1"{holder}}} {value} {1717200000000 + 15000 * at}'
        for at in range(60)
        for holder, value in list(busy.items())[::step]
    ]
    played = replay(write("\n".join(written) + "\n"))
    assert set(played.values("GPU-1", Signal.GPU_BUSY)) == {0.6}
    assert len(played.snapshots[-1].holdings["GPU-1"]) == 2


def test_samples_without_times_are_refused(replay: Replays, write: Writes) -> None:
    """A single scrape saved with curl is no recording; the error says what would be."""
    text = '# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"} 5\n'
    with pytest.raises(RecordingError, match=r"log.csv:2: the sample has no timestamp; write the"):
        replay(write(text))


@pytest.mark.parametrize(
    "date",
    ["17172000{:02d}", "=== 2024-06-01T00:00:{:02d}Z ===", "Sat Jun  1 00:00:{:02d} UTC 2024"],
)
def test_a_page_has_the_time_written_above_it(replay: Replays, write: Writes, date: str) -> None:
    """As a loop over `date` and `curl` writes them."""
    page = "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\nDCGM_FI_DEV_GPU_UTIL{{{}}} {}\n"
    labels = 'gpu="0",UUID="GPU-1"'
    played = replay(
        write("".join(f"{date.format(at)}\n{page.format(labels, at)}" for at in range(0, 60, 15)))
    )
    assert played.values("GPU-1", Signal.GPU_BUSY) == [0.0, 0.15, 0.3, 0.45]
    assert played.source.interval == 15 * 10**9
    assert played.snapshots[0].wall_time == 1717200000 * 10**9


def test_a_line_that_is_no_sample_is_counted(replay: Replays, write: Writes) -> None:
    """A torn last line costs itself only."""
    text = (
        'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"} 5 1717200000000\n'
        'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"} x 1717200001000\n'
        'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"} 6'
    )
    played = replay(write(text))
    assert played.values("GPU-1", Signal.GPU_BUSY) == [0.05]
    assert ":2: unreadable sample" in played.warnings
    assert ":3: torn last line" in played.warnings


@pytest.mark.parametrize("uuid", ["UUID", "uuid"])
@pytest.mark.parametrize("host", ["Hostname", "hostname"])
@pytest.mark.parametrize(
    ("labels", "pod"),
    [
        ('pod="p",namespace="n",container="c"', "p"),
        ('pod_name="p",pod_namespace="n",container_name="c"', "p"),
        ('exported_pod="p",exported_namespace="n",pod="dcgm-exporter-x1"', "p"),
        ('pod="nvidia-dcgm-exporter-x1",namespace="gpu-operator"', None),
        ('pod="",namespace=""', None),
        ('pod="",hpc_job="4711"', ""),
    ],
)
def test_one_scrape_in_every_style_of_labels(
    uuid: str, host: str, labels: str, pod: str | None
) -> None:
    """Old and new spellings name the same device and holder; the exporter's own pod holds none."""
    text = f'DCGM_FI_DEV_FB_USED{{gpu="2",{uuid}="GPU-1",{host}="h",{labels}}} 5\n'
    scrape = DcgmExpositionParser(built_in()).read(text)
    assert [(device.uuid, device.index) for device in scrape.devices] == [("GPU-1", 2)]
    assert scrape.readings["GPU-1"].values == {Signal.MEMORY_USED_BYTES: 5 * 2.0**20}
    found = [holding.workload.pod for holding in scrape.readings["GPU-1"].holdings]
    assert found == ([] if pod is None else [pod])


def test_one_scrape_of_a_mig_gpu() -> None:
    """An instance is a device of its own, and what tells of the whole card is not its reading."""
    labels = 'gpu="0",UUID="GPU-1",modelName="NVIDIA A100-SXM4-80GB"'
    instance = f'{labels},GPU_I_PROFILE="2g.20gb",GPU_I_ID="3"'
    scrape = DcgmExpositionParser(built_in()).read(
        f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} 300\n"
        f"DCGM_FI_DEV_POWER_USAGE{{{instance}}} 300\n"
        f"DCGM_FI_PROF_SM_ACTIVE{{{instance}}} 1.04\n"
    )
    parent, part = scrape.devices
    assert (parent.has_mig_instances, part.uuid) == (True, "GPU-1/gi3")
    assert part.mig is not None
    assert (part.mig.parent_uuid, part.mig.profile, part.mig.gpu_instance_id) == (
        "GPU-1",
        "2g.20gb",
        3,
    )
    assert {uuid: reading.values for uuid, reading in scrape.readings.items()} == {
        "GPU-1": {Signal.POWER_WATTS: 300.0},
        "GPU-1/gi3": {Signal.SM_ACTIVE: 1.0},
    }


def test_page_that_is_no_exposition_is_refused() -> None:
    """A page of HTML in place of metrics, for one."""
    with pytest.raises(DriverError, match="not the text of a dcgm-exporter"):
        DcgmExpositionParser(built_in()).read("<html>\n")


def test_the_table_of_names_is_consistent() -> None:
    """Every unit is known, and no two fields share a heading of `dcgmi dmon`."""
    for name, field in DCGM_FIELDS.items():
        assert field.name == name
        assert convert(field.unit)
    short = [field.short_name for field in DCGM_FIELDS.values() if field.short_name]
    assert len(short) == len(set(short))


def test_metrics_of_other_exporters_are_named_as_such(replay: Replays, write: Writes) -> None:
    """A host's for one: it is not that there were no GPUs."""
    text = 'node_memory_used_bytes{instance="a"} 5 1772532000000\n'
    with pytest.raises(RecordingError, match=r"none of its metrics is DCGM_FI_\*, rightsizer_"):
        replay(write(text))
