"""The wording of a verdict, and its stable id."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins
from msgspec.structs import replace

from cases import case, findings, window
from readings import gpu, workload
from rightsizer.advice.market import Market
from rightsizer.advice.rules import RULES
from rightsizer.advice.verdict import CaseSubject, finding_id, names_of
from rightsizer.model.device import MigInstance
from rightsizer.model.finding import Action, Reason
from rightsizer.model.state import State


@pytest.mark.parametrize(
    ("indices", "expected"),
    [((3,), "GPU 3"), ((0, 1), "GPUs 0 and 1"), ((0, 1, 2), "GPUs 0, 1 and 2")],
)
def test_devices_are_named_for_a_person(indices: tuple[int, ...], expected: str) -> None:
    """By the index that nvidia-smi shows."""
    assert names_of([gpu(index) for index in indices]) == expected


def test_instance_is_named_with_its_board() -> None:
    """An index alone would name seven of them."""
    instance = gpu(4, uuid="MIG-1", mig=MigInstance("GPU-4", "1g.10gb", 7, 0, 1 / 7, 1 / 8))
    assert names_of([instance]) == "MIG 4:7 (1g.10gb)"
    assert names_of([instance, instance]) == "2 MIG instances on GPU 4"


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        (("a:3",), "GPU 3 on a"),
        (("a:0", "a:1", "b:3"), "GPUs 0 and 1 on a and GPU 3 on b"),
        (("a:0", "b:0", "c:0", "d:0", "e:0"), "5 GPUs on a, b, c and 2 more nodes"),
    ],
)
def test_devices_of_several_machines_are_named_with_them(
    places: tuple[str, ...], expected: str
) -> None:
    """An index alone is ambiguous across machines; a large number of machines is counted."""
    devices = [
        replace(gpu(int(index)), uuid=place, host=host)
        for place in places
        for host, index in [place.split(":")]
    ]
    assert names_of(devices) == expected


def test_id_is_stable_over_releases() -> None:
    """Dismissals and annotations refer to it."""
    assert finding_id("slurm/llama", Reason.IDLE_HELD, Action.RELEASE, "") == "jqdcfmolfamr"


@given(st.lists(st.tuples(*[st.sampled_from(["a", "b", ""])] * 4), min_size=2, max_size=2))
def test_ids_differ_with_what_is_said(said: list[tuple[str, str, str, str]]) -> None:
    """Another workload, reason, action or target is another finding."""
    one, other = said
    assert (finding_id(*one) == finding_id(*other)) == (one == other)
    assert len(finding_id(*one)) == 12
    assert finding_id(*one).isalnum()


def test_abstention_says_why() -> None:
    """It is no finding, and claims no confidence."""
    subject = CaseSubject("idle", case([window({State.UNKNOWN: 1})], workload()), Market())
    found = subject.abstain("only 3 s of telemetry", Reason.INSUFFICIENT_DATA)
    assert found.abstained == "only 3 s of telemetry"
    assert found.summary == "No verdict: only 3 s of telemetry."
    assert not found.is_actionable
    assert found.confidence == 0.0


@pytest.mark.parametrize("state", [State.UNKNOWN, State.IDLE_HELD, State.HIDDEN_STALL])
def test_every_finding_is_complete_and_plain(state: State) -> None:
    """Each field of the design is present, with JSON-compatible text and numbers."""
    judged = case([window({state: 10}), window({state: 10})], workload())
    for finding, rule in zip(findings([judged]), RULES, strict=True):
        document = json.loads(json.dumps(to_builtins(finding)))
        assert document["rule"] == rule.name
        assert document["devices"] == ["GPU-0", "GPU-1"]
        assert document["workload"] == "slurm/llama"
        assert document["summary"].endswith(".")
        assert document["savings"]["reason"]
        assert (document["reasons"] == []) == (document["finding"] == "optimized")
        assert (document["abstained"] is not None) == (document["finding"] == "unknown")
        assert set(document["culprits"]) <= {"GPU-0", "GPU-1"}
        evidence = document["evidence"]
        assert evidence["known_seconds"] == (0.0 if state is State.UNKNOWN else 36000.0)
        assert evidence["window_seconds"] == 36000.0
        assert evidence["coverage_ratio"] == (0.0 if state is State.UNKNOWN else 1.0)
        assert len(evidence["tier"]) == 2
