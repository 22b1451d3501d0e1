"""`rightsizer export`: rows of a history that sum to the replayed recording."""

import csv
import io
import json
import resource
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from agent_process import RIGHTSIZER, run_rightsizer
from readings import EPOCH, HOUR, MINUTE, SECOND, gpu, workload
from recordings import BOARD, SIGNALS_OF, write_states
from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.advice.storage import Storage
from rightsizer.cli.main import main
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Resource, State
from rightsizer.model.window import Window, workload_subject
from rightsizer.report.export import COLUMNS

Captured = pytest.CaptureFixture[str]
Row = dict[str, str]
FIVE: Final = 5 * MINUTE
GRAINS: Final = ("5m", "1h")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a history and a file of another kind."""
    monkeypatch.chdir(tmp_path)
    fill(Path("h.db"), [window(0)], DeviceRecord(gpu(0)))
    Path("text.db").write_text("no database" * 100)
    return tmp_path


def window(number: int, uuid: str = "GPU-0", **facts: Any) -> Window:
    """The n-th five minutes, half of them idle."""
    start = EPOCH + number * FIVE
    used = Histogram()
    used.add(0.5, FIVE // 2)
    usual: dict[str, Any] = {
        "states": {State.PRODUCTIVE: FIVE // 2, State.IDLE_HELD: FIVE // 2},
        "demands": {Resource.COMPUTE: used},
    }
    return Window(uuid, start, start + FIVE, **usual | facts)


def fill(path: Path, windows: Iterable[Window], *devices: DeviceRecord) -> None:
    """Write a history as an agent does."""
    storage = Storage(str(path), is_durable=False)
    storage.save_windows(windows, (), devices or (DeviceRecord(gpu(0)), DeviceRecord(gpu(1))))
    storage.close()


def exported(capsys: Captured, *arguments: str | Path) -> list[Row]:
    """The rows printed as CSV."""
    assert main(["export", *map(str, arguments)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return list(csv.DictReader(io.StringIO(out)))


def refused(capsys: Captured, *arguments: str | Path) -> tuple[int, str]:
    """The exit status and error of a command without output."""
    status = main(["export", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert out == ""
    return status, err


def sums(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Sums of all additive columns by device."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        for name, value in row.items():
            if name.endswith(("_seconds", "_joules")) and name not in (
                "start_seconds",
                "end_seconds",
            ):
                found[row["uuid"]][name] += float(value or 0.0)
    return found


def of_replay(device: Mapping[str, Any]) -> dict[str, float]:
    """The same sums of a device from `replay --json`."""
    return {
        "accounted_seconds": device["seconds"],
        "used_seconds": device["used_seconds"],
        "used_joules": device["used_joules"],
        "energy_joules": device["energy_joules"],
        **{f"{state}_seconds": time for state, time in device["states"].items()},
        **{
            f"second_cause_{state}_seconds": time for state, time in device["second_causes"].items()
        },
        **{f"{name}_seconds": time for name, time in device["conditions"].items()},
        **{f"waste_{cause}_seconds": time for cause, time in device["waste"].items()},
        **{f"waste_{cause}_joules": joules for cause, joules in device["waste_joules"].items()},
    }


@pytest.mark.parametrize("grain", GRAINS)
def test_the_rows_add_up_to_the_replay(tmp_path: Path, grain: str, capsys: Captured) -> None:
    """A recording of two devices in every state, with gaps: exact to the second and joule."""
    chapters = [(state, 37 * (at + 3)) for at, state in enumerate(SIGNALS_OF)]
    gap = (State.UNKNOWN, 700)
    one = write_states(tmp_path / "one.csv", *chapters, gap, *chapters, device="GPU-0")
    two = write_states(tmp_path / "two.csv", *reversed(chapters), *chapters, device="GPU-1")
    path = tmp_path / "history.db"
    files = [str(one), str(two), "--board", BOARD, "--into", str(path), "--json"]
    assert main(["replay", *files]) == 0
    reported = json.loads(capsys.readouterr().out)["devices"]
    found = sums(exported(capsys, "--history.path", path, "--grain", grain))

    assert [device["uuid"] for device in reported] == ["GPU-0", "GPU-1"] == sorted(found)
    for device in reported:
        expected = of_replay(device)
        assert len(expected) > 20
        mine = found[device["uuid"]]
        assert {name: mine[name] for name in expected} == pytest.approx(expected, rel=1e-9)
        others = {name: mine[name] for name in mine if name not in expected}
        assert not any(
            value
            for name, value in others.items()
            if not name.endswith(
                ("_tier_seconds", "_saturated_seconds", "_pressed_seconds", "_observed_seconds")
            )
            # The replay reports these as shares.
            and not name.startswith(("unknown_", "cycle"))
        )
        assert sum(mine[f"{state}_seconds"] for state in State) == pytest.approx(device["seconds"])


def test_quantiles_are_those_of_the_row(tmp_path: Path, capsys: Captured) -> None:
    """Of each resource's share, over the active seconds."""
    used = Histogram()
    for percent in range(1, 101):
        used.add(percent / 100, SECOND)
    fill(tmp_path / "h.db", [window(0, demands={Resource.MEMORY_BANDWIDTH: used})])
    (row,) = exported(capsys, "--history.path", tmp_path / "h.db")
    names = ("p50", "p95", "p99", "max")

    assert [row[f"memory_bandwidth_{name}_ratio"] for name in names] == [
        "0.5",
        "0.95",
        "0.99",
        "1.0",
    ]
    assert [row[f"pcie_{name}_ratio"] for name in names] == ["", "", "", ""]


