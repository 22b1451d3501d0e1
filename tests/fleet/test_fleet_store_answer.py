"""Store answers from bytes to series: fast, and equal to a JSON parser's result."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.fleet.prometheus.response_parser import parse_response

SECOND = 10**9
STEP = 300
START = 1_794_960_300

LABELS = st.dictionaries(
    st.text(max_size=5),
    st.text(max_size=20)
    | st.sampled_from(
        ['","values":[[', "]]", "]]}", "]}", '}],"result":[', '{"metric":', "\\", "\n", "é"]
    ),
    max_size=3,
)
NUMBERS = st.floats() | st.integers(-3, 3).map(float)
SERIES = st.tuples(
    LABELS,
    st.dictionaries(st.integers(0, 20), NUMBERS, min_size=1, max_size=8),
    st.sampled_from([0, 0.25]),
)


def said(value: float) -> str:
    """A number in Go's notation."""
    if math.isnan(value):
        return "NaN"
    return f"{value:+}".replace("inf", "Inf") if math.isinf(value) else repr(value)


def matrix(*series: dict[str, Any], **beside: Any) -> dict[str, Any]:
    """Answer to a range query."""
    data = {"resultType": "matrix", "result": list(series)}
    return {"status": "success", "data": data, **beside}


def compact(whole: Any) -> bytes:
    """JSON without spaces, as all stores write it."""
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()


def one(*samples: tuple[float, str]) -> dict[str, Any]:
    """A series without labels."""
    return {"metric": {}, "values": [list(sample) for sample in samples]}


@given(st.lists(SERIES, max_size=4), st.booleans())
def test_every_series_is_read_as_it_is_written(
    wanted: list[tuple[dict[str, str], dict[int, float], float]],
    is_compact: bool,  # noqa: FBT001 - drawn.
) -> None:
    """This holds for any labels, samples and spacing of the JSON."""
    whole = matrix(
        *(
            {
                "metric": labels,
                "values": [[START + at * STEP + offset, said(values[at])] for at in sorted(values)],
            }
            for labels, values, offset in wanted
        ),
        warnings=["PromQL warning: strange", "PromQL info: more"],
    )

    answer = parse_response(compact(whole) if is_compact else json.dumps(whole, indent=1).encode())

    assert [each.labels for each in answer.series] == [labels for labels, _, _ in wanted]
    for series, (_, values, offset) in zip(answer.series, wanted, strict=True):
        finite = {at: value for at, value in sorted(values.items()) if math.isfinite(value)}
        nanoseconds = [(START + at * STEP) * SECOND + round(offset * SECOND) for at in finite]
        assert list(series.times) == nanoseconds
        assert list(series.values) == list(finite.values())
    assert answer.warnings == ("PromQL warning: strange", "PromQL info: more")
    assert answer.partial is None


@given(st.lists(st.tuples(LABELS, NUMBERS, st.sampled_from([0, 0.25])), max_size=4))
def test_every_sample_of_a_moment_is_read_as_it_is_written(
    wanted: list[tuple[dict[str, str], float, float]],
) -> None:
    """Answers to instant queries are parsed alike; a value that is no number gives no sample."""
    result = [
        {"metric": labels, "value": [START + offset, said(value)]}
        for labels, value, offset in wanted
    ]
    data = {"resultType": "vector", "result": result}

    answer = parse_response(compact({"status": "success", "data": data}))

    assert [each.labels for each in answer.series] == [labels for labels, _, _ in wanted]
    for series, (_, value, offset) in zip(answer.series, wanted, strict=True):
        is_known = math.isfinite(value)
        assert list(series.values) == [value] * is_known
        assert list(series.times) == [START * SECOND + round(offset * SECOND)] * is_known


