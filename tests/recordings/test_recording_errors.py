"""Files that are no recordings."""

import contextlib
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.catalogue.catalogue import built_in
from rightsizer.cli.main import main
from rightsizer.model.errors import RecordingError, UsageError
from rightsizer.model.signal import Signal
from rightsizer.model.window import Window
from rightsizer.recordings.source import open_recording
from rightsizer.report.export import EXPORT_FORMATS, ExportRow

Replays = Callable[..., Any]
Writes = Callable[..., Path]


def test_a_missing_file(replay: Replays, tmp_path: Path) -> None:
    """The error names it."""
    with pytest.raises(RecordingError, match=r"nowhere.csv: no such file or directory; check"):
        replay(tmp_path / "nowhere.csv")


def test_a_folder(replay: Replays, tmp_path: Path) -> None:
    """The error asks for the files in it."""
    with pytest.raises(RecordingError, match="is a folder; name the files"):
        replay(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n",
        "Unable to detect the device handle for GPU0000:3B:00.0: Unknown Error\n",
        "No devices were found\n",
        'Field "utilization.gpus" is not a valid field to query.\n',
        "bash: line 1: nvidia-smi: command not found\n",
    ],
)
def test_error_in_place_of_readings(replay: Replays, write: Writes, text: str) -> None:
    """It is shown, and not taken for a format."""
    with pytest.raises(RecordingError, match=r"log.csv:1: is an error in place of readings: '"):
        replay(write(text))


@pytest.mark.parametrize("text", ["", "\n\r\n  \n"])
def test_an_empty_file(replay: Replays, write: Writes, text: str) -> None:
    """Blank lines are empty too."""
    with pytest.raises(RecordingError, match=r"log.csv: is empty; was anything recorded"):
        replay(write(text))


@pytest.mark.parametrize(
    "content", [gzip.compress(b"", mtime=0), gzip.compress(b"a,b\n", mtime=0)[:5]]
)
def test_an_empty_gzip(replay: Replays, tmp_path: Path, content: bytes) -> None:
    """Nothing inside, or cut off before anything came."""
    path = tmp_path / "log.gz"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=r"log.gz: is empty"):
        replay(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF\x00\x01", "is a binary file; a recording is text"),
        (gzip.compress(b"SQLite format 3\x00", mtime=0), "is a binary file"),
        (b"\x28\xb5\x2f\xfd....", "use 'zstd -d' first"),
        (b"\xfd7zXZ\x00....", "use 'xz -d' first"),
        (b"gpu.csv".ljust(257, b"\0") + b"ustar\x0000", "use 'tar -xf' first"),
        (b"PAR1\x15\x04....", "is a Parquet table.*write it as CSV first"),
        (b"PK\x03\x04..[Content_Types].xml", "is a spreadsheet; save the table as CSV first"),
    ],
)
def test_a_binary_file(replay: Replays, tmp_path: Path, content: bytes, message: str) -> None:
    """The error says what it is and what to do."""
    path = tmp_path / "log.bin"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=message):
        replay(path)


def test_an_unknown_format(replay: Replays, write: Writes) -> None:
    """The error shows the first line and names the formats that are known."""
    with pytest.raises(RecordingError) as error:
        replay(write("Dear diary,\ntoday\n", "diary.txt"))
    message = str(error.value)
    assert "diary.txt:1: this is in no known format" in message
    assert "'Dear diary,'" in message
    assert "docs/recordings.md has the formats" in message
    assert "--columns MAP.yaml" in message


@pytest.mark.parametrize("table_format", ["csv", "json"])
def test_own_export_is_refused_in_a_sentence(
    table_format: str, replay: Replays, tmp_path: Path
) -> None:
    """Accounts of five minutes are no readings; the history has them."""
    path = tmp_path / "table"
    with path.open("wb") as file:
        EXPORT_FORMATS[table_format]([ExportRow(Window("GPU-0", 0, 1), None)], file)
    with pytest.raises(RecordingError, match="is a table of 'rightsizer export'") as error:
        replay(path)
    assert len(str(error.value).removeprefix(str(path))) < 260
    assert "rightsizer report --history.path" in str(error.value)


def test_many_columns_are_not_all_listed(replay: Replays, write: Writes) -> None:
    """The first ones tell which file it is."""
    names = ",".join(f"column{place}" for place in range(90))
    with pytest.raises(RecordingError, match="in no known format") as error:
        replay(write(f"gpu_busy,{names}\n1,{names}\n"))
    assert "column40" not in str(error.value)


def test_no_file_at_all() -> None:
    """A recording of nothing is a wrong command line."""
    with pytest.raises(UsageError, match="name its files"):
        open_recording([], catalogue=built_in())


