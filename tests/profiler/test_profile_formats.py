"""Formats are detected by content, and folders are grouped."""

import gzip
import json
import os
from pathlib import Path
from typing import Final

import pytest

from profile_mlperf import detail, summary, training
from profile_nsight import details_page
from profile_xplane import WORKED, Line, Plane, kernel, space, viewer_trace
from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import ProfileFormat
from rightsizer.profiles.formats import FORMATS
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.nsight_systems.reader import NSIGHT_SYSTEMS
from rightsizer.profiles.printed_text import excerpt, plain_words
from rightsizer.profiles.reader import Head
from rightsizer.profiles.registry import (
    grouped,
    is_profile,
    open_profile,
    read_all,
    read_files,
)

LIMITS: Final = ReadLimits()
ALONE: Final = [Plane("/device:GPU:0", [Line("Stream #1", [kernel("a", 0, 10)])])]
TORCH: Final = json.dumps(
    {
        "schemaVersion": 1,
        "distributedInfo": {"rank": 0, "world_size": 12},
        "traceEvents": [
            {
                "ph": "X",
                "cat": "kernel",
                "name": "gemm",
                "pid": 0,
                "tid": 7,
                "ts": 10,
                "dur": 5,
                "args": {"device": 0, "stream": 7, "correlation": 1},
            }
        ],
    }
).encode()
FILES: Final = {
    ProfileFormat.XPLANE: space(WORKED),
    ProfileFormat.TRACE_VIEWER: gzip.decompress(viewer_trace(WORKED)),
    ProfileFormat.PYTORCH: TORCH,
    ProfileFormat.MLPERF_INFERENCE: summary().encode(),
    ProfileFormat.MLPERF_TRAINING: training().encode(),
}


@pytest.mark.parametrize("known", FILES)
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_file_is_recognized_by_what_is_in_it(
    tmp_path: Path, known: ProfileFormat, *, is_packed: bool
) -> None:
    """Its name does not matter, nor does compression."""
    path = tmp_path / "some.bin"
    data = FILES[known]
    path.write_bytes(gzip.compress(data) if is_packed else data)
    profile = open_profile(path, LIMITS)
    assert profile.format is known
    assert profile.source == "some.bin"


@pytest.mark.parametrize("known", FILES)
def test_no_two_readers_want_the_same_file(known: ProfileFormat) -> None:
    """The order of formats does not matter for valid files."""
    wanted = [each.format for each in FORMATS if each.recognizes(Head("a", FILES[known]))]
    assert wanted == [known]


def test_every_format_is_read_by_somebody() -> None:
    """Every format of the model has a reader."""
    assert {each.format for each in FORMATS} == set(ProfileFormat)


def test_a_file_of_several_packed_parts(tmp_path: Path) -> None:
    """Concatenated compressed parts are one file."""
    data = FILES[ProfileFormat.TRACE_VIEWER]
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(data[:500]) + gzip.compress(data[500:]) + b"\0" * 512)
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "trace.json.gz").write_bytes(gzip.compress(data))
    assert open_profile(path, LIMITS) == open_profile(whole / "trace.json.gz", LIMITS)


@pytest.mark.parametrize(
    "known", [ProfileFormat.XPLANE, ProfileFormat.MLPERF_INFERENCE, ProfileFormat.MLPERF_TRAINING]
)
def test_packed_data_that_breaks_off_is_said(tmp_path: Path, known: ProfileFormat) -> None:
    """A part of such a file would give little or wrong data."""
    path = tmp_path / "torn.gz"
    data = b"\n" * 400_000 if known is not ProfileFormat.XPLANE else b""
    path.write_bytes(gzip.compress(FILES[known] + data)[:-12])
    with pytest.raises(ProfileError, match=r"torn\.gz: .*breaks off"):
        open_profile(path, LIMITS)


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """It is rejected by its growth, long before it is unpacked."""
    path = tmp_path / "bomb.gz"
    data = FILES[ProfileFormat.TRACE_VIEWER].removesuffix(b"]}") + b" " * 20_000_000 + b"]}"
    path.write_bytes(gzip.compress(data))
    with pytest.raises(ProfileError, match=r"bomb\.gz: grew over 100 times"):
        open_profile(path, ReadLimits(expansion_maximum_ratio=100))


