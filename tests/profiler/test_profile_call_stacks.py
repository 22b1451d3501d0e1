"""Origin of a wait: the outermost operator, and the innermost line of the program."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from profile_traces import KinetoTrace
from rightsizer.model.profile import SpanKind
from rightsizer.profiles.call_stacks import CallKind, CallStacks
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import open_profile


def _waits(*calls: tuple[str, int, str, tuple[int, int]]) -> list[str]:
    stacks = CallStacks(ReadLimits())
    for kind, thread, name, span in calls:
        if kind == "frame":
            stacks.frame(thread, name, span)
        else:
            stacks.add(thread, CallKind[kind.upper()], name, span)
    return _names(stacks)


def _names(stacks: CallStacks) -> list[str]:
    stacks.flush()
    return [name for *_, names in stacks.waits() for name in names]


WAIT = ("wait", 1, "cudaStreamSynchronize", (50, 60))


def test_a_wait_is_reported_with_its_operator_and_line() -> None:
    """The outermost operator is the program's, the innermost line is its place."""
    names = _waits(
        ("frame", 1, "/home/me/train.py(1): <module>", (0, 1000)),
        ("frame", 1, "/home/me/train.py(42): step", (10, 900)),
        ("frame", 1, "torch/_tensor.py(9): item", (20, 800)),
        ("frame", 1, "<built-in method item of Tensor>", (25, 700)),
        ("operator", 1, "aten::item", (30, 70)),
        ("operator", 1, "aten::_local_scalar_dense", (40, 65)),
        WAIT,
    )
    assert names == ["cudaStreamSynchronize in aten::item, train.py(42): step"]


def test_ended_and_foreign_call_issues_no_kernel() -> None:
    """Neither does a call that ends within the wait."""
    names = _waits(
        ("operator", 1, "aten::add", (10, 40)),
        ("operator", 2, "aten::item", (30, 70)),
        ("operator", 1, "aten::mul", (45, 55)),
        ("frame", 1, "train.py(1): before", (0, 49)),
        WAIT,
    )
    assert names == ["cudaStreamSynchronize"]


_SPAN = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: (min(pair), max(pair)))


@given(st.lists(_SPAN, max_size=20), st.lists(_SPAN, min_size=1, max_size=10))
def test_any_calls_are_told_as_by_looking_at_each(
    operators: list[tuple[int, int]], waits: list[tuple[int, int]]
) -> None:
    """Of the calls around a wait, which are nested, the outermost one is used."""
    stacks = CallStacks(ReadLimits())
    operators = [
        (start, end)
        for place, (start, end) in enumerate(operators)
        if all(
            end <= begin or until <= start or begin <= start <= end <= until
            for begin, until in operators[:place]
        )
    ]
    for place, span in enumerate(operators):
        stacks.add(1, CallKind.OPERATOR, f"op{place}", span)
    for span in waits:
        stacks.add(1, CallKind.WAIT, "wait", span)
    stacks.flush()
    ((starts, ends, names),) = stacks.waits()
    for name, start, end in zip(names, starts.tolist(), ends.tolist(), strict=True):
        holding = [
            operator for operator in operators if operator[0] <= start and operator[1] >= end
        ]
        if not holding:
            assert name == "wait"
            continue
        first = min(holding, key=lambda each: (each[0], -each[1]))
        assert operators[int(name.removeprefix("wait in op"))] == first


def test_a_trace_tells_which_line_waits(tmp_path: Path) -> None:
    """Covers PyTorch's stacks, and a copy to pageable memory."""
    path = (
        KinetoTrace()
        .kernel("gemm", 0, 5, correlation=1)
        .complete("cpu_op", "aten::to", 10, 30)
        .complete("python_function", "/srv/secret/train.py(7): log", 5, 90)
        .complete("cuda_runtime", "cudaMemcpyAsync", 12, 9, correlation=7)
        .complete(
            "gpu_memcpy",
            "Memcpy DtoH (Device -> Pageable)",
            16,
            2,
            device=0,
            bytes=4,
            correlation=7,
        )
        .write(tmp_path)
    )
    spans = open_profile(path, ReadLimits()).host_spans
    assert [span.name for span in spans if span.kind is SpanKind.SYNCHRONIZATION] == [
        "copy to pageable memory in aten::to, train.py(7): log"
    ]


def test_threads_are_bounded_and_no_wait_is_lost() -> None:
    """Waits of threads beyond the bound have no caller."""
    stacks = CallStacks(ReadLimits())
    for thread in range(5000):
        stacks.add(thread, CallKind.OPERATOR, "aten::item", (0, 10))
        stacks.add(thread, CallKind.WAIT, "wait", (2, 5))
    names = _names(stacks)
    assert len({stacks.thread(number) for number in range(5000)}) == 4097
    assert (names.count("wait in aten::item"), names.count("wait")) == (4096, 904)
