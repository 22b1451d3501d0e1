"""Our own format, written and read back."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.errors import RecordingError
from rightsizer.model.reading import Missing, Process, ProcessKind, Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import CollectorOutcome, Down, Snapshot
from rightsizer.model.workload import Allocator, Holding, Workload, WorkloadClass, WorkloadKind
from rightsizer.recordings.source import open_recording
from rightsizer.recordings.writer import RecordingWriter

Replays = Callable[..., Any]
Writes = Callable[..., Path]

_numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 2**60)
# What a device states is a float; drivers give whole numbers, as far as one holds them exactly.
_facts = st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 2**53)
_times = st.integers(-(2**62), 2**62)
_ratios = st.floats(0, 1)
_texts = st.text(max_size=8)
_instances = st.builds(MigInstance, _texts, _texts, st.integers(0, 9), st.just(0), _ratios, _ratios)
_workloads = st.builds(
    Workload,
    _texts,
    st.sampled_from(WorkloadKind),
    _texts,
    st.sampled_from(WorkloadClass),
    st.sampled_from(Allocator),
    _texts,
    _texts,
    _texts,
    _texts,
)
_holdings = st.builds(Holding, _workloads, _ratios, st.booleans())


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Any snapshot that a live source could give."""
    uuids = draw(st.lists(_texts, min_size=1, max_size=3, unique=True))
    some = st.dictionaries(st.sampled_from(uuids), st.none(), max_size=3)
    devices = tuple(
        draw(
            st.builds(
                Device,
                uuid=st.just(uuid),
                index=st.just(index),
                name=_texts,
                board=st.none() | _texts,
                mig=st.none() | _instances,
                memory_total_bytes=st.none() | _facts,
                temperature_slowdown_celsius=st.none() | _facts,
                facts=st.dictionaries(_texts, _texts, max_size=2),
                assumed=st.lists(_texts, max_size=2).map(tuple),
            )
        )
        for index, uuid in enumerate(uuids)
    )
    return Snapshot(
        wall_time=draw(_times),
        time=draw(_times),
        interval=draw(st.integers(1, 2**40)),
        devices=devices,
        readings={uuid: draw(_readings(uuid)) for uuid in draw(some)},
        down={
            uuid: Down(
                draw(st.sampled_from(Missing)), draw(_texts), draw(_texts), draw(st.booleans())
            )
            for uuid in draw(some)
        },
        host=draw(st.dictionaries(st.sampled_from(Signal), _numbers, max_size=3)),
        holdings={uuid: tuple(draw(st.lists(_holdings, max_size=2))) for uuid in draw(some)},
        collectors=draw(
            st.dictionaries(_texts, st.builds(CollectorOutcome, st.booleans(), _ratios), max_size=2)
        ),
        trouble=draw(st.none() | _texts),
    )


def _readings(uuid: str) -> st.SearchStrategy[Reading]:
    processes = st.builds(
        Process,
        st.integers(1, 2**22),
        st.none() | st.integers(0, 2**40),
        st.sampled_from(ProcessKind),
        st.none() | _ratios,
    )
    return st.builds(
        Reading,
        uuid=st.just(uuid),
        time=_times,
        values=st.dictionaries(st.sampled_from(Signal), _numbers, max_size=5),
        missing=st.dictionaries(st.sampled_from(Signal), st.sampled_from(Missing), max_size=5),
        processes=st.none() | st.lists(processes, max_size=2).map(tuple),
    )


def _with_fact(celsius: float) -> list[Snapshot]:
    device = Device("", 0, temperature_slowdown_celsius=celsius)
    return [Snapshot(wall_time=0, time=0, interval=1, devices=(device,), readings={})]