def test_a_file_that_nobody_knows_says_what_was_looked_for(tmp_path: Path) -> None:
    """The message shows its beginning, without possible secrets, and what to record with."""
    path = tmp_path / "notes.txt"
    path.write_bytes(b"HF_TOKEN=hf_s3cret\nSome notes of mine\n")
    with pytest.raises(ProfileError) as raised:
        open_profile(path, LIMITS)
    assert str(raised.value) == (
        f"{path}: of no known format: it begins with '.. Some notes of mine'; looked for "
        + ", ".join(dict.fromkeys(each.format.value for each in FORMATS))
        + "; record with PyTorch's profiler (export_chrome_trace) or 'nsys profile', as in "
        "docs/profiles.md"
    )


UNFINISHED: Final = {
    "no events": (b'{"traceEvents": []}', "a trace without events; record again"),
    "an empty one": (b'{"a": 1, "traceEvents": [{}]}', "a trace without events; record again"),
    "cut before": (b'{"traceEvents": [', "a trace that is cut off before an event"),
    "cut within": (b'{"traceEvents": [{"ph": "X", "na', "wait until the profiler has finished"),
    "another's": (b'{"traceEvents": [{"ph": "X"}]}', "a trace of no profiler that is known"),
    "no trace": (b'{"events": [', "of no known format: it begins with"),
}


@pytest.mark.parametrize("odd", UNFINISHED)
def test_a_trace_without_events_is_distinguished_from_what_is_no_trace(
    tmp_path: Path, odd: str
) -> None:
    """The message has the remedy; in a folder it is listed as broken beside the readable files."""
    data, expected = UNFINISHED[odd]
    path = tmp_path / "trace.json"
    path.write_bytes(data)
    with pytest.raises(ProfileError) as raised:
        open_profile(path, LIMITS)
    assert str(raised.value).startswith(f"{path}: ")
    assert expected in str(raised.value)

    (tmp_path / "whole.json").write_bytes(FILES[ProfileFormat.PYTORCH])
    read = read_files([tmp_path], LIMITS)
    assert [profile.source for profile in read.profiles] == ["whole.json"]
    is_unknown = "known" in expected
    assert [each.source for each in read.broken] == ([] if is_unknown else ["trace.json"])


@pytest.mark.parametrize(
    ("data", "packing"),
    [
        (b"PK\x03\x04\x14\0", "zip"),
        (b"\x28\xb5\x2f\xfd\x04", "zstd"),
        (b"trace.json".ljust(257, b"\0") + b"ustar\x0000", "tar"),
    ],
)
def test_another_packing_is_named(tmp_path: Path, data: bytes, packing: str) -> None:
    """The message has the remedy."""
    path = tmp_path / f"trace.json.{packing}"
    path.write_bytes(data)
    with pytest.raises(ProfileError) as raised:
        open_profile(path, LIMITS)
    assert str(raised.value) == (
        f"{path}: packed by {packing}, and gzip alone is read in place; unpack it and name what "
        "is in it"
    )


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\x00\x01\xffPK\x03\x04", "...PK.."),
        (b'{"schemaVersion": 1, "token": "abc"}', '{"schemaVersion":.., "token": "abc"}'),
        (b"see /home/somebody/run.py or C:\\somebody", "see .. or .."),
        (b"https://user:pass@host.example/x", ".."),
        (b"A" * 64, ".."),
        (b"AKIA1234567890ABCDEF words", ".. words"),
        (b"word " * 40, "word word word word word word word word "),
    ],
)
def test_beginning_of_a_file_is_printable_and_short(data: bytes, shown: str) -> None:
    """At most 40 characters, all printable, none of a path or a key."""
    assert excerpt(data) == shown


