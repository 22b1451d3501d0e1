"""Invariants of columns on a grid, of holders' shares, and of throttle reasons."""

import math
import pickle
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcgm_estate import YESTERDAY, gpu
from rightsizer.accounting.settings import EntrySettings
from rightsizer.fleet.source import SampledSeries
from rightsizer.fleet.sources.day_accounting import ThrottleReasons
from rightsizer.fleet.sources.dcgm_exporter.holdings import (
    ExporterPresence,
    HolderNames,
    held_runs,
    known_seconds,
    presences,
)
from rightsizer.fleet.sources.dcgm_exporter.readings import (
    alive,
    by_device,
    plausible_values,
)
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.fleet.sources.dcgm_names import presence_names, tier_of_metrics
from rightsizer.fleet.sources.series import together
from rightsizer.model.dcgm_fields import DCGM_FIELDS
from rightsizer.model.signal import Signal
from rightsizer.model.state import Tier
from rightsizer.model.workload import Workload, WorkloadKind

STEP: Final = YESTERDAY.step
ROWS: Final = {gpu(0): 0}
UTIL: Final = DCGM_FIELDS["DCGM_FI_DEV_GPU_UTIL"]
COUNTS: Final = st.lists(st.integers(0, 20), min_size=288, max_size=288)


def series(values: list[float], **labels: str) -> SampledSeries:
    """Values from the first interval on."""
    times = YESTERDAY.start + STEP * np.arange(1, len(values) + 1)
    return SampledSeries({"UUID": gpu(0), **labels}, times, np.array(values))


def workload(name: str) -> Workload:
    """A workload with the given name."""
    return Workload(f"kubernetes:a/{name}", WorkloadKind.KUBERNETES, name)


def pod(name: str) -> Workload:
    """A pod that holds a device."""
    labels = {"pod": name, "namespace": "a"}
    return HolderNames().holder(labels) or workload(name)


HOLDERS: Final = (pod("one-0"), pod("two-0"), None)
WORKLOADS: Final = {holder: workload(holder.pod) for holder in HOLDERS if holder is not None}


@given(COUNTS, COUNTS, COUNTS)
def test_shares_never_pass_the_whole(one: list[int], two: list[int], nobody: list[int]) -> None:
    """This holds in every interval, however samples are spread over holders and free time."""
    columns = (np.array(each, float) for each in (one, two, nobody))
    presence = ExporterPresence(dict(zip(HOLDERS, columns, strict=True)))
    shares = [0.0] * 288
    for run in held_runs(presence, WORKLOADS):
        assert 0 <= run.first <= run.last < 288
        for at in range(run.first, run.last + 1):
            shares[at] += run.share_ratio
    assert all(share <= 1.0 + 1e-9 for share in shares)


@given(COUNTS, COUNTS)
def test_known_time_never_passes_the_stretch(one: list[int], two: list[int]) -> None:
    """Known time is also 0 without samples."""
    presence = ExporterPresence(
        {holder: np.array(each, float) for holder, each in zip(HOLDERS, (one, two), strict=False)}
    )
    for at, second in enumerate(known_seconds([presence], YESTERDAY, 30.0)[0]):
        assert 0.0 <= second <= 300.0
        assert (second > 0.0) == (one[at] + two[at] > 0)


@pytest.mark.parametrize(
    ("day", "known"),
    [
        ([3, 2] * 144, [300.0, 300.0]),
        ([3, 3, 2] * 96, [300.0, 300.0, 300.0]),
        ([7, 6, 7] * 96, [300.0, 300.0, 300.0]),
        ([5] * 287 + [4], [300.0] * 287 + [240.0]),
        ([2] * 287 + [1], [300.0] * 287 + [150.0]),
        ([5, 5, 4, 2] * 72, [300.0, 300.0, 240.0, 120.0]),
        ([0] * 200 + [3, 2] * 44, [0.0] * 200 + [300.0] * 88),
        ([20] * 100 + [11] + [5] * 187, [300.0] * 168),
        ([5] * 90 + [20] * 10 + [3, 2] * 94, [300.0] * 168),
        ([20] * 100 + [5] * 12 + [20] * 176, [300.0] * 100 + [75.0] * 12 + [300.0] * 176),
    ],
)
def test_regular_scrapes_leave_nothing_unknown(day: list[int], known: list[float]) -> None:
    """Time is unknown only where scrapes are missed, at whichever interval of the day."""
    presence = ExporterPresence({None: np.array(day, float)})
    (found,) = known_seconds([presence], YESTERDAY, 60.0)
    assert list(found[-len(known) :]) == known


@given(st.integers(0, 287), st.integers(1, 255), st.integers(0, 255))
def test_a_mask_of_two_values_has_its_exact_share(part: int, most: int, least: int) -> None:
    """The mean shows for how much of the interval the larger value was set."""
    low, high = sorted((most, least))
    share = part / 287
    mean = share * high + (1 - share) * low
    reasons = ThrottleReasons(*(np.array([each]) for each in (mean, high, low)))
    assert list(reasons.masks) == [high]
    assert math.isclose(reasons.shares[0], share if high > low else 1.0, abs_tol=1e-9)


