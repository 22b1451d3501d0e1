"""Use of a device's time, from its events."""

import pytest

from profile_calls import (
    NCCL,
    PINNED,
    Call,
    copy,
    kernel,
    launch,
    loader,
    nanoseconds,
    only,
    recorded,
    step,
    time_of,
    wait,
)
from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import CopyUse, HostSpanUse, LaunchUse, SpanKind
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.recorder import Recorder


def test_a_gap_is_the_hosts_where_the_launch_came_after_it_began() -> None:
    """The device had nothing to run."""
    time = time_of(launch(1, 0, 5), kernel(10, 20, correlation=1), launch(2, 30, 35),
                   kernel(40, 50, correlation=2))  # fmt: skip

    assert nanoseconds(time.host_wait_seconds) == 20
    assert nanoseconds(time.idle_seconds) == 20


def test_a_gap_is_not_the_hosts_where_the_launch_was_there_before() -> None:
    """The kernel waited for a stream, an event or a copy, not for the host."""
    time = time_of(launch(1, 0, 5), kernel(100, 200, correlation=1), launch(2, 6, 9),
                   kernel(400, 500, correlation=2))  # fmt: skip

    assert nanoseconds(time.other_idle_seconds) == 200


@pytest.mark.parametrize(
    ("begin", "end", "loads", "waited"),
    [
        (10, 52, (), 150),
        (10, 52, (loader(60, 100),), 110),
        (10, 52, (loader(40, 300),), 0),
        (50, 60, (), 10),
        (10, 50, (), 0),
        (60, 90, (), 30),
        (60, 90, (Call("host_span", (SpanKind.SYNCHRONIZATION, "barrier", (10, 52))),), 30),
    ],
)
def test_a_wait_of_the_host_costs_what_the_device_then_waits(
    begin: int, end: int, loads: tuple[Call, ...], waited: int
) -> None:
    """The host waited when the device ran dry, so nothing was launched ahead; loading is separate.

    A wait that ended before is not what the device waits for; one that began after takes its time.
    """
    time = time_of(launch(1, 0, 5), kernel(10, 50, correlation=1), wait(begin, end), *loads,
                   launch(2, 190, 195), kernel(200, 210, correlation=2))  # fmt: skip

    assert nanoseconds(time.host_wait_seconds) == 150
    assert nanoseconds(time.synchronization_wait_seconds) == waited


@pytest.mark.parametrize(
    ("loads", "copied"), [((), 60), ((loader(60, 100),), 40), ((loader(40, 300),), 0)]
)
def test_wait_for_the_host_beside_a_copy_is_the_copys(loads: tuple[Call, ...], copied: int) -> None:
    """A copy from pageable memory holds the host, too; loading is separate."""
    time = time_of(launch(1, 0, 5), kernel(10, 50, correlation=1), wait(10, 52), *loads,
                   copy(80, 140), launch(2, 190, 195),
                   kernel(200, 210, correlation=2))  # fmt: skip

    assert nanoseconds(time.copy_wait_seconds) == copied
    apart = time.loader_wait_seconds + time.synchronization_wait_seconds + time.copy_wait_seconds
    assert nanoseconds(apart) == nanoseconds(time.host_wait_seconds) == 150


@pytest.mark.parametrize(("gap", "cause"), [(30, "kernel_wait"), (31, "other_idle")])
def test_a_gap_without_a_launch_is_nobodys_unless_it_is_small(gap: int, cause: str) -> None:
    """As in HolisticTraceAnalysis, kernels within 30 ns follow each other directly."""
    time = time_of(kernel(0, 100), kernel(100 + gap, 500))

    assert nanoseconds(getattr(time, f"{cause}_seconds")) == gap


def test_of_kernels_that_start_together_the_first_launched_ended_the_wait() -> None:
    """The order in the profile does not matter."""
    time = time_of(kernel(0, 10), kernel(100, 110, correlation=1),
                   kernel(100, 120, correlation=2), launch(1, 50, 60), launch(2, 5, 6))  # fmt: skip

    assert nanoseconds(time.other_idle_seconds) == 90


