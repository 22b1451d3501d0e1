"""Quantiles from buckets against exact ones of the raw readings: off by at most one bin."""

from collections.abc import Sequence
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from readings import GIBIBYTE, SECOND, gpu, snapshot
from rightsizer.accounting.node_accounts import DAY_WINDOW, WEEK_WINDOW, NodeAccounts
from rightsizer.accounting.provisioning import provision
from rightsizer.accounting.settings import ProvisioningSettings
from rightsizer.accounting.window_codec import decode_window, encode_window
from rightsizer.model.histogram import Histogram
from rightsizer.model.signal import Signal
from rightsizer.model.state import Resource
from rightsizer.model.workload import Allocator

GPU: Final = gpu()
BIN: Final = 0.01
ROUNDING: Final = 1e-8
"""Tolerance for values on an edge, up to the last digits of a division."""
SHARES: Final = (0.0, 0.01, 0.05, 0.5, 0.9, 0.95, 0.97, 0.99, 1.0)

Raw = Sequence[tuple[float, int]]
"""Values, each with its duration in seconds."""

READINGS: Final = st.lists(
    st.tuples(
        st.one_of(st.floats(0.011, 1.0), st.integers(2, 100).map(lambda percent: percent / 100)),
        st.integers(1, 15),
    ),
    min_size=1,
    max_size=80,
)
"""Active seconds only: below 1% a device is idle."""


def exact(raw: Raw, share: float) -> float:
    """The smallest value not exceeded for the given share of time."""
    target = share * sum(held for _, held in raw) * (1 - 1e-12)
    reached = 0
    for value, held in sorted(raw):
        reached += held
        if reached >= target:
            return value
    return max(value for value, _ in raw)


def posted(raw: Raw) -> NodeAccounts:
    """A GPU with these readings; memory and traffic follow its load."""
    accounts = NodeAccounts()
    at = 0
    for value, held in [(raw[0][0], 1), *raw]:
        at += held
        signals = {
            Signal.GPU_BUSY: value,
            Signal.SM_ACTIVE: value,
            Signal.DRAM_ACTIVE: value,
            Signal.MEMORY_USED_BYTES: value * 80 * GIBIBYTE,
            Signal.PROCESS_COUNT: 1.0,
        }
        accounts.post(snapshot(at, [GPU], {GPU: signals}, interval_seconds=15.0))
    return accounts


def assert_close(found: float | None, true: float) -> None:
    """Never below the true value, at most one bin above."""
    assert found is not None
    assert -ROUNDING <= found - true <= BIN + ROUNDING


def assert_within_a_bin(found: Histogram, raw: Raw) -> None:
    """All quantiles are close."""
    for share in SHARES:
        assert_close(found.quantile(share), exact(raw, share))


@given(READINGS)
def test_distributions_of_signals(raw: Raw) -> None:
    """Distributions that counters are made from."""
    found = posted(raw).device(GPU.uuid).totals.totals().distributions
    for signal in (Signal.GPU_BUSY, Signal.SM_WORK, Signal.DRAM_ACTIVE, Signal.MEMORY_USED):
        assert found[signal].total == sum(held for _, held in raw) * SECOND
        assert_within_a_bin(found[signal], raw)


@given(READINGS)
def test_demands_of_windows(raw: Raw) -> None:
    """Through five-minute windows, hours, and their stored bytes."""
    accounts = posted(raw)
    whole = accounts.device(GPU.uuid).whole.window()
    kept = decode_window(GPU.uuid, encode_window(whole))
    for resource in (Resource.COMPUTE, Resource.MEMORY, Resource.MEMORY_BANDWIDTH):
        assert_within_a_bin(kept.demands[resource], raw)


@given(READINGS)
def test_demands_of_gauges(raw: Raw) -> None:
    """The P99 and the maximum that the needs of a day and a week are based on."""
    lasting = [*raw] * (1 + 600 // sum(held for _, held in raw))
    accounts = posted(lasting)
    for window in (DAY_WINDOW, WEEK_WINDOW):
        fits = accounts.provisioning(GPU.uuid)[window].resources
        for resource in (Resource.COMPUTE, Resource.MEMORY_BANDWIDTH):
            assert_close(fits[resource].demand, exact(lasting, 0.99))
    growing = provision(
        accounts.device(GPU.uuid).whole.window(), Allocator.GROWING, ProvisioningSettings()
    )
    assert_close(growing.resources[Resource.MEMORY].demand, max(value for value, _ in lasting))


@given(READINGS, READINGS)
def test_merged_and_parted_distributions(mine: Raw, others: Raw) -> None:
    """The sum of two devices, and the sum with one removed."""
    merged = posted(mine).device(GPU.uuid).totals.totals().distributions[Signal.GPU_BUSY]
    other = posted(others).device(GPU.uuid).totals.totals().distributions[Signal.GPU_BUSY]
    merged.merge(other)
    assert_within_a_bin(merged, [*mine, *others])
    merged.subtract(other)
    assert_within_a_bin(merged, mine)
