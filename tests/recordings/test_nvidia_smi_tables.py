"""Logs of nvidia-smi as spreadsheets, other languages, scripts and public data sets keep them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal

Replays = Callable[..., Any]
Writes = Callable[..., Path]

HEADING = ("timestamp", "index", "utilization.gpu [%]", "power.draw [W]")


@pytest.mark.parametrize("delimiter", [", ", "; ", "\t"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_other_delimiters_and_quotes(
    replay: Replays, write: Writes, delimiter: str, quote: str
) -> None:
    """What a spreadsheet saves is the same log; the heading tells what stands between cells."""
    rows = (HEADING, *(("2024/05/01 12:00:0" + str(at), "0", "90 %", "250.5 W") for at in range(3)))
    lines = (delimiter.join(f"{quote}{cell}{quote}" for cell in row) for row in rows)
    played = replay(write("\n".join(lines)))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.9, 0.9, 0.9]
    assert played.values("index:0", Signal.POWER_WATTS) == [250.5, 250.5, 250.5]
    assert played.source.warnings == ()


@pytest.mark.parametrize(
    ("cell", "expected"), [("250,5 W", 250.5), ("250,50", 250.5), ("1,250 W", Missing.INVALID)]
)
def test_decimal_commas(
    replay: Replays, write: Writes, cell: str, expected: float | Missing
) -> None:
    """A comma before three digits may be of thousands, so that such a cell is not believed."""
    text = f"{';'.join(HEADING)}\n2024/05/01 12:00:00;0;90 %;{cell}\n"
    reading = replay(write(text)).readings("index:0")[0]
    found = reading.get(Signal.POWER_WATTS)
    assert (reading.missing[Signal.POWER_WATTS] if found is None else found) == expected


def test_headings_with_their_units_behind_underscores(replay: Replays, write: Writes) -> None:
    """As in MIT Supercloud's files; memory in all is what is free and what is used."""
    played = replay(
        write(
            "timestamp,gpu_index,utilization_gpu_pct,utilization_memory_pct,memory_free_MiB,"
            "memory_used_MiB,temperature_gpu,temperature_memory,power_draw_W,"
            "pcie_link_width_current\n"
            "1614031442.94,1,90,10,30000,2510,45,40,150.5,16\n"
            "1614031443.04,1,91,10,20000,12510,45,N/A,150.5,16\n"
        )
    )
    assert played.source.interval == 100_000_000
    assert played.source.devices[0].memory_total_bytes == 32510 * 2.0**20
    assert played.readings("index:1")[1].values == {
        Signal.GPU_BUSY: 0.91,
        Signal.MEMORY_CONTROLLER_BUSY: 0.1,
        Signal.MEMORY_USED_BYTES: 12510 * 2.0**20,
        Signal.TEMPERATURE_CELSIUS: 45.0,
        Signal.POWER_WATTS: 150.5,
        Signal.PCIE_LINK_WIDTH: 16.0,
    }


@pytest.mark.parametrize("index", ["inf", "nan", "1e400"])
def test_an_index_that_is_no_number(replay: Replays, write: Writes, index: str) -> None:
    """The device keeps its readings under the next number that is free."""
    text = f"{','.join(HEADING)}\n2024/05/01 12:00:00,{index},90 %,250 W\n"
    assert replay(write(text)).source.devices[0].index == 0


@pytest.mark.parametrize(("last", "watts"), [("250 W", 250.0), ("25", None), ("2", None)])
def test_a_line_torn_in_its_last_cell(
    replay: Replays, write: Writes, last: str, watts: float | None
) -> None:
    """25 of 250 W would be believed; the other cells are whole."""
    text = (
        f"{', '.join(HEADING)}\n2024/05/01 12:00:00, 0, 90 %, 250 W\n2024/05/01 12:00:01, 0, 90 %, "
    )
    played = replay(write(text + last))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.9, 0.9]
    assert played.values("index:0", Signal.POWER_WATTS) == [250.0, watts]
    assert ("log.csv:3: torn last line" in played.warnings) == (watts is None)


def test_zeros_behind_a_power_cut(replay: Replays, write: Writes) -> None:
    """A block of zeros in the middle of a log is a line that is counted, and no binary file."""
    rows = [f"2024/05/01 12:00:{at:02d}, 0, 90 %, 250 W\n" for at in range(20)]
    played = replay(
        write(", ".join(HEADING) + "\n" + "".join([*rows[:9], "\0" * 64, "\n", *rows[9:]]))
    )
    assert len(played.snapshots) == 20
    assert "line of another length" in played.warnings


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_two_bytes_a_letter(replay: Replays, tmp_path: Path, encoding: str) -> None:
    """PowerShell writes them, with a mark at the start or, when it appends, without."""
    path = tmp_path / "log.csv"
    text = ", ".join(HEADING) + "\r\n2024/05/01 12:00:00, 0, 90 %, 250 W\r\n"
    path.write_bytes(text.encode(encoding))
    assert replay(path).values("index:0", Signal.GPU_BUSY) == [0.9]


