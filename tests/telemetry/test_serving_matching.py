"""Matching engines to GPUs, without guesses."""

import pytest
from msgspec.structs import replace

from readings import gpu
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.signal import Signal
from rightsizer.model.workload import Holding, Workload, WorkloadKind
from rightsizer.telemetry.serving.settings import ServingEndpoint
from rightsizer.telemetry.serving.source import match_engines

GPUS = tuple(gpu(index) for index in range(4))
UUIDS = tuple(device.uuid for device in GPUS)
BUSY = {Signal.REQUESTS_WAITING: 9.0, Signal.KV_CACHE_USED: 0.95}
URL = "http://127.0.0.1:8000"


def held_by(pod: str, name: str = "", namespace: str = "chat") -> tuple[Holding, ...]:
    """A pod that holds a device alone."""
    owner = Workload(
        f"kubernetes:{namespace}/{name or pod}",
        WorkloadKind.KUBERNETES,
        name or pod,
        namespace=namespace,
        pod=pod,
    )
    return (Holding(owner, 1.0),)


def instance(parent: Device, number: int) -> Device:
    """A MIG instance, which has its parent's index."""
    mig = MigInstance(parent.uuid, "1g.10gb", number, 0, 1 / 7, 1 / 8)
    return replace(parent, uuid=f"MIG-{number}", mig=mig)


@pytest.mark.parametrize("names", [("1", "2"), (UUIDS[1], UUIDS[2]), ("2", UUIDS[1], "1")])
def test_named_gpus_all_have_the_same_pressure(names: tuple[str, ...]) -> None:
    """An engine on several GPUs has one queue, not a share of it on each."""
    ties = match_engines(GPUS, {}, {ServingEndpoint(URL, gpus=names): BUSY})

    assert ties.values == {UUIDS[1]: BUSY, UUIDS[2]: BUSY}
    assert ties.unmatched == {}


def test_owner_finds_its_gpus() -> None:
    """Patterns of name, namespace and pod must all match."""
    holdings = {
        UUIDS[0]: held_by("llama-0", "llama"),
        UUIDS[1]: held_by("llama-0", "llama"),
        UUIDS[2]: held_by("train-0", "train"),
        UUIDS[3]: held_by("llama-0", "llama", namespace="staging"),
    }
    by_workload = ServingEndpoint(URL, workload="llama", namespace="chat")
    by_pod = ServingEndpoint(f"{URL}/pod", pod="train-*")

    ties = match_engines(
        GPUS, holdings, {by_workload: BUSY, by_pod: {Signal.REQUESTS_WAITING: 1.0}}
    )

    assert ties.values == {
        UUIDS[0]: BUSY,
        UUIDS[1]: BUSY,
        UUIDS[2]: {Signal.REQUESTS_WAITING: 1.0},
    }


def test_two_pods_of_one_workload_are_two_engines() -> None:
    """A replica's queue is not attributed to the GPUs of another."""
    holdings = {UUIDS[0]: held_by("llama-0", "llama"), UUIDS[1]: held_by("llama-1", "llama")}
    endpoint = ServingEndpoint(URL, workload="llama")

    ties = match_engines(GPUS, holdings, {endpoint: BUSY})

    assert ties.values == {}
    assert ties.unmatched == {
        endpoint: "it names 2 owners (llama-0, llama-1); name one pod, or the GPUs"
    }


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        (ServingEndpoint(URL), "names neither GPUs nor an owner"),
        (ServingEndpoint(URL, pod="mistral-0"), "no GPU is held by the owner"),
        (ServingEndpoint(URL, gpus=("7",)), "there is no GPU '7'"),
        (ServingEndpoint(URL, gpus=("0",)), "GPU '0' is split into MIG instances"),
    ],
)
def test_unmatched_engine_is_left_out_with_a_reason(endpoint: ServingEndpoint, why: str) -> None:
    """This includes nodes with a single owner: the engine may be another workload's."""
    split = replace(GPUS[0], has_mig_instances=True)
    holdings = {UUIDS[1]: held_by("llama-0")}

    ties = match_engines((split, instance(split, 1), GPUS[1]), holdings, {endpoint: BUSY})

    assert ties.values == {}
    assert why in ties.unmatched[endpoint]


def test_mig_instance_is_named_by_its_uuid() -> None:
    """Its index is its parent's."""
    devices = (replace(GPUS[0], has_mig_instances=True), instance(GPUS[0], 1))

    assert match_engines(devices, {}, {ServingEndpoint(URL, gpus=("MIG-1",)): BUSY}).values == {
        "MIG-1": BUSY
    }


def test_a_gpu_that_is_gone_leaves_the_others_tied() -> None:
    """The endpoint reports the missing GPU."""
    endpoint = ServingEndpoint(URL, gpus=("0", "7"))

    ties = match_engines(GPUS, {}, {endpoint: BUSY})

    assert ties.values == {UUIDS[0]: BUSY}
    assert ties.unmatched == {endpoint: "there is no GPU '7'"}


def test_two_engines_on_one_gpu_share_its_pressure() -> None:
    """Requests are summed; the worst cache and latency count."""
    first, second = (ServingEndpoint(f"{URL}/{name}", gpus=("0",)) for name in "ab")
    calm = {Signal.REQUESTS_WAITING: 1.0, Signal.KV_CACHE_USED: 0.2, Signal.PREEMPTIONS: 2.0}

    ties = match_engines(GPUS, {}, {first: BUSY, second: calm})

    assert ties.values[UUIDS[0]] == {
        Signal.REQUESTS_WAITING: 10.0,
        Signal.KV_CACHE_USED: 0.95,
        Signal.PREEMPTIONS: 2.0,
    }
