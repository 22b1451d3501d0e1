"""Lines of CSV that are quoted, torn or too long, beside others that are not."""

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.errors import RecordingError
from rightsizer.model.signal import Signal
from rightsizer.recordings.source import open_recording

Replays = Callable[..., Any]
Writes = Callable[..., Path]

_HEADINGS = (
    "timestamp,utilization.gpu [%],memory.used [MiB],index,job",
    "timestamp,util_pct,memory_used_mib,gpu,job",
    "timestamp,memory_used_mib,util_pct,gpu,job",
)
_rows = st.tuples(st.integers(0, 100), st.integers(1, 80_000), st.sampled_from(["a", "train, b"]))
_quotes = st.lists(st.booleans(), min_size=5, max_size=5)


def _line(heading: str, at: int, row: tuple[int, int, str], fraction: str = "") -> str:
    busy, used, job = row
    cells = (used, busy) if heading.startswith("timestamp,memory") else (busy, used)
    name = f'"{job}"' if "," in job else job
    return f"2026-01-01 00:00:{at:02d}{fraction},{cells[0]},{cells[1]},0,{name}\n"


def _quoted(line: str, which: list[bool]) -> str:
    """Quote some of the first cells, as writers of CSV are free to."""
    *cells, job = line.rstrip("\n").split(",", 4)
    chosen = (f'"{cell}"' if yes else cell for cell, yes in zip(cells, which, strict=False))
    return ",".join((*chosen, job)) + "\n"


def _said(text: str) -> Mapping[int, Mapping[Signal, float]]:
    """Values of the GPU by whole second."""
    said: dict[int, Mapping[Signal, float]] = {}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        path.write_text(text)
        source = open_recording([path], catalogue=built_in())
        while (snapshot := source.read()) is not None:
            for reading in snapshot.readings.values():
                said[snapshot.wall_time // 1_000_000_000 % 60] = reading.values
        source.close()
    return said


@given(
    st.sampled_from(_HEADINGS),
    st.lists(_rows, min_size=2, max_size=6),
    st.lists(_quotes, min_size=6, max_size=6),
)
@example(_HEADINGS[1], [(100, 20_000, "train, b")] * 3, [[False] * 5] * 6)
def test_quotes_never_change_what_rows_say(
    heading: str, rows: list[tuple[int, int, str]], quotes: list[list[bool]]
) -> None:
    """A comma between quotes separates no cells, and makes no fraction of a second."""
    lines = [_line(heading, at, row) for at, row in enumerate(rows)]
    quoted = map(_quoted, lines, quotes)
    assert _said(f"{heading}\n{''.join(quoted)}") == {
        at: {Signal.GPU_BUSY: busy / 100, Signal.MEMORY_USED_BYTES: used * 2.0**20}
        for at, (busy, used, _) in enumerate(rows)
    }


@given(
    st.sampled_from(_HEADINGS),
    st.lists(_rows, min_size=3, max_size=6),
    st.sampled_from(["", ",120", ",120340", ",123456789"]),
    st.integers(0, 5),
    st.sampled_from([",oops", ",", ",,", ",7"]) | st.integers(-40, -1),
)
@example(_HEADINGS[2], [(10, 20_480, "a")] * 3, "", 2, ",oops")
@example(_HEADINGS[1], [(100, 512, "a")] * 3, "", 0, ",")
def test_odd_line_never_changes_what_the_others_say(
    heading: str,
    rows: list[tuple[int, int, str]],
    fraction: str,
    place: int,
    damage: str | int,
) -> None:
    """It has cells too many or is torn, in a log with or without commas before fractions."""
    lines = [_line(heading, at, row, fraction) for at, row in enumerate(rows)]
    place %= len(rows)
    whole = lines[place].rstrip("\n")
    lines[place] = (whole[:damage] if isinstance(damage, int) else whole + damage) + "\n"
    said = _said(f"{heading}\n{''.join(lines)}")
    expected = {
        at: {Signal.GPU_BUSY: busy / 100, Signal.MEMORY_USED_BYTES: used * 2.0**20}
        for at, (busy, used, _) in enumerate(rows)
        if at != place
    }
    assert {at: values for at, values in said.items() if at != place} == expected


def test_comma_at_the_end_of_each_row_shifts_no_column(replay: Replays, write: Writes) -> None:
    """Which cell is the one too many is unknown; the error says what makes it known."""
    rows = "".join(f"2026-01-01 00:00:0{at},100,50,\n" for at in range(5))
    with pytest.raises(RecordingError, match="end the heading with one too"):
        replay(write(f"timestamp,util_pct,temp_c\n{rows}"))
    found = replay(write(f"timestamp,util_pct,temp_c,\n{rows}"))
    assert found.values("index:0", Signal.GPU_BUSY) == [1.0] * 5


def test_warnings_are_in_order_of_line(replay: Replays, write: Writes) -> None:
    """Whether a line, a cell or a device is at fault, and in whichever pass that is seen."""
    rows = [f"2026/01/01 00:00:{at:02d}.000, 0, {at} %, 100 MiB" for at in range(20)]
    rows[3] = "2026/01/01 00:00:03.000, 0, odd %, 100 MiB"
    rows[5] = "2026/01/01 00:00:05.000, 0, [Unknown Error], 100 MiB"
    rows[7] = "2026/01/01 00:00:07.000, 0"
    rows[9] = "2026/01/01 00:00:09.000, 0, 3 %, 99999999999 MiB"
    heading = "timestamp, index, utilization.gpu [%], memory.used [MiB]"
    played = replay(write("\n".join((heading, *rows)) + "\n"))
    lines = [int(text.split("log.csv:")[1].split(":")[0]) for text in played.source.warnings]
    assert lines == [5, 7, 9, 11]
    reasons = [item.reason for item in played.source.evidence if item.reason]
    assert [reason.split(":")[0] for reason in reasons] == ["line 5", "line 9", "line 11"]
