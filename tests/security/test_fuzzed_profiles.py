"""Untrusted profiler files: each is read, or rejected with our own error."""

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutations import mutated_bytes, mutated_tree
from profile_mlperf import detail, detail_text, summary, training
from profile_nsight import NsightExport, details_page, raw_page
from profile_traces import KinetoTrace
from profile_xplane import WORKED, length_field, number_field, space, varint, viewer_trace
from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import Profile
from rightsizer.profiles.formats import FORMATS
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import open_profile, read_all, read_files
from rocprof_files import database, write_traces

LIMITS: Final = ReadLimits(
    unpacked_maximum_bytes=2**22, events_maximum=5000, event_maximum_bytes=2**16
)
TORCH: Final[dict[str, Any]] = {
    **KinetoTrace(distributedInfo={"rank": 0, "world_size": 2}).top,
    "deviceProperties": [{"id": 0, "name": "H100", "totalGlobalMem": 85 * 10**9, "numSms": 132}],
    "traceEvents": KinetoTrace()
    .launch(1, 1.0, 2.0)
    .kernel("gemm", 5.0, 4.5, correlation=1)
    .annotation("ProfilerStep#3", 0.0, 20.0)
    .events,
}
VIEWER: Final[dict[str, Any]] = json.loads(gzip.decompress(viewer_trace(WORKED)))

PAGE: Final[list[dict[str, Any]]] = [
    {
        "cols": [{"id": "stepnum"}, {"id": "deviceComputeTimeMs"}, {"id": "infeedTimeMs"}],
        "rows": [{"c": [{"v": "1"}, {"v": 19.0}, {"v": 81.0}]}],
        "p": {"input_conclusion": "Your program is HIGHLY input-bound because 81.0% of it waits."},
    }
]


def _export() -> bytes:
    """A database of Nsight Systems."""
    export = NsightExport()
    export.kernel(1000, 1400, correlation=1)
    export.kernel(1500, 1900, "ncclDevKernel_AllReduce", correlation=2)
    export.call(900, 950, "cudaLaunchKernel_v7000", 1)
    with tempfile.TemporaryDirectory() as folder:
        return export.write(Path(folder) / "export.sqlite").read_bytes()


def _rocm(name: str) -> bytes:
    """A trace, or the database, of rocprofv3."""
    with tempfile.TemporaryDirectory() as folder:
        write_traces(Path(folder))
        database(Path(folder) / "results.db")
        return (Path(folder) / name).read_bytes()


LIGHT: Final = "GPU Speed Of Light Throughput"
FILES: Final = {
    "nsight-systems": _export(),
    "rocprof": _rocm("70_kernel_trace.csv"),
    "rocpd": _rocm("results.db"),
    "nsight-stats": b"Time (%),Total Time (ns),Instances,Avg (ns),Name\n100.0,900,3,300,gemm\n",
    "nsight-stats-tabs": b"Time (%)\tTotal Time (ns)\tInstances\tName\n100.0\t900\t3\tgemm\n"
    b"0.0\t1\t1\t" + b"x" * 200_000 + b"\n",
    "nsight-compute": details_page([(LIGHT, "Duration", "us", "12.5")]).encode(),
    "nsight-raw": raw_page(
        {"gpu__time_duration.sum": "ns"}, [("gemm", {"gpu__time_duration.sum": "406,240"})]
    ).encode(),
    "xplane": space(WORKED, errors=["CUPTI is away"], hostnames=["host"]),
    "trace-viewer": gzip.decompress(viewer_trace(WORKED)),
    "pytorch": json.dumps(TORCH).encode(),
    "tensorflow-page": json.dumps(PAGE).encode(),
    "summary": summary(additional=["99.00 percentile latency (ns) : 41984475"]).encode(),
    "detail": detail({"result_samples_per_second": 7.5}).encode(),
    "detail-text": detail_text(["Scenario : Server", "target_qps : 7"]).encode(),
    "training": training().encode(),
}


def opened(folder: Path, content: bytes) -> Profile | None:
    """The profile, or `None` if it was rejected with its path."""
    path = folder / "profile"
    path.write_bytes(content)
    message = str(path)
    try:
        return open_profile(path, LIMITS)
    except ProfileError as error:
        message = str(error)
    assert str(path) in message
    return None