def test_words_of_others() -> None:
    """Anything but a plain word becomes an ellipsis, and long text is cut."""
    assert (
        plain_words("Lost 12 events on gpu-17.example (code 0xdead)")
        == "Lost 12 events on … (code …"
    )
    assert len(plain_words("word " * 100)) == 160


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is empty"),
        (gzip.compress(b"", mtime=0)[:-8], "its packed data is broken"),
        (b"\x1f\x8b\x08junkjunkjunk", "its packed data is broken"),
    ],
)
def test_nothing_to_read_is_said(tmp_path: Path, data: bytes, words: str) -> None:
    """The file is empty, or does not unpack at all."""
    path = tmp_path / "empty"
    path.write_bytes(data)
    with pytest.raises(ProfileError, match=words):
        open_profile(path, LIMITS)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The message has the whole path."""
    with pytest.raises(ProfileError) as raised:
        open_profile(tmp_path / "nowhere" / "a.json", LIMITS)
    assert str(raised.value).startswith(f"{tmp_path / 'nowhere' / 'a.json'}: No such file")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """It may never have a writer."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ProfileError, match="pipe or a device"):
        read_all([tmp_path / "pipe"], LIMITS)


def test_a_fault_within_a_file_names_the_whole_path(tmp_path: Path) -> None:
    """This holds for every reader."""
    path = tmp_path / "some.pb"
    path.write_bytes(space(WORKED)[:-5])
    with pytest.raises(ProfileError) as raised:
        open_profile(path, LIMITS)
    assert str(raised.value).startswith(f"{path}: byte ")


def test_a_folder_of_ranks_comes_in_their_order(tmp_path: Path) -> None:
    """Rank 10 follows rank 2 for any names; other files are skipped."""
    for rank in (10, 2, 0):
        text = TORCH.replace(b'"rank": 0', f'"rank": {rank}'.encode())
        (tmp_path / f"worker_{chr(110 - rank)}.json").write_bytes(text)
    (tmp_path / "notes.txt").write_text("not a profile")
    (tmp_path / ".hidden").write_bytes(TORCH)
    profiles = read_all([tmp_path], LIMITS)
    assert [profile.rank for profile in profiles] == [0, 2, 10]


def test_a_folder_of_a_benchmark_is_one_result(tmp_path: Path) -> None:
    """Summary and detail are combined, for each run's folder."""
    for run, rate in (("run_1", "100.35"), ("run_2", "200.5")):
        folder = tmp_path / "performance" / run
        folder.mkdir(parents=True)
        (folder / "mlperf_log_summary.txt").write_text(summary(f"Samples per second: {rate}"))
        (folder / "mlperf_log_detail.txt").write_text(
            detail({"result_samples_per_second": float(rate) + 0.004})
        )
        (both,) = read_all([folder], LIMITS)
        assert both.source == "mlperf_log_summary.txt, mlperf_log_detail.txt"
    profiles = read_all([tmp_path], LIMITS)
    assert [profile.benchmark and profile.benchmark.figures for profile in profiles] == [
        {"samples_per_second": 100.35},
        {"samples_per_second": 200.5},
    ]


def test_logs_of_several_runs_in_one_folder_stay_apart(tmp_path: Path) -> None:
    """It is unknown which of them belong together."""
    for number in (1, 2):
        (tmp_path / f"summary_{number}.txt").write_text(summary())
    (tmp_path / "detail.txt").write_text(detail({}))
    sources = [each.source for each in read_all([tmp_path], LIMITS)]
    assert sources == ["detail.txt", "summary_1.txt", "summary_2.txt"]


def test_a_report_beside_its_export_is_read_once() -> None:
    """Nsight Systems writes both; other files of such names are read normally."""
    names = ("a/run.sqlite", "a/run.nsys-rep", "b/run.nsys-rep", "a/run.csv")
    export, _, other, table = paths = [Path(name) for name in names]
    groups = list(grouped(dict.fromkeys(paths, NSIGHT_SYSTEMS)))
    assert groups == [(export,), (other,), (table,)]


def test_a_log_folder_of_tensorflow_is_its_latest_run(tmp_path: Path) -> None:
    """It has one file for each host; derived files are skipped."""
    for run in ("2026_11_02_09_00_00", "2026_11_20_08_00_00"):
        folder = tmp_path / "plugins" / "profile" / run
        folder.mkdir(parents=True)
        (folder / f"{run}-a.xplane.pb").write_bytes(space(WORKED))
        (folder / f"{run}-a.trace.json.gz").write_bytes(viewer_trace(WORKED))
        (folder / "perfetto_trace.json.gz").write_bytes(viewer_trace(WORKED))
        (folder / "old-host.trace.json.gz").write_bytes(viewer_trace(ALONE))
    profiles = read_all([tmp_path], LIMITS)
    assert [(profile.format, profile.source) for profile in profiles] == [
        (ProfileFormat.XPLANE, "2026_11_20_08_00_00-a.xplane.pb"),
        (ProfileFormat.TRACE_VIEWER, "old-host.trace.json.gz"),
    ]


