"""Findings of a store with nothing but dcgm-exporter's default counters."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from dcgm_estate import BUSY, NOW, EstatePast, Phase, gpu
from rightsizer.fleet.answer_blocks import fleet_blocks
from rightsizer.fleet.encoder import encode_answer
from rightsizer.fleet.judge import FleetJudge
from rightsizer.fleet.run import run_once
from rightsizer.fleet.settings import FleetConfig, FleetSettings, StoreSettings
from rightsizer.io.clock import FastClock
from rightsizer.model.state import Resource
from rightsizer.report.block_text import text_of
from victoria_server import victoria_server

pytestmark = pytest.mark.prometheus

DEFAULT: Final = {
    **{name: value for name, value in BUSY.items() if "SM_ACTIVE" not in name},
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 0,
    "DCGM_FI_DEV_ENC_UTIL": 0,
    "DCGM_FI_DEV_DEC_UTIL": 0,
    "DCGM_FI_DEV_XID_ERRORS": 0,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0,
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 0,
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": 0,
}
TRANSCODING: Final = {
    **DEFAULT,
    "DCGM_FI_DEV_GPU_UTIL": 9,
    "DCGM_FI_DEV_ENC_UTIL": 68,
    "DCGM_FI_DEV_DEC_UTIL": 31,
    "DCGM_FI_DEV_FB_USED": 3000,
}
FALLEN, WORN, TRANSCODER, WELL, ONE, OTHER, PICTURES = range(7)


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], FleetJudge]]:
    """A day of seven GPUs on four nodes, and the judge that evaluated it."""
    past = EstatePast()

    def device(number: int, *phases: Phase) -> None:
        model = "NVIDIA L4" if number == TRANSCODER else "NVIDIA H100 80GB HBM3"
        labels = {"Hostname": f"node-{number // 2}", "modelName": model, "gpu": str(number % 2)}
        past.device(phases, UUID=gpu(number), **labels)

    def pod(name: str) -> dict[str, str]:
        return {"pod": name, "namespace": "team"}

    device(
        FALLEN,
        Phase(0, 20, DEFAULT, pod("train-0")),
        Phase(20, 24, {**DEFAULT, "DCGM_FI_DEV_XID_ERRORS": 79}, pod("train-0")),
    )
    worn = {**DEFAULT, "DCGM_FI_DEV_ROW_REMAP_FAILURE": 1, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 5000}
    device(WORN, Phase(0, 24, worn))
    device(TRANSCODER, Phase(0, 24, TRANSCODING, pod("transcode-0")))
    for number, letter in ((ONE, "b"), (OTHER, "c")):
        device(number, Phase(0, 24, DEFAULT, pod(f"chat-7d4b9cf5f6-{letter}2x4z")))
    engines = {"DCGM_FI_PROF_NVJPG0_ACTIVE": 0.2, "DCGM_FI_PROF_NVJPG1_ACTIVE": 0.55}
    device(PICTURES, Phase(0, 24, {**DEFAULT, **engines}, pod("thumbnails-0")))
    device(WELL, Phase(0, 24, DEFAULT, pod("train-1")))
    with victoria_server(past=past.text()) as server:
        fleet = FleetSettings(
            store=StoreSettings(url=server.url),
            path=str(Path(tmp_path_factory.mktemp("fleet")) / "fleet.db"),
            lookback_seconds=86400.0,
            workers=1,
        )
        settings = replace(FleetConfig(), fleet=fleet)
        clock = FastClock(NOW)
        with FleetJudge(settings, clock, keeps_all=True) as judge:
            yield encode_answer(run_once(judge, settings, clock)), judge


def findings(answer: dict[str, Any], rule: str) -> list[dict[str, Any]]:
    """All verdicts of a rule."""
    return [each for each in answer["findings"] if each["rule"] == rule]


@pytest.mark.parametrize(
    ("rule", "metric"),
    [
        ("thermal_throttled", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"),
        ("power_throttled", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"),
        ("host_bound", "rightsizer_cpu_ratio"),
        ("storage_bound", "rightsizer_io_pressure_ratio"),
        ("network_bound", "rightsizer_infiniband_receive_ratio"),
        ("periodic_starvation", "rightsizer_gpu_busy_ratio"),
        ("pcie_bound", "DCGM_FI_PROF_PCIE"),
        ("launch_bound", "DCGM_FI_PROF_SM_ACTIVE"),
        ("tensor_cores_unused", "DCGM_FI_PROF_PIPE_FP32_ACTIVE"),
    ],
)
def test_unmeasured_metric_makes_the_rule_abstain(
    answer: tuple[dict[str, Any], FleetJudge], rule: str, metric: str
) -> None:
    """The reason names a metric that would provide the measurement."""
    assert answer[0]["verdicts"][rule]["well"] == 0
    assert findings(answer[0], rule)
    for finding in findings(answer[0], rule):
        assert metric in finding["abstained"], finding["abstained"]


def test_the_text_names_the_metrics_that_would_tell(
    answer: tuple[dict[str, Any], FleetJudge],
) -> None:
    """They stand beside the rules that need them."""
    text = " ".join(text_of(fleet_blocks(answer[0])).split())
    assert "DCGM_FI_DEV_CLOCKS_EVENT_REASONS or" in text
    assert "rightsizer_io_pressure_ratio: storage_bound" in text


def test_broken_hardware_is_named_with_its_node(
    answer: tuple[dict[str, Any], FleetJudge],
) -> None:
    """Every exporter has these counters; the GPU may be free or held."""
    bad = {
        finding["culprits"][0]: finding["summary"]
        for finding in findings(answer[0], "hardware_unhealthy")
        if finding["finding"] == "degraded"
    }
    assert bad.keys() == {gpu(FALLEN), gpu(WORN)}
    assert "Xid 79 once, last 3 h ago" in bad[gpu(FALLEN)]
    assert "on node-0" in bad[gpu(FALLEN)]
    assert "remapping a memory row has failed" in bad[gpu(WORN)]
    assert "5,000 PCIe replays" in bad[gpu(WORN)]


def test_media_engines_size_a_transcoder(answer: tuple[dict[str, Any], FleetJudge]) -> None:
    """It is no candidate for another board, a MIG slice or sharing, though its SMs are idle."""
    devices = [each for each in answer[0]["findings"] if gpu(TRANSCODER) in each["devices"]]
    complaints = {
        device["rule"] for device in devices if device["finding"] not in {"optimized", "unknown"}
    }
    assert complaints.isdisjoint({"overprovisioned", "sharing", "gpu_count", "wrong_gpu_type"})
    needs = {
        workload.case.devices[0].uuid: fit.need
        for workload in answer[1].answer.view.workloads
        if (fit := workload.case.provisioning[0].resources.get(Resource.MEDIA)) is not None
    }
    # The busiest JPEG engine counts.
    expected = {gpu(TRANSCODER): 0.68 * 1.2, gpu(PICTURES): 0.55 * 1.2}
    assert needs == pytest.approx(expected, abs=0.05)


def test_pods_with_a_gpu_each_are_distinguished(answer: tuple[dict[str, Any], FleetJudge]) -> None:
    """Labels of the series distinguish them: a Deployment's pods are replicas, on H100 too."""
    found = {workload.case.key: workload for workload in answer[1].answer.view.workloads}
    chat = found["kubernetes:team/chat"]
    assert {device.uuid for device in chat.case.devices} == {gpu(ONE), gpu(OTHER)}
    assert chat.has_separate_pods
    assert not found["kubernetes:team/train-0"].has_separate_pods
