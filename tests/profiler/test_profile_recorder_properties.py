"""Properties of any timeline, compared with counts of single nanoseconds."""

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
from rightsizer.model.profile import SpanKind

LOADER = SpanKind.LOADER
CHECKPOINT = SpanKind.CHECKPOINT
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
SAVES = st.builds(
    lambda start, length: Call("host_span", (CHECKPOINT, "save", (start, start + length))),
    TIMES,
    LENGTHS,
)
LOADERS = st.builds(lambda start, length: loader(start, start + length), TIMES, LENGTHS)
CALLS = st.tuples(
    st.lists(KERNELS, min_size=1, max_size=12),
    st.lists(LAUNCHES, max_size=8),
    st.lists(COPIES, max_size=5),
    st.lists(STEPS, max_size=4),
    st.lists(LOADERS, max_size=3),
).map(lambda groups: [call for group in groups for call in group])


def span_of(call: Call) -> tuple[int, int]:
    """Start and end of a recorded event, with its device, or its kind and name."""
    start, end = call.arguments[2 if call.name == "host_span" else 1]
    return start, end


def held(
    calls: list[Call], *, name: str, kinds: tuple[str, ...] = (), at: SpanKind | None = None
) -> set[int]:
    """Every nanosecond within an event of such a call."""
    return {
        each
        for call in calls
        if call.name == name
        and (not kinds or call.arguments[2] in kinds)
        and (at is None or call.arguments[0] is at)
        for each in range(*span_of(call))
    }


@given(CALLS)
def test_kernels_and_idle_causes_sum_to_the_span(calls: list[Call]) -> None:
    """This holds to the nanosecond, over the whole and in each step."""
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
    """Covers kernels, collectives, copies and their exposed parts."""
    time = time_of(*calls)
    kernels = held(calls, name="kernel")
    collectives = held(calls, name="kernel", kinds=(NCCL,))
    others = held(calls, name="kernel", kinds=("gemm", "relu"))
    starts, ends = zip(*(span_of(call) for call in calls if call.name == "kernel"), strict=True)
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
    """Profilers write streams one after another, or as buffers fill."""
    shuffled = data.draw(st.permutations(calls))

    assert recorded(*shuffled).devices() == recorded(*calls).devices()


@given(CALLS)
def test_steps_are_apart_and_their_times_add_up(calls: list[Call]) -> None:
    """Steps do not overlap, and exposed time never exceeds the whole."""
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


@given(CALLS, st.lists(SAVES, max_size=3))
def test_a_wait_for_the_loader_is_one_while_the_loader_was_at_work(
    calls: list[Call], saves: list[Call]
) -> None:
    """It exceeds neither the loader's own time nor the idle time that it explains."""
    calls = [*calls, *saves]
    device = only(recorded(*calls))
    assert device.time is not None
    kernels = held(calls, name="kernel")
    loading = held(calls, name="host_span", at=LOADER)
    saving = held(calls, name="host_span", at=CHECKPOINT)
    first = min(span_of(call)[0] for call in calls if call.name == "kernel")
    span = (first, first + nanoseconds(device.time.span_seconds), device.time)
    steps = [(each.start, each.end, each.time) for each in device.steps]

    for start, end, time in (span, *steps):
        idle = set(range(start, end)) - kernels
        loader_wait = nanoseconds(time.loader_wait_seconds)
        checkpoint_wait = nanoseconds(time.checkpoint_wait_seconds)
        host_wait, other = map(nanoseconds, (time.host_wait_seconds, time.other_idle_seconds))
        between = nanoseconds(time.kernel_wait_seconds)
        assert len(idle & loading) - other - between <= loader_wait
        assert loader_wait <= min(host_wait, len(idle & loading))
        assert checkpoint_wait <= min(host_wait + other, len(idle & saving))


def test_loading_before_the_first_kernel_is_no_wait() -> None:
    """Neither is loading beside a kernel; only a step that had begun waits."""
    device = only(
        recorded(
            step(0, 80),
            step(80, 160),
            loader(0, 40),
            launch(1, 44, 45),
            kernel(45, 80, correlation=1),
            loader(70, 120),
            launch(2, 124, 125),
            kernel(125, 160, correlation=2),
        )
    )
    assert device.time is not None

    assert nanoseconds(device.time.host_wait_seconds) == 45
    assert nanoseconds(device.time.loader_wait_seconds) == 40
    assert [nanoseconds(each.time.loader_wait_seconds) for each in device.steps] == [40, 40]
