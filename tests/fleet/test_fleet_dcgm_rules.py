"""Recording rules of dcgm-exporter's metrics are valid for promtool; answers are equal."""

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import replace

from dcgm_estate import BUSY, EMPTY, HELD, NOW, YESTERDAY, EstatePast, Phase, gpu, unprofiled
from prometheus_server import ON_DISK, promtool
from recorded_past import laid_out, recording
from rightsizer.fleet.cache.day_frame import ColumnKind
from rightsizer.fleet.cache.grid import COARSE_STEP, DAY, Grid
from rightsizer.fleet.model import FleetDay
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.settings import StoreSettings
from rightsizer.fleet.source import SampledSeries, SourceReport
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.fleet.sources.figures import (
    RULES_IN_A_GROUP,
    USUAL_METRICS,
    recorded_series,
    rules_text,
)
from rightsizer.io.yaml import load_yaml
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

COARSE: Final = YESTERDAY.by(COARSE_STEP)
RECORDED: Final = ((2.0, 10.0), (12.0, 24.5))
"""Hours of the day with a running ruler."""
LATE: Final = 5
"""A GPU without recorded series."""


def groups(text: str) -> list[dict[str, Any]]:
    """Groups of a rules file."""
    found: list[dict[str, Any]] = load_yaml(text, "rules").data["groups"]
    return found


@pytest.mark.prometheus
def test_promtool_takes_all_of_it(tmp_path: Path) -> None:
    """Covers all fields, with the labels of clusters."""
    file = tmp_path / "rules.yaml"
    file.write_text(rules_text(USUAL_METRICS, ("cluster", "region")))
    checked = promtool("check", "rules", file)
    assert not checked.returncode, checked.stderr
    assert f"{len(recorded_series(USUAL_METRICS))} rules found" in checked.stdout


def test_groups_are_as_large_as_mimir_takes() -> None:
    """Each series is recorded once, named by convention, every five minutes."""
    found = groups(rules_text(USUAL_METRICS))
    rules = [rule for group in found for rule in group["rules"]]
    assert all(0 < len(group["rules"]) <= RULES_IN_A_GROUP == 20 for group in found)
    assert {group["interval"] for group in found} == {"5m"}
    names = [rule["record"] for rule in rules]
    assert len(set(names)) == len(names)
    document = r"uuid(_pod)?:\w+:(avg|max|min|increase|count)5m"
    assert all(re.fullmatch(document, name) for name in names)


def test_absent_fields_are_not_recorded() -> None:
    """Each field has its own spelling, and one field alone gives presence."""
    names = ["dcgm_fb_used", "dcgm_gpu_utilization", "DCGM_FI_DEV_ENERGY", "up"]
    assert {figure.recorded_name for figure in recorded_series(names)} == {
        "uuid_pod:dcgm_fb_used:count5m",
        *(f"uuid:{name}:{of}5m" for name in names[:2] for of in ("avg", "max")),
    }


def test_labels_that_are_matched_are_kept() -> None:
    """Queries with a configuration's matchers would otherwise not find the recorded series."""
    rules = [
        rule for each in groups(rules_text(USUAL_METRICS, ("region",))) for rule in each["rules"]
    ]
    for rule in rules:
        lists = re.findall(r"by \(([^)]*)\)", rule["expr"])
        assert lists
        assert all("region" in each.split(", ") for each in lists)


@dataclass
class WatchedStore:
    """A store that records its range queries."""

    store: PrometheusStore
    asked: list[str] = field(default_factory=list)

    @property
    def use(self) -> Any:
        """As in `MetricStore`."""
        return self.store.use

    def range(
        self, promql: str, start: Nanoseconds, end: Nanoseconds, step: Nanoseconds
    ) -> Sequence[SampledSeries]:
        """As in `MetricStore`; recorded."""
        self.asked.append(promql)
        return self.store.range(promql, start, end, step)

    def instant(self, promql: str, time: Nanoseconds) -> Sequence[SampledSeries]:
        """As in `MetricStore`."""
        return self.store.instant(promql, time)

    def within(self, matchers: str) -> "WatchedStore":
        """As in `MetricStore`; recorded too."""
        return WatchedStore(self.store.within(matchers), self.asked)


