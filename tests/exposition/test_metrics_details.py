"""Metrics outside the default set, those added by details, and labels shared by a node."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families as parse_text

from publish_reports import full_report, node_report
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.model.driver_codes import ClockEvent, XidLog
from rightsizer.model.metric import DETAIL_SIGNALS, QUANTITY_SIGNALS, RATIO_GAUGES
from rightsizer.model.metric_family import Level
from rightsizer.model.reading import Reading
from rightsizer.model.report import DeviceReport, NodeReport, Report
from rightsizer.model.served_load import ServedLoad
from rightsizer.model.signal import Signal
from rightsizer.model.topology import FabricPort, GpuLink, LinkKind, Nvlink, Topology
from sample_devices import INSTANCE, NOW, uuid_of

UUID = uuid_of(0)
DETAILS = (
    "rightsizer_device_facts_info",
    "rightsizer_nvlink_up",
    "rightsizer_nvlink_receive_bytes_total",
    "rightsizer_nvlink_transmit_bytes_total",
    "rightsizer_nvlink_link_errors_total",
    "rightsizer_fabric_port_up",
    "rightsizer_fabric_port_rate_bytes_per_second",
    "rightsizer_fabric_port_receive_bytes_total",
    "rightsizer_fabric_port_transmit_bytes_total",
    "rightsizer_fabric_port_transmit_wait_total",
    "rightsizer_fabric_port_errors_total",
    "rightsizer_topology_link_info",
)
PORT = FabricPort(
    "mlx5_0",
    1,
    "InfiniBand",
    is_active=True,
    state="ACTIVE",
    rate_bytes_per_second=5e10,
    receive_bytes=1e12,
    transmit_bytes=2e12,
    transmit_wait=7.0,
    errors={"symbol_error": 3.0, "link_downed": 0.0},
)
LINKS = (
    Nvlink(0, is_up=True, receive_bytes=1e9, transmit_bytes=2e9, crc_errors=1, replay_errors=0),
    Nvlink(1, is_up=False),
)
NODE = NodeReport(
    driver={"driver_version": "570.124.06", "cuda_version": "12.8"},
    topology=Topology(
        links=(
            GpuLink(uuid_of(0), uuid_of(1), LinkKind.NVLINK, 18),
            GpuLink(uuid_of(0), uuid_of(2), LinkKind.SYSTEM),
        )
    ),
    ports=(PORT,),
)

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def samples_of(report: Report, now: int = NOW, *, details: bool = False) -> Samples:
    """Every sample of an exposition, by name and labels."""
    settings = MetricsSettings(details=details, level=Level.FULL)
    exposition = MetricsExposition(lambda: report, settings, wall_time=lambda: now)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse_text(exposition.render().body.decode())
        for sample in family.samples
    }


def names(samples: Samples, **labels: str) -> set[str]:
    """The names of the samples with these labels."""
    return {name for name, found in samples if labels.items() <= set(found)}


def value(samples: Samples, name: str, /, **labels: str) -> float | None:
    """The value of one series by all of its labels."""
    return samples.get((name, frozenset(labels.items())))


def labels_of(samples: Samples, name: str) -> list[dict[str, str]]:
    """The labels of each series of a name."""
    return [dict(labels) for found, labels in samples if found == name]


def report_of(node: NodeReport = NODE, **changes: Any) -> Report:
    """One device with all values, and the node around it."""
    whole = full_report(1)
    device = replace(
        whole.devices[0],
        device=replace(
            whole.devices[0].device,
            uuid=UUID,
            facts={"vbios_version": "96.00", "compute_mode": "default", "spare": "nobody's"},
        ),
        reading=Reading(UUID, NOW, {}, nvlinks=LINKS),
    )
    return replace(whole, devices=(replace(device, **changes),), node=node)


def test_details_are_off_by_default() -> None:
    """Series cost memory: rarely needed readings, links and ports are omitted."""
    samples = samples_of(report_of())
    assert not names(samples) & set(DETAILS)
    assert not names(samples) & {signal.metric_name for signal in DETAIL_SIGNALS}
    assert {Signal.GPU_BUSY.metric_name, "rightsizer_device_up"} <= names(samples)


def test_details_add_and_take_nothing_away() -> None:
    """The default set, and each known detail."""
    plain = samples_of(report_of())
    detailed = samples_of(report_of(), details=True)
    own = {key for key in plain if key[0].startswith("rightsizer_")}
    assert own < detailed.keys()
    assert set(DETAILS) <= names(detailed)
    signals = report_of().devices[0].signals
    known = {signal.metric_name for signal in DETAIL_SIGNALS if signal in signals}
    assert len(known) > 20
    assert known <= names(detailed)


def test_every_signal_has_its_place() -> None:
    """Each is exported by default, in detail, or as the reasons of its mask; none twice."""
    places = (*RATIO_GAUGES, *QUANTITY_SIGNALS, *DETAIL_SIGNALS)
    assert len(set(places)) == len(places)
    assert {*places, Signal.CLOCK_EVENT_REASONS} == set(Signal)


def test_links_are_reported_one_by_one() -> None:
    """An unread value of a link that is down has no series."""
    samples = samples_of(report_of(), details=True)
    errors = "rightsizer_nvlink_link_errors_total"
    assert value(samples, "rightsizer_nvlink_up", uuid=UUID, link="0") == 1
    assert value(samples, "rightsizer_nvlink_up", uuid=UUID, link="1") == 0
    assert value(samples, "rightsizer_nvlink_receive_bytes_total", uuid=UUID, link="0") == 1e9
    assert value(samples, errors, uuid=UUID, link="0", kind="crc") == 1
    assert value(samples, errors, uuid=UUID, link="0", kind="replay") == 0
    assert value(samples, errors, uuid=UUID, link="0", kind="recovery") is None
    assert names(samples, link="1") == {"rightsizer_nvlink_up"}


def test_facts_are_labels_that_do_not_change() -> None:
    """Those of the table; an unknown one is empty, and the rest is not exported."""
    (facts,) = labels_of(samples_of(report_of(), details=True), "rightsizer_device_facts_info")
    assert facts == {
        "uuid": UUID,
        "vbios_version": "96.00",
        "serial": "",
        "compute_mode": "default",
        "persistence_mode": "",
        "ecc_mode": "",
    }
    bare = samples_of(node_report(), details=True)
    assert not labels_of(bare, "rightsizer_device_facts_info")


def test_ports_are_reported_with_what_is_known() -> None:
    """By adapter and number; a counter missing in the kernel has no series."""
    silent = replace(PORT, adapter="mlx5_1", is_active=False, transmit_wait=None, errors={})
    samples = samples_of(report_of(replace(NODE, ports=(PORT, silent))), details=True)
    assert value(samples, "rightsizer_fabric_port_up", port="mlx5_0/1") == 1
    assert value(samples, "rightsizer_fabric_port_up", port="mlx5_1/1") == 0
    assert value(samples, "rightsizer_fabric_port_rate_bytes_per_second", port="mlx5_0/1") == 5e10
    errors = "rightsizer_fabric_port_errors_total"
    assert value(samples, errors, port="mlx5_0/1", kind="symbol_error") == 3
    waited = "rightsizer_fabric_port_transmit_wait_total"
    assert value(samples, waited, port="mlx5_0/1") == 7
    assert value(samples, waited, port="mlx5_1/1") is None
    assert value(samples, "rightsizer_fabric_port_receive_bytes_total", port="mlx5_1/1") == 1e12


def test_node_tells_driver_and_ways_between_gpus() -> None:
    """Each pair once, in the notation of `nvidia-smi topo`; an unknown version is empty."""
    samples = samples_of(report_of(), details=True)
    assert labels_of(samples, "rightsizer_driver_info") == [
        {"driver_version": "570.124.06", "cuda_version": "12.8", "nvml_version": ""}
    ]
    assert {
        (link["uuid"], link["peer_uuid"], link["link"])
        for link in labels_of(samples, "rightsizer_topology_link_info")
    } == {(uuid_of(0), uuid_of(1), "NV18"), (uuid_of(0), uuid_of(2), "SYS")}


def test_node_that_nobody_knows_has_no_series() -> None:
    """Without a driver there are no versions, and without a survey no links."""
    samples = samples_of(report_of(NodeReport()), details=True)
    assert not names(samples) & {"rightsizer_driver_info", "rightsizer_topology_link_info"}
    assert not any(name.startswith("rightsizer_fabric_port") for name in names(samples))


def test_xids_are_counted_from_the_start() -> None:
    """A GPU without any reads 0; a code's series begins with its first, with its time."""
    quiet = samples_of(report_of())
    assert value(quiet, "rightsizer_xid_errors_total", uuid=UUID) == 0
    assert not labels_of(quiet, "rightsizer_xid_code_errors_total")
    assert not labels_of(quiet, "rightsizer_xid_last_timestamp_seconds")
    log = XidLog({79: 1, 31: 4}, last=31, last_wall_time=1_700_000_000_500_000_000)
    samples = samples_of(report_of(xids=log))
    assert value(samples, "rightsizer_xid_errors_total", uuid=UUID) == 5
    assert value(samples, "rightsizer_xid_code_errors_total", uuid=UUID, xid="79") == 1
    assert value(samples, "rightsizer_xid_code_errors_total", uuid=UUID, xid="31") == 4
    assert value(samples, "rightsizer_xid_last_timestamp_seconds", uuid=UUID) == 1_700_000_000.5


