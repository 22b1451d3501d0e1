"""Warnings of the probe of our agents' metrics, over a real Prometheus."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from prometheus_server import prometheus_server, scrape_config
from readings import EPOCH, SECOND
from rightsizer.catalogue.catalogue import built_in
from rightsizer.fleet.cache.grid import DAY, FINE_STEP, Grid
from rightsizer.fleet.model import NodeAdvice
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.settings import FleetSettings, StoreSettings
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.sources.agent.source import AgentSource

pytestmark = pytest.mark.prometheus

NOW = EPOCH + 3600 * SECOND
LAST_READ = "rightsizer_device_last_sample_timestamp_seconds"


def series(name: str, labels: str, value: float, every_seconds: int = 60) -> str:
    """The samples of the last hour."""
    ends = range(0, 3601, every_seconds)
    end = EPOCH // SECOND
    return "".join(f"{name}{{{labels}}} {value} {end + at}\n" for at in ends)


def device(number: int, *, job: str = "rightsizer", behind: float = 0.0, **more: str) -> str:
    """An hour of a responding device, as one job scraped it."""
    extra = "".join(f',{name}="{value}"' for name, value in more.items())
    labels = f'job="{job}",instance="n{number}:19400",uuid="GPU-{number}"{extra}'
    begin = EPOCH // SECOND
    read = "".join(
        f"{LAST_READ}{{{labels}}} {begin + at - behind} {begin + at}\n" for at in range(0, 3601, 60)
    )
    model = f'{labels},model="NVIDIA H100 80GB HBM3",gpu="0"'
    return (
        series("rightsizer_device_up", labels, 1)
        + series("rightsizer_device_info", model, 1)
        + read
    )


@contextmanager
def store_and_source(past: str) -> Iterator[tuple[PrometheusStore, AgentSource]]:
    """A store with data, and the source on it."""
    with prometheus_server(scrape_config(), past=f"{past}# EOF\n") as server:
        store = PrometheusStore(StoreSettings(url=server.url))
        try:
            yield store, AgentSource(built_in())
        finally:
            store.close()


def probed(past: str) -> SourceReport:
    """Result of the probe on a store with data."""
    with store_and_source(past) as (store, source):
        return source.probe(store, NOW, DAY)


def test_nothing_at_all_is_reported() -> None:
    """A store without our metrics is reported, not an error."""
    report = probed(series("up", 'job="node"', 1))
    assert report.devices == 0
    assert report.oldest is None
    assert report.cannot == ("no series of Rightsizer's agents are in the store",)


def test_devices_that_are_scraped_twice_are_reported_and_counted_once() -> None:
    """The warning has the label that distinguishes the two."""
    report = probed(device(0) + device(0, job="again") + device(1))
    assert report.devices == 2
    (warning,) = report.warnings
    assert warning.startswith("1 devices are scraped more than once (GPU-0: `job` is 'again' and")
    assert "each is counted once" in warning


def test_duplicates_do_not_count_twice_in_a_day() -> None:
    """Replicas of a highly available pair, which scrape at different times, count once too."""
    past = device(0)
    for replica in "ab":
        past += device(0, replica=replica)
        labels = f'job="rightsizer",instance="n0:19400",uuid="GPU-0",replica="{replica}"'
        for at in range(0, 3601, 60):
            time = EPOCH // SECOND + at + (10 if replica == "b" else 0)
            past += f'rightsizer_state_seconds_total{{{labels},state="productive"}} {at} {time}\n'
    with store_and_source(past) as (store, source):
        report = source.probe(store, NOW, DAY)
        devices = tuple(source.inventory(store, report, NOW, DAY).devices.values())
        day = source.day(store, report, devices, Grid(EPOCH // DAY, FINE_STEP))
    states = day.frames["GPU-0"].columns
    assert states["state:productive"][5] == pytest.approx(300, abs=1)
    assert states["state:unknown"][5] == pytest.approx(0, abs=1)


def test_holders_of_a_mostly_empty_fleet_are_read() -> None:
    """Whichever devices the store picks as examples, and whether they are held now or were."""
    begin = EPOCH // SECOND
    past = ""
    for number in range(20):
        labels = f'job="rightsizer",instance="n{number}:19400",uuid="GPU-{number}"'
        past += device(number)
        for at in range(0, 3601, 60):
            sample = f'rightsizer_state_seconds_total{{{labels},state="idle_empty"}} {at}'
            past += f"{sample} {begin + at}\n"
            if number == (9 if at < 1800 else 11):
                held = f'{labels},workload="slurm:7"'
                past += f"rightsizer_workload_share_ratio{{{held}}} 1 {begin + at}\n"
    with store_and_source(past) as (store, source):
        report = source.probe(store, NOW, DAY)
        devices = tuple(source.inventory(store, report, NOW, DAY).devices.values())
        day = source.day(store, report, devices, Grid(EPOCH // DAY, FINE_STEP))
    held = {uuid: {each.workload.key for each in of} for uuid, of in day.holdings.items()}
    assert held == {"GPU-9": {"slurm:7"}, "GPU-11": {"slurm:7"}}


def test_clocks_ahead_of_the_store_are_reported() -> None:
    """The amount distinguishes a wrong time zone from a drift."""
    (warning,) = probed(device(0, behind=-3600.0) + device(1)).warnings
    assert "the clocks of the nodes of 1 devices are ahead of the store's by up to 1 h" in warning


def test_readings_that_are_old_are_reported() -> None:
    """The agent stalls, or its clock is behind; the store cannot distinguish the two."""
    (warning,) = probed(device(0, behind=900.0) + device(1)).warnings
    assert warning.startswith("the last readings of 1 devices are up to 15 min older")


def test_devices_that_do_not_answer_are_reported() -> None:
    """The age of their readings is not reported in addition."""
    past = device(1) + series("rightsizer_device_up", 'instance="n0:19400",uuid="GPU-0"', 0)
    (warning,) = probed(past).warnings
    assert warning == "1 devices do not answer their agents: their last hours are unknown"


def test_agents_of_several_versions_are_reported() -> None:
    """The most frequent version comes first."""
    past = device(0) + "".join(
        series("rightsizer_build_info", f'instance="n{at}:19400",version="{version}"', 1)
        for at, version in enumerate(("1.1.0", "1.0.0", "1.1.0"))
    )
    (warning,) = probed(past).warnings
    assert warning.startswith("agents of 2 versions run: 1.1.0 (2), 1.0.0 (1)")


def test_scrapes_that_are_far_apart_are_reported() -> None:
    """Short events are missed."""
    labels = 'instance="n0:19400",uuid="GPU-0"'
    past = series("rightsizer_device_up", labels, 1, every_seconds=240)
    past += series("rightsizer_used_seconds_total", labels, 1, every_seconds=240)
    report = probed(past)
    assert any(each.startswith("samples are 3 min 45 s apart") for each in report.cannot)


def test_advice_of_two_nodes_on_one_workload_stays_apart() -> None:
    """Workload and action are equal, so that both recommendations have the same ID."""
    past = ""
    for node, confidence in (("n0", 0.9), ("n1", 0.7)):
        labels = f'instance="{node}:19400",id="a1"'
        advice = 'finding="Idle",reason="Held",action="Release",workload="slurm:1"'
        past += series("rightsizer_advice_info", f'{labels},{advice},uuid="GPU-{node}"', 1)
        past += series("rightsizer_advice_confidence_ratio", labels, confidence)
        past += series("rightsizer_advice_savings_gpus", labels, 1)
    with store_and_source(past) as (store, source):
        estate = source.inventory(store, SourceReport("rightsizer"), NOW, DAY)
    assert estate.advice == tuple(
        NodeAdvice(
            id="a1",
            finding="Idle",
            reason="Held",
            action="Release",
            workload="slurm:1",
            devices=(f"GPU-{node}",),
            confidence=confidence,
            risk="Unknown",
            savings_gpus=1.0,
        )
        for node, confidence in (("n0", 0.9), ("n1", 0.7))
    )


def test_advice_of_the_fleet_itself_is_not_a_nodes_advice() -> None:
    """The fleet must not suppress its own recommendation as one that a node exports."""
    past = ""
    for at, source_name in (("n0:19400", "nvml"), ("fleet:19400", "fleet")):
        labels = f'job="rightsizer",instance="{at}"'
        advice = f'id="{source_name}",finding="Idle",reason="Held",action="Release",uuid="GPU-0"'
        past += series("rightsizer_build_info", f'{labels},source="{source_name}"', 1)
        past += series("rightsizer_advice_info", f"{labels},{advice}", 1)
    with store_and_source(past) as (store, source):
        estate = source.inventory(store, SourceReport("rightsizer"), NOW, DAY)
    assert [each.id for each in estate.advice] == ["nvml"]


def test_labels_of_the_scrape_name_node_and_pool() -> None:
    """The node's own label takes precedence over the address of the agent's pod."""
    past = device(0, node="worker-7", pool="train", cluster="paris") + device(1)
    with store_and_source(past) as (store, source):
        assert source.fleet == FleetSettings()
        devices = source.inventory(store, SourceReport("rightsizer"), NOW, DAY).devices
    named = devices["GPU-0"]
    plain = devices["GPU-1"]
    assert (named.node, named.pool) == ("worker-7", "train")
    assert (plain.node, plain.pool) == ("n1", "H100-SXM5-80GB")


def test_recorded_series_that_are_missing_are_reported() -> None:
    """A ruler may have rejected one group of rules and accepted another."""
    labels = 'job="rightsizer",instance="n0:19400",uuid="GPU-0"'
    past = device(0)
    for name in (
        "rightsizer_state_seconds_total",
        "uuid_state:rightsizer_state_seconds:increase5m",
    ):
        past += series(name, f'{labels},state="unknown"', 0)
    for name in ("rightsizer_memory_used_bytes", "rightsizer_used_seconds_total"):
        past += series(name, labels, 1)
    whole = past + series("uuid:rightsizer_used_seconds:increase5m", labels, 0)
    for kind in ("avg5m", "max5m"):
        whole += series(f"uuid:rightsizer_memory_used_bytes:{kind}", labels, 1)
    (warning,) = (each for each in probed(past).warnings if "recording rules" in each)
    assert warning.startswith("3 series of our recording rules are missing (uuid:rightsizer_memory")
    assert not [each for each in probed(whole).warnings if "recording rules" in each]
