"""Findings, advice and the report as JSON."""

import json
from dataclasses import fields, replace
from types import MappingProxyType

from publish_reports import node_report
from publish_stories import HOUR, INSTANCE, NOW, PARENT, uuid_of
from rightsizer.model.finding import Finding
from rightsizer.report.json_encoder import advice_form, device_form, finding_form, report_form


def test_a_findings_keys_are_its_fields() -> None:
    """Nothing that a rule says is lost, and nothing is called by another name."""
    finding = node_report().advice[0].finding
    names = [field.name for field in fields(Finding)]
    names[names.index("kind")] = "finding"
    assert list(finding_form(finding)) == names


def test_advice_adds_its_lifecycle() -> None:
    """Times are seconds since the epoch, absent ones null."""
    claimed = advice_form(node_report().advice[1])
    assert claimed["state"] == "claimed"
    assert claimed["actor"] == "ops"
    assert claimed["opened"] == (NOW - 14 * HOUR) / 1e9
    assert claimed["expires"] is None
    assert claimed["reasons"] == ["HiddenStall"]
    assert claimed["savings"]["reason"] == "what the stall costs depends on its cause"


def test_evidence_of_any_shape_becomes_plain() -> None:
    """Tuples, sets, read-only mappings and words of ours all end as JSON."""
    finding = replace(
        node_report().advice[0].finding,
        evidence=MappingProxyType(
            {"pair": (1, 2.5), "set": frozenset({"b", "a"}), "inside": {1: None}, "other": 1j}
        ),
    )
    evidence = json.loads(json.dumps(finding_form(finding)))["evidence"]
    assert evidence == {"pair": [1, 2.5], "set": ["a", "b"], "inside": {"1": None}, "other": "1j"}


def test_a_device_tells_identity_and_provisioning() -> None:
    """A MIG instance names its parent; resources are by window."""
    form = json.loads(json.dumps(device_form(node_report().devices[INSTANCE])))
    assert form["parent_uuid"] == uuid_of(PARENT)
    assert form["mig_profile"] == "3g.40gb"
    assert form["workloads"][0]["workload"] == "kubernetes/search/embedder"
    assert form["provisioning"]["current"]["resources"]["compute"]["need"] == 0.38
    assert form["down"] is None


def test_the_report_is_json_without_holes() -> None:
    """Everything encodes strictly: no NaN, no object of ours left over."""
    form = json.loads(json.dumps(report_form(node_report()), allow_nan=False))
    assert [device["index"] for device in form["devices"]] == [0, 1, 2, 3, 4, 5, 6, 6, 7]
    assert form["devices"][5]["down"]["reason"] == "lost"
    assert len(form["advice"]) == 4
    assert form["agent"]["jobs"][1]["last_success"] is None