def test_a_row_tells_what_when_and_whose(tmp_path: Path, capsys: Captured) -> None:
    """Identity, both forms of time, and the holders."""
    held = workload("train")
    moved = window(0, uuid="GPU-1")
    fill(
        tmp_path / "h.db",
        [replace(moved, end=moved.end - 1_500_000), window(0, uuid="GPU-9")],
        DeviceRecord(gpu(1), held, EPOCH),
    )
    row, forgotten = exported(capsys, "--history.path", tmp_path / "h.db")

    assert row["start"] == "2026-01-01T00:00:00Z"
    assert row["end"] == "2026-01-01T00:04:59.9985Z"
    assert (float(row["start_seconds"]), float(row["end_seconds"])) == (
        EPOCH / 1e9,
        pytest.approx(EPOCH / 1e9 + 299.9985),
    )
    assert (row["uuid"], row["gpu"], row["holders"]) == ("GPU-1", "1", held.key)
    assert row["model"] == gpu().name
    assert (forgotten["uuid"], forgotten["gpu"], forgotten["model"]) == ("GPU-9", "", "")


@pytest.mark.parametrize("grain", GRAINS)
def test_an_hour_lived_twice_comes_twice(tmp_path: Path, grain: str, capsys: Captured) -> None:
    """No row holds more time than its span, and none is lost."""
    lived = [window(number) for number in range(12)]
    path = tmp_path / "h.db"
    fill(path, [*lived, *lived])
    rows = exported(capsys, "--history.path", path, "--grain", grain)

    assert len(rows) == (24 if grain == "5m" else 2)
    assert sum(float(row["accounted_seconds"]) for row in rows) == 2 * 3600
    assert all(
        float(row["accounted_seconds"]) == float(row["end_seconds"]) - float(row["start_seconds"])
        for row in rows
    )


def test_pieces_of_five_minutes_are_one_row(tmp_path: Path, capsys: Captured) -> None:
    """A restart divides a window on disk, not in the table; devices are not mixed up."""
    first = window(0, states={State.PRODUCTIVE: 2 * MINUTE})
    first = replace(first, end=first.start + 2 * MINUTE)
    rest = window(0, states={State.IDLE_HELD: 3 * MINUTE - SECOND})
    rest = replace(rest, start=first.end + SECOND)
    fill(tmp_path / "h.db", [first, rest, window(0, uuid="GPU-1")])
    one, other = exported(capsys, "--history.path", tmp_path / "h.db")

    assert (one["productive_seconds"], one["idle_held_seconds"]) == ("120.0", "179.0")
    assert (one["start"], one["end"]) == (other["start"], other["end"])