def test_xids_that_nobody_listens_for_are_not_zero() -> None:
    """Without events, as on a virtual GPU, there is no count."""
    assert not labels_of(samples_of(report_of(xids=None)), "rightsizer_xid_errors_total")


def test_xids_outlive_the_readings() -> None:
    """An Xid matters most on a GPU that fell off the bus; instances have none."""
    whole = node_report()
    down = 5
    devices = list(whole.devices)
    devices[down] = replace(devices[down], xids=XidLog({79: 1}))
    samples = samples_of(replace(whole, devices=tuple(devices)))
    assert value(samples, "rightsizer_device_up", uuid=uuid_of(down)) == 0
    assert value(samples, "rightsizer_xid_code_errors_total", uuid=uuid_of(down), xid="79") == 1
    assert value(samples, "rightsizer_xid_errors_total", uuid=uuid_of(INSTANCE)) is None


@pytest.mark.parametrize(
    ("origins", "source"),
    [
        ({Signal.GPU_BUSY: "gpm", Signal.SM_ACTIVE: "gpm"}, "gpm"),
        ({Signal.GPU_BUSY: "utilization", Signal.SM_ACTIVE: "dcgm"}, "dcgm"),
        ({Signal.GPU_BUSY: "utilization"}, "utilization"),
        ({}, ""),
    ],
)
def test_telemetry_says_what_it_rests_on(origins: Mapping[Signal, str], source: str) -> None:
    """The tier, and the source of the device's busy share."""
    report = report_of(reading=Reading(UUID, NOW, {}, origins=origins))
    (labels,) = labels_of(samples_of(report), "rightsizer_device_telemetry_info")
    assert labels == {"uuid": UUID, "tier": report.devices[0].tier, "source": source}


