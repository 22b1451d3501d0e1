"""Events of JSON traces, from files that are whole, truncated or hostile."""

import contextlib
import gzip
import json
import tracemalloc
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.model.errors import ProfileError
from rightsizer.profiles.json_events import (
    JsonEvents,
    JsonWindow,
    TraceEvent,
    microseconds,
    moment,
    nanoseconds_of,
    number,
    whole_number,
)
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.timeline import LATEST, NO_NUMBER

LIMITS = ReadLimits(event_maximum_bytes=2**10, events_maximum=100_000)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
TIME = (
    st.integers(-(10**13), 10**13)
    | st.floats(-1e12, 1e12)
    | st.sampled_from([10**30, "12.5", "no time", None, [], True])
)
NUMBER = st.integers(-(2**70), 2**70) | st.text(max_size=4) | st.sampled_from([None, 0.5, 7.0])
TEXT = st.text(max_size=8)
_PLAIN = {"ph": TEXT, "cat": TEXT, "name": TEXT, "pid": NUMBER, "tid": NUMBER}
_ODD = dict.fromkeys(_PLAIN, JSON)
_OTHERS = {"ts": TIME, "dur": TIME, "id": JSON, "beside": JSON}
EVENT = st.one_of(
    st.fixed_dictionaries({"args": JSON}, optional={**fields, **_OTHERS})
    for fields in (_PLAIN, _PLAIN, _ODD)
)
"""All fields, with what profilers write, or with anything."""
EVENTS = st.lists(EVENT, max_size=12)


def file_of(folder: Path, data: str | bytes) -> Path:
    """A file with the given contents."""
    path = folder / "trace.json"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def read(
    path: Path, *keep: str, limits: ReadLimits = LIMITS
) -> tuple[list[TraceEvent], JsonEvents]:
    """All its events, and the metadata."""
    trace = JsonEvents(path, limits, keep=keep)
    return [event for batch in trace.batches() for event in batch], trace


def arguments(events: list[TraceEvent]) -> list[Any]:
    """Arguments of events."""
    return [event.args for event in events]


def used(event: TraceEvent) -> dict[str, Any]:
    """What readers use of an event; numbers of processes and threads are compared as texts."""
    return {
        "ph": str(event.ph),
        "cat": event.cat,
        "name": event.name,
        "ts": moment(event.ts),
        "dur": moment(event.dur),
        "pid": str(event.pid),
        "tid": str(event.tid),
        "id": event.id,
        "args": event.args,
    }


def expected(event: dict[str, Any]) -> dict[str, Any]:
    """The same of an event before it was written."""
    texts = {key: event.get(key) for key in ("cat", "name")}
    return {
        "ph": str(event.get("ph")),
        **{key: text if isinstance(text, str) else None for key, text in texts.items()},
        "ts": microseconds(event.get("ts")),
        "dur": microseconds(event.get("dur", 0)),
        "pid": str(event.get("pid")),
        "tid": str(event.get("tid")),
        "id": event.get("id"),
        "args": event["args"],
    }


@given(EVENTS, JSON, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_events_come_out_as_they_went_in(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[dict[str, Any]],
    beside: Any,
    indent: int | str | None,
    is_packed: bool,  # noqa: FBT001 - drawn.
) -> None:
    """This holds for any position in the file and any layout.

    One event that is not plain changes the way that the others beside it are read.
    """
    text = json.dumps(
        {"before": beside, "kept": 7, "traceEvents": events, "after": beside, "late": "x"},
        indent=indent,
    ).encode()
    path = file_of(tmp_path_factory.mktemp("trace"), gzip.compress(text) if is_packed else text)

    found, trace = read(path, "kept", "late", limits=ReadLimits())

    assert [*map(used, found)] == [*map(expected, events)]
    assert trace.values == {"kept": 7, "late": "x"}
    assert (trace.count, trace.fault, dict(trace.unread)) == (len(events), "", {})


@given(EVENTS, st.integers(0, 400))
def test_a_torn_file_yields_what_was_whole(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]], cut: int
) -> None:
    """The note says where it was truncated."""
    text = json.dumps({"traceEvents": events}).encode()
    path = file_of(tmp_path_factory.mktemp("torn"), text[: max(17, len(text) - 1 - cut)])

    found, trace = read(path, limits=ReadLimits())

    assert arguments(found) == [event["args"] for event in events[: len(found)]]
    assert "the file ends at character" in trace.fault