def test_hourly_window_is_not_split_by_the_grain(tmp_path: Path, capsys: Captured) -> None:
    """It cannot be shown finer than it was stored."""
    storage = Storage(str(tmp_path / "h.db"), is_durable=False)
    storage.save_windows((window(number) for number in range(24)), (), [DeviceRecord(gpu(0))])
    assert storage.history is not None
    storage.history.roll_up(EPOCH + HOUR)
    storage.close()
    rows = exported(capsys, "--history.path", tmp_path / "h.db", "--grain", "5m")

    assert [float(row["accounted_seconds"]) for row in rows] == [3600.0] + [300.0] * 12


def test_spans_that_adjoin_hold_every_window_once(tmp_path: Path, capsys: Captured) -> None:
    """In any notation of the border; `--to` itself is exclusive."""
    path = tmp_path / "h.db"
    fill(path, (window(number) for number in range(24)))
    border = "2026-01-01T01:00:00Z"
    parts = [
        exported(capsys, "--history.path", path, *limits)
        for limits in (
            ("--to", border),
            ("--from", "2026-01-01T02:00+01:00", "--to", "2026-01-01 01:10"),
            ("--from", f"{EPOCH // SECOND + 4200}"),
        )
    ]

    everything = exported(capsys, "--history.path", path)
    assert [len(part) for part in parts] == [12, 2, 10]
    assert [row for part in parts for row in part] == everything
    ages = ("--from", "1500-01-01", "--to", "9999-12-31")
    assert exported(capsys, "--history.path", path, *ages) == everything


def test_devices_are_chosen_by_index_or_uuid(tmp_path: Path, capsys: Captured) -> None:
    """A workload's own windows would count the device's time twice."""
    path = tmp_path / "h.db"
    windows = [window(0), window(0, uuid="GPU-1"), window(0, uuid=workload_subject("slurm/a"))]
    fill(path, windows)
    chosen = [
        [row["uuid"] for row in exported(capsys, "--history.path", path, *flags)]
        for flags in ((), ("--devices", "1"), ("--devices", "GPU-0"), ("--devices", "GPU-1,0"))
    ]

    assert chosen == [["GPU-0", "GPU-1"], ["GPU-1"], ["GPU-0"], ["GPU-0", "GPU-1"]]


def test_json_tells_the_same(tmp_path: Path, capsys: Captured) -> None:
    """As numbers, lists and nulls."""
    path = tmp_path / "h.db"
    fill(path, [window(0)], DeviceRecord(gpu(0), workload("a"), EPOCH))
    (row,) = exported(capsys, "--history.path", path)
    assert main(["export", "--history.path", str(path), "--format", "json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert main(["export", "--history.path", str(path), "--format", "json", "--to", "1"]) == 0
    nothing = json.loads(capsys.readouterr().out)

    assert list(document) == list(row) == [column.name for column in COLUMNS]
    assert (document["holders"], document["productive_seconds"]) == (["slurm/a"], 150.0)
    assert (document["energy_joules"], document["pcie_p50_ratio"]) == (None, None)
    assert nothing == []


def test_parquet_tells_the_same(tmp_path: Path, capsys: Captured) -> None:
    """Column by column, with types."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="gpu-rightsizer[parquet] is not there")
    path = tmp_path / "h.db"
    out = tmp_path / "out.parquet"
    fill(path, (window(number) for number in range(3)), DeviceRecord(gpu(0), workload("a"), EPOCH))
    assert main(["export", "--history.path", str(path), "--format", "json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    assert main(["export", "--history.path", str(path), "--format", "parquet", str(out)]) == 0

    assert parquet.read_table(out).to_pylist() == expected


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """No file is left behind."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    fill(tmp_path / "h.db", [window(0)])
    out = tmp_path / "out.parquet"
    status, error = refused(capsys, "--history.path", tmp_path / "h.db", "--format", "parquet", out)

    assert status == 2
    assert "Parquet needs pyarrow, which is not installed; install gpu-rightsizer[parquet]" in error
    assert not list(tmp_path.glob("*out*"))


def test_a_file_is_written_beside_a_running_agent(tmp_path: Path, capsys: Captured) -> None:
    """Flushed windows are in it; concurrent flushes do no harm."""
    path = tmp_path / "h.db"
    out = tmp_path / "out.csv"
    out.write_text("an older table")
    agent = Storage(str(path), is_durable=False)
    agent.save_windows([window(0)], [window(1)], [DeviceRecord(gpu(0))])
    assert main(["export", "--history.path", str(path), str(out)]) == 0
    agent.save_windows([window(1)], [window(2)], [])
    agent.close()
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))

    assert capsys.readouterr() == ("", "")
    assert [row["start"] for row in rows] == ["2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"]
    assert {file.name for file in tmp_path.glob("*out*")} == {"out.csv"}


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--history.path", "no.db"], 1, "history 'no.db' does not exist; run the agent first"),
        (["--history.path", "text.db"], 1, "cannot be read: file is not a database"),
        (["--devices", "7"], 2, "--devices: the history has no device '7'; it has 0 (GPU-0)"),
        (["--from", "5", "--to", "5"], 2, "--to: is not after --from"),
        (["--format", "parquet"], 2, "--format parquet: name a file to write to"),
        (["no/out.csv"], 1, "export 'no/out.csv' cannot be written: No such file or directory;"),
        (["."], 1, "export '.' cannot be written: Is a directory; name a file"),
        (["./h.db"], 2, "OUT h.db: is the history itself; name another file"),
    ],
)
def test_a_fault_names_the_thing_and_the_remedy(
    folder: Path, arguments: list[str], status: int, message: str, capsys: Captured
) -> None:
    """No file is left behind."""
    names = {file.name for file in folder.iterdir()}
    returned, error = refused(capsys, "--history.path", "h.db", *arguments)

    assert returned == status
    assert error.startswith(f"rightsizer: {message}") or message in error
    left = {file.name for file in folder.iterdir()} - names
    assert {name for name in left if not name.endswith(("-wal", "-shm"))} == set()


