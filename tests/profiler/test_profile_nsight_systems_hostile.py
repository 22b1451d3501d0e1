"""Nsight Systems exports that are broken, truncated or hostile."""

import contextlib
import gzip
import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profile_nsight import NsightExport, page_bomb
from rightsizer.model.errors import ProfileError
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.nsight_systems.database import open_export
from rightsizer.profiles.nsight_systems.reader import read

LIMITS = ReadLimits()
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
ENDLESS = "WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more) SELECT n"


def whole_export() -> NsightExport:
    """An export with some rows of each kind."""
    export = NsightExport()
    for number in range(40):
        export.kernel(number * 100, number * 100 + 50, f"kernel {number % 7}", correlation=number)
        export.call(number * 100 - 9, number * 100, "cudaLaunchKernel_v7000", number)
        export.range(number * 100, number * 100 + 90, f"step {number}")
    export.copy(0, 9, 1, 0, 2)
    export.graph(5000, 6000)
    return export


@pytest.mark.parametrize("data", [b"", b"SQLite format 3\0", b"words\n" * 50, bytes(4096)])
def test_file_that_is_no_database_is_refused(data: bytes, tmp_path: Path) -> None:
    """The message has the file's name and the command for a valid one."""
    path = tmp_path / "run.sqlite"
    path.write_bytes(data)

    with pytest.raises(ProfileError, match="nsys export --type sqlite"):
        read(path, LIMITS)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """The message has the reason."""
    with pytest.raises(ProfileError, match=r"^No such file"):
        read(tmp_path / "gone.sqlite", LIMITS)


def test_a_database_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """It has none of the tables that every export has."""
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (name, start)")
    connection.close()

    with pytest.raises(ProfileError, match="none that Nsight Systems wrote"):
        read(path, LIMITS)


def test_a_packed_database_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """Database pages cannot be accessed in a stream."""
    path = tmp_path / "run.sqlite.gz"
    path.write_bytes(gzip.compress(whole_export().write(tmp_path / "run.sqlite").read_bytes()))

    with pytest.raises(ProfileError, match="unpack it first"):
        read(path, LIMITS)


@settings(suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_damaged_export_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    """It is truncated anywhere, or any page is overwritten."""
    good = tmp_path / "good.sqlite"
    if not good.is_file():
        whole_export().write(good)
    content = bytearray(good.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        harm = data.draw(st.binary(min_size=1, max_size=40))
        content[place : place + len(harm)] = harm
    path = tmp_path / "bad.sqlite"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])

    with contextlib.suppress(ProfileError):
        for device in read(path, LIMITS).devices:
            assert device.time is None or device.time.span_seconds >= 0


def test_a_view_in_place_of_a_table_is_not_run(tmp_path: Path) -> None:
    """Views are programs of the file's author; this one never ends."""
    export = NsightExport()
    path = export.write(
        tmp_path / "run.sqlite",
        [f'CREATE VIEW {KERNELS} AS {ENDLESS} AS "start", n AS "end", 0 AS deviceId FROM more'],
    )
    profile = read(path, LIMITS)

    assert profile.devices == ()


def test_triggers_and_computed_columns_are_not_run(tmp_path: Path) -> None:
    """A column computed on reading could use any amount of memory."""
    export = NsightExport()
    export.kernel(0, 100)
    path = export.write(
        tmp_path / "run.sqlite",
        [
            "CREATE TABLE NVTX_EVENTS (eventType, start AS (hex(zeroblob(9))), text AS (1))",
            "INSERT INTO NVTX_EVENTS (eventType) VALUES (59)",
            f"CREATE TRIGGER harm AFTER INSERT ON {KERNELS} BEGIN DELETE FROM StringIds; END",
        ],
    )
    profile = read(path, LIMITS)

    assert profile.host_spans == ()
    assert profile.unread == {"NVTX_EVENTS without start": 1}


def test_virtual_tables_are_not_opened(tmp_path: Path) -> None:
    """They are code, whatever their name."""
    export = NsightExport()
    path = export.write(
        tmp_path / "run.sqlite", [f'CREATE VIRTUAL TABLE {KERNELS} USING fts4("start", "end")']
    )
    with open_export(path, LIMITS) as database:
        assert KERNELS not in database.tables
    assert read(path, LIMITS).devices == ()


def test_secret_tables_cannot_be_read_at_all(tmp_path: Path) -> None:
    """This covers access by name and by future SQL."""
    export = NsightExport()
    export.row("TARGET_INFO_SYSTEM_ENV", name="DeviceEnvironment", value="TOKEN=x", start=0)
    path = export.write(tmp_path / "run.sqlite")
    with open_export(path, LIMITS) as database:
        assert "TARGET_INFO_SYSTEM_ENV" not in database.tables
        assert list(database.rows("TARGET_INFO_SYSTEM_ENV", ("start",), ("value",))) == []
    with (
        pytest.raises(ProfileError, match=r"prohibited|not authorized"),
        open_export(path, LIMITS) as database,
    ):
        database.count("TARGET_INFO_SYSTEM_ENV")


