"""The node in dcgm-exporter's format: names, types, labels, units, and omissions."""

import gzip
import re
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families as parse_text

from publish_reports import full_report, node_report
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import DcgmLabels, MetricsSettings
from rightsizer.model.dcgm_fields import DCGM_COUNTERS, DCGM_FIELDS, DcgmType, entity_of, holder_of
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.reading import Reading
from rightsizer.model.report import DeviceReport, Report
from rightsizer.model.signal import Signal
from rightsizer.model.state import Tier
from rightsizer.model.workload import Holding, Workload, WorkloadKind
from rightsizer.report.freshness import FreshnessSettings
from sample_devices import INSTANCE, NOW, PARENT, uuid_of

POD = Workload(
    "kubernetes:chat/llm",
    WorkloadKind.KUBERNETES,
    "llm",
    namespace="chat",
    pod="llm-0",
    container="engine",
)
OTHER_POD = replace(POD, pod="llm-1")
JOB = Workload("slurm:4711", WorkloadKind.SLURM, "4711")

Sample = tuple[str, dict[str, str], str]


def exposition_of(
    report: Report | None, now: int = NOW, own_source: str = "", **settings: object
) -> MetricsExposition:
    """The exposition of one report at one time, on a node of a known name."""
    return MetricsExposition(
        lambda: report,
        settings=MetricsSettings(**{"dcgm": True, **settings}),
        freshness=FreshnessSettings(),
        wall_time=lambda: now,
        dcgm_source=own_source,
        hostname="node-7",
    )


def samples_of(report: Report, now: int = NOW, **settings: object) -> Iterator[Sample]:
    """The samples with their values as text."""
    for line in exposition_of(report, now, **settings).render_dcgm().body.decode().splitlines():
        if not line.startswith("#"):
            name, inside, value = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line).groups()  # type: ignore[union-attr]
            yield name, dict(re.findall(r'(\w+)="([^"]*)"', inside)), value


def value_of(report: Report, name: str, **labels: str) -> str | None:
    """One value as text, or `None` without a series."""
    found = [
        value
        for sample, given, value in samples_of(report)
        if sample == name and labels.items() <= given.items()
    ]
    assert len(found) <= 1
    return found[0] if found else None


def alone(tier: Tier = Tier.PROFILING, **signals: float) -> Report:
    """One whole GPU with only these signals."""
    whole = full_report(1)
    known = {Signal(name): number for name, number in signals.items()}
    device = replace(
        whole.devices[0],
        signals=known,
        tier=tier,
        reading=Reading(whole.devices[0].device.uuid, NOW, known),
        holdings=(),
    )
    return replace(whole, devices=(device,))


def held(*workloads: Workload) -> Report:
    """One GPU with these holders."""
    report = alone(power_watts=100.0)
    holdings = tuple(Holding(workload, 1 / len(workloads)) for workload in workloads)
    return replace(report, devices=(replace(report.devices[0], holdings=holdings),))


def divided(**signals: float) -> Report:
    """An A100 with one MIG instance; the board has more readings than the instance."""
    whole = node_report()
    known = {Signal(name): number for name, number in signals.items()}
    devices: list[DeviceReport] = [
        replace(whole.devices[PARENT], signals=known | {Signal.GPU_BUSY: 0.5}, down=None),
        replace(whole.devices[INSTANCE], signals={Signal.MEMORY_USED_BYTES: 3.5 * 2**30}),
    ]
    return replace(whole, devices=tuple(replace(device, last_sample=NOW) for device in devices))