def test_stale_device_has_no_telemetry() -> None:
    """Links and the source of readings disappear with the readings; facts stay."""
    samples = samples_of(report_of(), NOW + 3600 * 10**9, details=True)
    left = names(samples, uuid=UUID)
    assert not left & {"rightsizer_device_telemetry_info", "rightsizer_nvlink_up"}
    assert {"rightsizer_device_facts_info", "rightsizer_xid_errors_total"} <= left


def with_signals(**signals: float) -> DeviceReport:
    """The device with only these signals."""
    return replace(
        report_of().devices[0],
        signals={Signal(name): number for name, number in signals.items()},
    )


def test_stand_in_is_left_out_where_there_is_better() -> None:
    """Memory controller busy is a weaker proxy of bandwidth used; details have both."""
    weaker = "rightsizer_memory_controller_busy_ratio"
    better = "rightsizer_dram_active_ratio"
    both = replace(
        report_of(), devices=(with_signals(memory_controller_busy=0.3, dram_active=0.5),)
    )
    alone = replace(report_of(), devices=(with_signals(memory_controller_busy=0.3),))
    assert not labels_of(samples_of(both), weaker)
    assert value(samples_of(both), better, uuid=UUID) == 0.5
    assert value(samples_of(alone), weaker, uuid=UUID) == 0.3
    assert value(samples_of(both, details=True), weaker, uuid=UUID) == 0.3


def test_clock_reasons_of_the_operators_own_making_are_details() -> None:
    """They withhold nothing that a workload could have had."""
    name = "rightsizer_clock_event_reason"
    mask = float(ClockEvent.SYNC_BOOST | ClockEvent.SW_POWER_CAP)
    report = replace(report_of(), devices=(with_signals(clock_event_reasons=mask),))
    plain = samples_of(report)
    detailed = samples_of(report, details=True)
    assert value(plain, name, uuid=UUID, reason="sw_power_cap") == 1
    assert value(plain, name, uuid=UUID, reason="sync_boost") is None
    assert value(detailed, name, uuid=UUID, reason="sync_boost") == 1
    assert value(detailed, name, uuid=UUID, reason="applications_clocks_setting") == 0


def test_engines_that_serve_one_model_on_one_gpu_are_one_series() -> None:
    """Replicas by port; a page with a series twice is none to Prometheus."""
    load = ServedLoad("llama", "vllm", 60.0, 2.0, devices=(UUID,))
    report = replace(full_report(), served=(load, load))
    exposition = MetricsExposition(lambda: report, wall_time=lambda: NOW)
    lines = exposition.render().body.decode().splitlines()
    assert sum(line.startswith("rightsizer_served_model_info{") for line in lines) == 1
    (rate,) = (line for line in lines if line.startswith("rightsizer_served_requests"))
    assert rate.endswith(" 4.0")