@given(st.binary(max_size=300))
def test_bytes_of_any_kind_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    """No other exception is raised."""
    for beginning in (b"", b"{", b'{"traceEvents":[', b'{"traceEvents":[{"a":1},', b"\x1f\x8b"):
        path = file_of(tmp_path_factory.mktemp("any"), beginning + data)
        with contextlib.suppress(ProfileError):
            found, trace = read(path)
            behind_the_end = trace.unread["data behind the end of the trace, as of a second one"]
            unread_count = sum(trace.unread.values()) - behind_the_end
            assert trace.count == len(found) + unread_count


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_the_window_may_be_of_any_size(size: int) -> None:
    """A value may span windows, even within a character."""
    text = ' {"a\\"}é": [1, {"b": "]}"}], "c": "\\\\"} , tru'.encode()
    place = 0

    def some(_: int) -> bytes:
        nonlocal place
        place += size
        return text[place - size : place]

    window = JsonWindow(some)

    assert window.skip_value()
    assert window.passes(",")
    assert not window.skip_value()


def test_invalid_event_is_counted(tmp_path: Path) -> None:
    """Lists and numbers between events do not stop reading."""
    found, trace = read(
        file_of(tmp_path, '{"traceEvents": [1, {"args": 1}, [{}], "x", {"args": 2}]}')
    )

    assert arguments(found) == [1, 2]
    assert trace.unread == {"event that is no object": 3}
    assert trace.count == 5


def test_a_second_trace_behind_the_first_is_told(tmp_path: Path) -> None:
    """Two runs that write one file leave both there, one after the other."""
    found, trace = read(file_of(tmp_path, '{"traceEvents": [{"args": 1}]}\n{"traceEvents": []}'))

    assert arguments(found) == [1]
    assert trace.unread == {"data behind the end of the trace, as of a second one": 1}


def test_an_event_that_is_no_json_is_passed_over(tmp_path: Path) -> None:
    """Braces and quotes show where it ends."""
    found, trace = read(
        file_of(tmp_path, '{"traceEvents": [{"args": 1}, {a: "}"}, {"n": NaN1}, {"args": 2}]}')
    )

    assert arguments(found) == [1, 2]
    assert trace.unread == {"event that is no JSON": 2}