def holds_together(profile: Profile) -> None:
    """Check the invariants of every profile."""
    assert profile.events <= LIMITS.events_maximum + 1
    assert all(count >= 0 for count in profile.unread.values())
    for device in profile.devices:
        time = device.time
        if time is not None:
            assert 0 <= time.kernel_seconds <= time.span_seconds * (1 + 1e-9) + 1e-12
            assert time.kernel_seconds + time.idle_seconds == pytest.approx(time.span_seconds)


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_right_to_begin_with(tmp_path: Path, name: str) -> None:
    """The unmodified input is read."""
    assert opened(tmp_path, FILES[name]) is not None


@pytest.mark.parametrize("name", FILES)
def test_a_profile_with_odd_bytes(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    """Covers plain and compressed files, and odd bytes within compressed data."""
    folder = tmp_path_factory.mktemp("fuzz")

    @given(mutated_bytes(FILES[name]), mutated_bytes(gzip.compress(FILES[name], mtime=0)))
    def check(plain: bytes, packed: bytes) -> None:
        for content in (plain, gzip.compress(plain), packed):
            profile = opened(folder, content)
            if profile is not None:
                holds_together(profile)

    check()


@pytest.mark.parametrize("tree", [VIEWER, TORCH], ids=["trace-viewer", "pytorch"])
def test_a_trace_with_odd_values(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, Any]
) -> None:
    """Values are of wrong types, out of range, or missing."""
    folder = tmp_path_factory.mktemp("trees")

    @given(mutated_tree(tree))
    def check(odd: Any) -> None:
        profile = opened(folder, json.dumps(odd).encode())
        if profile is not None:
            holds_together(profile)

    check()


@given(st.binary(max_size=400), st.sampled_from([b"", b"{", b'{"traceEvents":[', b"\x1f\x8b\x08"]))
def test_any_bytes(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, beginning: bytes
) -> None:
    """They follow a known beginning, or none."""
    profile = opened(tmp_path_factory.mktemp("any"), beginning + content)
    if profile is not None:
        holds_together(profile)


@given(st.binary(max_size=200))
def test_a_plane_of_any_bytes(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """Its name is recognized, the rest is broken."""
    plane = length_field(2, "/device:GPU:0") + content
    profile = opened(tmp_path_factory.mktemp("plane"), length_field(1, plane))
    if profile is not None:
        holds_together(profile)


HOSTILE: Final = {
    "deep JSON": b'{"traceEvents":[{"schemaVersion":' + b"[" * 200_000,
    "deep events": b'{"schemaVersion":1,"traceEvents":[' + b'{"a":' * 100_000 + b"1",
    "no end of a text": b'{"schemaVersion":1,"traceEvents":[{"name":"' + b"x" * 3_000_000,
    "deep log": b':::MLLOG {"key":' + b"[" * 200_000 + b"\n",
    "long log": b':::MLLOG {"key":"' + b"x" * 3_000_000 + b"\n",
    "endless plane": b"\x0a" + varint(2**63 - 1) + b"\x12\x0d/device:GPU:0",
    "plane in a plane": length_field(1, length_field(2, "/device:GPU:0") * 50_000),
    "lines without number": length_field(
        1, length_field(2, "/device:GPU:0") + length_field(3, b"") * 200_000
    ),
    "one key for all": length_field(
        1, length_field(2, "/host:CPU") + length_field(5, number_field(1, 1)) * 100_000
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_are_made_to_harm(tmp_path: Path, name: str) -> None:
    """They take no more memory than their size allows, and end."""
    profile = opened(tmp_path, HOSTILE[name])
    assert profile is None or not profile.devices


def test_a_folder_of_such_files(tmp_path: Path) -> None:
    """The broken file is named; reading all of them fails with its error."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    assert len(read_all([tmp_path], LIMITS)) == len(FILES)
    (tmp_path / "broken").write_bytes(FILES["xplane"][:-3])
    with pytest.raises(ProfileError, match="broken"):
        read_all([tmp_path], LIMITS)
    read = read_files([tmp_path], LIMITS)
    assert [each.source for each in read.broken] == ["broken"]
    assert len(read.profiles) == len(FILES)


def test_every_format_is_fuzzed(tmp_path: Path) -> None:
    """A new format is not forgotten here."""
    fuzzed = {profile.format for file in FILES.values() if (profile := opened(tmp_path, file))}
    assert fuzzed == {each.format for each in FORMATS}
