"""Counters of a device that several series repeat: pods that share it, containers, replicas."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

import pytest

from dcgm_estate import BUSY, NOW, YESTERDAY, EstatePast, Phase, gpu
from prometheus_server import Prometheus, prometheus_server, scrape_config
from rightsizer.fleet.cache.day_frame import ColumnKind
from rightsizer.fleet.cache.grid import DAY
from rightsizer.fleet.model import FleetDay
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.settings import StoreSettings
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.model.state import Condition
from victoria_server import victoria_server

pytestmark = pytest.mark.prometheus

NODE: Final = {"Hostname": "node-a", "instance": "a:9400", "job": "dcgm"}
WATTS: Final = 300
SERIES: Final = {
    "one": [{"pod": "train-0"}],
    "time slicing": [{"pod": f"notebook-{number}"} for number in "abc"],
    "containers": [{"pod": "train-1", "container": name} for name in ("main", "side")],
    "replicas": [{"pod": "train-2", "monitor": name} for name in "ab"],
}
"""Labels of each series of a GPU, all day."""
JOBS: Final = 96
"""Of a quarter of an hour, one after the other."""


@pytest.fixture(scope="module")
def day() -> Iterator[FleetDay]:
    """A day of energy and of clocks that heat held down for a third of it, without power."""
    values = {name: value for name, value in BUSY.items() if "POWER" not in name}
    values["DCGM_FI_DEV_SM_CLOCK"] = 1200
    past = EstatePast()
    lives = [[(labels, 0.0, 24.0) for labels in some] for some in SERIES.values()]
    lives.append([({"pod": f"job-{job}"}, job / 4, (job + 1) / 4) for job in range(JOBS)])
    for number, series in enumerate(lives):
        device = {**NODE, "modelName": "NVIDIA H100 80GB HBM3"}
        device |= {"UUID": gpu(number), "gpu": str(number), "namespace": "ml"}
        for labels, first, last in series:
            past.device([Phase(first, last, values, labels)], **device)
            for name, a_minute in (
                ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", WATTS * 60_000),
                ("DCGM_FI_DEV_THERMAL_VIOLATION", 20 * 10**9),
            ):
                counted = (1 + first * 60) * a_minute
                past.series(name, device | labels, counted, first, last, grows_by=a_minute)
    source = DcgmExporterSource()
    # VictoriaMetrics leaves out what each of the short jobs counted before its first sample.
    with prometheus_server(scrape_config(), past=past.text()) as server:
        store = PrometheusStore(StoreSettings(url=server.url))
        report = source.probe(store, NOW, DAY)
        devices = source.inventory(store, report, NOW, DAY).devices
        yield source.day(store, report, list(devices.values()), YESTERDAY)


@pytest.mark.parametrize("number", range(len(SERIES) + 1), ids=[*SERIES, "short jobs"])
def test_counter_of_a_device_counts_once(day: FleetDay, number: int) -> None:
    """Each series of a shared GPU has all of its energy, and all of its time at a limit."""
    columns = day.frames[gpu(number)].columns
    joules = sum(columns[ColumnKind.ENERGY.column("joules")])
    assert joules == pytest.approx(WATTS * 86_400, rel=0.02)
    throttled = sum(columns[ColumnKind.CONDITION.column(Condition.THERMAL_THROTTLED)])
    assert throttled == pytest.approx(86_400 / 3, rel=0.02)


@pytest.mark.parametrize("server", [partial(prometheus_server, scrape_config()), victoria_server])
@pytest.mark.parametrize("power", [{"DCGM_FI_DEV_POWER_USAGE": WATTS + 5}, {}])
@pytest.mark.parametrize("pods", [1, 3])
def test_energy_of_samples_two_minutes_apart_is_not_overestimated(
    server: Callable[..., AbstractContextManager[Prometheus]], power: dict[str, float], pods: int
) -> None:
    """Five minutes have two or three; VictoriaMetrics counts between them, not around them."""
    past = EstatePast(interval_seconds=120)
    device = {**NODE, "UUID": gpu(0), "gpu": "0", "modelName": "NVIDIA H100 80GB HBM3"}
    values = {name: value for name, value in BUSY.items() if "POWER" not in name} | power
    counter = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
    for number in range(pods):
        labels = {**device, "namespace": "ml", "pod": f"train-{number}"}
        past.device([Phase(-1, 24, values)], **labels)
        past.series(counter, labels, 0, -1, grows_by=WATTS * 120_000)
    source = DcgmExporterSource()
    with server(past=past.text()) as running:
        store = PrometheusStore(StoreSettings(url=running.url))
        report = source.probe(store, NOW, DAY)
        devices = source.inventory(store, report, NOW, DAY).devices
        found = source.day(store, report, list(devices.values()), YESTERDAY)

    joules = sum(found.frames[gpu(0)].columns[ColumnKind.ENERGY.column("joules")])
    assert joules == pytest.approx(WATTS * 86_400, rel=0.02)