@pytest.mark.parametrize("printed", ["inf", "-inf", "nan", "-nan", "INF", "Infinity", "NaN"])
@pytest.mark.parametrize("read_at_once", [3, 2**18])
def test_a_quotient_by_zero_costs_no_event(
    tmp_path: Path, printed: str, read_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch 1.8 printed the bandwidth of a copy of zero duration so; text is unchanged."""
    monkeypatch.setattr("rightsizer.profiles.json_events._READ_ON", read_at_once)
    one = f'{{"name": "of {printed}, all", "args": {{"GB/s": {printed}, "bytes": 8}}}}'
    found, trace = read(file_of(tmp_path, f'{{"traceEvents": [{one},\n{one}]}}'))

    assert [event.name for event in found] == [f"of {printed}, all"] * 2
    assert [event.args["bytes"] for event in found] == [8, 8]
    assert not trace.unread
    assert not trace.fault


@pytest.mark.parametrize("read_at_once", [7, 2**18])
def test_folders_of_windows_cost_no_event(
    tmp_path: Path, read_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until 2022 PyTorch did not escape their backslashes; escaped ones stay unchanged."""
    monkeypatch.setattr("rightsizer.profiles.json_events._READ_ON", read_at_once)
    one = r'{"name": "C:\Users\me\x.py(3): \"f\" \\ \u00b5"}'
    found, trace = read(file_of(tmp_path, f'{{"traceEvents": [{one}, {one}]}}'))

    assert [event.name for event in found] == ['C:/Users/me/x.py(3): "f" \\ \u00b5'] * 2
    assert not trace.unread


def test_names_may_hold_tabs_and_line_ends(tmp_path: Path) -> None:
    """Formatted annotations contain them."""
    found, trace = read(file_of(tmp_path, '{"traceEvents": [{"name": "a\tb\nc"}]}'))

    assert [event.name for event in found] == ["a\tb\nc"]
    assert not trace.unread


def test_a_quote_too_many_costs_one_event(tmp_path: Path) -> None:
    """In Kineto's layout the next event is found although quotes are unbalanced."""
    events = [f'  {{\n    "ph": "X", "name": "{name}",\n    "args": {{\n    }}\n  }}' for name in
              ("a", 'b"', "c", "d{")]  # fmt: skip
    found, trace = read(file_of(tmp_path, '{"traceEvents": [\n' + ",\n".join(events) + "\n]}"))

    assert [event.name for event in found] == ["a", "c", "d{"]
    assert trace.unread == {"event that is no JSON": 1}
    assert not trace.fault


def test_a_value_of_nothing_but_mistakes_is_given_up(tmp_path: Path) -> None:
    """Each repair copies what was read ahead."""
    many = ",".join(["inf"] * 200)
    found, trace = read(
        file_of(tmp_path, f'{{"traceEvents": [{{"args": [{many}]}}, {{"args": 2}}]}}')
    )

    assert arguments(found) == [2]
    assert trace.unread == {"event that is no JSON": 1}


def test_text_of_two_bytes_a_character_is_read(tmp_path: Path) -> None:
    """Windows shells redirect output so, in either byte order."""
    text = '\ufeff{"traceEvents": [{"args": "\u00b5\u4e2d"}, {"args": 2}]}'
    for encoding in ("utf-16-le", "utf-16-be"):
        found, trace = read(file_of(tmp_path, text.encode(encoding)))

        assert arguments(found) == ["\u00b5\u4e2d", 2]
        assert not trace.fault


def test_an_event_nested_too_deep_is_passed_over(tmp_path: Path) -> None:
    """Neither the program nor the reading ends."""
    deep = '{"args":' * 50_000 + "1" + "}" * 50_000
    path = file_of(tmp_path, f'{{"x": {deep}, "traceEvents": [{deep}, {{"args": 2}}]}}')

    found, trace = read(path, "x", limits=ReadLimits())

    assert arguments(found) == [2]
    assert trace.unread == {"event nested too deep": 1}


def test_an_event_that_is_too_long_is_passed_over(tmp_path: Path) -> None:
    """The note has the limit."""
    path = file_of(
        tmp_path, json.dumps({"traceEvents": [{"args": ["x" * 900] * 3000}, {"args": 2}]})
    )

    found, trace = read(path)

    assert arguments(found) == [2]
    assert trace.unread == {"event that is no JSON, or over 1024 bytes": 1}


def test_a_file_of_nothing_but_faults_is_given_up(tmp_path: Path) -> None:
    """Recovery takes time for each, hours for a gigabyte."""
    path = file_of(tmp_path, '{"traceEvents": [{"args": 1},' + "{a}," * 5000 + '{"args": 2}]}')

    found, trace = read(path)

    assert arguments(found) == [1]
    assert trace.count == 1002
    assert trace.fault.startswith("over 1000 events cannot be built, the last one ends at char")


def test_numbers_too_long_to_build_are_passed_over(tmp_path: Path) -> None:
    """A number of a hundred thousand digits takes minutes to build."""
    path = file_of(tmp_path, f'{{"traceEvents": [{{"args": {"9" * 100_000}}}, {{"args": 2}}]}}')

    assert arguments(read(path, limits=ReadLimits())[0])[-1] == 2


def test_a_bare_list_is_a_trace_also_without_its_end(tmp_path: Path) -> None:
    """The format allows both."""
    found, _ = read(file_of(tmp_path, '[{"args": 1}, {"args": 2}'))

    assert arguments(found) == [1, 2]


def test_text_that_is_no_utf8_is_read_all_the_same(tmp_path: Path) -> None:
    """A name in another encoding loses characters, but no times."""
    found, _ = read(file_of(tmp_path, b'\xef\xbb\xbf{"traceEvents": [{"args": "\xe9\xff"}]}'))

    assert arguments(found) == ["��"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "character 0: no JSON object begins here; name a profiler's trace"),
        ("gemm 1.5 ms", "character 0: no JSON object"),
        ('{"a": 1}', "no list 'traceEvents' in it; name a trace that is whole"),
        ('{"metadata": {"a": ', "and the file ends at character"),
        ('{"traceEvents": 5}', "no list 'traceEvents'"),
    ],
)
def test_invalid_trace_is_refused_with_place_and_remedy(
    tmp_path: Path, data: str, message: str
) -> None:
    """The message names the character, or what is missing."""
    with pytest.raises(ProfileError) as caught:
        read(file_of(tmp_path, data))

    assert message in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The message is the system's."""
    with pytest.raises(ProfileError, match="No such file or directory; name a file that can"):
        read(tmp_path / "absent.json")


def test_more_events_than_allowed_are_refused(tmp_path: Path) -> None:
    """The message has the remedy."""
    path = file_of(tmp_path, json.dumps({"traceEvents": [{}] * 1001}))

    with pytest.raises(ProfileError, match="more than 1000 events; record fewer steps"):
        read(path, limits=ReadLimits(events_maximum=1000))


def test_a_bomb_is_refused_before_it_goes_off(tmp_path: Path) -> None:
    """It grew more than any trace does."""
    path = file_of(tmp_path, gzip.compress(b'{"traceEvents": [' + b" " * 2**24))

    with pytest.raises(ProfileError, match="grew over 100 times as it was unpacked"):
        read(path, limits=ReadLimits(expansion_maximum_ratio=100.0))