@pytest.mark.parametrize("text", ["soon", "2026-13-01", "nan:", "nan", "Infinity", "1e9999999", ""])
def test_a_time_that_is_none_is_refused(text: str, capsys: Captured) -> None:
    """With the valid notation."""
    with pytest.raises(SystemExit) as exit_:
        main(["export", "--from", text])

    assert exit_.value.code == 2
    assert "is not a time; write it like 2026-01-31T12:00:00Z" in capsys.readouterr().err


def test_a_full_disk_leaves_no_half_of_a_table(tmp_path: Path, capsys: Captured) -> None:
    """The previous file stays."""
    path = tmp_path / "h.db"
    out = tmp_path / "out.csv"
    fill(path, (window(number) for number in range(300)))
    out.write_text("an older table")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, hard))
    try:
        status, error = refused(capsys, "--history.path", path, out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert status == 1
    assert f"export '{out}' cannot be written: File too large; name a file in a folder" in error
    assert out.read_text() == "an older table"
    assert {file.name for file in tmp_path.glob("*out*")} == {"out.csv"}


def test_standard_output_that_is_full_or_closed_is_no_traceback(tmp_path: Path) -> None:
    """A full device is an error; a closed pipe is silent."""
    path = tmp_path / "h.db"
    fill(path, (window(number) for number in range(300)))
    command = ("export", "--history.path", str(path))
    with Path("/dev/full").open("wb") as full:
        done = run_rightsizer(*command, output=full)
    with subprocess.Popen(
        [*RIGHTSIZER, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as pipe:
        assert pipe.stdout is not None
        assert pipe.stderr is not None
        assert pipe.stdout.readline().startswith(b"start,end,")
        pipe.stdout.close()
        seen = pipe.stderr.read()

    assert done.returncode == 1
    assert done.stderr == (
        "rightsizer: standard output cannot be written: No space left on device; make room where "
        "it goes, or name a file\n"
    )
    assert (pipe.returncode, seen) == (0, b"")


def test_a_terminal_has_the_main_columns(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Who looks at it has the first rows within its width; who wants CSV gets it."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["export", "--history.path", str(folder / "h.db")]) == 0
    shown = capsys.readouterr().out
    assert "used_seconds" in shown
    assert f"{len(COLUMNS)} columns in all" in shown
    assert max(map(len, shown.splitlines())) <= 100