@pytest.mark.parametrize("lacks", [None, 3, 300, 699])
def test_many_series_are_read_as_they_are_written(lacks: int | None) -> None:
    """More than are parsed together; one may lack the sample that all others have."""
    counts = [2 - (number == lacks) for number in range(700)]
    samples = [
        [[START + at * STEP, str(number)] for at in range(counts[number])] for number in range(700)
    ]
    result = [
        {"metric": {"a": str(number)}, "values": sample} for number, sample in enumerate(samples)
    ]

    found = parse_response(compact(matrix(*result))).series

    assert [each.labels["a"] for each in found] == [str(number) for number in range(700)]
    assert [list(each.values) for each in found] == [[i] * count for i, count in enumerate(counts)]
    times = [(START + at * STEP) * SECOND for at in range(2)]
    assert [list(each.times) for each in found] == [times[:count] for count in counts]


def test_a_sum_that_overflows_loses_no_sample() -> None:
    """Finite numbers may have an infinite sum."""
    (series,) = parse_response(compact(matrix(one((1, "1e308"), (2, "1e308"))))).series

    assert list(series.values) == [1e308, 1e308]


def test_values_of_a_moment_are_series_too() -> None:
    """Vectors and scalars have one sample each."""
    vector = {"resultType": "vector", "result": [{"metric": {"a": "b"}, "value": [1.5, "2"]}]}
    scalar = {"resultType": "scalar", "result": [1.5, "2"]}

    found = [
        parse_response(compact({"status": "success", "data": data})).series[0]
        for data in (vector, scalar)
    ]

    assert [each.labels for each in found] == [{"a": "b"}, {}]
    assert [(tuple(each.times), each.values[0]) for each in found] == [((1_500_000_000,), 2.0)] * 2


@pytest.mark.parametrize(
    ("beside", "why"),
    [
        ({"isPartial": True}, "isPartial is true"),
        ({"warnings": ["receive series from Addr: store-1: code = Unavailable"]}, "store-1"),
        ({"warnings": ["PromQL warning: x", "results truncated due to limit"]}, "truncated"),
    ],
)
def test_a_part_is_distinguished_from_the_whole(beside: dict[str, Any], why: str) -> None:
    """VictoriaMetrics has a flag for it; other stores warn, but not about the query."""
    answer = parse_response(compact(matrix(one((1, "1")), isPartial=False) | beside))

    assert answer.partial is not None
    assert why in answer.partial


def test_a_time_before_the_oldest_sample_is_no_part() -> None:
    """Thanos warns where no data is retained; an empty answer is then complete."""
    answer = parse_response(compact(matrix(warnings=["No StoreAPIs matched for this query"])))

    assert (answer.partial, len(answer.warnings)) == (None, 1)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not JSON"),
        (b"<!doctype html><title>Sign in</title>", "login page"),
        (compact(matrix(one((1, "1"), (2, "2"))))[:-9], "cut off"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "is the path right"),
        (b'{"status":"success"}', "without data"),
        (b'{"status":"success","data":{"resultType":"streams","result":[]}}', "is the path right"),
        (b'{"status":"success","data":{"resultType":"matrix","result":{}}}', "without series"),
        (b'{"status":"error","errorType":"bad_data","error":"oh"}', r"an error \(bad_data\): oh"),
        (compact(matrix({"metric": {}})), "a series that is none"),
        (compact(matrix({"metric": {"a": 1}, "values": [[1, "1"]]})), "a series that is none"),
        (compact(matrix(one((1, "one")))), "a series that is none"),
        (compact(matrix(one((1, "1")) | {"histograms": [[1, {}]]})), "native histograms"),
        (compact(matrix({"metric": {}, "histograms": [[1, {}]]})), "native histograms"),
    ],
)
def test_invalid_answer_is_reported(raw: bytes, message: str) -> None:
    """The message shows what came instead."""
    with pytest.raises(ValueError, match=message):
        parse_response(raw)


@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 60))
def test_garbage_never_ends_otherwise(garbage: bytes, at: int, left_out: int) -> None:
    """Inserted or lost bytes give an answer or a `ValueError`."""
    raw = compact(matrix(one((START, "1"), (START + STEP, "2"))))

    try:
        answer = parse_response(raw[:at] + garbage + raw[at + left_out :])
    except ValueError:
        return
    assert all(len(series.times) == len(series.values) for series in answer.series)
