"""A Kubernetes node: pods by control group, names by log file and kubelet, devices by kubelet."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from msgspec.structs import replace

from kubelet_server import answer, kubelet, pod
from owner_trees import host_in, write_gpu, write_process
from rightsizer.model.device import Device
from rightsizer.model.reading import Process
from rightsizer.model.workload import WorkloadClass
from rightsizer.owners.holdings import holdings_on, workloads_on
from rightsizer.owners.kubernetes import KubernetesCollector
from rightsizer.owners.settings import OwnerSettings

UIDS = [f"0f1c2d3e-aaaa-bbbb-cccc-00000000000{number}" for number in range(4)]
IDS = [f"{number}" * 64 for number in range(4)]
GPUS = [f"GPU-8ba15a3a-9c15-45e7-ad2f-00000000000{number}" for number in range(4)]
DEVICES = [Device(uuid, index) for index, uuid in enumerate(GPUS)]


class Node:
    """A Kubernetes node under a folder, with a manual clock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 0.0
        self.socket = root / "kubelet.sock"
        self.owners: KubernetesCollector

    def start(self, **changes: float) -> KubernetesCollector:
        """Owners that watch this node."""
        settings = OwnerSettings(
            kubelet_socket=str(self.socket),
            pod_log_folder=str(self.root / "log"),
            **{"first_wait_seconds": 5.0, "timeout_seconds": 5.0, **changes},  # type: ignore[arg-type]
        )
        self.owners = KubernetesCollector(
            replace(host_in(self.root / "proc", settings), now=lambda: self.now)
        )
        return self.owners

    def run(self, pid: int, number: int) -> None:
        """Start a process in a pod's container."""
        path = f"/kubepods/burstable/pod{UIDS[number]}/{IDS[number]}"
        write_process(self.root / "proc", pid, cgroup=f"0::{path}\n", start=pid)

    def log(self, number: int, namespace: str, name: str, container: str = "main") -> None:
        """Write the log files of a pod, as the kubelet does."""
        (self.root / "log/pods" / f"{namespace}_{name}_{UIDS[number]}").mkdir(parents=True)
        (self.root / "log/containers").mkdir(parents=True, exist_ok=True)
        file = f"{name}_{namespace}_{container}-{IDS[number]}.log"
        (self.root / "log/containers" / file).touch()

    def held(self, gpu: int, *pids: int) -> dict[str, tuple[float, bool]]:
        """Holders of a GPU with processes of equal size: share, and whether it runs."""
        processes = [Process(pid, 100) for pid in pids]
        found = holdings_on(
            DEVICES[gpu], workloads_on(processes, self.owners), self.owners.allocations()
        )
        return {each.workload.key: (each.share_ratio, each.has_process) for each in found}

    def settle(self, is_settled: Callable[[], bool]) -> None:
        """Wait for the kubelet's thread."""
        wait = threading.Event()
        for _ in range(500):
            if is_settled():
                return
            wait.wait(0.01)
        pytest.fail("the kubelet's thread gave no answer")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node without a kubelet yet."""
    found = Node(tmp_path)
    yield found
    found.owners.close()


def test_names_by_log_files(node: Node) -> None:
    """The kubelet's log files contain pod, namespace and container."""
    node.log(0, "ml", "vllm-7d4b9c6f5d-x2x9k", "engine")
    node.run(11, 0)
    workload = node.start().workload_of(11)
    assert workload is not None
    assert workload.key == "kubernetes:ml/vllm"
    assert workload.workload_class is WorkloadClass.SERVING
    assert (workload.namespace, workload.pod) == ("ml", "vllm-7d4b9c6f5d-x2x9k")
    assert workload.container == "engine"


