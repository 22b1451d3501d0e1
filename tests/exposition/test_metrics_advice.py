"""Metrics of advice and of the recommender: items, labels, and limits."""

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from cases import finding, judgement
from publish_reports import node_report
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.advice.policy import PolicySet
from rightsizer.advice.service import Recommender
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.io.clock import SystemClock
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.finding import FindingKind, Reason, Savings, Severity
from rightsizer.model.metric_family import Level
from rightsizer.model.report import JobReport, Report
from rightsizer.model.workload import namespace_of
from sample_devices import INSTANCE, NOW, uuid_of


def samples(report: Report, name: str, **settings: int) -> list[tuple[dict[str, str], float]]:
    """Labels and values of a metric's series."""
    exposition = MetricsExposition(
        lambda: report,
        MetricsSettings(level=Level.FULL, **settings),
        wall_time=lambda: report.wall_time,
    )
    families = text_string_to_metric_families(exposition.render().body.decode())
    return [
        (sample.labels, sample.value)
        for family in families
        for sample in family.samples
        if sample.name == name
    ]


def piece(id_: str, gpus: float | None = None, dollars: float | None = None) -> Advice:
    """Open advice with the given savings."""
    savings = Savings(gpus_low=gpus, dollars_per_hour_low=dollars)
    found = finding(id=id_, savings=savings, severity=Severity.HIGH)
    return Advice(found, AdviceState.CLAIMED, NOW, NOW)


def test_advice_with_the_largest_saving_is_exported_first() -> None:
    """By money, then by GPUs; items without a price come last."""
    advice = (piece("none"), piece("gpus", gpus=2.0), piece("money", 0.5, 3.0), piece("less", 9, 1))
    report = replace(node_report(), advice=advice)
    kept = [labels["id"] for labels, _ in samples(report, "rightsizer_advice_info", advice_limit=3)]

    assert sorted(kept) == ["gpus", "less", "money"]
    assert samples(report, "rightsizer_advice_open", advice_limit=3) == [({}, 4.0)]


def test_savings_are_expected_and_have_bounds() -> None:
    """A hidden stall may save nothing, and most likely saves much."""
    stall = Savings(0.0, 2.0, 0.0, 20.0, dollars_per_hour_typical=4.0)
    report = replace(node_report(), advice=(Advice(finding(savings=stall), "active", NOW, NOW),))
    names = ("", "low_", "high_")

    gpus = [samples(report, f"rightsizer_advice_savings_{name}gpus")[0][1] for name in names]
    dollars = [
        samples(report, f"rightsizer_advice_savings_{name}dollars_per_hour")[0][1] for name in names
    ]
    assert (gpus, dollars) == ([1.0, 0.0, 2.0], [4.0, 0.0, 20.0])


def test_savings_together_count_exclusive_advice_once() -> None:
    """As on the page; without a price there are no dollars."""
    first = piece("a", gpus=1.0, dollars=2.0)
    second = piece("b", gpus=2.0, dollars=3.0)
    report = replace(node_report(), advice=(first, second))  # On the same GPUs.

    assert samples(report, "rightsizer_advice_combined_savings_gpus") == [({}, 2.0)]
    assert samples(report, "rightsizer_advice_combined_savings_dollars_per_hour") == [({}, 3.0)]
    unpriced = replace(report, advice=(piece("c", gpus=1.0),))
    assert samples(unpriced, "rightsizer_advice_combined_savings_dollars_per_hour") == []
    done = replace(report, advice=())
    assert samples(done, "rightsizer_advice_combined_savings_dollars_per_hour") == [({}, 0.0)]


def test_advice_names_its_gpus_and_its_namespace() -> None:
    """Each series names all GPUs of its advice; a MIG instance by its own number."""
    report = node_report()
    both = finding(devices=(uuid_of(0), uuid_of(INSTANCE)), workload="kubernetes:research/llama")
    report = replace(report, advice=(Advice(both, "active", NOW, NOW),))
    found = [labels for labels, _ in samples(report, "rightsizer_advice_info")]
    numbers = {device.device.uuid: device.device.number for device in report.devices}

    assert {labels["gpu"] for labels in found} == {f"0, {numbers[uuid_of(INSTANCE)]}"}
    assert ":" in numbers[uuid_of(INSTANCE)]
    assert {labels["namespace"] for labels in found} == {"research"}


@pytest.mark.parametrize(
    ("key", "namespace"),
    [
        ("kubernetes:research/llama", "research"),
        ("kubernetes/research/llama", "research"),
        ("user:alice", ""),
        ("slurm:4711", ""),
        ("kubernetes:1b2c", ""),
        ("east/kubernetes:research/llama", "research"),
        ("east/slurm:4711", ""),
        ("container:docker/abc", ""),
        ("", ""),
    ],
)
def test_a_key_names_its_namespace(key: str, namespace: str) -> None:
    """Other keys name nothing but the workload itself."""
    assert namespace_of(key) == namespace


def test_a_flood_of_advice_is_bounded() -> None:
    """Five hundred items by default."""
    report = replace(node_report(), advice=tuple(piece(f"n{number}") for number in range(700)))

    assert len(samples(report, "rightsizer_advice_confidence_ratio")) == 500
    assert samples(report, "rightsizer_advice_open") == [({}, 700.0)]


def test_advice_says_how_much_it_matters_and_how_it_stands() -> None:
    """Dashboards filter by these labels."""
    report = replace(node_report(), advice=(piece("a"),))
    ((labels, _),) = samples(report, "rightsizer_advice_info")

    assert (labels["severity"], labels["state"]) == ("high", "claimed")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("runs_total", 7.0),
        ("failures_total", 2.0),
        ("skipped_total", 1.0),
        ("duration_seconds", 0.25),
        ("last_success_timestamp_seconds", NOW / 1e9),
    ],
)
def test_the_recommender_has_metrics_of_its_own(name: str, value: float) -> None:
    """They equal those of its job."""
    job = JobReport("recommend", 7, 2, 1, NOW, NOW, 0.25)
    report = node_report()
    report = replace(report, agent=replace(report.agent, jobs=(job,)))

    assert samples(report, f"rightsizer_recommender_{name}") == [({}, value)]


def test_a_recommender_that_has_not_run_has_counters() -> None:
    """At 0, so that increases are visible; unknown values are absent."""
    report = node_report()
    report = replace(report, agent=replace(report.agent, jobs=()))

    assert samples(report, "rightsizer_recommender_runs_total") == [({}, 0.0)]
    assert samples(report, "rightsizer_recommender_duration_seconds") == []


def test_verdicts_are_counted_by_reason() -> None:
    """Findings and abstentions; healthy verdicts are not counted."""
    silent = {
        "kind": FindingKind.UNKNOWN,
        "reasons": (Reason.INSUFFICIENT_DATA,),
        "abstained": "only 30 s of telemetry",
    }
    well = {"kind": FindingKind.OPTIMIZED, "reasons": ()}
    recommender = Recommender(NodeAccounts(AccountingSettings()), (), PolicySet(()), SystemClock())
    recommender.judgements = (judgement(), judgement(), judgement(**silent), judgement(**well))

    assert recommender.metrics() == {
        "rightsizer_recommender_rule_failures_total": 0.0,
        'rightsizer_recommender_findings{reason="IdleHeld"}': 2.0,
        'rightsizer_recommender_abstentions{reason="InsufficientData"}': 1.0,
    }