def test_before_its_first_kernel_a_step_waits_for_the_host() -> None:
    """The device is idle until the host's first launch."""
    device = only(recorded(step(0, 100), launch(1, 60, 65), kernel(70, 90, correlation=1)))

    (use,) = device.steps
    assert nanoseconds(use.time.host_wait_seconds) == 70
    assert nanoseconds(use.time.other_idle_seconds) == 10


def test_launches_are_counted_by_call_and_kernels_by_launch() -> None:
    """One call launches a graph's kernels, and none counts as short beside the whole."""
    device = only(
        recorded(
            launch(1, 0, 10),
            kernel(20, 25, correlation=1),
            kernel(25, 45, correlation=1),
            launch(2, 50, 60),
            kernel(70, 99, correlation=2),
            launch(3, 61, 62),
            kernel(99, 100, correlation=4),
            launch(5, 62, 72),
            kernel(100, 104, correlation=5),
        )
    )

    assert device.launches == LaunchUse(count=3, host_seconds=30e-9, short_kernels=1, matched=4)


def test_a_profile_without_launches_says_nothing_of_them() -> None:
    """Unknown is not 0."""
    assert only(recorded(kernel(0, 1))).launches is None


def test_a_graph_is_busy_time_and_no_kernel() -> None:
    """Its kernels are not in the profile."""
    device = only(recorded(kernel(0, 10), Call("kernel", ("0", (5, 40), None))))

    assert device.time is not None
    assert nanoseconds(device.time.kernel_seconds) == 40
    assert [(use.name, use.count) for use in device.kernels] == [("gemm", 1)]


def test_copies_and_fills_are_no_kernels() -> None:
    """A device with copies only has no timeline, but its copies."""
    device = only(recorded(copy(0, 10, 100), copy(20, 25, 50), Call("fill", ("0", (1, 5)))))

    assert device.time is None
    assert device.copies == (CopyUse(*PINNED, count=2, bytes=150, seconds=15e-9),)


def test_kernels_are_distinguished_by_name_longest_in_sum_first() -> None:
    """Each has what its name shows."""
    device = only(recorded(kernel(0, 5, "relu"), kernel(5, 35, NCCL), kernel(35, 42, "relu")))

    assert [
        (use.name, use.count, nanoseconds(use.seconds), use.is_collective) for use in device.kernels
    ] == [(NCCL, 1, 30, True), ("relu", 2, 12, False)]
    assert nanoseconds(device.kernels[1].shortest_seconds) == 5
    assert nanoseconds(device.kernels[1].longest_seconds) == 7


def test_names_beyond_the_limit_are_counted_as_one() -> None:
    """A unique name for each kernel must not fill the memory."""
    limits = ReadLimits(kernel_names_maximum=100)
    device = only(
        recorded(*(kernel(at, at + 1, f"kernel {at}") for at in range(150)), limits=limits)
    )

    assert len(device.kernels) == 101
    assert {use.name: use.count for use in device.kernels}["(other kernels)"] == 50


def test_devices_beyond_the_limit_are_shown_as_one() -> None:
    """An invalid device number must not create a million devices."""
    recorder = recorded(
        *(kernel(at, at + 1, device=str(at)) for at in range(9)),
        limits=ReadLimits(devices_maximum=2),
    )

    assert {device.device.key: device.kernels[0].count for device in recorder.devices()} == {
        "0": 1,
        "1": 1,
        "(other devices)": 7,
    }


def test_long_names_are_cut_and_still_distinguished() -> None:
    """Two names may differ only at their end."""
    limits = ReadLimits(name_maximum_characters=64)
    device = only(
        recorded(kernel(0, 1, "k" * 99 + "a"), kernel(1, 2, "k" * 99 + "b"), limits=limits)
    )

    assert [len(use.name) for use in device.kernels] == [64, 64]


def test_occupancy_counts_by_how_long_a_kernel_ran() -> None:
    """Longer runs weigh more."""
    recorder = Recorder(ReadLimits())
    recorder.kernel("0", (0, 30), "gemm", occupancy_ratio=0.5)
    recorder.kernel("0", (30, 40), "gemm", occupancy_ratio=0.9)
    recorder.kernel("0", (40, 90), "gemm")

    assert only(recorder).kernels[0].occupancy_ratio == pytest.approx(0.6)


