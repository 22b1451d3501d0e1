"""What holds of any time line, against times that were counted one nanosecond after the other."""

from hypothesis import given
from hypothesis import strategies as st

from profile_calls import (
    NCCL,
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
)

TIMES = st.integers(0, 80)
LENGTHS = st.integers(0, 12)
KERNELS = st.builds(
    lambda start, length, name, number: kernel(start, start + length, name, number),
    TIMES,
    LENGTHS,
    st.sampled_from(["gemm", NCCL, "relu"]),
    st.none() | st.integers(1, 12),
)
LAUNCHES = st.builds(
    lambda number, start, length: launch(number, start, start + length),
    st.integers(1, 12),
    TIMES,
    LENGTHS,
)
COPIES = st.builds(lambda start, length: copy(start, start + length), TIMES, LENGTHS)
STEPS = st.builds(
    lambda start, length, name: step(start, start + length, name),
    TIMES,
    st.integers(1, 40),
    st.sampled_from(["one", "two"]),
)
LOADERS = st.builds(lambda start, length: loader(start, start + length), TIMES, LENGTHS)
CALLS = st.tuples(
    st.lists(KERNELS, min_size=1, max_size=12),
    st.lists(LAUNCHES, max_size=8),
    st.lists(COPIES, max_size=5),
    st.lists(STEPS, max_size=4),
    st.lists(LOADERS, max_size=3),
).map(lambda groups: [call for group in groups for call in group])


def held(calls: list[Call], *, name: str, kinds: tuple[str, ...] = ()) -> set[int]:
    """Every nanosecond in which such a call's event went on."""
    return {
        each
        for call in calls
        if call.name == name and (not kinds or call.arguments[4] in kinds)
        for each in range(*call.arguments[2:4])
    }


@given(CALLS)
def test_kernels_and_idle_causes_sum_to_the_span(calls: list[Call]) -> None:
    """To the nanosecond, over the whole and in each step."""
    device = only(recorded(*calls))
    assert device.time is not None

    for time in (device.time, *(each.time for each in device.steps)):
        parts = (
            time.kernel_seconds,
            time.host_wait_seconds,
            time.kernel_wait_seconds,
            time.other_idle_seconds,
        )
        assert min(parts) >= 0
        assert sum(map(nanoseconds, parts)) == nanoseconds(time.span_seconds)


@given(CALLS)
def test_times_are_those_counted_one_nanosecond_after_the_other(calls: list[Call]) -> None:
    """Kernels, collectives, copies and what of them is exposed."""
    time = time_of(*calls)
    kernels = held(calls, name="kernel")
    collectives = held(calls, name="kernel", kinds=(NCCL,))
    others = held(calls, name="kernel", kinds=("gemm", "relu"))
    starts = [call.arguments[2] for call in calls if call.name == "kernel"]
    ends = [call.arguments[3] for call in calls if call.name == "kernel"]
    span = set(range(min(starts), max(ends)))
    copies = held(calls, name="copy") & span

    assert nanoseconds(time.span_seconds) == len(span)
    assert nanoseconds(time.kernel_seconds) == len(kernels)
    assert nanoseconds(time.collective_seconds) == len(collectives)
    assert nanoseconds(time.exposed_collective_seconds) == len(collectives - others)
    assert nanoseconds(time.copy_seconds) == len(copies)
    assert nanoseconds(time.exposed_copy_seconds) == len(copies - kernels)


@given(CALLS, st.data())
def test_the_order_of_events_does_not_matter(calls: list[Call], data: st.DataObject) -> None:
    """Profilers write streams one after the other, or as buffers were full."""
    shuffled = data.draw(st.permutations(calls))

    assert recorded(*shuffled).devices() == recorded(*calls).devices()


@given(CALLS)
def test_steps_are_apart_and_their_times_add_up(calls: list[Call]) -> None:
    """No time is in two of them, and what is exposed is never more than the whole."""
    device = only(recorded(*calls))
    assert device.time is not None

    ends = [0, *(each.end for each in device.steps)]
    assert all(each.start >= end for each, end in zip(device.steps, ends, strict=False))
    assert nanoseconds(sum(each.time.kernel_seconds for each in device.steps)) <= nanoseconds(
        device.time.kernel_seconds
    )
    for each in device.steps:
        assert each.time.exposed_collective_seconds <= each.time.collective_seconds
        assert each.time.exposed_copy_seconds <= each.time.copy_seconds
        assert each.loader_seconds <= each.time.span_seconds
