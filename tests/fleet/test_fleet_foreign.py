"""Foreign stores: series without a GPU's UUID, other MIG labels, unsupported exporters."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from dcgm_estate import BUSY, EMPTY, HELD, NOW, EstatePast, Phase, gpu
from fleet_command import Said, asked_in_process, configured
from victoria_server import victoria_server

pytestmark = pytest.mark.prometheus

RunFleet = Callable[[EstatePast], Said]
NODE: Final = {"Hostname": "node-a", "modelName": "NVIDIA H100 80GB HBM3", "instance": "a:9400"}
POD: Final = {"pod": "train-0", "namespace": "ml", "container": "main"}


@pytest.fixture
def run_fleet(tmp_path: Path) -> RunFleet:
    """Run of a day on a store that has scraped it."""

    def looked(past: EstatePast) -> Said:
        with victoria_server(past=past.text()) as server:
            config = configured(tmp_path, server.url, lookback="1d")
            return asked_in_process(config, "--json", "--at", str(NOW // 10**9))

    return looked


def test_series_without_a_uuid_are_refused_with_the_remedy(run_fleet: RunFleet) -> None:
    """The error names relabeling as the likely cause; the fleet is not taken for an empty one."""
    past = EstatePast()
    past.device([Phase(0, 24, HELD, POD)], **NODE, gpu="0")

    assert "has series of GPUs that name no GPU: keep the label UUID" in run_fleet(past).refusal


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("nvidia_smi_utilization_gpu_ratio", "is by nvidia_gpu_exporter, which reads nvidia-smi"),
        ("nvidia_smi_utilization_gpu", "is by Telegraf, which reads nvidia-smi"),
        ("gpu_gfx_activity", "is by AMD's device-metrics-exporter, and AMD's GPUs are not read"),
        ("nv_gpu_utilization", "is by a Triton server, for itself"),
    ],
)
def test_exporter_that_is_not_read_is_named(run_fleet: RunFleet, metric: str, message: str) -> None:
    """The message says what to scrape instead."""
    past = EstatePast()
    past.series(metric, {"gpu_id": "0"}, 1)
    refusal = run_fleet(past).refusal

    assert f"{metric} {message}" in refusal
    assert "let it scrape the agents or dcgm-exporter" in refusal


def test_metrics_of_unknown_names_are_named(run_fleet: RunFleet) -> None:
    """A relay may append the unit; exporters that nobody knows are named too."""
    past = EstatePast()
    for name in ("DCGM_FI_DEV_GPU_UTIL_percent", "netdata_nvidia_smi_power_draw"):
        past.series(name, {"UUID": gpu(0)}, 1)
    refusal = run_fleet(past).refusal

    assert "but of DCGM_FI_DEV_GPU_UTIL_percent, netdata_nvidia_smi_power_draw: by" in refusal
    assert "keep their names" in refusal


@pytest.mark.parametrize("interval_seconds", [45, 90, 120, 300])
def test_time_is_known_at_any_interval_of_scrapes(
    run_fleet: RunFleet, interval_seconds: int
) -> None:
    """A mean of two and a half samples in five minutes counts as complete."""
    past = EstatePast(interval_seconds)
    past.device([Phase(0, 12, BUSY, POD), Phase(12, 24, HELD, POD)], **NODE, UUID=gpu(0), gpu="0")
    document = run_fleet(past).document

    assert document["coverage_ratio"] == pytest.approx(1.0, abs=0.02)
    (hours,) = document["teams"]
    assert hours["held_gpu_hours"] == pytest.approx(24.0, abs=0.5)


def test_exporters_beside_dcgm_exporter_are_told_of(run_fleet: RunFleet) -> None:
    """GPUs of other exporters are reported as missing; serving engines belong to known GPUs."""
    past = EstatePast()
    past.device([Phase(0, 24, BUSY, POD)], **NODE, UUID=gpu(0), gpu="0")
    for number in ("0", "1"):
        past.series("gpu_gfx_activity", {"gpu_id": number}, 90)
        past.series("nv_gpu_utilization", {"gpu_uuid": gpu(0), "model": number}, 0.9)
    document = run_fleet(past).document

    assert document["gpus"] == 1
    (note,) = document["notes"]
    assert note.startswith("Left out: 2 series of gpu_gfx_activity, which are by AMD's")


@pytest.mark.parametrize(
    ("labels", "title"),
    [({"gpu": "3"}, "GPU 3 on node-a"), ({"GPU": "3"}, "GPU 3 on node-a"), ({}, gpu(0))],
)
def test_gpu_has_the_index_that_its_labels_state(
    run_fleet: RunFleet, labels: dict[str, str], title: str
) -> None:
    """GPUs without an index label have none."""
    past = EstatePast()
    past.device([Phase(0, 24, HELD, POD)], **NODE, UUID=gpu(0), **labels)
    document = run_fleet(past).document

    summaries = [each["summary"] for each in document["advice"]]
    assert any(title in summary for summary in summaries), summaries


@pytest.mark.parametrize(
    "labels", [("GPU_I_ID", "GPU_I_PROFILE"), ("gpu_i_id", "gpu_i_profile"), ("GPU_I_ID", None)]
)
def test_mig_instances_are_parts_of_a_gpu_or_left_out_aloud(
    run_fleet: RunFleet, labels: tuple[str, str | None]
) -> None:
    """Instances without a profile are left out with a warning; all of the time is known."""
    past, (number, profile) = EstatePast(), labels
    for each in (1, 2):
        instance_labels = {number: str(each), **({profile: "1g.10gb"} if profile else {})}
        past.device([Phase(0, 24, HELD, POD)], **NODE, UUID=gpu(0), **instance_labels)
    document = run_fleet(past).document

    assert document["gpus"] == pytest.approx(2 / 7 if profile else 0, abs=1e-6)
    assert document["coverage_ratio"] == pytest.approx(1.0 if profile else 0.0, abs=0.01)
    has_warning = "2 MIG instances without the label GPU_I_PROFILE" in json.dumps(document)
    assert has_warning is (profile is None)


def test_gpus_whose_exporters_lack_fields_count_too(run_fleet: RunFleet) -> None:
    """One exports only utilization, another memory too; hours cover both."""
    past = EstatePast()
    past.device([Phase(0, 24, BUSY, POD)], **NODE, UUID=gpu(0), gpu="0")
    utilization = {"DCGM_FI_DEV_GPU_UTIL": 98.0}
    past.device(
        [Phase(0, 12, utilization, {**POD, "namespace": "hpc"})],
        **{**NODE, "Hostname": "node-b"},
        UUID=gpu(1),
        gpu="0",
    )
    document = run_fleet(past).document

    hours = {each["team"]: each["held_gpu_hours"] for each in document["teams"]}
    assert hours == {"ml": pytest.approx(24, abs=0.1), "hpc": pytest.approx(12, abs=0.1)}


def test_scrapes_of_one_job_may_name_holders_differently(run_fleet: RunFleet) -> None:
    """One scrape adds the exporter's own pod to the holder's, another does not."""
    past = EstatePast()
    own = {"pod": "metrics-x", "namespace": "gpu-operator"}
    exported = {f"exported_{name}": value for name, value in POD.items()}
    scraped = {**NODE, "job": "gpu"}
    past.device([Phase(0, 24, BUSY, {**exported, **own})], **scraped, UUID=gpu(0), gpu="0")
    past.device([Phase(0, 24, HELD, own)], **scraped, UUID=gpu(1), gpu="1")
    past.device([Phase(0, 24, BUSY, {**POD, "namespace": "web"})], **scraped, UUID=gpu(2), gpu="2")
    document = run_fleet(past).document

    hours = {each["team"]: each["held_gpu_hours"] for each in document["teams"]}
    assert hours == {name: pytest.approx(24, abs=0.1) for name in ("", "ml", "web")}


def test_gpus_of_nodes_that_live_for_hours_are_counted(run_fleet: RunFleet) -> None:
    """An autoscaler makes each node anew: at six-hourly moments most of them are not there."""
    past = EstatePast()
    for number in range(12):
        labels = {**NODE, "Hostname": f"spot-{number}", "UUID": gpu(number), "gpu": "0"}
        past.device([Phase(2 * number, 2 * number + 2, BUSY, POD)], **labels)
    document = run_fleet(past).document

    (hours,) = document["teams"]
    assert (hours["team"], hours["held_gpu_hours"]) == ("ml", pytest.approx(24.0, abs=0.2))


def test_nodes_named_by_pods_of_exporters_are_reported(run_fleet: RunFleet) -> None:
    """Without a node's label, and without kube-state-metrics; `instance` has the port's name."""
    past = EstatePast()
    pod = "nvidia-dcgm-exporter-x2x4z"
    own = {"Hostname": pod, "pod": pod, "instance": f"{pod}:metrics", "job": "dcgm"}
    past.device([Phase(0, 24, HELD)], **{**NODE, **own}, UUID=gpu(0), gpu="0")
    document = run_fleet(past).document

    (note,) = document["notes"]
    assert note.startswith("The nodes of 1 GPUs or instances are named by the pods")
    assert f"on {pod}" in json.dumps(document)
    assert ":metrics" not in json.dumps(document)


def test_gpu_that_is_shared_names_all_of_its_holders(run_fleet: RunFleet) -> None:
    """With time slicing a GPU has a series for each pod, and is free once all are gone."""
    past = EstatePast()
    for name in ("chat", "rank", "tags"):
        pod = {"pod": f"{name}-6c8d9f7b54-x2x4z", "namespace": "web", "container": "main"}
        past.device([Phase(0, 24, HELD, pod)], **NODE, UUID=gpu(0), gpu="0")
    document = run_fleet(past).document
    (idle,) = document["advice"]

    assert (document["workloads"], document["clusters"][0]["workloads"]) == (3, 3)
    assert "held by chat, shared with rank, tags, but idle" in idle["summary"]


def test_nodes_of_one_name_are_reported(run_fleet: RunFleet) -> None:
    """Two clusters without a label for them; a GPU that was replaced, and MIG, are no such case."""
    past = EstatePast()
    for number in (0, 1):
        instance = {
            "instance": f"10.{number}.0.1:9400",
            "GPU_I_ID": "1",
            "GPU_I_PROFILE": "1g.10gb",
        }
        past.device([Phase(0, 24, BUSY)], **NODE | instance, UUID=gpu(number), gpu="0")
        past.device(
            [Phase(12 * number, 12 * number + 12, BUSY)], **NODE, UUID=gpu(8 + number), gpu="1"
        )
    warnings = json.dumps([each["warnings"] for each in run_fleet(past).document["sources"]])

    assert "Nodes of one name: 1 times several GPUs have the same Hostname and index" in warnings


@pytest.mark.parametrize("label", ["pod", "pod_name"])
def test_pod_of_an_exporter_of_another_name_holds_nothing(run_fleet: RunFleet, label: str) -> None:
    """Where labels are honored a free GPU has the scraped pod, which `up` names."""
    past = EstatePast()
    own = {label: "gpu-metrics-x2x4z", "namespace": "monitoring"}
    scraped = {**NODE, "job": "gpus"}
    past.device([Phase(0, 24, HELD, own)], **scraped, UUID=gpu(0), gpu="0")
    past.device([Phase(0, 24, BUSY, POD)], **scraped, UUID=gpu(1), gpu="1")
    past.series("up", {"job": "gpus", "instance": "a:9400", **own}, 1)
    # One job may scrape all pods, those that hold GPUs too.
    past.series("up", {"job": "gpus", "instance": "a:8000", **POD}, 1)
    document = run_fleet(past).document

    hours = {each["team"]: each["held_gpu_hours"] for each in document["teams"]}
    assert hours == {name: pytest.approx(24, abs=0.1) for name in ("", "ml")}
    assert "gpu-metrics" not in json.dumps(document["findings"] + document["advice"])


def test_busy_gpu_without_a_known_holder_is_not_free(run_fleet: RunFleet) -> None:
    """Exporters without pods or jobs in their labels; pending work is not offered what is busy."""
    past = EstatePast()
    for number, values in enumerate((BUSY, HELD, EMPTY)):
        past.device([Phase(0, 24, values)], **NODE, UUID=gpu(number), gpu=str(number))
    (pool,) = run_fleet(past).document["pools"]

    assert (pool["gpus"], pool["free_now"]) == (3, 1)


def test_jobs_hold_the_gpus_of_a_pod_that_is_a_node_of_slurm(run_fleet: RunFleet) -> None:
    """Slurm on Kubernetes: the pod has all GPUs of a node, each job some of them."""
    past = EstatePast()
    pod = {"pod": "slurm-h100-0", "namespace": "slurm", "container": "slurmd"}
    for number, values in enumerate((BUSY, HELD)):
        labels = {**pod, "hpc_job": str(4711 + number)}
        past.device([Phase(0, 24, values, labels)], **NODE, UUID=gpu(number), gpu=str(number))
    document = run_fleet(past).document

    assert document["workloads"] == 2
    assert {each["workload"] for each in document["advice"]} == {"slurm:4712"}