def test_key_survives_the_pod(node: Node) -> None:
    """dcgm-exporter#585, #340: a replacement pod is the same workload."""
    node.log(0, "ml", "vllm-7d4b9c6f5d-x2x9k")
    node.log(1, "ml", "vllm-6b8d7c9f4z-kkkk2")
    node.log(2, "qa", "vllm-7d4b9c6f5d-x2x9k")
    for number in range(3):
        node.run(11 + number, number)
    owners = node.start()
    keys = [found.key for pid in (11, 12, 13) if (found := owners.workload_of(pid))]
    assert keys == ["kubernetes:ml/vllm", "kubernetes:ml/vllm", "kubernetes:qa/vllm"]


def test_a_new_pod_is_found_in_the_log_folder(node: Node) -> None:
    """The folder is listed again for an unknown pod, after a minimum interval."""
    node.run(11, 0)
    owners = node.start()
    first = owners.workload_of(11)
    node.log(0, "ml", "a")
    node.now = 4.9
    assert owners.workload_of(11) == first
    node.now = 5.0
    second = owners.workload_of(11)
    assert first is not None
    assert second is not None
    assert (first.key, second.key) == (f"kubernetes:{UIDS[0]}", "kubernetes:ml/a")


def test_name_by_the_device(node: Node) -> None:
    """Without log files, the only pod on a device has the kubelet's allocation's name."""
    node.run(11, 0)
    node.start()
    pods = answer(pod("ml", "train-0", [GPUS[0]]), pod("ml", "other", [GPUS[1]]))
    with kubelet(node.socket, lambda _: pods):
        assert node.held(0, 11) == {"kubernetes:ml/train-0": (1.0, True)}
        assert node.held(1) == {"kubernetes:ml/other": (1.0, False)}


def test_no_name_is_guessed(node: Node) -> None:
    """dcgm-exporter#307: two pods on a device stay two, and neither gets the other's name."""
    node.run(11, 0)
    node.run(12, 1)
    node.start()
    pods = answer(pod("ml", "a", [f"{GPUS[0]}::0"]), pod("ml", "b", [f"{GPUS[0]}::1"]))
    with kubelet(node.socket, lambda _: pods):
        held = node.held(0, 11, 12)
    assert held == {
        f"kubernetes:{UIDS[0]}": (0.5, True),
        f"kubernetes:{UIDS[1]}": (0.5, True),
        # They may be these two: nothing shows that they do not run.
        "kubernetes:ml/a": (0.0, True),
        "kubernetes:ml/b": (0.0, True),
    }


def test_time_sliced_gpu_has_all_its_pods(node: Node) -> None:
    """dcgm-exporter#151, #201: every pod of a shared GPU is named, idle ones too."""
    for number, name in enumerate("abc"):
        node.log(number, "ml", name)
    node.run(11, 0)
    node.run(12, 1)
    node.start()
    pods = answer(*(pod("ml", name, [f"{GPUS[0]}::{name}"]) for name in "abc"))
    with kubelet(node.socket, lambda _: pods):
        assert node.held(0, 11, 12) == {
            "kubernetes:ml/a": (0.5, True),
            "kubernetes:ml/b": (0.5, True),
            "kubernetes:ml/c": (0.0, False),
        }


def test_pods_beyond_the_limit_are_one_holder(node: Node) -> None:
    """An answer of any size costs the sampling thread no more than the documented workloads."""
    node.start(workloads_maximum=3)
    pods = answer(*(pod("ml", f"p{each}", [f"{GPUS[0]}::{each}"]) for each in range(2000)))
    with kubelet(node.socket, lambda _: pods):
        node.settle(lambda: bool(node.owners.allocations()))
        assert list(node.held(0)) == [*(f"kubernetes:ml/p{each}" for each in range(3)), "other"]
        outcome = node.owners.outcomes()["kubelet"]
    assert outcome.success
    assert outcome.refusal is not None
    assert outcome.refusal.items == 1997
    assert "workloads_maximum" in outcome.refusal.reason


def test_without_the_hosts_processes(node: Node) -> None:
    """An agent that sees no other process still knows the allocations."""
    node.start()
    pods = answer(pod("ml", "a", [GPUS[0]]), pod("ml", "b", [GPUS[1]]), pod("ml", "c", [GPUS[1]]))
    with kubelet(node.socket, lambda _: pods):
        assert node.held(0, 991, 992) == {"kubernetes:ml/a": (1.0, True)}
        assert node.held(1, 993) == {"kubernetes:ml/b": (0.5, True), "kubernetes:ml/c": (0.5, True)}