def test_measured_kernel_facts_take_precedence_over_its_name() -> None:
    """Counters are more reliable."""
    recorder = Recorder(ReadLimits())
    recorder.kernels(["0"], [0], [30], [None], ["mine"], [""], collectives={"mine"})

    assert only(recorder).kernels[0].is_collective


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (kernel(10, 9), "kernel of a negative duration"),
        (copy(10, 9), "copy of a negative duration"),
        (copy(1, 9, -1), "copy of a negative size"),
        (kernel(2**70, 2**70 + 1), "kernel out of all time"),
        (launch(2**70, 0, 1), "launch with a correlation out of range"),
        (Call("memory", ("0", -5)), "memory below zero"),
        (Call("memory", ("0", 2**64)), "memory beyond 64 bits"),
        (Call("memory", ("0", 1000, 2**63)), "memory beyond 64 bits"),
    ],
)
def test_impossible_kernel_is_counted_and_left_out(call: Call, reason: str) -> None:
    """The count has the reason."""
    recorder = recorded(call)

    assert recorder.refused == {reason: 1}
    assert recorder.events == 0
    assert recorder.devices() == ()


def test_more_events_than_allowed_are_refused_with_the_remedy() -> None:
    """This happens before memory runs out."""
    with pytest.raises(ProfileError, match=r"more than 1000 events; .*raise events_maximum"):
        recorded(
            *(kernel(at, at + 1) for at in range(1001)), limits=ReadLimits(events_maximum=1000)
        ).devices()


def test_steps_beyond_the_limit_are_counted_as_refused() -> None:
    """The first ones are shown."""
    recorder = recorded(
        kernel(0, 9), step(0, 1), step(1, 2), step(2, 3), limits=ReadLimits(steps_maximum=2)
    )

    assert len(only(recorder).steps) == 2
    assert recorder.refused == {"step beyond the first 2": 1}


def test_a_step_within_another_is_no_step_of_its_own() -> None:
    """Threads and devices repeat the same step."""
    device = only(recorded(kernel(0, 90), step(0, 50, "a"), step(10, 20, "b"), step(50, 90, "c")))

    assert [use.name for use in device.steps] == ["a", "c"]


def test_the_steps_of_a_device_go_before_those_of_all() -> None:
    """A device without steps of its own has the host's."""
    recorder = recorded(kernel(0, 9), kernel(0, 9, device="1"), step(0, 9, "host"))
    recorder.step("own", (0, 5), device="1")

    assert [[use.name for use in device.steps] for device in recorder.devices()] == [
        ["host"],
        ["own"],
    ]


def test_a_step_tells_how_long_its_loader_took_and_when_its_last_collective_began() -> None:
    """Loaders may nest; a collective of less than 1% of the step does not count."""
    device = only(
        recorded(
            step(0, 1000),
            loader(0, 100),
            loader(20, 80),
            kernel(200, 300, NCCL),
            kernel(500, 600, NCCL),
            kernel(900, 905, NCCL),
        )
    )

    assert nanoseconds(device.steps[0].loader_seconds) == 100
    assert device.steps[0].last_long_collective == 500
    assert device.steps[0].collectives == {NCCL: ((500, 600), (900, 905))}


def test_host_spans_are_summed_by_kind_and_name() -> None:
    """The longest sums come first."""
    recorder = recorded(loader(0, 5), loader(10, 20))
    recorder.host_span(SpanKind.CHECKPOINT, "torch.save", (0, 90))

    assert recorder.host_spans() == (
        HostSpanUse(SpanKind.CHECKPOINT, "torch.save", 1, 90e-9),
        HostSpanUse(SpanKind.LOADER, "__next__", 2, 15e-9),
    )


def test_facts_of_a_device_may_come_late_or_never() -> None:
    """An inactive device is omitted."""
    recorder = recorded(kernel(0, 9, device="1"), Call("memory", ("1", 70)), copy(0, 9))
    recorder.memory("1", 60)
    recorder.device("1", index=1, name="H100", memory_bytes=80)
    recorder.device("2", name="unused")

    zero, one = recorder.devices()
    assert zero.device.name == ""
    assert (one.device.key, one.device.name, one.memory_peak_bytes) == ("1", "H100", 70)