def test_files_and_folders_together(tmp_path: Path) -> None:
    """They keep the order of arguments, and each is read once."""
    (tmp_path / "ranks").mkdir()
    (tmp_path / "ranks" / "a.json").write_bytes(TORCH)
    single = tmp_path / "result_0.txt"
    single.write_text(training())
    profiles = read_all([single, tmp_path / "ranks", single], LIMITS)
    assert [profile.source for profile in profiles] == ["result_0.txt", "a.json"]


def test_a_folder_without_profiles_is_refused(tmp_path: Path) -> None:
    """So is one with too many files."""
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("nothing")
    with pytest.raises(ProfileError, match="none of its 3 files is a profile"):
        read_all([tmp_path], LIMITS)
    with pytest.raises(ProfileError, match="more than 2 files"):
        read_all([tmp_path], ReadLimits(files_maximum=2))


def test_a_broken_file_of_a_folder_does_not_keep_the_others(tmp_path: Path) -> None:
    """Its path in the folder and its error are listed; the others are read."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "cut.xplane.pb").write_bytes(space(WORKED)[:-5])
    (tmp_path / "torn.gz").write_bytes(b"\x1f\x8b\x08junk")
    (tmp_path / "whole.json").write_bytes(TORCH)
    read = read_files([tmp_path], LIMITS)
    assert [profile.source for profile in read.profiles] == ["whole.json"]
    (cut,) = read.broken
    assert cut.source == str(Path("inner", "cut.xplane.pb"))
    assert cut.reason.startswith("byte ")
    with pytest.raises(ProfileError, match=r"cut\.xplane\.pb: byte "):
        read_all([tmp_path], LIMITS)


def test_a_folder_of_broken_files_alone_is_refused(tmp_path: Path) -> None:
    """The error is the first file's, with the number of broken files."""
    for name in ("a.pb", "b.pb"):
        (tmp_path / name).write_bytes(space(WORKED)[:-5])
    with pytest.raises(ProfileError, match=r"a\.pb: byte .*\(and 1 more of this folder\)"):
        read_files([tmp_path], LIMITS)


def test_of_two_logs_of_a_run_the_whole_one_is_read(tmp_path: Path) -> None:
    """A broken detail log does not affect the summary."""
    (tmp_path / "mlperf_log_summary.txt").write_text(summary())
    (tmp_path / "mlperf_log_detail.txt.gz").write_bytes(
        gzip.compress(detail({}).encode() + b"\n" * 400_000)[:-12]
    )
    read = read_files([tmp_path], LIMITS)
    assert [profile.source for profile in read.profiles] == ["mlperf_log_summary.txt"]
    assert [each.source for each in read.broken] == ["mlperf_log_detail.txt.gz"]


def test_a_folder_that_links_to_itself_ends(tmp_path: Path) -> None:
    """Links to folders are not followed, and depth is bounded."""
    (tmp_path / "self").symlink_to(tmp_path, target_is_directory=True)
    deep = tmp_path.joinpath(*"abcdefgh")
    deep.mkdir(parents=True)
    (deep / "far.json").write_bytes(TORCH)
    (tmp_path / "near.json").write_bytes(TORCH)
    assert [each.source for each in read_all([tmp_path], LIMITS)] == ["near.json"]


def test_source_code_that_quotes_a_profile_is_none(tmp_path: Path) -> None:
    """The same text is a profile in the file that the profiler wrote."""
    printed = details_page([("Launch Statistics", "# SMs", "SM", "132")])
    code = tmp_path / "test_reader.py"
    code.write_text(f'PRINTED = """\n==PROF== Connected to process 4 (train)\n{printed}"""\n')
    with pytest.raises(
        ProfileError, match=r"test_reader\.py: source code.*that the profiler wrote"
    ):
        open_profile(code, LIMITS)
    assert not is_profile(code, LIMITS)
    log = tmp_path / "kernels.log"
    log.write_text(code.read_text())
    assert [profile.source for profile in read_all([tmp_path], LIMITS)] == ["kernels.log"]