def test_spellings_meet_the_device(node: Node) -> None:
    """GKE's files and DRA's claims have minor numbers, which are no indices."""
    write_gpu(node.root / "proc", "0000:1b:00.0", 1)
    node.start()
    pods = answer(pod("gke", "a", ["nvidia1/vgpu0"]), pod("dra", "b", claimed=["gpu-1"]))
    with kubelet(node.socket, lambda _: pods):
        given = node.owners.allocations()
    assert {key: [each.key for each in found] for key, found in given.items()} == {
        "0000:1b:00.0": ["kubernetes:gke/a", "kubernetes:dra/b"]
    }


def test_no_kubelet_is_no_failure(node: Node) -> None:
    """A node without a kubelet has no such collector, and queries nothing."""
    owners = node.start()
    assert owners.allocations() == {}
    assert owners.outcomes() == {}


def test_kubelet_restart(node: Node) -> None:
    """dcgm-exporter#342: meanwhile its last answer is used, and its failure is reported."""
    owners = node.start(hold_seconds=600.0)
    pods = answer(pod("ml", "a", [GPUS[0]]))
    with kubelet(node.socket, lambda _: pods):
        assert list(owners.allocations()) == [GPUS[0]]
        assert owners.outcomes()["kubelet"].success
    node.now = 30.0
    node.settle(lambda: bool(owners.allocations()) and not owners.outcomes()["kubelet"].success)
    assert list(owners.allocations()) == [GPUS[0]]
    node.now = 601.0
    node.settle(lambda: not owners.allocations())
    with kubelet(node.socket, lambda _: pods):
        node.now = 700.0
        node.settle(lambda: list(owners.allocations()) == [GPUS[0]])
        assert owners.outcomes()["kubelet"].success


def test_a_kubelet_that_hangs_delays_nothing(node: Node) -> None:
    """Pods are still identified by control groups; only one thread hangs."""
    release = threading.Event()

    def hang(_: grpc.ServicerContext) -> bytes:
        release.wait(60)
        return answer(pod("ml", "a", [GPUS[0]]))

    node.run(11, 0)
    with kubelet(node.socket, hang):
        owners = node.start(first_wait_seconds=0.0)
        for tick in range(100):
            node.now = float(tick)
            assert owners.allocations() == {}
            assert owners.workload_of(11) is not None
        assert sum(each.name == "owners-kubelet" for each in threading.enumerate()) == 1
        release.set()
        node.settle(lambda: list(owners.allocations()) == [GPUS[0]])


def test_calls_are_few(node: Node) -> None:
    """dcgm-exporter#599: one call an interval, one more for a new pod, however often it is read."""
    pods = answer(pod("ml", "a", [GPUS[0]]))
    with kubelet(node.socket, lambda _: pods) as calls:
        owners = node.start()
        owners.allocations()
        for pid in range(100, 120):
            write_process(node.root / "proc", pid, cgroup=f"0::/kubepods/pod{UIDS[0]}/{IDS[0]}\n")
        for tick in range(60):
            node.now = tick / 2
            for pid in range(100, 120):
                owners.workload_of(pid)
            owners.allocations()
        node.settle(lambda: len(calls) == 2 and bool(owners.allocations()))
        node.now = 60.0
        node.settle(lambda: bool(owners.allocations()) and len(calls) == 3)


def test_hostile_answers_name_nobody(node: Node) -> None:
    """An invalid answer neither crashes nor becomes a label."""
    owners = node.start()
    pods = answer(pod("ml", 'a"} 1\n', [GPUS[0]]), pod("ml\0", "b", [GPUS[0]]), pod("", "c", ["x"]))
    with kubelet(node.socket, lambda _: pods):
        assert owners.allocations() == {}
        assert owners.outcomes()["kubelet"].success