def test_of_two_scrapes_the_larger_value_counts() -> None:
    """Values that only one scrape has are kept."""
    found = by_device([series([1.0, 5.0]), series([3.0, 2.0, 7.0], gpu="0")], YESTERDAY, ROWS)
    assert list(found[0, :3]) == [3.0, 5.0, 7.0]


def test_reading_of_the_card_is_not_its_instances() -> None:
    """Power labelled with an instance is that of the whole GPU."""
    sliced = series([300.0], GPU_I_ID="3")
    rows = {f"{gpu(0)}/gi3": 0}
    assert np.isnan(by_device([sliced], YESTERDAY, rows, is_of_card=True)).all()
    assert by_device([sliced], YESTERDAY, rows)[0, 0] == 300.0


def test_blanks_are_unknown() -> None:
    """A mean with one of DCGM's blank values among its samples is unknown."""
    read = by_device([series([50.0, 9.2e18 / 10])], YESTERDAY, ROWS)
    (column,) = plausible_values(read, UTIL, Signal.GPU_BUSY)
    assert column[0] == 0.5
    assert math.isnan(column[1])


def test_a_counter_that_died_is_not_preferred() -> None:
    """The driver's utilization is used where the counter reads 0 and the driver disagrees."""
    better = np.array([0.0, 0.7, math.nan, 0.0])
    other = np.array([0.9, 0.9, 0.4, 0.1])
    assert list(together(better, other, alive)) == [0.9, 0.7, 0.4, 0.0]


def test_two_pods_of_one_device_share_it() -> None:
    """Time slices get equal shares, because their use is not measured."""
    counts = [
        series([10.0], pod="one-0", namespace="a"),
        series([10.0], pod="two-0", namespace="a"),
    ]
    found = presences(counts, YESTERDAY, HolderNames())[gpu(0)]
    assert [run.share_ratio for run in held_runs(found, WORKLOADS)] == [0.5, 0.5]


@pytest.mark.parametrize("pods", range(1, 9))
def test_equal_shares_leave_nothing_of_a_device(pods: int) -> None:
    """Hundredths would leave a part of it to nobody."""
    counts = [series([10.0], pod=f"pod-{each}", namespace="a") for each in range(pods)]
    found = presences(counts, YESTERDAY, HolderNames())[gpu(0)]
    workloads = {holder: holder for holder in found.counts if holder is not None}
    shares = [run.share_ratio for run in held_runs(found, workloads)]
    assert sum(shares) == pytest.approx(1.0)


def test_short_jobs_do_not_take_the_time_between_them() -> None:
    """Samples without a pod show time that no job held."""
    counts = [series([9.0, 11.0]), series([11.0, 9.0], pod="one-0", namespace="a")]
    found = presences(counts, YESTERDAY, HolderNames(), 15.0)[gpu(0)]
    assert not found.has_own_series
    assert [run.share_ratio for run in held_runs(found, WORKLOADS)] == [0.55, 0.45]


def test_a_device_with_a_series_of_its_own_is_held_whole() -> None:
    """Its own series and the pods' series cover the same time."""
    counts = [series([20.0]), series([20.0], pod="one-0", namespace="a")]
    found = presences(counts, YESTERDAY, HolderNames(), 15.0)[gpu(0)]
    assert found.has_own_series
    assert [run.share_ratio for run in held_runs(found, WORKLOADS)] == [1.0]


def test_the_exporter_s_own_pod_holds_nothing() -> None:
    """A scrape may write it into `pod`, whatever its name."""
    own = {"job": "gpu", "pod": "metrics-x", "namespace": "ops"}
    names = HolderNames.seen_in([{**own, "exported_pod": "llm-0", "exported_namespace": "a"}])
    assert names.holder(own) is None
    held = names.holder({"job": "other", "pod": "llm-0", "namespace": "a"})
    assert held is not None
    assert (held.namespace, held.pod) == ("a", "llm-0")


def test_metrics_tell_the_tier() -> None:
    """Names of all exporter versions are recognized."""
    assert tier_of_metrics({"dcgm_gpu_utilization", "dcgm_power_usage"}) is Tier.POWER
    assert tier_of_metrics({"dcgm_fi_prof_sm_active"}) is Tier.PROFILING
    assert tier_of_metrics({"DCGM_FI_DEV_GPU_UTIL"}) is Tier.BASIC
    assert tier_of_metrics({"DCGM_FI_DEV_FB_USED"}) is Tier.NONE
    assert presence_names({"dcgm_fb_used", "DCGM_FI_DEV_GPU_UTIL"}) == ("dcgm_fb_used",)


def test_a_source_goes_to_other_processes() -> None:
    """A source is picklable with all its parameters."""
    source = pickle.loads(pickle.dumps(DcgmExporterSource(books=EntrySettings())))
    assert source.name == "dcgm-exporter"
