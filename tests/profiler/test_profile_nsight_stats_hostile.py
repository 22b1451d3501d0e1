"""Files of `nsys stats` that are truncated, damaged or hostile."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import Profile
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.nsight_stats.reader import NSIGHT_STATS, read
from rightsizer.profiles.reader import Head

LIMITS = ReadLimits()
KERNELS = """\
Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name
90.0,9000,3,3000.0,2000,4000,gemm
10.0,1000,1,1000.0,1000,1000,"void foo<int, 2>(char const*)"
"""
TRACES = """\
Start (ns),Duration (ns),CorrId,Bytes (MB),SrcMemKd,DstMemKd,Device,Strm,Name
1000,50240,101,8.389,Pageable,Device,NVIDIA A100 (1),7,[CUDA memcpy HtoD]
60000,40000,102,,,,NVIDIA A100 (1),7,"gemm(double *, int)"

Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name
50000,5000,cudaLaunchKernel,0,102,9,9,20,python
"""
COPIES = [{"Total (MB)": 1.5, "Count": 2, "Operation": "[CUDA memcpy DtoH]"}]


def profile_of(text: str, tmp_path: Path) -> Profile:
    """Result of the reader."""
    path = tmp_path / "stats.csv"
    path.write_text(text, encoding="utf-8")
    return read(path, LIMITS)


def test_an_open_quote_swallows_no_other_row(tmp_path: Path) -> None:
    """Its line is counted, and later lines are read."""
    head = "Time (%),Total Time (ns),Instances,Name\n"
    rows = '50.0,500,1,"torn\n' + "".join(f"1.0,{n},1,kernel {n}\n" for n in range(1, 100))
    profile = profile_of(head + rows, tmp_path)

    assert len(profile.devices[0].kernels) == 99
    assert profile.unread == {"line with an open quote": 1}


def test_lines_longer_than_allowed_are_passed_over(tmp_path: Path) -> None:
    """They are counted, and not held in memory."""
    path = tmp_path / "stats.csv"
    path.write_text(KERNELS + "9.0,9,9,1,1,1," + "x" * 300_000 + "\n5.0,5,1,5,5,5,last\n")
    profile = read(path, ReadLimits(event_maximum_bytes=1024))

    assert [kernel.name for kernel in profile.devices[0].kernels] == [
        "gemm",
        "void foo<int, 2>(char const*)",
        "last",
    ]
    assert profile.unread == {"line that is too long": 1}


def test_packed_tables_are_read(tmp_path: Path) -> None:
    """Truncated ones are rejected."""
    path = tmp_path / "stats.csv.gz"
    path.write_bytes(gzip.compress(KERNELS.encode()))
    assert len(read(path, LIMITS).devices[0].kernels) == 2

    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(ProfileError, match="breaks off"):
        read(path, LIMITS)


@pytest.mark.parametrize("text", ["", "hello\n", "a,b,c\n1,2,3\n", "[]", "[1, 2]", "{}"])
def test_a_file_without_a_table_is_refused(text: str, tmp_path: Path) -> None:
    """The message has the command that writes one."""
    assert not NSIGHT_STATS.recognizes(Head("stats.csv", text.encode()))
    with pytest.raises(ProfileError, match=r"^no table .*nsys stats --format csv"):
        profile_of(text, tmp_path)


@pytest.mark.parametrize(
    "text", ['[{"Name": "a", "Total Time (ns)": 1, "Instances": ' + "[" * 5000, "[" + "{" * 9999]
)
def test_torn_and_deep_objects_are_counted(text: str, tmp_path: Path) -> None:
    """Neither exceptions nor hangs occur."""
    profile = profile_of(f"{json.dumps(COPIES)}\n{text}", tmp_path)

    assert profile.devices[0].copies[0].count == 2
    assert profile.unread


@pytest.mark.parametrize("number", ["1e300", "9" * 400, "Infinity", "NaN", "true", "[]", '"1e300"'])
def test_numbers_that_cannot_be_are_counted(number: str, tmp_path: Path) -> None:
    """JSON allows integers of any length."""
    objects = [
        f'{{"Total Time (ns)": {number}, "Instances": 1, "Name": "a"}}',
        f'{{"Start (ns)": {number}, "Duration (ns)": 1, "CorrId": 1, "Name": "a"}}',
        f'{{"Total (MB)": {number}, "Count": {number}, "Operation": "[CUDA memcpy DtoH]"}}',
    ]
    profile = profile_of(f"[{', '.join(objects)}]", tmp_path)

    assert profile.devices == ()
    assert sum(profile.unread.values()) == 3


def test_json_may_stand_in_one_long_line(tmp_path: Path) -> None:
    """It may be longer than a table's line."""
    path = tmp_path / "stats.json"
    each = '{"Total Time (ns)": 5, "Instances": 1, "Name": "gemm"}'
    path.write_text(f"[{','.join([each] * 20_000)}]", encoding="utf-8")
    profile = read(path, ReadLimits(event_maximum_bytes=4096))

    assert profile.devices[0].kernels[0].count == 20_000


@settings(suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    """Any part may be overwritten."""
    good = data.draw(st.sampled_from([KERNELS, TRACES, json.dumps(COPIES)]))
    content = bytearray(good.encode())
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(content)))
        content[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=20))
    path = tmp_path / "bad.csv"
    path.write_bytes(content)

    try:
        profile = read(path, LIMITS)
    except ProfileError:
        return
    for device in profile.devices:
        assert all(kernel.count > 0 and kernel.seconds >= 0 for kernel in device.kernels)
        assert device.time is None or device.time.span_seconds >= 0
