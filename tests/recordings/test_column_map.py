"""Any CSV by a column map."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.errors import ConfigurationError, RecordingError
from rightsizer.model.signal import Signal
from rightsizer.recordings.heading_words import Heading
from rightsizer.recordings.mapped_csv import load_column_map

Replays = Callable[..., Any]
Writes = Callable[..., Path]
EXAMPLES = Path(__file__).parents[2] / "config" / "columns"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_right(path: Path) -> None:
    """Every map that comes with the program loads."""
    assert load_column_map(path).files


def test_two_files_sorted_by_pod_merge(replay: Replays, write: Writes) -> None:
    """Layout and map of the public trace: each file by pod, then by time, a value column each."""
    busy = write(
        "timestamp_s,pod,value\n0,x,10\n57,x,20\n114,x,30\n57,y,40\n114,y,50\n",
        "gpu_duty_cycle_pct.csv",
    )
    memory = write(
        "timestamp_s,pod,value\n57,x,1000\n114,x,2000\n171,x,3000\n0,y,4000\n57,y,5000\n",
        "gpu_memory_used_bytes.csv",
    )
    played = replay(busy, memory, columns=EXAMPLES / "alibaba-genai-2026.yaml")
    seconds = [reading.time // 1_000_000_000 for reading in played.readings("x")]
    assert seconds == [0, 57, 114, 171]
    assert played.values("x", Signal.GPU_BUSY) == [0.1, 0.2, 0.3, 0.3]
    assert played.values("x", Signal.MEMORY_USED_BYTES) == [None, 1000.0, 2000.0, 3000.0]
    assert played.values("y", Signal.GPU_BUSY) == [None, 0.4, 0.5]
    assert played.source.interval == 57_000_000_000
    assert [len(snapshot.readings) for snapshot in played.snapshots] == [2, 2, 2, 1]


def test_the_unit_decides_the_signal(write: Writes) -> None:
    """Memory in MiB is a quantity, memory in percent a ratio."""
    text = (
        "time: {column: t, unit: ms}\ndevice: d\nfiles:\n  '*.csv':\n"
        "    a: {signal: memory_used, unit: MiB}\n    b: {signal: memory_used, unit: '%'}\n"
        "    c: {signal: power, unit: mW}\n"
    )
    assert load_column_map(write(text, "map.yaml")).files["*.csv"] == {
        "a": Heading(Signal.MEMORY_USED_BYTES, "MiB"),
        "b": Heading(Signal.MEMORY_USED, "%"),
        "c": Heading(Signal.POWER_WATTS, "mW"),
    }


def test_a_home_made_log(replay: Replays, write: Writes) -> None:
    """The second example, with ISO times and a workload."""
    log = write("time,gpu_uuid,job,util,mem_mib,watts\n2024-06-01T00:00:00Z,a,j1,50,1024,99.5\n")
    played = replay(log, columns=EXAMPLES / "home-made-log.yaml")
    assert played.readings("a")[0].values == {
        Signal.GPU_BUSY: 0.5,
        Signal.MEMORY_USED_BYTES: 2.0**30,
        Signal.POWER_WATTS: 99.5,
    }
    assert played.snapshots[0].holdings["a"][0].workload.name == "j1"


FAULTS = """\
map.yaml:1:19: time.unit: must be one of s, ms, us, ns, iso (got 'hours')
map.yaml:2:1: devise: unknown key; did you mean 'device'?
map.yaml:5:13: files.*.csv.value.signal: 'gpu_bussy' is not known; did you mean 'gpu_busy'?
map.yaml:6:31: files.*.csv.other.unit: 'gpu_busy' is not measured in bytes; its unit is ratio; \
name the unit that the column is in
map.yaml:7:31: files.*.csv.third.unit: 'furlongs' is not a unit; 'gpu_busy' is in ratio
map.yaml:8:5: files.*.csv.fourth.unit: is required (text)"""


def test_all_faults_are_reported_at_once(write: Writes) -> None:
    """Each with its place and what to write in its stead."""
    path = write(
        "time: {column: t, unit: hours}\n"
        "devise: pod\n"
        "files:\n"
        "  '*.csv':\n"
        "    value: {signal: gpu_bussy, unit: '%'}\n"
        "    other: {signal: gpu_busy, unit: bytes}\n"
        "    third: {signal: gpu_busy, unit: furlongs}\n"
        "    fourth: {signal: gpu_busy}\n",
        "map.yaml",
    )
    with pytest.raises(ConfigurationError) as error:
        load_column_map(path)
    assert str(error.value).replace(f"{path.parent}/", "") == FAULTS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "map.yaml:1:1: time: is required (mapping)"),
        ("- a\n", "map.yaml:1:1: must be a mapping (got a list)"),
        ("time: {column: t, unit: s}\ndevice: d\nfiles: {}\n", "files: names no file; add a patt"),
        ("time: {column: t, unit: s}\ndevice: d\nfiles: {'*': 3}\n", "files.*: must be a"),
        ("time: 5\ndevice: d\nfiles: {'*': {a: {signal: cpu, unit: '%'}}}\n", "time: must be"),
        ("time: {column: t, unit: s}\nfiles: {'*': {}}\n", "files.*: names no column; write names"),
        ("time: {column: t, unit: s}\nfiles: {'*': }\n", "files: names no file; add a pattern"),
        ("time: [\n", "a column map is a YAML file"),
    ],
)
def test_a_map_of_another_shape_is_refused(write: Writes, text: str, message: str) -> None:
    """No shape of YAML leads to anything but a clear error."""
    with pytest.raises(ConfigurationError) as error:
        load_column_map(write(text, "map.yaml"))
    assert message in str(error.value)


def test_a_map_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """The error names the path and where examples are."""
    with pytest.raises(ConfigurationError, match=r"nowhere.yaml: .* config/columns"):
        load_column_map(tmp_path / "nowhere.yaml")


MAP = """\
time: {column: t, unit: s}
device: d
files: {'mi*.csv': {v: {signal: gpu_busy, unit: '%'}}}
"""


def test_a_map_that_fits_no_file_is_refused(replay: Replays, write: Writes) -> None:
    """Even where the file could be read without it: someone meant it to count."""
    log = write("timestamp,device,gpu_busy\n1,a,1\n")
    with pytest.raises(RecordingError, match=r"none of its patterns \(mi\*.csv\) fits log.csv"):
        replay(log, columns=write(MAP, "map.yaml"))


def test_a_column_of_the_map_that_is_not_there_is_refused(replay: Replays, write: Writes) -> None:
    """The error names file, line, map and the columns that there are."""
    log = write("t,device,v\n1,a,1\n", "mine.csv")
    with pytest.raises(RecordingError, match=r"mine.csv:1: there is no column 'd', .*t, device, v"):
        replay(log, columns=write(MAP, "map.yaml"))


def test_a_file_that_no_pattern_fits_is_read_by_its_format(replay: Replays, write: Writes) -> None:
    """A map for one file does not keep another one from being recognized."""
    mine = write("t,d,v\n1,a,50\n", "mine.csv")
    other = write("timestamp,device,power_watts\n1,a,300\n", "other.csv")
    [reading] = replay(mine, other, columns=write(MAP, "map.yaml")).readings("a")
    assert reading.values == {Signal.GPU_BUSY: 0.5, Signal.POWER_WATTS: 300.0}


def test_a_heading_that_is_a_number_is_read_as_its_text(write: Writes) -> None:
    """YAML reads it as a number, and a file without headings numbers its columns."""
    text = "time: {column: 0, unit: s}\ndevice: 1\nfiles: {'*': {2: {signal: cpu, unit: '%'}}}\n"
    column_map = load_column_map(write(text, "map.yaml"))
    assert (column_map.time_column, column_map.device_column) == ("0", "1")
    assert list(column_map.files["*"]) == ["2"]
