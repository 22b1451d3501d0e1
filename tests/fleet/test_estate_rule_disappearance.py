"""Devices and nodes that disappeared are reported, with the time of disappearance."""

from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from dcgm_estate import BUSY, EMPTY, NOW, EstatePast, Phase, gpu, unprofiled
from estate_views import MARKET, pool, steady, view
from readings import HOUR
from rightsizer.fleet.encoder import encode_answer
from rightsizer.fleet.judge import FleetJudge
from rightsizer.fleet.model import FleetDevice, FleetView, LostDevice
from rightsizer.fleet.rules.disappearance import RULE
from rightsizer.fleet.run import run_once
from rightsizer.fleet.settings import FleetConfig, FleetSettings, StoreSettings
from rightsizer.io.clock import FastClock
from rightsizer.model.finding import Action, Finding, Reason
from rightsizer.model.workload import WorkloadKind
from victoria_server import victoria_server

NODES: Final = (
    "node-0",
    "node-1",
    "node-2",
    "node-3",  # Kubernetes no longer lists it.
    "node-4",  # It is ready, and offers as many GPUs as before.
    "node-5",  # It offers one GPU less.
    "node-6",  # It offers as many as before, and one is not exported any more.
    "node-7",  # Kubernetes is not there, and another target answers.
    "node-8",  # One GPU is gone after an Xid, though it is still offered.
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The verdicts of a one-day run on a real store, by key."""
    past = EstatePast()

    def device(number: int, *phases: Phase) -> None:
        labels = {"Hostname": NODES[number // 2], "gpu": str(number % 2)}
        past.device(phases, UUID=gpu(number), modelName="NVIDIA H100 80GB HBM3", **labels)

    pod = {"pod": "train-0", "namespace": "team"}
    device(0, Phase(0, 24, BUSY))
    device(1, Phase(0, 10, BUSY, pod))
    device(2, Phase(0, 6, BUSY))
    device(3, Phase(0, 6, EMPTY))
    device(4, Phase(0, 12, BUSY), Phase(12, 24, unprofiled(BUSY)))
    device(5, Phase(0, 4, BUSY), Phase(4, 24, EMPTY))  # It idles, and is still read.
    device(6, Phase(0, 6, BUSY))
    device(7, Phase(0, 6, BUSY))
    for number in (8, 9, 14, 15):
        device(number, Phase(0, 6, BUSY))
    for number in (10, 12, 16):
        device(number, Phase(0, 24, BUSY))
        device(number + 1, Phase(0, 6, BUSY))
    fallen = {"UUID": gpu(17), "Hostname": "node-8", "gpu": "1"}
    past.series("DCGM_FI_DEV_XID_ERRORS", fallen, 0, 0, 5)
    past.series("DCGM_FI_DEV_XID_ERRORS", fallen, 79, 5, 6)
    past.series("DCGM_FI_DEV_XID_ERRORS", fallen | {"UUID": gpu(16), "gpu": "0"}, 0)
    for node in (*NODES[:3], *NODES[4:]):
        past.series("kube_node_labels", {"node": node}, 1)
    ready = {"condition": "Ready", "status": "true"}
    past.series("kube_node_status_condition", {"node": "node-4", **ready}, 1)
    for node in ("node-4", "node-6", "node-8"):
        offer = {"node": node, "resource": "nvidia_com_gpu"}
        past.series("kube_node_status_allocatable", offer, 2)
        past.series("kube_node_status_capacity", offer, 2)
    shrunk = {"node": "node-5", "resource": "nvidia_com_gpu"}
    past.series("kube_node_status_capacity", shrunk, 2)
    past.series("kube_node_status_allocatable", shrunk, 2, 0, 6)
    past.series("kube_node_status_allocatable", shrunk, 1, 6, 24)
    past.series("up", {"job": "node", "instance": "node-7:9100"}, 1)
    path = str(Path(tmp_path_factory.mktemp("fleet")) / "fleet.db")
    with victoria_server(past=past.text()) as server:
        fleet = FleetSettings(
            store=StoreSettings(url=server.url), path=path, lookback_seconds=86400.0, workers=1
        )
        settings = replace(FleetConfig(), fleet=fleet)
        clock = FastClock(NOW)
        with FleetJudge(settings, clock, keeps_all=True) as judge:
            answer = encode_answer(run_once(judge, settings, clock))
    return {each["key"]: each for each in answer["findings"] if each["rule"] == "disappearance"}


@pytest.mark.prometheus
def test_device_that_disappeared_from_a_store_is_named(found: dict[str, dict[str, Any]]) -> None:
    """Covers a node that Kubernetes still lists, one of its GPUs, and an exporter's profiling."""
    pool_name = "pool/H100-SXM5-80GB"
    gone, silent, fields = (found[key] for key in ("node/node-0", "node/node-1", pool_name))
    assert gone["reasons"] == ["HardwareUnhealthy"]
    assert gone["culprits"] == [gpu(1)]
    assert "gone: GPU 1 for 14 h" in gone["summary"]
    assert "held by kubernetes:team/train" in gone["summary"]
    assert silent["reasons"] == ["TelemetryLost"]
    assert "silent for 18 h; its 2 GPUs were seen last at" in silent["summary"]
    assert sorted(silent["culprits"]) == [gpu(2), gpu(3)]
    assert "profiling is lost on 1 GPU (node-2 for 12 h)" in fields["summary"]
    assert fields["culprits"] == [gpu(4)]


@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("node", "said"),
    [
        ("node-4", "no exporter of GPUs for 18 h, while it is up by Kubernetes; its 2 GPUs"),
        ("node-7", "no exporter of GPUs for 18 h, while it is up by its other targets; its 2 GPUs"),
        ("node-6", "not exported any more: GPU 1 for 18 h"),
    ],
)
def test_a_silent_exporter_is_a_finding_about_the_exporter(
    found: dict[str, dict[str, Any]], node: str, said: str
) -> None:
    """The node lives, and offers what it did."""
    finding = found[f"node/{node}"]
    assert finding["reasons"] == ["TelemetryLost"]
    assert said in finding["summary"]
    assert "exporter" in finding["instructions"][0]["title"]