@example(_with_fact(float(9007199254740993)), "r.jsonl")
@example(_with_fact(2**53), "r.jsonl")
@given(st.lists(snapshots(), min_size=1, max_size=5), st.sampled_from(["r.jsonl", "r.jsonl.gz"]))
def test_snapshots_come_back_as_they_were(written: list[Snapshot], name: str) -> None:
    """Every field of every snapshot, to the nanosecond and the last bit."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        with RecordingWriter(path) as writer:
            for snapshot in written:
                writer.write(snapshot)
        source = open_recording([path], catalogue=built_in())
        read = [source.read() for _ in written]
        assert read == written
        assert source.read() is None
        source.close()


def _snapshot(second: int, busy: float = 0.5, **changes: Any) -> Snapshot:
    reading = Reading("GPU-1", second * 10**9, {Signal.GPU_BUSY: busy, Signal.POWER_WATTS: 300.0})
    device = Device("GPU-1", 0, "NVIDIA H100 80GB HBM3")
    first = Snapshot(
        wall_time=1_717_200_000_000_000_000 + second * 10**9,
        time=second * 10**9,
        interval=10**9,
        devices=(device,),
        readings={"GPU-1": reading},
    )
    return replace(first, **changes)


def _record(path: Path, *written: Snapshot) -> Path:
    with RecordingWriter(path) as writer:
        for snapshot in written:
            writer.write(snapshot)
    return path


def test_the_first_line_describes_the_file(tmp_path: Path) -> None:
    """Format, version, program, and each signal with its unit."""
    path = _record(tmp_path / "r.jsonl", _snapshot(0))
    header = json.loads(path.read_text().splitlines()[0])
    assert (header["format"], header["version"]) == ("rightsizer-recording", 1)
    assert ["power_watts", "watts"] in header["signals"]


def test_constant_facts_are_written_once(tmp_path: Path) -> None:
    """A second of one device costs its times and values."""
    path = _record(tmp_path / "r.jsonl", *(_snapshot(second) for second in range(100)))
    lines = path.read_text().splitlines()
    assert lines[-99:] == ["[1000000000,1000000000,[0,0.5,300.0]]"] * 99


WORKLOAD = Workload("slurm/7", WorkloadKind.SLURM, "7")


def test_processes_and_holders_come_back_whole(replay: Replays, tmp_path: Path) -> None:
    """How a process uses the device and its share, and whether a holder has one at all."""
    processes = (
        Process(11, 2**30),
        Process(12, None, ProcessKind.MPS, 0.25),
        Process(13, None, ProcessKind.GRAPHICS),
        Process(14, 2**20, ProcessKind.COMPUTE, 0.0),
    )
    holdings = {"GPU-1": (Holding(WORKLOAD, 0.5), Holding(WORKLOAD, 0.5, has_process=False))}
    reading = replace(_snapshot(0).readings["GPU-1"], processes=processes)
    written = _snapshot(0, readings={"GPU-1": reading}, holdings=holdings)
    [read] = replay(_record(tmp_path / "r.jsonl", written)).snapshots
    assert read.readings["GPU-1"].processes == processes
    assert read.holdings == holdings


BEFORE = """\
{"format":"rightsizer-recording","version":1,"program":"0.1.0","signals":[["gpu_busy","ratio"],\
["sm_active","ratio"]]}
{"interval":1000000000}
{"devices":[{"uuid":"GPU-1","index":0,"name":"","has_mig_instances":false,\
"achievable_compute_ratio":0.8,"achievable_bandwidth_ratio":0.8,"assumed":[]}]}
{"uuids":["GPU-1"]}
{"columns":[[[0],{"not_supported":[1]}]]}
{"processes":{"GPU-1":[[11,1073741824],[12,null]]}}
{"holdings":{"GPU-1":[[{"key":"slurm/7","kind":"slurm","name":"7","workload_class":"batch",\
"allocator":"unknown","namespace":"","pod":"","container":""},1.0]]}}
{"down":{}}
{"host":{}}
{"collectors":{}}
{"trouble":null}
[1717200000000000000,0,[0,0.5]]
"""
"""As version 0.1.0 wrote it before there were kinds of processes, with fewer signals."""


def test_recordings_of_before_are_still_read(replay: Replays, tmp_path: Path) -> None:
    """Processes of two numbers, holders of two fields, devices and workloads with less to them."""
    path = tmp_path / "before.jsonl"
    path.write_text(BEFORE)
    [read] = replay(path).snapshots
    assert read.devices == (Device("GPU-1", 0),)
    assert read.readings["GPU-1"].values == {Signal.GPU_BUSY: 0.5}
    assert read.readings["GPU-1"].missing == {Signal.SM_ACTIVE: Missing.NOT_SUPPORTED}
    assert read.readings["GPU-1"].processes == (Process(11, 2**30), Process(12))
    batch = replace(WORKLOAD, workload_class=WorkloadClass.BATCH)
    assert read.holdings == {"GPU-1": (Holding(batch, 1.0),)}


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_a_killed_recorder_leaves_what_it_flushed(
    replay: Replays, tmp_path: Path, name: str
) -> None:
    """The file was never closed, and its last line is torn."""
    path = tmp_path / name
    writer = RecordingWriter(path, flush_interval_seconds=1.0)
    for second in range(20):
        writer.write(_snapshot(second))
    left = tmp_path / f"left-{name}"
    left.write_bytes(path.read_bytes()[:-7])
    writer.close()
    played = replay(left)
    assert 18 <= len(played.snapshots) < 20
    assert played.snapshots == [_snapshot(second) for second in range(len(played.snapshots))]
    assert len(played.source.warnings) >= 1


def test_a_newer_version_is_refused(replay: Replays, tmp_path: Path) -> None:
    """With what wrote it and what to do, not with half a reading."""
    path = _record(tmp_path / "r.jsonl", _snapshot(0))
    path.write_text(path.read_text().replace('"version":1', '"version":2'))
    with pytest.raises(RecordingError, match=r"r.jsonl:1: .* version 2 .* up to 1; update"):
        replay(path)


def test_a_damaged_line_is_refused(replay: Replays, tmp_path: Path) -> None:
    """Times are differences: what follows a lost line would be at the wrong time."""
    path = _record(tmp_path / "r.jsonl", _snapshot(0), _snapshot(1), _snapshot(2))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:-2], "[1,", "\n", lines[-1]]))
    with pytest.raises(RecordingError, match=rf"r.jsonl:{len(lines) - 1}: .* damaged; cut"):
        replay(path)


def test_signals_of_another_version_are_passed_over(replay: Replays, tmp_path: Path) -> None:
    """The table in the header says which column is whose; unknown ones are left out."""
    path = _record(tmp_path / "r.jsonl", _snapshot(0))
    path.write_text(path.read_text().replace('["power_watts",', '["power_in_horses",'))
    [reading] = replay(path).readings("GPU-1")
    assert reading.values == {Signal.GPU_BUSY: 0.5}


def test_an_existing_file_is_never_written_over(tmp_path: Path) -> None:
    """A recording is lost by no second start."""
    path = tmp_path / "r.jsonl"
    path.write_text("precious")
    with pytest.raises(RecordingError, match=r"r.jsonl: is there already; name another file"):
        RecordingWriter(path)
    assert path.read_text() == "precious"


def test_a_folder_that_is_not_there_is_reported(tmp_path: Path) -> None:
    """The error names the path."""
    with pytest.raises(RecordingError, match=r"nowhere/r.jsonl: cannot be written: No such"):
        RecordingWriter(tmp_path / "nowhere" / "r.jsonl")


def test_two_recordings_meet_on_the_wall_clock(replay: Replays, tmp_path: Path) -> None:
    """Each has a steady clock of its own, which says nothing beside another's."""
    first = _record(tmp_path / "1.jsonl", _snapshot(0), _snapshot(1))
    other = replace(_snapshot(0).readings["GPU-1"], uuid="GPU-2", time=500)
    second = _record(
        tmp_path / "2.jsonl",
        _snapshot(
            1,
            time=500,
            wall_time=1_717_200_000_500_000_000,
            devices=(Device("GPU-2", 1),),
            readings={"GPU-2": other},
        ),
    )
    played = replay(first, second)
    assert [tuple(snapshot.readings) for snapshot in played.snapshots] == [
        ("GPU-1",),
        ("GPU-2",),
        ("GPU-1",),
    ]
    assert all(snapshot.time == snapshot.wall_time for snapshot in played.snapshots)
    assert {device.uuid for device in played.snapshots[0].devices} == {"GPU-1", "GPU-2"}
    assert played.readings("GPU-2")[0].time == 1_717_200_000_500_000_000