@pytest.mark.parametrize(
    ("heading", "cell", "expected"),
    [
        ("utilization.gpu [ratio]", "0.55", (Signal.GPU_BUSY, 0.55)),
        ("utilization.gpu [percent]", "55", (Signal.GPU_BUSY, 0.55)),
        ("memory.used [GiB]", "12.5", (Signal.MEMORY_USED_BYTES, 12.5 * 2.0**30)),
        ("memory.used [KiB]", "2048", (Signal.MEMORY_USED_BYTES, 2.0**21)),
        ("memory.used [bytes]", "2097152", (Signal.MEMORY_USED_BYTES, 2.0**21)),
        ("memory.used [MB]", "12100", (Signal.MEMORY_USED_BYTES, 12100 * 2.0**20)),
        ("power.draw [mW]", "250250", (Signal.POWER_WATTS, 250.25)),
        ("power.draw [kW]", "0.25", (Signal.POWER_WATTS, 250.0)),
        ("power.draw [mW]", "250.25 W", (Signal.POWER_WATTS, 250.25)),
        ("clocks.sm [GHz]", "1.5", (Signal.SM_CLOCK_HERTZ, 1.5e9)),
        ("temperature.gpu [°C]", "60", (Signal.TEMPERATURE_CELSIUS, 60.0)),
    ],
)
def test_the_unit_of_a_heading(
    replay: Replays, write: Writes, heading: str, cell: str, expected: tuple[Signal, float]
) -> None:
    """A script that converts what nvidia-smi writes says so in the heading."""
    rows = "".join(f"2024/05/01 12:00:0{at},0,16,{cell}\n" for at in range(3))
    text = f"timestamp,index,pcie.link.width.current,{heading}\n{rows}"
    signal, value = expected
    assert replay(write(text)).values("index:0", signal) == pytest.approx([value] * 3)


def test_a_unit_that_no_board_has_as_many_of(replay: Replays, write: Writes) -> None:
    """Scripts head mebibytes by GB."""
    rows = "".join(f"2024/05/01 12:00:0{at},0,1210{at}\n" for at in range(3))
    played = replay(write(f"timestamp,index,memory.used [GB]\n{rows}"))
    sizes = [(12100 + at) * 2.0**20 for at in range(3)]
    assert played.values("index:0", Signal.MEMORY_USED_BYTES) == sizes


@pytest.mark.parametrize("heading", ["power.draw [hp]", "power.draw [%]"])
def test_a_unit_that_a_signal_does_not_have(replay: Replays, write: Writes, heading: str) -> None:
    """The column is left out, and the warning names it."""
    played = replay(
        write(f"timestamp,index,utilization.gpu,{heading}\n2024/05/01 12:00:00,0,90,40\n")
    )
    assert played.values("index:0", Signal.POWER_WATTS) == [None]
    assert f"'{heading}' has no unit of power_watts and is left out" in played.warnings


@pytest.mark.parametrize(
    ("heading", "cell"),
    [
        ("power.default_limit [W]", "300,50 W"),
        ("power.default_limit [W]", "300.50W"),
        ("power.default_limit [mW]", "300500"),
        ("power.default_limit", "300500 mW"),
    ],
)
def test_a_fact_is_read_like_a_reading(
    replay: Replays, write: Writes, heading: str, cell: str
) -> None:
    """With decimal commas, and in the unit of its cell or heading."""
    text = f"timestamp;index;utilization.gpu;{heading}\n2024/05/01 12:00:00;0;90;{cell}\n"
    assert replay(write(text)).source.devices[0].power_limit_watts == 300.5


@pytest.mark.parametrize(
    ("unit", "free", "used"),
    [("", "30 GiB", "2 GiB"), (" [GiB]", "30", "2"), (" [MiB]", "30720", "2048")],
)
def test_memory_in_all_in_the_unit_of_its_parts(
    replay: Replays, write: Writes, unit: str, free: str, used: str
) -> None:
    """What is free and what is used may be written in gibibytes."""
    text = (
        f"timestamp,index,utilization.gpu,memory.free{unit},memory.used{unit}\n"
        f"2024/05/01 12:00:00,0,90,{free},{used}\n"
    )
    assert replay(write(text)).source.devices[0].memory_total_bytes == 32 * 2.0**30


