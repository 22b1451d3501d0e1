"""Commands for an estate with every kind of owner: each frees its GPU, and keeps it free."""

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pytest

from dcgm_estate import HELD, NOW, EstatePast, Phase, gpu
from fleet_command import asked_in_process, configured
from rightsizer.owners.pod_controllers import CONTROLLER_KINDS
from victoria_server import victoria_server

pytestmark = pytest.mark.prometheus


class OwnedPod(NamedTuple):
    """A pod, and the objects above it, nearest first."""

    name: str
    above: tuple[tuple[str, str], ...] = ()
    labels: Mapping[str, str] = {}
    gpu: int | None = None
    """Of a pod that shares a GPU; else it has one of its own."""


_HASH: Final = "6b7f7c9c8d"
ESTATE: Final = (
    OwnedPod(f"web-{_HASH}-x5k2m", (("ReplicaSet", f"web-{_HASH}"), ("Deployment", "web"))),
    OwnedPod(f"canary-{_HASH}-x5k2m", (("ReplicaSet", f"canary-{_HASH}"), ("Rollout", "canary"))),
    OwnedPod("llama-0", (("StatefulSet", "llama"),)),
    OwnedPod("train-x5k2m", (("Job", "train"),)),
    OwnedPod("nightly-29384720-x5k2m", (("Job", "nightly-29384720"), ("CronJob", "nightly"))),
    OwnedPod("nightly-29384780-x5k2m", (("Job", "nightly-29384780"), ("CronJob", "nightly"))),
    OwnedPod("etl-driver", (("SparkApplication", "etl"),)),
    OwnedPod("etl-exec-1", (("Pod", "etl-driver"), ("SparkApplication", "etl"))),
    OwnedPod("shell-driver"),
    OwnedPod("shell-exec-1", (("Pod", "shell-driver"),)),
    OwnedPod("ray-worker-x5k2m", (("RayCluster", "ray"),)),
    OwnedPod(
        "tune-raycluster-7w4x2-worker-x5k2m",
        (("RayCluster", "tune-raycluster-7w4x2"),),
        {"ray_io_originated_from_cr_name": "tune", "ray_io_originated_from_crd": "RayJob"},
    ),
    OwnedPod("ana-0", (("StatefulSet", "ana"),), {"notebook_name": "ana"}),
    OwnedPod("jax-workers-0-0-x5k2m", (("Job", "jax-workers-0"), ("JobSet", "jax"))),
    OwnedPod("mpi-worker-0", (("MPIJob", "mpi"),)),
    OwnedPod("bert-worker-0", (("PyTorchJob", "bert"),)),
    OwnedPod(
        f"chat-predictor-00007-deployment-{_HASH}-x5k2m",
        (
            ("ReplicaSet", f"chat-predictor-00007-deployment-{_HASH}"),
            ("Deployment", "chat-predictor-00007-deployment"),
        ),
        {
            "serving_knative_dev_service": "chat-predictor",
            "serving_kserve_io_inferenceservice": "chat",
        },
    ),
    OwnedPod(
        "big-0-1",
        (("StatefulSet", "big-0"),),
        {"leaderworkerset_sigs_k8s_io_name": "big"},
    ),
    OwnedPod("flow-x5k2m", (("Workflow", "flow"),)),
    OwnedPod("vc-master-0", (("Job", "vc"),), {"volcano_sh_job_name": "vc"}),
    OwnedPod("guest-1", gpu=90),
    OwnedPod("guest-2", gpu=90),
    OwnedPod("nim-x5k2m", (("NIMService", "nim"),)),
    OwnedPod("agent-x5k2m", (("DaemonSet", "agent"),)),
)
TOP: Final = {
    "web": "deployment/web",
    "canary": "rollouts.argoproj.io/canary",
    "llama": "statefulset/llama",
    "train": "job/train",
    "nightly": "cronjob/nightly",
    "etl": "sparkapplications.sparkoperator.k8s.io/etl",
    "shell": "pod/shell-driver",
    "ray": "rayclusters.ray.io/ray",
    "tune": "rayjobs.ray.io/tune",
    "ana": "notebooks.kubeflow.org/ana",
    "jax": "jobsets.jobset.x-k8s.io/jax",
    "mpi": "mpijobs.kubeflow.org/mpi",
    "bert": "pytorchjobs.kubeflow.org/bert",
    "chat": "inferenceservices.serving.kserve.io/chat",
    "big": "leaderworkersets.leaderworkerset.x-k8s.io/big",
    "flow": "workflows.argoproj.io/flow",
    "vc": "jobs.batch.volcano.sh/vc",
    "guest-1": "pod/guest-1",
    "guest-2": "pod/guest-2",
}
"""Object that frees the GPUs for good, by the first word of its pods' names."""
_METRICS: Final = {
    "ReplicaSet": ("kube_replicaset_owner", "replicaset"),
    "Job": ("kube_job_owner", "job_name"),
}