def test_a_recording_merges_with_a_log(replay: Replays, write: Writes, tmp_path: Path) -> None:
    """By device and wall time, as any other file."""
    ours = _record(tmp_path / "r.jsonl", _snapshot(0), _snapshot(1))
    log = write("timestamp,device,temperature_celsius\n1717200000,GPU-1,60\n1717200001,GPU-1,61\n")
    assert replay(ours, log).readings("GPU-1")[1].values == {
        Signal.GPU_BUSY: 0.5,
        Signal.POWER_WATTS: 300.0,
        Signal.TEMPERATURE_CELSIUS: 61.0,
    }


def test_the_operator_names_a_board_that_the_recorder_did_not(
    replay: Replays, tmp_path: Path
) -> None:
    """And what the recorder knew stays."""
    path = _record(tmp_path / "r.jsonl", _snapshot(0))
    [device] = replay(path, board="H100-SXM5-80GB").snapshots[0].devices
    assert (device.board, device.power_limit_watts) == ("H100-SXM5-80GB", 700)


def test_a_recording_without_devices_is_refused(replay: Replays, tmp_path: Path) -> None:
    """A recorder that ran without a driver leaves a header and troubles."""
    path = _record(tmp_path / "r.jsonl", _snapshot(0, devices=(), readings={}, trouble="no driver"))
    with pytest.raises(RecordingError, match="there is no device in it"):
        replay(path)


def test_the_same_snapshots_compress_to_the_same_bytes(tmp_path: Path) -> None:
    """No name and no time of writing in the compressed file."""
    first = _record(tmp_path / "a.jsonl.gz", _snapshot(0))
    assert first.read_bytes() == _record(tmp_path / "b.jsonl.gz", _snapshot(0)).read_bytes()
    assert gzip.decompress(first.read_bytes()).startswith(b'{"format":"rightsizer-recording"')
