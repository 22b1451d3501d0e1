"""GPU-hours in foreign stores: whatever changes within a day, each hour counts once."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from dcgm_estate import BUSY, NOW, EstatePast, Phase, gpu, unprofiled
from fleet_command import asked_in_process, configured
from prometheus_server import prometheus_server, scrape_config
from victoria_server import victoria_server

pytestmark = pytest.mark.prometheus

FleetOf = Callable[..., dict[str, Any]]
NODE: Final = {"Hostname": "node-a", "modelName": "NVIDIA A100-SXM4-80GB", "instance": "a:9400"}
MEMORY: Final = {"DCGM_FI_DEV_FB_USED": 61_440.0, "DCGM_FI_DEV_FB_FREE": 20_000.0}


def pod(name: str, namespace: str) -> dict[str, str]:
    """Labels of a holder."""
    return {"pod": name, "namespace": namespace, "container": "main"}


def hours(document: dict[str, Any], kind: str = "held") -> dict[str, float]:
    """GPU-hours by team, without those of nobody."""
    found = {each["team"]: round(each[f"{kind}_gpu_hours"], 1) for each in document["teams"]}
    return {team: value for team, value in found.items() if value}


@pytest.fixture
def fleet_of(tmp_path: Path, request: pytest.FixtureRequest) -> FleetOf:
    """JSON of a run on a store that has scraped a text, of a day by default."""
    stored = getattr(request, "param", partial(prometheus_server, scrape_config()))

    def looked(past: str, lookback: str = "1d", at: int = NOW) -> dict[str, Any]:
        with stored(past=past) as server:
            config = configured(tmp_path, server.url, lookback=lookback)
            return asked_in_process(config, "--json", "--at", str(at // 10**9)).document

    return looked


def test_gpu_whose_state_is_not_exported_is_there_all_the_same(fleet_of: FleetOf) -> None:
    """Without utilization its hours are unknown, and the probe says which metrics are missing."""
    past = EstatePast()
    utilized = {"DCGM_FI_DEV_GPU_UTIL": 98.0}
    for number, (namespace, end) in enumerate({"ml": 24, "web": 20, "lab": 0}.items()):
        device = {**NODE, "UUID": gpu(number), "gpu": str(number)}
        held = pod(f"{namespace}-0", namespace)
        past.device([Phase(0, 24, MEMORY, held), Phase(0, end, utilized, held)], **device)
    document = fleet_of(past.text())

    assert (document["gpus"], document["coverage_ratio"]) == (3, pytest.approx(44 / 72, abs=0.01))
    assert hours(document) == {"ml": 24, "web": 20}
    assert hours(document, "unknown") == {"web": 4, "lab": 24}
    (source,) = (each for each in document["sources"] if each["devices"])
    assert source["cannot"][0].startswith(
        "Whether 2 of the GPUs are idle: their exporters lack DCGM_FI_DEV_GPU_UTIL"
    )


def test_hours_of_what_has_ended_have_its_team_and_its_pool(fleet_of: FleetOf) -> None:
    """Teams share a namespace, and an autoscaler has removed most of the nodes."""
    past = EstatePast()
    jobs = {"vision": (0, 8), "speech": (8, 16), "nlp": (16, 24)}
    for number, (team, (first, last)) in enumerate(jobs.items()):
        held = pod(f"{team}-x5k2m", "ml")
        owner = {"owner_kind": "Job", "owner_name": team}
        device = {**NODE, "Hostname": f"spot-{number}.internal", "UUID": gpu(number), "gpu": "0"}
        past.device([Phase(first, last, BUSY, held)], **device)
        name = {"pod": held["pod"], "namespace": "ml"}
        past.series("kube_pod_owner", {**name, **owner}, 1, first, last)
        past.series("kube_pod_labels", {**name, "label_team": team}, 1, first, last)
        labels = {"node": f"spot-{number}", "label_karpenter_sh_nodepool": f"pool-{number % 2}"}
        past.series("kube_node_labels", labels, 1, first, last)
    document = fleet_of(past.text())

    assert hours(document) == {"vision": 8, "speech": 8, "nlp": 8}
    pools = {each["name"]: each["held_gpu_hours"] for each in document["usage"]["pools"]}
    assert pools == {"pool-0": pytest.approx(16, abs=0.2), "pool-1": pytest.approx(8, abs=0.2)}
    assert not document["advice"]


@pytest.mark.parametrize("whole_until", [12, 24], ids=["before", "beside its instances"])
def test_gpu_that_was_divided_has_its_hours_before(fleet_of: FleetOf, whole_until: int) -> None:
    """Its instances count from then on, whether or not the GPU has series of its own."""
    past = EstatePast()
    device = {**NODE, "UUID": gpu(0), "gpu": "0"}
    past.device([Phase(0, whole_until, BUSY, pod("whole-0", "ml"))], **device)
    for number in ("1", "2"):
        part = {"GPU_I_ID": number, "GPU_I_PROFILE": "3g.40gb"}
        past.device([Phase(12, 24, BUSY, pod(f"part-{number}", "web"))], **device, **part)
    document = fleet_of(past.text())

    assert (document["gpus"], document["workloads"]) == (pytest.approx(6 / 7), 2)
    assert hours(document) == {"ml": 12, "web": 10.3}
    assert not document["advice"]


def add_agent(past: EstatePast, number: int, first: float, last: float) -> None:
    """Series of an agent about a GPU that always works."""
    own = {"uuid": gpu(number), "instance": "a:19400"}
    key = "kubernetes:ml/train-0"
    infos = {
        "device_info": {"gpu": str(number), "model": NODE["modelName"]},
        "device_up": {},
        "device_capacity_ratio": {},
        "device_telemetry_info": {"tier": "power", "source": "nvml"},
        "workload_share_ratio": {"workload": key},
        "workload_info": {
            "workload": key,
            "kind": "kubernetes",
            "class": "batch",
            "allocator": "growing",
            "name": "train-0",
            **pod("train-0", "ml"),
        },
    }
    for name, labels in infos.items():
        past.series(f"rightsizer_{name}", {**own, **labels}, 1, first, last)
    worked = {**own, "state": "productive"}
    past.series("rightsizer_state_seconds_total", worked, 0, first, last, grows_by=120.0)


@pytest.mark.parametrize(
    "fleet_of",
    [partial(prometheus_server, scrape_config()), victoria_server],
    indirect=True,
    ids=["Prometheus", "VictoriaMetrics"],
)
def test_agents_that_come_and_go_lose_no_days_of_the_exporter(fleet_of: FleetOf) -> None:
    """They are installed node by node; the rest of the day on which one came is unknown."""
    past = EstatePast(interval_seconds=120)
    for number in range(3):
        device = {**NODE, "UUID": gpu(number), "gpu": str(number)}
        past.device([Phase(-48, 24, unprofiled(BUSY), pod("train-0", "ml"))], **device)
    for number, times in enumerate(((12, 24), (-48, 6), (-48, 24))):
        add_agent(past, number, *times)
    document = fleet_of(past.text(), lookback="3d")

    known = hours(document)["ml"]
    assert document["gpus"] == 3
    # VictoriaMetrics does not extrapolate between samples that are two minutes apart.
    assert 0.95 * (3 * 72 - 12) <= known <= 3 * 72 - 12
    assert known + hours(document, "unknown")["ml"] == 3 * 72
    assert not document["advice"]


def test_time_within_an_interval_counts_as_far_as_it_has_passed(fleet_of: FleetOf) -> None:
    """Samples that stand for more of the last interval made what always held hold for longer."""
    past = EstatePast(interval_seconds=120)
    hot = {**BUSY, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": 0x20, "DCGM_FI_DEV_SM_CLOCK": 900.0}
    past.device([Phase(0, 24, hot, pod("train-0", "ml"))], **NODE, UUID=gpu(0), gpu="0")
    document = fleet_of(past.text(), at=NOW - int(0.55 * 3600) * 10**9)

    assert not document["notes"]
    assert document["usage"]["total"]["held_gpu_hours"] == pytest.approx(23.45, abs=0.02)
    assert ["ThermalThrottled"] in [each["reasons"] for each in document["findings"]]


def test_hours_before_an_exporter_was_upgraded_count(fleet_of: FleetOf) -> None:
    """Its fields had other names then, which no series has now."""
    past = EstatePast(interval_seconds=120)
    former = {name.lower(): value for name, value in unprofiled(BUSY).items()}
    device = {**NODE, "UUID": gpu(0), "gpu": "0"}
    held = pod("train-0", "ml")
    past.device([Phase(-24, 6, former, held), Phase(6, 24, BUSY, held)], **device)
    document = fleet_of(past.text(), lookback="2d")

    assert (hours(document), document["coverage_ratio"]) == ({"ml": 48}, pytest.approx(1, abs=0.01))