@pytest.mark.parametrize(
    ("cell", "other", "mebibytes"),
    [
        ("12.345 MiB", "power.draw [W];250,25 W", 12345.0),
        ("12,345 MiB", "power.draw [W];250.25 W", 12345.0),
        ("12.345 MiB", "power.draw [W];250.25 W", 12.345),
        ("12.345 MiB", "memory.total [MiB];81.920 MiB", 12345.0),
        ("12,345 MiB", "memory.total [MiB];81,920 MiB", 12345.0),
        ("12,345 MiB", "power.draw [W];250 W", None),
        ("12 345 MiB", "power.draw [W];250 W", 12345.0),
    ],
)
def test_a_mark_before_three_digits_is_what_it_is_in_the_file(
    replay: Replays, write: Writes, cell: str, other: str, mebibytes: float | None
) -> None:
    """A decimal mark elsewhere tells, or a total that no board has; else the warning does."""
    heading, beside = other.split(";")
    text = (
        f"timestamp;index;memory.used [MiB];{heading}\n2024/05/01 12:00:00;0;1 MiB;{beside}\n"
        f"2024/05/01 12:00:01;0;{cell};{beside}\n"
    )
    played = replay(write(text))
    expected = None if mebibytes is None else mebibytes * 2.0**20
    assert played.values("index:0", Signal.MEMORY_USED_BYTES) == [2.0**20, expected]
    assert ("write numbers without marks between thousands" in played.warnings) == (
        mebibytes is None
    )


@pytest.mark.parametrize(
    ("cells", "mebibytes"),
    [
        (["900 MiB", "12 345 MiB", "1 MiB"], [900, 12345, 1]),
        (["900 MiB", "12 345 MiB", "1200 MiB"], [900, None, 1200]),
        (["900 MiB", "12 345 MiB", "50 60 MiB"], [900, None, None]),
        (["900 MiB", "1 012 345 678 B", "N/A"], [900, 1012345678 / 2**20, None]),
        (["900", "50 100", "80"], [900, None, 80]),
        (["50 100", "50 100", "50 100"], [None, None, None]),
        (["900 MiB", "50 1000 MiB", "80 MiB"], [900, None, 80]),
    ],
)
@pytest.mark.parametrize("heading", ["memory.used [MiB]", "gpu_mem_used_mib"])
def test_blank_between_thousands_is_what_its_column_allows(
    replay: Replays,
    write: Writes,
    heading: str,
    cells: list[str],
    mebibytes: list[float | None],
) -> None:
    """Two numbers in a cell are none."""
    rows = "".join(f"2024/05/01 12:00:0{at},0,50,{cell}\n" for at, cell in enumerate(cells))
    played = replay(write(f"timestamp,index,utilization.gpu [%],{heading}\n{rows}"))
    expected = [None if size is None else size * 2.0**20 for size in mebibytes]
    assert played.values("index:0", Signal.MEMORY_USED_BYTES) == expected


def test_size_that_no_total_allows_is_in_mebibytes(replay: Replays, write: Writes) -> None:
    """Scripts head nvidia-smi's mebibytes by GB, also where no board is as small as told."""
    row = "2024/05/01 12:00:0{at}, 0, 50 %, {used}, 14{at}00\n"
    text = "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.free [GB]\n"
    text += "".join(row.format(at=at, used=f"1{at}00 MiB") for at in range(5))
    (device,) = replay(write(text)).source.devices
    assert device.memory_total_bytes == 15000 * 2.0**20
    text = "timestamp, index, utilization.gpu [%], memory.total [MiB], memory.used [GB]\n"
    text += "".join(row.format(at=at, used="15000 MiB") for at in range(5))
    played = replay(write(text.replace(" 14", " 3").replace("00\n", "0\n")))
    assert played.values("index:0", Signal.MEMORY_USED_BYTES)[0] == 300 * 2.0**20


@pytest.mark.parametrize(
    ("headings", "used", "glitches"),
    [
        ("util_pct,memory_used_mib,memory_total_mib", 40000, ["17592186044415"]),
        ("util_pct,memory_used_mib,memory_total_mib", 40000, ["17592186044415", "1400000"]),
        ("util_pct,memory_used_gb,memory_total_mib", 40, ["1400000"]),
        (
            "utilization.gpu [%],memory.used [GiB],memory.total [MiB]",
            40,
            ["1400000", "17592186044415"],
        ),
    ],
)
def test_single_cells_do_not_tell_the_unit_of_a_column(
    replay: Replays, write: Writes, headings: str, used: int, glitches: list[str]
) -> None:
    """A driver's garbage in a cell says nothing of the others."""
    cells = [*glitches, *[str(used)] * 58]
    form = "2024/05/01 12:00:{:02},0,50,{},81920\n"
    text = "".join(form.format(at, cell) for at, cell in enumerate(cells))
    played = replay(write(f"timestamp,{headings.replace('util', 'index,util', 1)}\n{text}"))
    factor = 2.0**20 if used == 40000 else 2.0**30
    values = played.values("index:0", Signal.MEMORY_USED_BYTES)
    assert values[-1] in (used * factor, used * 1e9)
    assert "in bytes" not in played.warnings