def _estate() -> EstatePast:
    past = EstatePast(interval_seconds=120)

    def owned(metric: str, labels: dict[str, str], owner: tuple[str, str]) -> None:
        kind, name = owner
        owners = {"owner_kind": kind, "owner_name": name, "owner_is_controller": "true"}
        past.series(metric, {"namespace": "ml", **labels, **owners}, 1)

    for number, pod in enumerate(ESTATE):
        place = number if pod.gpu is None else pod.gpu
        device = {"UUID": gpu(place), "Hostname": f"node-{place}", "gpu": "0"}
        holder = {"pod": pod.name, "namespace": "ml", "container": "main"}
        name = "NVIDIA H100 80GB HBM3"
        past.device([Phase(0, 24, HELD)], **device, **holder, modelName=name)
        none = ("<none>", "<none>")
        first, *others = (*pod.above, none)
        owned("kube_pod_owner", {"pod": pod.name}, first)
        for (kind, owner), above in zip(pod.above, others, strict=False):
            if kind in _METRICS and "volcano_sh_job_name" not in pod.labels:
                metric, label = _METRICS[kind]
                owned(metric, {label: owner}, above)
        if pod.labels:
            labels = {f"label_{label}": value for label, value in pod.labels.items()}
            past.series("kube_pod_labels", {"namespace": "ml", "pod": pod.name, **labels}, 1)
    return past


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What a look says of the idle GPUs of the estate."""
    folder = tmp_path_factory.mktemp("estate")
    with victoria_server(past=_estate().text()) as server:
        config = configured(folder, server.url, lookback="1d")
        at = str(NOW // 10**9)
        document = asked_in_process(config, "--json", "--all", "--at", at).document
    return [
        each for each in document["findings"] if each["rule"] == "idle" and each["instructions"]
    ]


def _changed(text: str) -> list[str]:
    """Objects that a command changes."""
    return re.findall(r"kubectl -n ml (?:annotate|delete|patch|scale) (\S+/\S+)", text)


def test_every_command_changes_what_would_make_its_pods_again(
    findings: list[dict[str, Any]],
) -> None:
    """Nothing below it is touched, and nothing is left out."""
    changed = {}
    for finding in findings:
        name = finding["workload"].partition("/")[2]
        word = name if name.startswith("guest") else re.split("[-_]", name)[0]
        commands = [each["text"] for each in finding["instructions"] if each["language"] == "sh"]
        for command in commands:
            assert shlex.split(command, comments=True)
            changed.setdefault(word, []).extend(_changed(command))
    expected = {word: [name] for word, name in TOP.items()}
    expected["guest-1"] += expected.pop("guest-2")  # They share a GPU.
    assert {word: sorted(set(names)) for word, names in changed.items()} == expected


@pytest.mark.parametrize(("word", "kind"), [("nim", "NIMService"), ("agent", "DaemonSet")])
def test_a_kind_without_a_command_is_named(
    findings: list[dict[str, Any]], word: str, kind: str
) -> None:
    """A command that frees nothing would be worse than none."""
    (finding,) = (each for each in findings if each["workload"].startswith(f"kubernetes:ml/{word}"))
    (instruction,) = finding["instructions"]
    assert instruction["language"] == "text"
    assert f"{kind} {word} in the namespace ml" in instruction["text"]


def test_what_may_be_made_again_is_changed_only_if_nothing_is_above() -> None:
    """Whoever may be owned has a command that can be guarded."""
    for kind, row in CONTROLLER_KINDS.items():
        assert bool(row.text) is not bool(row.note), kind
        assert row.text.startswith("{kubectl} ") or row.note, kind
        assert not row.may_be_owned or "\n" not in row.text, kind
