"""Findings, recommendations and the report as JSON."""

import json
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from publish_reports import node_report
from rightsizer.io.codec import plain
from rightsizer.model.finding import Finding
from rightsizer.report.advice_document import advice_document, finding_document
from rightsizer.report.node_document import device_document, report_document
from sample_devices import HOUR, INSTANCE, NOW, PARENT, uuid_of


def test_a_findings_keys_are_its_fields() -> None:
    """All fields of a finding but its key and what folds it are present under their own names."""
    finding = node_report().advice[0].finding
    names = [name for name in Finding.__struct_fields__ if name not in {"shared_by", "key"}]
    names[names.index("kind")] = "finding"
    assert list(plain(finding_document(finding))) == names


def test_advice_adds_its_lifecycle() -> None:
    """Times are seconds since the epoch, missing ones null."""
    claimed = plain(advice_document(node_report().advice[1]))
    assert claimed["state"] == "claimed"
    assert claimed["actor"] == "ops"
    assert claimed["opened"] == (NOW - 14 * HOUR) / 1e9
    assert claimed["expires"] is None
    assert claimed["reasons"] == ["HiddenStall"]
    assert claimed["savings"]["reason"] == "what the stall costs depends on its cause"


def test_evidence_of_any_shape_becomes_plain() -> None:
    """Tuples, sets and read-only mappings become JSON; other values become text."""
    finding = replace(
        node_report().advice[0].finding,
        evidence=MappingProxyType(
            {"pair": (1, 2.5), "set": frozenset("hgfedcba"), "inside": {1: None}, "other": 1j}
        ),
    )
    evidence = plain(finding_document(finding))["evidence"]
    assert evidence == {
        "pair": [1, 2.5],
        "set": [*"abcdefgh"],
        "inside": {"1": None},
        "other": "1j",
    }


def test_a_device_tells_identity_and_provisioning() -> None:
    """A MIG instance names its parent; resources are by window."""
    document = plain(device_document(node_report().devices[INSTANCE]))
    assert document["parent_uuid"] == uuid_of(PARENT)
    assert document["mig_profile"] == "3g.40gb"
    assert document["workloads"][0]["workload"] == "kubernetes/search/embedder"
    assert document["provisioning"]["current"]["resources"]["compute"]["need"] == 0.38
    assert document["down"] is None


def test_the_report_is_json_without_holes() -> None:
    """No number of it is infinite, for which the codec would write null."""
    report = report_document(node_report())
    document = plain(report)
    values = msgspec.to_builtins(report, str_keys=True, enc_hook=dict)
    assert json.loads(json.dumps(values, allow_nan=False)).keys() == document.keys()
    assert [device["index"] for device in document["devices"]] == [0, 1, 2, 3, 4, 5, 6, 6, 7]
    assert document["devices"][5]["down"]["reason"] == "lost"
    assert len(document["advice"]) == 4
    assert document["agent"]["jobs"][1]["last_success"] is None