@pytest.mark.parametrize("table", ["OSRT_API", KERNELS])
def test_pages_that_unfold_without_end_are_refused(table: str, tmp_path: Path) -> None:
    """Half a megabyte unfolds to a billion rows, whether used or only counted."""
    path = page_bomb(tmp_path / "bomb.sqlite", table)
    assert path.stat().st_size < 2 * 2**20

    with pytest.raises(ProfileError, match=r"interrupted|more than 1000 events"):
        read(path, ReadLimits(events_maximum=1000))


def test_more_events_than_allowed_are_refused(tmp_path: Path) -> None:
    """The message names the limit."""
    path = whole_export().write(tmp_path / "run.sqlite")

    with pytest.raises(ProfileError, match=r"^more than 50 events.*events_maximum"):
        read(path, ReadLimits(events_maximum=50))


def test_a_larger_file_than_allowed_is_refused(tmp_path: Path) -> None:
    """Nothing of it is read."""
    path = whole_export().write(tmp_path / "run.sqlite")

    with pytest.raises(ProfileError, match="more than 4096 bytes"):
        read(path, ReadLimits(unpacked_maximum_bytes=4096))


def test_rows_of_another_form_are_counted(tmp_path: Path) -> None:
    """Covers text for numbers, numbers out of range, and reversed times."""
    export = NsightExport()
    export.kernel(0, 100)
    export.kernel("soon", "later")  # type: ignore[arg-type]
    export.kernel(100, 50)
    export.kernel(2**63 - 2, 2**63 - 1)
    export.kernel(200, 300, correlation=2**62)
    export.kernel(None, 5)  # type: ignore[arg-type]
    profile = read(export.write(tmp_path / "run.sqlite"), LIMITS)

    assert profile.devices[0].kernels[0].count == 2
    assert profile.unread == {
        f"{KERNELS} row of another form": 2,
        "kernel of a negative duration": 1,
        "kernel out of all time": 1,
    }
    assert profile.events == 6


def test_names_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    """Covers invalid UTF-8, names that are too long, and numbers without a text."""
    export = NsightExport()
    for start in (0, 100, 200):
        export.kernel(start, start + 50, f"kernel {start}")
    path = export.write(
        tmp_path / "run.sqlite",
        [
            "UPDATE StringIds SET value = CAST(x'6b65ff72' AS TEXT) WHERE value = 'kernel 0'",
            "UPDATE StringIds SET value = hex(zeroblob(9000)) WHERE value = 'kernel 100'",
            "DELETE FROM StringIds WHERE value = 'kernel 200'",
            f"UPDATE {KERNELS} SET shortName = NULL",
        ],
    )
    profile = read(path, ReadLimits(event_maximum_bytes=4096))

    names = {kernel.name for kernel in profile.devices[0].kernels}
    assert names == {"ke\ufffdr", "(no name)"}


def test_a_range_is_named_by_text_alone(tmp_path: Path) -> None:
    """Neither a number nor bytes are a name."""
    export = NsightExport()
    for start in (0, 100, 200):
        export.range(start, start + 50, f"range {start}")
    path = export.write(
        tmp_path / "run.sqlite",
        [
            "ALTER TABLE NVTX_EVENTS RENAME COLUMN text TO was",
            "ALTER TABLE NVTX_EVENTS ADD COLUMN text",
            "UPDATE NVTX_EVENTS SET text = was",
            "UPDATE NVTX_EVENTS SET text = 12 WHERE start = 0",
            "UPDATE NVTX_EVENTS SET text = x'6162' WHERE start = 100",
        ],
    )
    profile = read(path, LIMITS)

    assert [span.name for span in profile.host_spans] == ["range 200"]
    assert profile.unread == {"NVTX range without a name": 2}


def test_text_of_two_bytes_a_character_is_refused(tmp_path: Path) -> None:
    """Names would be read with zeros in them."""
    path = tmp_path / "run.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA encoding = 'UTF-16le'")
        connection.execute("CREATE TABLE StringIds (id, value)")
    connection.close()

    with pytest.raises(ProfileError, match="UTF-16le, which Nsight Systems does not write"):
        read(path, LIMITS)


def test_nothing_is_written_beside_a_file(tmp_path: Path) -> None:
    """Its journal is not replayed; its name may contain special characters of URIs."""
    folder = tmp_path / "a?b#c%20"
    folder.mkdir()
    path = whole_export().write(folder / "run 1?mode=rw.sqlite", ["PRAGMA journal_mode=WAL"])
    before = path.read_bytes()
    for beside in folder.iterdir():
        if beside != path:
            beside.unlink()
    path.chmod(0o400)
    profile = read(path, LIMITS)

    assert profile.devices
    assert list(folder.iterdir()) == [path]
    assert path.read_bytes() == before


def test_a_schema_whose_names_are_no_text_is_refused(tmp_path: Path) -> None:
    """SQLite's message contains the invalid bytes."""
    path = whole_export().write(tmp_path / "run.sqlite")
    name = b"StringIdsStringIds"
    broken = b"Str\xe9\xe9IdsStr\xe9\xe9Ids"
    path.write_bytes(path.read_bytes().replace(name, broken))

    with pytest.raises(ProfileError, match="its names are no text"):
        read(path, LIMITS)
