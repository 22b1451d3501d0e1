"""Merging two sources of a signal: the better one wins, nothing is lost or counted twice."""

from hypothesis import given
from hypothesis import strategies as st

from rightsizer.model.reading import Missing, Reading
from rightsizer.model.signal import Signal
from rightsizer.telemetry.dcgm.enrichment import DCGM, merge_readings

A100 = Reading(
    "GPU-0",
    7,
    {Signal.GPU_BUSY: 0.99, Signal.POWER_WATTS: 300.0, Signal.PROCESS_COUNT: 1.0},
    {Signal.SM_ACTIVE: Missing.NOT_SUPPORTED, Signal.ECC_CORRECTED_ERRORS: Missing.NO_PERMISSION},
    origins={Signal.GPU_BUSY: "utilization", Signal.POWER_WATTS: "power"},
)
PROFILED = {Signal.GPU_BUSY, Signal.SM_ACTIVE}

SIGNALS = st.sampled_from(list(Signal))
VALUES = st.dictionaries(SIGNALS, st.floats(0, 1), max_size=12)
REASONS = st.dictionaries(SIGNALS, st.sampled_from(list(Missing)), max_size=12)
ORIGINS = st.sampled_from(["gpm", "utilization", "power", DCGM])


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    """Any valid reading; a signal with a value is not missing."""
    values = draw(VALUES)
    missing = {signal: why for signal, why in draw(REASONS).items() if signal not in values}
    origins = {signal: draw(ORIGINS) for signal in values if draw(st.booleans())}
    return Reading("GPU-0", 7, values, missing, origins=origins)


def test_profiling_goes_before_utilization() -> None:
    """DCGM fills in what NVML lacks on Ampere, and the better busy share is used."""
    found = merge_readings(A100, {Signal.GPU_BUSY: 0.4, Signal.SM_ACTIVE: 0.3}, profiled=PROFILED)
    assert (found.get(Signal.GPU_BUSY), found.get(Signal.SM_ACTIVE)) == (0.4, 0.3)
    assert found.origins == {**A100.origins, Signal.GPU_BUSY: DCGM, Signal.SM_ACTIVE: DCGM}
    assert found.missing == {Signal.ECC_CORRECTED_ERRORS: Missing.NO_PERMISSION}


def test_nvml_goes_before_what_dcgm_has_from_nvml() -> None:
    """Both have the same value, and ours is of this second."""
    later = {Signal.GPU_BUSY: 0.2, Signal.POWER_WATTS: 90.0, Signal.PROCESS_COUNT: 3.0}

    assert merge_readings(A100, later) is A100


def test_gpm_goes_before_everything() -> None:
    """These are the same counters, read by the agent itself."""
    ours = Reading("GPU-0", 7, {Signal.GPU_BUSY: 0.7}, origins={Signal.GPU_BUSY: "gpm"})

    assert merge_readings(ours, {Signal.GPU_BUSY: 0.4}, profiled=PROFILED) is ours


def test_counters_that_have_died_do_not_hide_work() -> None:
    """They read 0; accounting sees the contradiction and ignores the pipes."""
    found = merge_readings(A100, {Signal.GPU_BUSY: 0.0, Signal.SM_ACTIVE: 0.0}, profiled=PROFILED)

    assert (found.get(Signal.GPU_BUSY), found.get(Signal.SM_ACTIVE)) == (0.99, 0.0)


def test_a_reason_is_kept_unless_dcgm_knows_a_better_one() -> None:
    """`stale` is more specific than `not supported`, and nothing more than `no permission`."""
    why = dict.fromkeys(
        (Signal.SM_ACTIVE, Signal.ECC_CORRECTED_ERRORS, Signal.DRAM_ACTIVE), Missing.STALE
    )
    assert merge_readings(A100, {}, missing=why).missing == {
        Signal.SM_ACTIVE: Missing.STALE,
        Signal.DRAM_ACTIVE: Missing.STALE,
        Signal.ECC_CORRECTED_ERRORS: Missing.NO_PERMISSION,
    }


@given(readings(), VALUES, st.sets(SIGNALS), REASONS)
def test_merged_reading_loses_and_invents_no_value(
    ours: Reading, theirs: dict[Signal, float], profiled: set[Signal], why: dict[Signal, Missing]
) -> None:
    """Every value comes from one of the sources; the origin names it."""
    found = merge_readings(ours, theirs, profiled=profiled, missing=why)

    assert found.values.keys() == ours.values.keys() | theirs.keys()
    for signal, value in found.values.items():
        assert value in (ours.values.get(signal), theirs.get(signal))
        if found.origins.get(signal) != DCGM:
            assert value == ours.values[signal]
        elif ours.origins.get(signal) != DCGM:
            assert value == theirs[signal]
    assert not found.values.keys() & found.missing.keys()
    assert ours.missing.keys() | why.keys() == found.missing.keys() | (
        found.values.keys() & (ours.missing.keys() | why.keys())
    )


@given(readings(), VALUES, st.sets(SIGNALS), REASONS)
def test_merging_twice_is_merging_once(
    ours: Reading, theirs: dict[Signal, float], profiled: set[Signal], why: dict[Signal, Missing]
) -> None:
    """Merging the same page again changes nothing."""
    once = merge_readings(ours, theirs, profiled=profiled, missing=why)

    assert merge_readings(once, theirs, profiled=profiled, missing=why) == once
