"""Fleet policies: each applies to workloads in the pool of their GPUs."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from cases import NOW, case, judgement, window
from readings import gpu
from rightsizer.advice.policy import Policy, PolicyMatch
from rightsizer.advice.rules.hidden_stall import RULE
from rightsizer.config.loader import load
from rightsizer.fleet.judge import with_workloads
from rightsizer.fleet.model import FleetDevice, FleetInventory
from rightsizer.fleet.policies import FleetPolicies, with_stated
from rightsizer.fleet.settings import FleetConfig
from rightsizer.model.state import State
from rightsizer.model.workload import Allocator, Workload, WorkloadClass, WorkloadKind

CHAT = Workload("kubernetes:web/chat", WorkloadKind.KUBERNETES, "chat", namespace="web")
LAB = Workload("kubernetes:ml/lab", WorkloadKind.KUBERNETES, "lab", namespace="ml")
HOLDERS = {CHAT.key: "GPU-0", LAB.key: "GPU-1"}
ESTATE = FleetInventory(
    devices={
        "GPU-0": FleetDevice(gpu(0), "serve-0", "serve"),
        "GPU-1": FleetDevice(gpu(1), "labs-0", "labs"),
    },
    workloads={CHAT.key: CHAT, LAB.key: LAB},
)
GONE = {**ESTATE.workloads, "kubernetes:web/gone": replace(CHAT, key="kubernetes:web/gone")}
SERVING = Policy(
    PolicyMatch(pool="serve"), class_=WorkloadClass.SERVING, allocator=Allocator.GROWING
)


def policies(text: str) -> Sequence[Policy]:
    """Policies in the operator's format."""
    return load(FleetConfig, f"policies:\n{text}", "x.yaml").policies


def of(workload: Workload, uuid: str) -> Any:
    """A workload that is active on a GPU."""
    return case([window({State.PRODUCTIVE: 1})], workload, [gpu(uuid=uuid)])


def test_a_policy_says_what_a_workload_of_its_pool_is() -> None:
    """Class and allocator are set in that pool; other workloads stay unchanged."""
    workloads = with_stated(ESTATE, HOLDERS, (SERVING,)).workloads
    assert workloads[CHAT.key].workload_class is WorkloadClass.SERVING
    assert workloads[CHAT.key].allocator is Allocator.GROWING
    assert workloads[LAB.key] == LAB


def test_allocators_that_days_showed_are_kept() -> None:
    """An engine shows it in its metrics by the day; what the inventory states wins."""
    cached = {key: replace(each, allocator=Allocator.PREALLOCATING) for key, each in GONE.items()}
    stated = replace(ESTATE.workloads[LAB.key], allocator=Allocator.GROWING)
    estate = replace(ESTATE, workloads={**ESTATE.workloads, LAB.key: stated})
    found = with_workloads(estate, cached).workloads
    assert found.keys() == GONE.keys()
    assert found[CHAT.key] == replace(CHAT, allocator=Allocator.PREALLOCATING)
    assert found[LAB.key].allocator is Allocator.GROWING


def test_a_policy_without_a_pool_holds_everywhere() -> None:
    """This includes workloads that hold nothing now."""
    everywhere = replace(SERVING, match=PolicyMatch(namespace="*"))
    gone = {CHAT.key: "GPU-0"}
    workloads = with_stated(ESTATE, gone, (everywhere,)).workloads
    assert workloads[LAB.key].workload_class is WorkloadClass.SERVING


def test_the_first_policy_that_fits_decides() -> None:
    """The order is that of a node's policies."""
    special = Policy(PolicyMatch(owner="chat"), class_=WorkloadClass.STANDBY)
    workloads = with_stated(ESTATE, HOLDERS, (special, SERVING)).workloads
    assert workloads[CHAT.key].workload_class is WorkloadClass.STANDBY


def test_without_policies_nothing_changes() -> None:
    """The same objects are returned."""
    assert with_stated(ESTATE, HOLDERS, ()) is ESTATE
    rule = FleetPolicies.of((), ESTATE).with_thresholds(RULE, of(CHAT, "GPU-0"))
    assert rule is RULE


@pytest.mark.parametrize(
    ("workload", "uuid", "expected"), [(CHAT, "GPU-0", 0.9), (LAB, "GPU-1", None)]
)
def test_thresholds_hold_in_their_pool(
    workload: Workload, uuid: str, expected: float | None
) -> None:
    """The policy of the workload's pool overrides a rule's thresholds."""
    strict = policies("  - {match: {pool: serve}, thresholds: {hidden_stall: {on_ratio: 0.9}}}\n")
    tuned = FleetPolicies.of(strict, ESTATE).with_thresholds(RULE, of(workload, uuid))
    assert tuned.settings.on_ratio == (expected or RULE.settings.on_ratio)


def test_a_device_that_nobody_knows_has_no_policy_of_a_pool() -> None:
    """This is the case for a device that was removed meanwhile."""
    strict = policies("  - {match: {pool: serve}, thresholds: {hidden_stall: {on_ratio: 0.9}}}\n")
    assert FleetPolicies.of(strict, ESTATE).with_thresholds(RULE, of(CHAT, "GPU-9")) is RULE


def test_ignored_rule_opens_nothing_in_its_pool() -> None:
    """The verdict stays, with the reason that it does not open a recommendation."""
    ignored = policies(
        "  - match: {pool: serve}\n    ignore: [{reasons: [IdleHeld], why: kept warm}]\n"
    )
    in_force = FleetPolicies.of(ignored, ESTATE)
    here, elsewhere = in_force.suppressed(
        (judgement(devices=("GPU-0",)), judgement(devices=("GPU-1",))), NOW
    )
    assert (here.may_open, elsewhere.may_open) == (False, True)
    assert "kept warm" in str(here.finding.evidence["excluded"])


def test_a_verdict_on_a_pool_is_under_the_policies_of_that_pool() -> None:
    """It has no workload; its devices determine the pool."""
    ignored = policies(
        "  - match: {pool: labs}\n    ignore: [{reasons: [IdleHeld], why: for the fair}]\n"
    )
    in_force = FleetPolicies.of(ignored, ESTATE)
    (found,) = in_force.suppressed(
        (judgement(key="pool/labs", workload=None, devices=("GPU-1",)),), NOW
    )
    assert found.may_open is False