def test_a_file_larger_than_allowed_is_refused(tmp_path: Path) -> None:
    """This holds for compressed files too."""
    text = b'{"traceEvents": [' + b" " * 2**21
    for data in (text, gzip.compress(text)):
        with pytest.raises(ProfileError, match="more than 1048576 bytes unpacked"):
            read(
                file_of(tmp_path, data),
                limits=ReadLimits(unpacked_maximum_bytes=2**20, expansion_maximum_ratio=1e6),
            )


@pytest.mark.parametrize("harm", ["cut", "garbled", "trailing"])
def test_packed_data_that_breaks_off_is_said(tmp_path: Path, harm: str) -> None:
    """Earlier data is kept."""
    whole = gzip.compress(
        json.dumps({"traceEvents": [{"args": count} for count in range(5000)]}).encode()
    )
    half = len(whole) // 2
    data = {
        "cut": whole[:half],
        "garbled": whole[:half] + b"\xff" * 500,
        "trailing": whole + b"more",
    }[harm]

    found, trace = read(file_of(tmp_path, data), limits=ReadLimits())

    assert arguments(found[:3]) == [0, 1, 2]
    assert "its packed data breaks off after" in trace.fault


def test_packed_files_may_follow_each_other(tmp_path: Path) -> None:
    """`cat a.gz b.gz` creates such files, with or without trailing zeros."""
    halves = b'{"traceEvents": [{"args": 1},', b'{"args": 2}]}'
    path = file_of(tmp_path, b"".join(map(gzip.compress, halves)) + b"\0" * 10)

    found, trace = read(path)

    assert (arguments(found), trace.fault) == ([1, 2], "")


def test_memory_is_bounded_however_long_the_file(tmp_path: Path) -> None:
    """Thirty-five megabytes of events and of an unused block are read in less than twelve."""
    path = tmp_path / "long.json"
    with path.open("w", encoding="ascii") as file:
        file.write('{"env": "')
        for _ in range(3000):
            file.write("s" * 10_000)
        file.write('", "traceEvents": [')
        file.write(('{"name": "' + "k" * 80 + '", "ts": 1.5},') * 50_000)
        file.write('{"last": 1}]}')
    tracemalloc.start()

    count = sum(map(len, JsonEvents(path, ReadLimits()).batches()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert count == 50_001
    assert peak < 12e6


@given(st.integers(0, 2**60))
def test_microseconds_with_three_places_are_whole_nanoseconds(time: int) -> None:
    """This holds since 1970, where a float would be off by a quarter of a microsecond."""
    written = f"{time // 1000}.{time % 1000:03d}"

    assert microseconds(json.loads(written, parse_float=Decimal)) == time
    assert microseconds(written) == time


@pytest.mark.parametrize(
    "value",
    ["", "x", None, [], {}, True, "1e999999999", Decimal("1e999999"), float("nan"), "9" * 60],
)
def test_invalid_time_is_none(value: Any) -> None:
    """It is never 0."""
    assert microseconds(value) is None
    assert number(value) is None


def test_whole_numbers_may_be_written_as_text() -> None:
    """TensorFlow writes all of them so."""
    assert [whole_number(each) for each in ("7", 7, 7.0, Decimal("7.0"), "7.5", "0x7")] == [
        7,
        7,
        7,
        7,
        None,
        None,
    ]


WRITTEN = st.one_of(
    st.integers(0, 10**13).map(str),
    st.tuples(st.integers(0, 9 * 10**15), st.integers(0, 999)).map("{0[0]}.{0[1]:03d}".format),
    st.tuples(st.integers(0, 10**6), st.integers(0, 99)).map("{0[0]}.{0[1]}".format),
    st.floats(-1e12, 1e12).map(repr),
    st.sampled_from(["null", "true", '"12.5"', "[]", "1e99", "-0", "0", "1" + "0" * 5000]),
)


@given(st.lists(WRITTEN, min_size=1, max_size=8))
def test_times_of_a_batch_are_those_of_single_ones(written: list[str]) -> None:
    """However they are written, to the nanosecond; what no column holds is out of all time."""
    found = nanoseconds_of([msgspec.Raw(text.encode()) for text in written]).tolist()

    decoder = json.JSONDecoder(parse_float=Decimal)
    for text, time in zip(written, found, strict=True):
        single = microseconds(decoder.decode(text)) if len(text) < 1000 else None
        if single is not None and abs(single) < LATEST:
            assert time == single
        else:
            assert time == NO_NUMBER or abs(time) >= LATEST