@pytest.mark.parametrize(
    ("signal", "value", "name", "text"),
    [
        ("sm_clock_hertz", 1.41e9, "DCGM_FI_DEV_SM_CLOCK", "1410"),
        ("memory_clock_hertz", 1.215e9, "DCGM_FI_DEV_MEM_CLOCK", "1215"),
        ("temperature_celsius", 61.0, "DCGM_FI_DEV_GPU_TEMP", "61"),
        ("memory_temperature_celsius", 69.0, "DCGM_FI_DEV_MEMORY_TEMP", "69"),
        ("power_watts", 409.692, "DCGM_FI_DEV_POWER_USAGE", "409.692000"),
        ("energy_joules", 319159.391, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "319159391"),
        ("pcie_replays", 3.0, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "3"),
        ("gpu_busy", 0.91, "DCGM_FI_DEV_GPU_UTIL", "91"),
        ("memory_controller_busy", 0.73, "DCGM_FI_DEV_MEM_COPY_UTIL", "73"),
        ("encoder", 0.6, "DCGM_FI_DEV_ENC_UTIL", "60"),
        ("decoder", 0.07, "DCGM_FI_DEV_DEC_UTIL", "7"),
        ("memory_free_bytes", 35690 * 2**20, "DCGM_FI_DEV_FB_FREE", "35690"),
        ("memory_used_bytes", 4845 * 2**20, "DCGM_FI_DEV_FB_USED", "4845"),
        ("memory_reserved_bytes", 470 * 2**20, "DCGM_FI_DEV_FB_RESERVED", "470"),
        ("remapped_rows_uncorrectable", 2, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "2"),
        ("remapped_rows_correctable", 1, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "1"),
        ("remapped_rows_failed", 0.0, "DCGM_FI_DEV_ROW_REMAP_FAILURE", "0"),
        ("gpu_busy", 0.99563, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.995630"),
        ("tensor_active", 0.92926, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0.929260"),
        ("dram_active", 0.690789, "DCGM_FI_PROF_DRAM_ACTIVE", "0.690789"),
        ("pcie_transmit_bytes_per_second", 33011804, "DCGM_FI_PROF_PCIE_TX_BYTES", "33011804"),
        ("pcie_receive_bytes_per_second", 97863601, "DCGM_FI_PROF_PCIE_RX_BYTES", "97863601"),
    ],
)
def test_values_are_in_its_units_and_digits(
    signal: str, value: float, name: str, text: str
) -> None:
    """MHz, MiB, %, mJ as whole numbers; watts and ratios with six digits."""
    assert value_of(alone(**{signal: value}), name) == text


def test_nvlink_is_the_rate_of_both_directions() -> None:
    """As computed by DCGM, whatever its name says: KiB a second over a thousand."""
    both = alone(nvlink_receive_bytes_per_second=1.024e9, nvlink_transmit_bytes_per_second=2.048e9)
    one = alone(nvlink_receive_bytes_per_second=1.024e9)

    assert value_of(both, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL") == "3000"
    assert value_of(one, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL") is None


def test_names_and_types_are_dcgm_exporters_own() -> None:
    """Each is in its default list, with its declared type, once above its samples."""
    page = exposition_of(full_report(2)).render_dcgm().body.decode()
    declared = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
    helped = re.findall(r"^# HELP (\S+) ", page, re.MULTILINE)

    assert len(declared) > 20
    assert list(declared) == helped
    assert declared == {name: DCGM_FIELDS[name].type for name in declared}
    assert all(DCGM_FIELDS[name].is_default for name in declared)
    assert {sample[0] for sample in samples_of(full_report(2))} == declared.keys()


def test_all_default_counters_are_there_or_known_to_be_left_out() -> None:
    """The license is not read, and so is omitted."""
    metrics = {
        name
        for name, field in DCGM_FIELDS.items()
        if field.is_default and field.type is not DcgmType.LABEL
    }
    assert metrics - {counter.name for counter in DCGM_COUNTERS} == {
        "DCGM_FI_DEV_VGPU_LICENSE_STATUS"
    }


def test_profiling_fields_need_the_profiling_tier() -> None:
    """A share of time with a kernel is no engine activity, nor are 20 ms of PCIe its bytes."""
    report = alone(Tier.POWER, gpu_busy=0.5, pcie_transmit_bytes_per_second=1e9)
    names = {name for name, _, _ in samples_of(report)}

    assert "DCGM_FI_DEV_GPU_UTIL" in names
    assert not any(name.startswith("DCGM_FI_PROF") for name in names)


def test_busy_share_without_a_counter_is_no_engine_activity() -> None:
    """On the profiling tier too, if only plain utilization is known."""
    report = alone(gpu_busy=0.5, tensor_active=0.2)
    known = report.devices[0].signals
    reading = Reading("GPU-1", NOW, known, origins={Signal.GPU_BUSY: "utilization"})
    report = replace(report, devices=(replace(report.devices[0], reading=reading),))

    assert value_of(report, "DCGM_FI_PROF_GR_ENGINE_ACTIVE") is None
    assert value_of(report, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE") == "0.200000"


def test_labels_are_those_of_a_real_page() -> None:
    """In the same order, with the driver's version on every series."""
    line = next(
        line
        for line in exposition_of(full_report(1)).render_dcgm().body.decode().splitlines()
        if line.startswith("DCGM_FI_DEV_POWER_USAGE")
    )
    assert re.findall(r"(\w+)=", line) == [
        "gpu",
        "UUID",
        "pci_bus_id",
        "device",
        "modelName",
        "Hostname",
        "DCGM_FI_DRIVER_VERSION",
        "container",
        "namespace",
        "pod",
    ]
    assert 'gpu="0"' in line
    assert 'device="nvidia0"' in line
    assert 'Hostname="node-7"' in line


@pytest.mark.parametrize(
    ("generation", "present", "absent"),
    [
        (DcgmLabels.CURRENT, {"UUID", "Hostname", "pod"}, {"uuid", "hostname", "pod_name"}),
        (DcgmLabels.LOWERCASE, {"UUID", "hostname", "pod"}, {"Hostname", "pod_name"}),
        (
            DcgmLabels.FORMER,
            {"uuid", "Hostname", "pod_name", "pod_namespace", "container_name"},
            {"UUID", "pod", "DCGM_FI_DRIVER_VERSION", "err_code"},
        ),
    ],
)
def test_each_generation_spells_its_labels(
    generation: DcgmLabels, present: set[str], absent: set[str]
) -> None:
    """As in exporters of its time; our own reader understands all of them."""
    for _, labels, _ in samples_of(held(POD), dcgm_labels=generation):
        assert present <= labels.keys()
        assert not absent & labels.keys()
        entity = entity_of(labels)
        holder = holder_of(labels)
        assert entity is not None
        assert entity.device == full_report(1).devices[0].device.uuid
        assert holder is not None
        assert (holder.namespace, holder.pod, holder.container) == ("chat", "llm-0", "engine")


def test_a_shared_device_has_a_series_for_each_pod() -> None:
    """With the whole value each; one pod that holds it twice has one."""
    pods = [
        (labels["pod"], value)
        for name, labels, value in samples_of(held(POD, OTHER_POD, POD))
        if name == "DCGM_FI_DEV_POWER_USAGE"
    ]
    assert pods == [("llm-0", "100.000000"), ("llm-1", "100.000000")]


def test_a_job_is_a_label_and_nobody_is_none() -> None:
    """A Slurm job has its number; a device without a pod has no empty labels."""
    (job,) = (labels for name, labels, _ in samples_of(held(JOB)) if "POWER" in name)
    (nobody,) = (
        labels for name, labels, _ in samples_of(alone(power_watts=1.0)) if "POWER" in name
    )
    assert job["hpc_job"] == "4711"
    assert not {"pod", "namespace", "container", "hpc_job"} & nobody.keys()


def test_an_xid_is_reported_with_its_code() -> None:
    """The last one, 0 before the first, and no series without an event listener."""
    report = alone(power_watts=1.0)
    failed = replace(
        report, devices=(replace(report.devices[0], xids=XidLog({79: 1, 31: 2}, 79, NOW)),)
    )
    deaf = replace(report, devices=(replace(report.devices[0], xids=None),))

    assert value_of(report, "DCGM_FI_DEV_XID_ERRORS", err_code="0", err_msg="No Error") == "0"
    assert value_of(failed, "DCGM_FI_DEV_XID_ERRORS", err_code="79") == "79"
    assert value_of(deaf, "DCGM_FI_DEV_XID_ERRORS") is None


def test_an_instance_has_its_own_memory_and_its_cards_power() -> None:
    """With the board's uuid and its own profile; neither has utilization."""
    report = divided(power_watts=300.0, sm_clock_hertz=1.4e9, memory_free_bytes=2**30)
    samples = list(samples_of(report))
    identity = {"UUID": uuid_of(PARENT), "GPU_I_PROFILE": "3g.40gb", "GPU_I_ID": "2"}

    assert all(identity.items() <= labels.items() for _, labels, _ in samples)
    assert value_of(report, "DCGM_FI_DEV_FB_USED") == "3584"
    assert value_of(report, "DCGM_FI_DEV_POWER_USAGE") == "300.000000"
    assert value_of(report, "DCGM_FI_DEV_SM_CLOCK") == "1400"
    assert value_of(report, "DCGM_FI_DEV_FB_FREE") is None
    assert not any(name.endswith("_UTIL") for name, _, _ in samples)


def test_compute_instances_of_one_gpu_instance_are_one_entity() -> None:
    """DCGM only knows GPU instances; two lines with the same labels would be refused."""
    report = divided(power_watts=300.0)
    parent, first = report.devices
    assert first.device.mig is not None
    mig = replace(first.device.mig, compute_instance_id=1)
    second = replace(first, device=replace(first.device, uuid="MIG-second", mig=mig))
    lines = exposition_of(replace(report, devices=(parent, first, second))).render_dcgm().body

    assert lines == exposition_of(report).render_dcgm().body


def test_stale_and_lost_devices_have_no_series() -> None:
    """Immediately: values shown are current."""
    report = full_report(2)
    assert list(samples_of(report, NOW))
    assert not list(samples_of(report, NOW + 3600 * 10**9))


def test_prometheus_reads_it() -> None:
    """Every sample parses, and no series is there twice."""
    page = exposition_of(full_report(8)).render_dcgm().body.decode()
    samples = [
        (sample.name, frozenset(sample.labels.items()))
        for family in parse_text(page)
        for sample in family.samples
    ]
    assert len(samples) > 8 * 20
    assert len(set(samples)) == len(samples)


def test_a_generation_is_rendered_once_and_packs() -> None:
    """Replicas share one body; before the first report it is empty."""
    exposition = exposition_of(full_report(1))
    plain = exposition.render_dcgm()
    packed = exposition.render_dcgm(is_gzip=True)

    assert exposition.render_dcgm().body is plain.body
    assert gzip.decompress(packed.body) == plain.body
    assert plain.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert exposition_of(None).render_dcgm().body == b""


def test_dcgm_page_is_refused_with_a_reason() -> None:
    """Unless it is enabled, and while a dcgm-exporter is the agent's own source."""
    off = exposition_of(full_report(1), dcgm=False).dcgm_refusal()
    doubled = exposition_of(
        full_report(1), own_source="http://localhost:9400/metrics"
    ).dcgm_refusal()

    assert off is not None
    assert "web.metrics.dcgm" in off
    assert doubled is not None
    assert "http://localhost:9400/metrics" in doubled
    assert exposition_of(full_report(1)).dcgm_refusal() is None
