"""Statements of the probe about what can and cannot be concluded."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

import pytest

from dcgm_estate import BUSY, NOW, EstatePast, Phase, basic, gpu, stored, unprofiled
from rightsizer.fleet.cache.grid import COARSE_STEP, DAY
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.prometheus.selector import Matchers
from rightsizer.fleet.settings import StoreSettings
from rightsizer.fleet.source import SampledSeries, SourceReport
from rightsizer.fleet.sources.dcgm_exporter.probe import probe
from rightsizer.fleet.sources.dcgm_names import NAMELESS, spellings
from rightsizer.fleet.sources.figures import USUAL_METRICS, recorded_series
from rightsizer.model.dcgm_fields import DCGM_FIELDS, FORMER_DCGM_NAMES, UUID_LABELS
from rightsizer.model.errors import StoreLimitError
from rightsizer.model.state import Tier
from rightsizer.model.units import Nanoseconds

pytestmark = pytest.mark.prometheus

HELD: Final = {"pod": "llm-0", "namespace": "chat"}
OWNERLESS: Final = "advice is by GPU"


def report_of(values: Mapping[str, float], labels: Mapping[str, str] = HELD) -> SourceReport:
    """The probe's report on a fleet of one GPU."""
    past = EstatePast()
    past.device([Phase(20, 24, values, labels)], UUID=gpu(0))
    with ExitStack() as stack:
        return probe(stack.enter_context(stored(past)), NOW, DAY)


def says(sentences: Sequence[str], part: str) -> bool:
    """Whether any of the sentences contains the words."""
    return any(part in sentence for sentence in sentences)


def test_spellings_of_a_field_differ() -> None:
    """A store is asked for no name twice, and for each former name."""
    for field in DCGM_FIELDS.values():
        names = spellings(field)
        assert len(set(names)) == len(names)
        former = {old for old, new in FORMER_DCGM_NAMES.items() if new == field.name}
        assert former <= {*names}


def test_profiling_tells_most() -> None:
    """Bottlenecks can be concluded; throttling and owners too where they are exported."""
    report = report_of({**BUSY, "DCGM_FI_DEV_POWER_VIOLATION": 0})
    assert report.tier is Tier.PROFILING
    assert says(report.can, "bottlenecks")
    assert says(report.can, "Throttling")
    assert not says(report.cannot, OWNERLESS)
    assert says(report.cannot, "Idle time within a stretch")


def test_power_tells_no_bottleneck() -> None:
    """The report says how to export bottlenecks."""
    report = report_of(unprofiled(BUSY))
    assert report.tier is Tier.POWER
    assert says(report.cannot, "turn on DCGM_FI_PROF_SM_ACTIVE")
    assert says(report.cannot, "Throttling")


def test_utilization_alone_sizes_nothing() -> None:
    """Utilization only shows that a kernel was resident."""
    report = report_of(basic(BUSY))
    assert report.tier is Tier.BASIC
    assert says(report.cannot, "How large a GPU is needed")


def test_memory_alone_tells_no_rest() -> None:
    """MIG instances without profiling are such a case."""
    report = report_of({"DCGM_FI_DEV_FB_USED": 100})
    assert (report.tier, report.devices) == (Tier.NONE, 1)
    assert says(report.cannot, "Whether GPUs are idle")


def test_an_unlabelled_estate_has_no_owners() -> None:
    """Recommendations are then by GPU, and the operator is told which option to enable."""
    assert says(report_of(BUSY, {}).cannot, OWNERLESS)
    assert not says(report_of(BUSY, {"hpc_job": "4711"}).cannot, OWNERLESS)


def test_query_about_a_shard_is_no_longer_than_stores_allow() -> None:
    """The longest names its devices twice; stores of several clusters have a matcher in each."""
    at_once = StoreSettings().series_maximum // report_of(BUSY).series_at_once
    uuids = tuple(map(gpu, range(at_once)))
    matchers = Matchers.parse('kubernetes_cluster="production-eu-central-1-training"')
    spelled = {name for metric in USUAL_METRICS for name in spellings(DCGM_FIELDS[metric])}
    longest = max(
        len(matchers.merge(figure.query(form, {label: uuids}, COARSE_STEP)))
        for figure in recorded_series(spelled)
        for form in figure.forms
        for label in UUID_LABELS
    )
    assert 15_000 < longest <= 16 * 2**10


def test_broken_hardware_is_pointed_at() -> None:
    """The warning covers Xids that need action, and no others."""
    report = report_of({**BUSY, "DCGM_FI_DEV_XID_ERRORS": 79})
    assert says(report.warnings, "Last Xid 79 on 1 of the GPUs: the GPU has fallen off the bus")
    assert not report_of({**BUSY, "DCGM_FI_DEV_XID_ERRORS": 43}).warnings


def test_series_without_a_uuid_are_left_out() -> None:
    """An index does not identify a GPU in a fleet."""
    past = EstatePast()
    past.device([Phase(20, 24, BUSY)], UUID=gpu(0))
    past.device([Phase(20, 24, BUSY)], gpu="0", Hostname="node-b")
    with stored(past) as store:
        assert says(probe(store, NOW, DAY).warnings, "Left out for want of a UUID: 1 series")


def test_what_a_store_refuses_to_count_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Series without a UUID cannot be asked for in parts of a fleet."""
    whole = PrometheusStore.instant

    def limited(store: PrometheusStore, query: str, time: Nanoseconds) -> Sequence[SampledSeries]:
        if NAMELESS in query:
            raise StoreLimitError("it allows 5 series")
        return whole(store, query, time)

    monkeypatch.setattr(PrometheusStore, "instant", limited)
    (warning,) = report_of(BUSY).warnings
    assert warning == "Left out for want of a UUID: not counted, since it allows 5 series."


def test_an_empty_store_has_no_devices() -> None:
    """Nothing can be concluded, and no conclusion is reported."""
    past = EstatePast()
    past.series("up", {}, 1)
    with stored(past) as store:
        report = probe(store, NOW, DAY)
        assert (report.devices, report.can, report.oldest) == (0, (), None)
