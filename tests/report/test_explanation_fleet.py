"""Explanation of a fleet's verdict: keys of its thresholds, and valid PromQL."""

from typing import Any, Final

from cases import NOW, finding
from fleet_answers import END, SPARE
from rightsizer.fleet.settings import FleetConfig, rule_trees
from rightsizer.report.explanation import Query, explain_finding

TREES: Final = rule_trees(FleetConfig())


def queries(**facts: Any) -> tuple[Query, ...]:
    """Queries of a changed verdict on an empty pool."""
    of: dict[str, Any] = {name: getattr(SPARE, name) for name in SPARE.__struct_fields__}
    return explain_finding(finding(**of | facts), END, TREES).queries


def test_settings_are_named_by_where_they_stand() -> None:
    """Rules of nodes and of the fleet have different keys in one file."""
    for rule, key in (("idle", "recommender.rules.idle"), ("packing", "fleet.rules.packing")):
        thresholds = explain_finding(finding(rule=rule), NOW, TREES).thresholds
        assert thresholds
        assert {threshold.setting.startswith(f"{key}.") for threshold in thresholds} == {True}


def test_a_rule_that_is_gone_has_no_thresholds() -> None:
    """Recommendations of older versions are explained too."""
    explained = explain_finding(finding(rule="of_old"), NOW, TREES)
    assert explained.thresholds == ()


def test_a_pool_is_asked_about_as_a_whole() -> None:
    """All states but empty and unknown are held; no value is that of a single GPU."""
    (query,) = queries()
    assert (query.name, query.value, query.device) == ("held_most", 0.0, "")
    assert query.promql.startswith("max_over_time(sum(rate(rightsizer_state_seconds_total{")
    assert query.promql.endswith(f"[1209600s:5m] @ {END // 10**9})")
    assert all(uuid in query.promql for uuid in SPARE.devices)


def test_a_pool_of_which_not_all_gpus_are_named_is_not_asked_about() -> None:
    """A sum over some GPUs would be another value; neither is one without that value."""
    assert queries(devices=SPARE.devices[:8]) == ()
    assert queries(evidence={"window_seconds": 60.0, "gpus": 24}) == ()
    assert queries(evidence={"held_most": 1.0, "gpus": 24}) == ()


def test_a_node_rule_over_an_estate_asks_about_all_its_gpus() -> None:
    """UUIDs select them on all nodes, whichever agent exports them."""
    uuids = ("GPU-a", "GPU-b")
    found = explain_finding(
        finding(
            devices=uuids,
            evidence={
                "window_seconds": 3600.0,
                "known_seconds": 3600.0,
                "idle_ratio": dict.fromkeys(uuids, 1.0),
            },
        ),
        NOW,
        TREES,
    ).queries
    assert [(each.name, each.device) for each in found] == [
        ("known_seconds", ""),
        ("idle_ratio", "GPU-a"),
        ("idle_ratio", "GPU-b"),
    ]
    assert 'uuid=~"GPU-a|GPU-b"' in found[0].promql