@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("node", "said"), [("node-5", "the node offers fewer"), ("node-8", "after Xid 79")]
)
def test_hardware_is_blamed_with_a_second_witness(
    found: dict[str, dict[str, Any]], node: str, said: str
) -> None:
    """Silence alone does not show that a GPU failed."""
    finding = found[f"node/{node}"]
    assert finding["reasons"] == ["HardwareUnhealthy"]
    assert said in finding["summary"]


def test_most_gpus_of_a_node_do_not_fail_at_once() -> None:
    """Where nothing tells what the node offers, those still seen are the witness."""
    few, most = (
        judged(*(lost("p-0", 8 + at, 48.0) for at in range(count)))["node/p-0"] for count in (2, 9)
    )
    assert few.reasons == (Reason.HARDWARE_UNHEALTHY,)
    assert most.reasons == (Reason.TELEMETRY_LOST,)


def lost(node: str, at: int, hours: float, **facts: Any) -> LostDevice:
    """A GPU of pool `p`, last seen the given number of hours before the view's end."""
    device = pool("p", steady(0.0), nodes=1).devices[0]
    own = replace(device.device, uuid=f"GPU-{node}-lost{at}", index=at)
    more = {"scheduler": WorkloadKind.KUBERNETES, **facts}
    return LostDevice(replace(device, device=own, node=node, **more), END - round(hours * HOUR))


END: Final = view([]).end


def judged(*gone: LostDevice, listed: bool = True) -> dict[str, Finding]:
    """The verdicts on a pool of four nodes, by key."""
    here = pool("p", steady(0.0))
    scheduler = WorkloadKind.KUBERNETES if listed else None

    def known(each: FleetDevice) -> FleetDevice:
        return replace(each, scheduler=scheduler)

    of: FleetView = view([replace(here, devices=tuple(map(known, here.devices)))])
    found = RULE.in_market(MARKET).judge(replace(of, lost=gone))
    return {each.key: each for each in found}


def test_nothing_that_is_lost_is_well() -> None:
    """A healthy pool has a verdict too, so that a recommendation on it can close."""
    (found,) = judged().values()
    assert found.abstained is None
    assert not found.is_actionable


def test_a_reboot_is_no_loss() -> None:
    """Absence of some minutes is not reported."""
    assert judged(lost("away", 0, 1.0)).keys() == {"pool/p"}


def test_a_node_without_a_list_of_nodes_may_have_been_given_back() -> None:
    """It is a finding, but with too little confidence for a recommendation."""
    found = judged(lost("away", 0, 48.0, scheduler=None), listed=False)["node/away"]
    assert found.is_actionable
    assert found.confidence < RULE.conduct().minimum_confidence_ratio
    assert "unless it was given back" in found.summary


def test_a_node_that_its_scheduler_let_go_is_missed_by_no_one() -> None:
    """Nodes that an autoscaler removes each evening are not reported."""
    assert judged(lost("away", 0, 48.0, scheduler=None)).keys() == {"pool/p"}


@pytest.mark.parametrize("listed", [True, False])
def test_a_node_that_is_still_scraped_is_missed(listed: bool) -> None:  # noqa: FBT001
    """Who lets a node go takes it out of what is scraped; no scheduler has to know it."""
    loss = lost("away", 0, 48.0, scheduler=None)
    loss = replace(loss, device=replace(loss.device, is_awaited=True))
    found = judged(loss, listed=listed)["node/away"]
    assert found.confidence > RULE.conduct().minimum_confidence_ratio
    assert "unless it was given back" not in found.summary


def test_another_gpu_in_the_slot_replaces_the_one_that_is_gone() -> None:
    """A replaced board is not reported as missing."""
    assert judged(lost("p-0", 3, 48.0)).keys() == {"pool/p"}
    found = judged(lost("p-0", 8, 48.0))["node/p-0"]
    assert found.reasons == (Reason.HARDWARE_UNHEALTHY,)
    assert found.action is Action.RESEAT_OR_DRAIN
    assert found.summary == "p-0 of p: gone: GPU 8 for 2 d; its other 8 GPUs are there."


def test_many_silent_nodes_are_one_finding() -> None:
    """They have one cause, and no one reads a list of a hundred."""
    found = judged(*(lost(f"n-{at}", 0, 30.0) for at in range(12)))
    assert found.keys() == {"pool/p", "nodes/p"}
    assert found["nodes/p"].summary.startswith("12 nodes of p (n-0, n-1, ")
    assert len(found["nodes/p"].evidence["nodes"]) == 12  # type: ignore[arg-type]
