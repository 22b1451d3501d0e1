"""Comparison of a profile with telemetry of the same GPU and time, and its workload."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from profile_beside import AT, KEY, long_profile, telemetry_of, waiting_profile
from profiles_built import device, kernel, profile, time_use
from readings import EPOCH, SECOND, gpu
from rightsizer.model.histogram import Histogram
from rightsizer.model.profile import Profile, ProfiledDevice
from rightsizer.model.state import Condition, Resource, State
from rightsizer.model.units import Nanoseconds
from rightsizer.profiler.comparison import ProfileComparison, ProfileTelemetry
from rightsizer.profiler.join import ProfileJoin, join
from rightsizer.profiler.settings import ProfileComparisonSettings

NODE = (gpu(0),)
WORKING = {State.PRODUCTIVE: 285.0, State.HOST_BOUND: 15.0}


def joined(found: Profile, telemetry: ProfileTelemetry | None) -> ProfileJoin:
    """One profile joined with the telemetry of the only GPU."""
    return join((found,), NODE, lambda *_: telemetry, ProfileComparisonSettings())


def by_figure(found: ProfileJoin) -> dict[str, ProfileComparison]:
    """Comparisons by the name of their figure."""
    return {
        comparison.figure: comparison
        for device in found.devices
        for comparison in device.comparisons
    }


def test_a_contradiction_is_reported_with_both_figures() -> None:
    """With the subject and both durations."""
    found = joined(long_profile(), telemetry_of(WORKING))
    (text,) = found.contradictions

    assert text == (
        "The profile says that GPU 0 waits for the host 62.0% of 40 s; telemetry of the 5 min "
        "around it, 13.3% of which it covers, says that it was productive 95.0% and held up by "
        "host, storage or launches 5.0% of its active time."
    )
    assert found.key == KEY


def test_profiles_that_agree_have_no_contradiction() -> None:
    """Both figures are still reported."""
    found = joined(long_profile(), telemetry_of({State.HOST_BOUND: 200.0, State.PRODUCTIVE: 100.0}))

    assert found.contradictions == ()
    assert by_figure(found)["host_wait_ratio"].profile == 0.62
    assert by_figure(found)["host_wait_ratio"].telemetry == pytest.approx(2 / 3, abs=1e-4)


def test_idle_time_around_a_profile_contradicts_nothing() -> None:
    """Ten busy seconds within five otherwise idle minutes contradict nothing."""
    short = long_profile(10.0, kernel_ratio=0.95, host_ratio=0.05)
    found = joined(
        short, telemetry_of({State.PRODUCTIVE: 10.0, State.IDLE_HELD: 290.0}, busy_ratio=0.032)
    )

    assert found.contradictions == ()
    assert by_figure(found)["busy_ratio"].telemetry == pytest.approx(0.96, abs=0.01)


def test_kernels_where_telemetry_saw_an_idle_gpu_are_of_another_one() -> None:
    """The mismatch is reported, nothing else is compared, and no workload is judged."""
    found = joined(long_profile(), telemetry_of({State.IDLE_EMPTY: 300.0}))

    assert list(by_figure(found)) == ["active_seconds"]
    assert "another GPU, or the clocks differ" in found.contradictions[0]
    assert found.key is None
    assert "no activity" in found.unmatched


@pytest.mark.parametrize(
    ("kernels_seconds", "states", "contradicts"),
    [
        (0.2, {State.IDLE_HELD: 300.0}, True),
        (0.011, {State.IDLE_EMPTY: 3600.0}, True),
        (0.009, {State.IDLE_EMPTY: 300.0}, False),
        (0.2, {State.IDLE_HELD: 299.0, State.PRODUCTIVE: 1.0}, False),
        (0.2, {State.IDLE_HELD: 299.0, State.UNKNOWN: 1.0}, False),
    ],
)
def test_a_short_profile_contradicts_telemetry_that_saw_nothing_at_all(
    kernels_seconds: float,
    states: dict[State, float],
    contradicts: bool,  # noqa: FBT001 - a case's.
) -> None:
    """Most profiles last a second or less; one reading in between amounts to 1%."""
    found = joined(
        long_profile(1.0, kernel_ratio=kernels_seconds, host_ratio=0.1), telemetry_of(states)
    )
    assert found.contradicts("active_seconds") is contradicts
    assert (found.key is None) is contradicts


@pytest.mark.parametrize(
    "telemetry",
    [
        telemetry_of({State.IDLE_EMPTY: 200.0, State.UNKNOWN: 100.0}),
        replace(telemetry_of({State.IDLE_EMPTY: 60.0}), unseen_seconds=30.0),
    ],
)
def test_time_that_nobody_saw_contradicts_nothing(telemetry: ProfileTelemetry) -> None:
    """The kernels may have run in time that was unknown or not yet written."""
    assert joined(long_profile(), telemetry).contradictions == ()


def test_resident_kernels_are_compared_with_how_busy_the_gpu_was() -> None:
    """A driver that reports a busy GPU while kernels come and go is contradicted."""
    found = by_figure(joined(long_profile(), telemetry_of(WORKING, busy_ratio=1.0)))["busy_ratio"]

    assert (found.profile, found.telemetry, found.is_contradiction) == (0.38, 1.0, True)


@pytest.mark.parametrize(
    ("uses", "idle_ratio", "contradicts"),
    [(True, 0.9, True), (True, 0.1, False), (False, 0.9, False), (False, 0.1, True)],
)
def test_tensor_cores_are_compared(
    uses: bool,  # noqa: FBT001 - a case's.
    idle_ratio: float,
    contradicts: bool,  # noqa: FBT001 - a case's.
) -> None:
    """Used by one and idle by the other is a contradiction, in either direction."""
    of_pipes = long_profile(
        kernel_ratio=0.9, host_ratio=0.1, kernels=(kernel(uses_tensor_cores=uses),)
    )
    held = {Condition.NO_TENSOR_CORES: round(idle_ratio * 300 * SECOND)}
    found = joined(of_pipes, telemetry_of({State.PRODUCTIVE: 300.0}, conditions=held))

    assert by_figure(found)["tensor_core_ratio"].is_contradiction is contradicts


def test_copies_are_compared_where_the_link_was_read() -> None:
    """Without readings of the link, telemetry is not compared."""
    busy = time_use(kernel=0.5, host=0.0, copy_seconds=0.5, exposed_copy_seconds=0.5)
    found = profile(device(time=busy, start=0), start=AT)
    link = Histogram()
    link.add(0.1, 300 * SECOND)

    assert "pcie_bound_ratio" not in by_figure(joined(found, telemetry_of(WORKING)))
    read = telemetry_of(WORKING, demands={Resource.PCIE: link})
    assert by_figure(joined(found, read))["pcie_bound_ratio"].is_contradiction


def test_more_memory_than_telemetry_ever_saw_is_a_contradiction() -> None:
    """An allocator cannot hold memory that the GPU does not have."""
    held = Histogram()
    held.add(0.25, 300 * SECOND)
    seen = telemetry_of(WORKING, demands={Resource.MEMORY: held})
    more = long_profile(memory_peak_bytes=40 * 2**30)
    less = long_profile(memory_peak_bytes=19 * 2**30)

    assert by_figure(joined(more, seen))["memory_bytes"].is_contradiction
    assert not by_figure(joined(less, seen))["memory_bytes"].is_contradiction


@given(
    seconds=st.floats(0.001, 3000.0),
    kernels=st.floats(0.0, 1.0),
    states=st.dictionaries(st.sampled_from(State), st.floats(0.0, 300.0)),
    busy=st.none() | st.floats(0.0, 1.0),
)
def test_figures_stay_within_what_they_are(
    seconds: float, kernels: float, states: dict[State, float], busy: float | None
) -> None:
    """Shares stay shares for any input, and every contradiction has a sentence."""
    found = joined(
        long_profile(seconds, kernel_ratio=kernels, host_ratio=1.0 - kernels),
        telemetry_of(states, busy_ratio=busy),
    )
    for name, each in by_figure(found).items():
        if name.endswith("_ratio"):
            assert 0.0 <= each.profile <= 1.0
            assert 0.0 <= each.telemetry <= 1.0
    contradicting = [each.text for each in by_figure(found).values() if each.is_contradiction]
    assert list(found.contradictions) == contradicting


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (replace(waiting_profile(), start=None), "pytorch has no wall time in it"),
        (profile(device(time=None), start=AT), "the profile has no timeline"),
        (waiting_profile(), "no telemetry of GPU 0 at that time is kept"),
        (profile(start=AT), "there is no GPU in it"),
    ],
)
def test_profile_without_telemetry_says_why(found: Profile, why: str) -> None:
    """It names no workload."""
    result = joined(found, None)

    assert result.key is None
    assert result.unmatched == why


def test_profile_and_telemetry_are_asked_for_the_same_time() -> None:
    """From the first kernel to the last, by the wall clock."""
    asked: list[tuple[str, Nanoseconds, Nanoseconds]] = []

    def telemetry_at(uuid: str, start: Nanoseconds, end: Nanoseconds) -> None:
        asked.append((uuid, start, end))

    late = profile(replace(long_profile().devices[0], start=7 * SECOND), start=AT)
    join((late,), NODE, telemetry_at, ProfileComparisonSettings())

    assert asked == [("GPU-0", AT + 7 * SECOND, AT + 47 * SECOND)]


def test_ranks_of_several_holders_are_nobodys() -> None:
    """Advice for the wrong workload is worse than none."""
    ranks = tuple(
        replace(
            waiting_profile(),
            devices=(replace(waiting_profile().devices[0], device=ProfiledDevice("0", uuid=uuid)),),
            rank=rank,
        )
        for rank, uuid in enumerate(("GPU-0", "GPU-1"))
    )
    holders = {"GPU-0": "slurm/a", "GPU-1": "slurm/b"}
    found = join(
        ranks,
        (gpu(0), gpu(1)),
        lambda uuid, *_: telemetry_of(WORKING, workload=holders[uuid]),
        ProfileComparisonSettings(),
    )

    assert found.key is None
    assert found.unmatched == "its GPUs were held by 2 workloads: slurm/a, slurm/b"


def test_a_gpu_that_nobody_held_is_spoken_of_itself() -> None:
    """As in telemetry's own advice."""
    assert joined(waiting_profile(), telemetry_of(WORKING, workload=None)).key == "GPU-0"


def test_the_only_holder_of_a_node_is_meant_where_the_profile_tells_no_gpu() -> None:
    """XLA writes no GPU name; a profile of another node matches nothing here."""
    two = (gpu(0), gpu(1))
    nameless = profile(
        replace(waiting_profile().devices[0], device=ProfiledDevice("0", 0)), start=AT
    )
    foreign = profile(
        replace(waiting_profile().devices[0], device=ProfiledDevice("0", uuid="GPU-9")), start=AT
    )
    found = [
        join((each,), two, lambda *_: telemetry_of(WORKING), ProfileComparisonSettings())
        for each in (nameless, foreign)
    ]

    assert [each.key for each in found] == [KEY, None]
    assert found[1].unmatched == "no GPU of this node has the uuid GPU-9"


def test_the_time_of_a_join_is_that_of_its_devices() -> None:
    """Wall time, or none if no device has any."""
    assert joined(waiting_profile(), None).span == (AT, AT + SECOND)
    assert joined(replace(waiting_profile(), start=None), None).span is None
    assert AT > EPOCH