@given(
    st.sampled_from(
        [
            b"",
            b"timestamp,device,gpu_busy\n",
            b"timestamp, index, utilization.gpu [%]\n",
            b"#Entity GPUTL SMACT\n",
            b"# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n",
            b'{"format":"rightsizer-recording","version":1,"signals":[]}\n',
            b'{"format":"rightsizer-recording"',
        ]
    ),
    st.binary(max_size=200)
    | st.text("0123456789:/-,. GPU{}\"'\n[]%N", max_size=200).map(str.encode),
)
def test_no_content_leads_to_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, start: bytes, rest: bytes
) -> None:
    """Whatever is in a file, it is read or refused with an error of ours."""
    path = tmp_path_factory.mktemp("fuzz") / "log"
    path.write_bytes(start + rest)
    with contextlib.suppress(RecordingError):
        source = open_recording([path], catalogue=built_in())
        while source.read() is not None:
            pass
        source.close()


def devices_by_the_error(capsys: pytest.CaptureFixture[str], path: Path) -> list[Any]:
    """Devices of the answer to the command that the refusal of a file prints."""
    assert main(["replay", str(path)]) == 1
    command = re.search(r"'rightsizer (replay [^']+)'", capsys.readouterr().err)
    assert command is not None
    assert main([*command[1].split(), "--json"]) == 0
    devices: list[Any] = json.loads(capsys.readouterr().out)["devices"]
    return devices


@pytest.mark.parametrize(
    "text",
    [
        "itemid;clock;value\n" + "".join(f"7;{1767571200 + i};5{i}\n" for i in range(9)),
        "Wall time,Step,Value\n" + "".join(f"{1767571200 + i}.5,{i},5{i}\n" for i in range(9)),
        ",Timestamp,Value\n" + "".join(f"{i},2026-01-05 00:00:0{i},5{i}\n" for i in range(9)),
        "Full label,m\nId,m1\n" + "".join(f"2026/01/05 00:00:0{i},5{i}\n" for i in range(9)),
        "".join(f"2026/01/05 00:00:0{i}.5, 0, 5{i} %, 900 MiB, 250.5 W\n" for i in range(9)),
        "".join(f"2026/01/05 00:00:0{i}.5, 0, 33 %, 5{i} %, 9 MiB\n" for i in range(9)),
        "".join(f"Mon Jan  5 00:00:0{i} UTC 2026\n0, 5{i} %, 9 MiB\n" for i in range(9)),
        "Zeit;GPU;Last\n" + "".join(f"05.01.2026 00:00:0{i};0;5{i},0\n" for i in range(9)),
    ],
    ids=[
        "Zabbix",
        "TensorBoard",
        "Neptune",
        "CloudWatch",
        "noheader",
        "fan",
        "date above",
        "German",
    ],
)
def test_bare_values_are_read_as_the_error_says(
    capsys: pytest.CaptureFixture[str], write: Writes, text: str
) -> None:
    """The command that the error prints works as it stands."""
    (device,) = devices_by_the_error(capsys, write(text, "values.csv"))
    assert device["signals"]["gpu_busy"]["mean"] == pytest.approx(0.545, abs=0.01)


def test_watts_are_not_suggested_as_percent(replay: Replays, write: Writes) -> None:
    """No share is above a hundred: the columns must be named."""
    path = write("timestamp,GPU0,GPU1\n1763638585.2,199.9,256.5\n1763638586.2,198.9,250.5\n")
    with pytest.raises(RecordingError, match=r"tell what they hold with --columns"):
        replay(path)


def test_values_of_several_gpus_are_read_as_the_error_says(
    capsys: pytest.CaptureFixture[str], write: Writes
) -> None:
    """CloudWatch has a GPU a column; none is left out, and none taken for another."""
    text = "Label,util index 0,util index 1\nid,m1,m2\nStatistic,Average,Average\n" + "".join(
        f"2026/01/05 00:00:0{i},9{i},1{i}\n" for i in range(9)
    )
    devices = devices_by_the_error(capsys, write(text, "values.csv"))
    means = [device["signals"]["gpu_busy"]["mean"] for device in devices]
    assert means == pytest.approx([0.945, 0.145], abs=0.01)


@pytest.mark.parametrize(
    "kind", ["MetricDataResults", "Datapoints", "timeSeries", "itemid", "pointlist"]
)
def test_json_of_stores_is_told_its_jq_filter(replay: Replays, write: Writes, kind: str) -> None:
    """A line to paste, with the file's own name."""
    with pytest.raises(RecordingError, match=r"jq -r '.* \| @csv' \S+answer.json\) > gpu.csv"):
        replay(write(f'{{\n "metric": "util", "{kind}": []\n}}\n', "answer.json"))


def test_unit_that_nothing_shows_is_stated_by_a_flag(replay: Replays, write: Writes) -> None:
    """Without another value, 1 may be a percent or all."""
    path = write("time,gpu,util\n" + "".join(f"{1767571200 + i},0,{i % 2}\n" for i in range(9)))
    with pytest.raises(RecordingError, match=r"--fields 'time,gpu,util_pct'"):
        replay(path)
    found = replay(path, fields="time,gpu,util_pct")
    assert set(found.values("index:0", Signal.GPU_BUSY)) == {0.0, 0.01}