class RecordedStore(Struct, frozen=True):
    """A store with recorded series, and the probe's report on it."""

    store: WatchedStore
    source: DcgmExporterSource
    report: SourceReport

    def day(self, grid: Grid, *numbers: int, is_recorded: bool = True) -> FleetDay:
        """Day of some or all GPUs, by recorded series or by samples."""
        report = self.report
        if not is_recorded:
            report = replace(report, metrics=frozenset(e for e in report.metrics if ":" not in e))
        devices = self.source.inventory(self.store, report, NOW, DAY).devices
        chosen = [
            device
            for uuid, device in devices.items()
            if not numbers or uuid in {*map(gpu, numbers)}
        ]
        self.store.asked.clear()
        return self.source.day(self.store, report, chosen, grid)


def past() -> EstatePast:
    """A day with jobs shorter than five minutes, two scrapers, counters and throttling."""
    found = EstatePast(30)

    def pod(name: str) -> dict[str, str]:
        return {"pod": name, "namespace": "team"}

    labels = {"Hostname": "n0", "modelName": "NVIDIA H100 80GB HBM3", "job": "dcgm"}
    less = {**BUSY, "DCGM_FI_DEV_GPU_UTIL": 40, "DCGM_FI_PROF_SM_ACTIVE": 0.3}
    lives = (
        [Phase(0, 24, BUSY, pod("train-0"))],
        [
            Phase(0, 9.02, BUSY, pod("a-0")),
            Phase(9.02, 17.31, EMPTY),
            Phase(17.31, 24, less, pod("b-0")),
        ],
        [Phase(0, 5.5, HELD, pod("notebook-0")), Phase(7.25, 24, less, pod("notebook-0"))],
        [Phase(0, 24, unprofiled(less))],
        [Phase(0, 24, less, {**pod("twice-0"), "prometheus": each}) for each in "ab"],
        [Phase(0, 24, BUSY, pod("late-0"))],
    )
    for number, phases in enumerate(lives):
        found.device(phases, UUID=gpu(number), gpu=str(number), **labels)
    whole = {**labels, **pod("train-0"), "UUID": gpu(0), "gpu": "0"}
    energy = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
    found.series(energy, whole, 5e9, grows_by=560_000 * 30)
    reasons = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
    for first, last, mask in ((0, 13.03, 0), (13.03, 15.51, 4), (15.51, 24, 0)):
        found.series(reasons, whole, mask, first, last)
    return found


@pytest.fixture(scope="module")
def recorded_store() -> Iterator[RecordedStore]:
    """Rules were evaluated for all but a few hours of the day, and for all GPUs but one."""
    with tempfile.TemporaryDirectory(prefix="recorded-", dir=ON_DISK) as name:
        data = Path(name) / "data"
        laid_out(past().text(), data)
        rules = rules_text(USUAL_METRICS).replace("[5m]", f'{{UUID!="{gpu(LATE)}"}}[5m]')
        start = YESTERDAY.start / NANOSECONDS_PER_SECOND
        for first, last in RECORDED[:-1]:
            with recording(data, rules, start + first * 3600, start + last * 3600):
                pass
        first, last = RECORDED[-1]
        with recording(data, rules, start + first * 3600, start + last * 3600) as server:
            store = WatchedStore(PrometheusStore(StoreSettings(url=server.url)))
            source = DcgmExporterSource()
            yield RecordedStore(store, source, source.probe(store, NOW, DAY))


def columns(day: FleetDay, kind: str = "") -> dict[tuple[str, str], list[float]]:
    """Columns of all devices, by device and name."""
    return {
        (uuid, name): values.tolist()
        for uuid, frame in day.frames.items()
        for name, values in frame.columns.items()
        if name.startswith(kind)
    }


