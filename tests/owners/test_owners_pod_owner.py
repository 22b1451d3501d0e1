"""Key of a pod's workload: it outlives the pod, and never merges different workloads."""

import pytest

from rightsizer.model.workload import PodOwner, WorkloadClass, owner_of_pod


@pytest.mark.parametrize(
    ("pod", "owner", "workload_class"),
    [
        ("vllm-7d4b9c6f5d-x2x9k", "vllm", WorkloadClass.SERVING),
        ("llama-2-5f6d8b7c4-zzxkw", "llama-2", WorkloadClass.SERVING),
        ("nightly-eval-29384756-bq7tz", "nightly-eval", WorkloadClass.BATCH),
        ("bert-worker-0", "bert", WorkloadClass.BATCH),
        ("bert-master-0", "bert", WorkloadClass.BATCH),
        ("bert-launcher-12", "bert", WorkloadClass.BATCH),
        ("finetune-x7k2p", "finetune", WorkloadClass.UNKNOWN),
        ("llama-2-x7k2p", "llama-2", WorkloadClass.UNKNOWN),
        ("chat-00042-deployment-6b7f7c9c8d-x7k2p", "chat", WorkloadClass.SERVING),
        ("llm-raycluster-7w4x2-gpu-group-worker-x7k2p", "llm", WorkloadClass.UNKNOWN),
        ("llm-raycluster-7w4x2-head", "llm", WorkloadClass.UNKNOWN),
    ],
)
def test_generated_suffix_is_left_out_of_the_owner(
    pod: str, owner: str, workload_class: WorkloadClass
) -> None:
    """Of pods, of runs, and of rollouts that make a controller each."""
    assert owner_of_pod(pod) == PodOwner(owner, workload_class)


@pytest.mark.parametrize(
    "pod",
    [
        # A stateful set's pod keeps its name, whose number may be a model's version.
        "llama-2",
        "web-0",
        "qwen-72",
        # Named by hand: vowels, other digits, other lengths.
        "train-small",
        "bench-12345",
        "bench-24567",
        "serve-model1",
        "run-v2",
        "a",
        "worker-0",
        "x2x9k",
        "-x2x9k",
        "7d4b9c6f5d-x2x9",
    ],
)
def test_a_name_of_its_own_stays(pod: str) -> None:
    """Merging two workloads under one key would be worse than splitting one."""
    assert owner_of_pod(pod) == PodOwner(pod)