def test_units_are_inferred_of_numbers_with_marks_between_thousands(
    replay: Replays, write: Writes
) -> None:
    """Which are as large as they are in the file."""
    rows = "".join(f"2024-05-01 12:00:0{at};0;9{at};250,5;1{at}.345;81.920\n" for at in range(3))
    text = f"timestamp;gpu;gpu_util_pct;gpu_power_w;gpu_mem_used;gpu_mem_total\n{rows}"
    values = replay(write(text)).values("index:0", Signal.MEMORY_USED_BYTES)
    assert values == [(10345 + at * 1000) * 2.0**20 for at in range(3)]


def test_the_first_of_two_columns_with_one_name(replay: Replays, write: Writes) -> None:
    """With a remark; the other stands in where the first is empty."""
    played = replay(
        write(
            "timestamp,index,utilization.gpu [%],utilization.gpu\n"
            "2024/05/01 12:00:00,0,90,10\n2024/05/01 12:00:01,0,,20\n"
        )
    )
    assert played.values("index:0", Signal.GPU_BUSY) == [0.9, 0.2]
    assert "'utilization.gpu' repeats 'utilization.gpu [%]', and is read where" in played.warnings


_HEADINGS = (
    "utilization.gpu [%]",
    "memory.used [MiB]",
    "power.draw [W]",
    "temperature.gpu",
    "clocks.current.sm [MHz]",
)
_SIGNALS = (
    Signal.GPU_BUSY,
    Signal.MEMORY_USED_BYTES,
    Signal.POWER_WATTS,
    Signal.TEMPERATURE_CELSIUS,
    Signal.SM_CLOCK_HERTZ,
)


def _log(headings: Sequence[str], host: str = "") -> str:
    names = ["timestamp", "index", *([host] if host else []), *headings]
    cells = [*(["3"] if host else []), "50 %", "20000 MiB", "200.00 W", "40", "1400 MHz"]
    rows = (f"2026/01/01 00:00:{at:02d}.000, 0, {', '.join(cells)}\n" for at in range(3))
    return f"{', '.join(names)}\n{''.join(rows)}"


@pytest.mark.parametrize(
    ("place", "heading", "meant"),
    [
        (0, "utilzation.gpu [%]", "utilization.gpu"),
        (1, "memory.usde [MiB]", "memory.used"),
        (2, "powr.draw [W]", "power.draw"),
        (3, "temprature.gpu", "temperature.gpu"),
        (4, "clocks.curent.sm [MHz]", "clocks.current.sm"),
    ],
)
@pytest.mark.parametrize("host", ["", "cpu_util"])
def test_a_misspelled_heading_of_a_query(  # noqa: PLR0913, PLR0917 - the case.
    replay: Replays, write: Writes, place: int, heading: str, meant: str, host: str
) -> None:
    """It is named with what it may have meant; those beside it are read, with a host's too."""
    headings = [*_HEADINGS]
    headings[place] = heading
    played = replay(write(_log(headings, host)))
    read = [played.values("index:0", signal) != [None] * 3 for signal in _SIGNALS]
    assert read == [at != place for at in range(len(_SIGNALS))]
    assert f"'{heading}' is left out; did you mean '{meant}'?" in played.warnings


@pytest.mark.parametrize(
    ("place", "heading"),
    [(0, "utilisation.gpu [%]"), (2, "gpu power [W]"), (1, "gpu_memory_used_mib")],
)
@pytest.mark.parametrize("host", ["", "cpu_util"])
def test_a_heading_of_a_query_in_other_words(
    replay: Replays, write: Writes, place: int, heading: str, host: str
) -> None:
    """It alone is read by its words, and all those beside it by their names."""
    headings = [*_HEADINGS]
    headings[place] = heading
    played = replay(write(_log(headings, host)))
    assert all(played.values("index:0", signal) != [None] * 3 for signal in _SIGNALS)
    assert "left out" not in played.warnings
    assert f"columns are read by their names: '{heading}' as {_SIGNALS[place]}" in played.warnings
    assert played.warnings.count(" as ") == 1


@pytest.mark.parametrize(
    "heading", ["clocks.max.mem [MHz]", "memory.free [MiB]", "power.max_limit [W]", "fan.speed [%]"]
)
def test_a_column_that_is_not_read_is_no_misspelled_one(
    replay: Replays, write: Writes, heading: str
) -> None:
    """However like others the query's own columns are."""
    text = _log(_HEADINGS).replace("\n", ", 5\n").replace(", 5\n", f", {heading}\n", 1)
    assert "did you mean" not in replay(write(text)).warnings
