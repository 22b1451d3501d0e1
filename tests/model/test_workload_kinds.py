"""Kinds that keys of workloads begin with."""

import pytest

from rightsizer.model.workload import kind_of


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("slurm:42", "slurm"),
        ("kubernetes/research/llama", "kubernetes"),
        ("east/slurm:42", "slurm"),
        ("prod:eu/slurm:42", "slurm"),
        ("gpunode:9400/slurm:42", "slurm"),
        ("nomad:web", "nomad"),
        ("east/ray-2:train", "ray-2"),
        ("GPU-1", ""),
        ("", ""),
    ],
)
def test_a_known_kind_comes_before_what_a_cluster_is_called(key: str, kind: str) -> None:
    """Names of clusters may have colons; owners of other packages have kinds of their own."""
    assert kind_of(key) == kind
