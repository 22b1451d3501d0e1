"""Kubernetes configuration printed for pools names the file that it belongs to."""

import pytest

from printed_manifests import homeless
from rightsizer.fleet.pools.reclaim import sharing_fragments
from rightsizer.io.yaml import load_yaml
from rightsizer.model.finding import Action, Instruction
from rightsizer.model.workload import WorkloadKind
from rightsizer.owners.registry import scheduler_of


@pytest.mark.parametrize(
    "instructions",
    [
        scheduler_of(WorkloadKind.KUBERNETES).pack_tightly(),
        sharing_fragments(Action.SHARE_MPS, 4, (), WorkloadKind.KUBERNETES),
        sharing_fragments(Action.SHARE_TIMESLICE, 2, (), WorkloadKind.KUBERNETES),
    ],
    ids=["scheduler", "mps", "time-slices"],
)
def test_a_configuration_says_whose_it_is(instructions: tuple[Instruction, ...]) -> None:
    """It is no object to apply, but valid YAML."""
    (only,) = instructions
    assert load_yaml(only.text, "advice").data
    assert homeless(instructions) == []