@pytest.mark.prometheus
def test_the_probe_says_what_it_found(recorded_store: RecordedStore) -> None:
    """Every exported field has its series, and none is missing."""
    wanted = recorded_series({name for name in recorded_store.report.metrics if ":" not in name})
    assert {figure.recorded_name for figure in wanted} <= recorded_store.report.metrics
    (said,) = (each for each in recorded_store.report.can if "recorded" in each)
    assert f"{len(wanted)} series" in said
    assert not [warning for warning in recorded_store.report.warnings if "ecorded" in warning]


@pytest.mark.prometheus
def test_five_minutes_are_those_of_the_samples(recorded_store: RecordedStore) -> None:
    """Equal to the last digit for all GPUs at all times, recorded or not."""
    recorded = recorded_store.day(YESTERDAY)
    asked = list(recorded_store.store.asked)
    raw = recorded_store.day(YESTERDAY, is_recorded=False)
    assert recorded.holdings == raw.holdings
    found = columns(recorded)
    wanted = columns(raw)
    assert found.keys() == wanted.keys()
    for key in wanted:
        np.testing.assert_allclose(found[key], wanted[key], rtol=1e-12, err_msg=str(key))
    assert {uuid for uuid, _ in found} == {gpu(each) for each in range(6)}
    assert sum(":" in each for each in asked) > 10


@pytest.mark.prometheus
def test_hours_are_nearly_those_of_the_samples(recorded_store: RecordedStore) -> None:
    """States, holders and peaks are equal; means and energy up to a gap's weight in an hour."""
    recorded = recorded_store.day(COARSE)
    raw = recorded_store.day(COARSE, is_recorded=False)
    assert recorded.holdings == raw.holdings
    found = columns(recorded)
    wanted = columns(raw)
    assert found.keys() == wanted.keys()
    for key in wanted:
        np.testing.assert_allclose(found[key], wanted[key], rtol=0.02, atol=1e-9, err_msg=str(key))
    kinds = (ColumnKind.STATE.column(""), ColumnKind.PEAK.column(""))
    assert any(columns(recorded, kind) for kind in kinds)
    for kind in kinds:
        for key, values in columns(recorded, kind).items():
            np.testing.assert_allclose(values, wanted[key], rtol=1e-9, err_msg=str(key))


@pytest.mark.prometheus
def test_samples_are_read_where_nothing_was_recorded(recorded_store: RecordedStore) -> None:
    """Covers time before the rules, the ruler's downtime, and a GPU without recorded series."""
    recorded_store.day(YESTERDAY, 0)
    recorded = [
        each for each in recorded_store.store.asked if "uuid:DCGM_FI_DEV_FB_USED:avg5m" in each
    ]
    raw = [
        each for each in recorded_store.store.asked if "sum_over_time(DCGM_FI_DEV_FB_USED{" in each
    ]
    assert (len(recorded), len(raw)) == (2, 2)
    recorded_store.day(YESTERDAY, LATE)
    assert not [each for each in recorded_store.store.asked if "uuid:" in each]


@pytest.mark.prometheus
def test_the_probe_warns_of_what_is_missing(recorded_store: RecordedStore) -> None:
    """The warning names the missing series and the remedy; samples are used instead."""
    name = "uuid:DCGM_FI_PROF_DRAM_ACTIVE:avg5m"

    class Without(WatchedStore):
        def range(
            self, promql: str, start: Nanoseconds, end: Nanoseconds, step: Nanoseconds
        ) -> Sequence[SampledSeries]:
            found = super().range(promql, start, end, step)
            return [each for each in found if each.labels.get("__name__") != name]

    report = recorded_store.source.probe(Without(recorded_store.store.store), NOW, DAY)
    (warning,) = (each for each in report.warnings if "ecorded" in each)
    assert name in warning
    assert "rightsizer fleet rules" in warning
    found = columns(
        RecordedStore(recorded_store.store, recorded_store.source, report).day(YESTERDAY, 0)
    )
    wanted = columns(recorded_store.day(YESTERDAY, 0))
    for key in wanted:
        np.testing.assert_allclose(found[key], wanted[key], rtol=1e-12, err_msg=str(key))
