"""Cells into values, or into the reason why there is none."""

from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.reading import Missing, plausible
from rightsizer.model.signal import Signal
from rightsizer.model.units import Unit
from rightsizer.recordings.source import open_recording
from rightsizer.recordings.table import CellColumn, CellTable, local_number


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (" 83 %", 0.83),
        ("83", 0.83),
        (" 100 %\n", 1.0),
        ("[N/A]", Missing.NOT_SUPPORTED),
        (" N/A", Missing.NOT_SUPPORTED),
        ("[Not Supported]", Missing.NOT_SUPPORTED),
        ("[Unknown Error]", Missing.FAILED),
        ("[GPU requires reset]", Missing.FAILED),
        ("ERR!", Missing.FAILED),
        ("[GPU is lost]", Missing.LOST),
        ("[Insufficient Permissions]", Missing.NO_PERMISSION),
        ("", Missing.NO_SAMPLE),
        ("abc", Missing.INVALID),
        ("83 MiB", Missing.INVALID),
        ("83 parsecs", Missing.INVALID),
        ("-1", Missing.INVALID),
        ("250 %", Missing.INVALID),
        ("nan", Missing.NO_SAMPLE),
        ("inf", Missing.INVALID),
        ("18446744073709551615", Missing.INVALID),
    ],
)
def test_a_percentage_cell(cell: str, expected: float | Missing) -> None:
    """Units are optional, sentinels become their reason, and nonsense is never a number."""
    assert CellColumn(0, "utilization.gpu", Signal.GPU_BUSY, "%")[cell] == expected


def test_the_unit_of_a_cell_goes_before_that_of_its_column() -> None:
    """A log that switches from MiB to GiB is still read right."""
    column = CellColumn(0, "memory.used", Signal.MEMORY_USED_BYTES, "MiB")
    assert column["2 GiB"] == column["2048"] == 2.0**31


@pytest.mark.parametrize("cell", ["60 C", "60 °C", "60 \ufffdC", "60C", "60°C", "60.0C"])
def test_degree_may_have_a_sign(cell: str) -> None:
    """Which is no character in a file of another encoding."""
    column = CellColumn(0, "temperature.gpu", Signal.TEMPERATURE_CELSIUS, "C")
    assert column[cell] == 60.0


def test_a_mask_may_be_hexadecimal() -> None:
    """Clock event reasons come as `0x...`."""
    column = CellColumn(0, "clocks_event_reasons.active", Signal.CLOCK_EVENT_REASONS, "count")
    assert column[" 0x0000000000000004"] == 4.0
    assert column["0x" + "f" * 400] is Missing.INVALID


def test_every_unreadable_cell_is_counted(tmp_path: Path) -> None:
    """A cell that repeats is remembered, but each time is told, also beside a rival's value."""
    file = tmp_path / "log.csv"
    heading = "timestamp, index, utilization.gpu [%], power.draw [W], power.draw.instant [W]"
    row = "2026/01/05 00:00:{:02}.000, 0, wat, 80.00 W, garbage!"
    file.write_text("\n".join([heading, *map(row.format, range(30))]) + "\n")
    with closing(open_recording([file], catalogue=built_in())) as source:
        assert [snapshot.readings["index:0"].values for snapshot in iter(source.read, None)] == [
            {Signal.POWER_WATTS: 80.0}
        ] * 30
    for cell in ("utilization.gpu [%]': 'wat'", "power.draw.instant [W]': 'garbage!'"):
        warning = f"{file}:2: unreadable cell in '{cell}, the first of 30"
        assert warning in source.warnings


def test_the_last_of_two_columns_with_one_signal_is_believed() -> None:
    """And the other one stands in where it is missing."""
    table = CellTable(
        [
            CellColumn(0, "power.draw.instant", Signal.POWER_WATTS, "W"),
            CellColumn(1, "power.draw", Signal.POWER_WATTS, "W"),
        ]
    )
    rows = [["80 W", "70 W"], ["80 W", "[N/A]"]]
    assert [*table.read(rows[:1])] == [({Signal.POWER_WATTS: 70.0}, {})]
    assert [*table.read(rows)] == [
        ({Signal.POWER_WATTS: 70.0}, {}),
        ({Signal.POWER_WATTS: 80.0}, {}),
    ]


def test_no_blank_of_a_driver_passes_for_a_reading() -> None:
    """Whatever the signal: as bytes they come in MiB, as clocks in MHz, as energy in mJ."""
    for signal in Signal:
        unit = signal.unit
        factor = {Unit.BYTES: 2.0**20, Unit.HERTZ: 1e6, Unit.JOULES: 1e-3}.get(unit, 1.0)
        blanks = [2.0**63 - 14, 2.0**64 - 1, 2.0**47, 2.0**47 + 3, float("inf")]
        if unit not in (Unit.JOULES, Unit.BYTES_PER_SECOND):  # Those fields are wider than 32 bits.
            blanks.append(2.0**31 - 16)
        assert {plausible(signal, blank * factor) for blank in blanks} == {Missing.INVALID}, signal


@given(st.sampled_from(Signal), st.floats())
def test_accepted_value_is_finite_and_within_its_unit(signal: Signal, value: float) -> None:
    """A value that is let through is within what its unit can hold."""
    found = plausible(signal, value)
    if not isinstance(found, Missing):
        assert abs(found) < 2.0**60
        assert signal.unit is not Unit.RATIO or 0 <= found <= 1


def test_a_memory_at_zero_degrees_has_no_sensor() -> None:
    """Boards without one read 0, which is not a temperature of theirs."""
    assert plausible(Signal.MEMORY_TEMPERATURE_CELSIUS, 0.0) is Missing.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("unit", "cell", "size"),
    [
        ("MiB", "2 MB", 2.0**21),
        ("MiB", "2GB", 2.0**31),
        ("GB", "2 GB", 2e9),
        ("GB", "2 MiB", 2.0**21),
    ],
)
def test_decimal_units_in_cells_are_as_in_headings(unit: str, cell: str, size: float) -> None:
    """Programs write MB for MiB, unless the column is known to be decimal."""
    assert CellColumn(0, "memory", Signal.MEMORY_USED_BYTES, unit)[cell] == size


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,234,567", 1234567.0),
        ("1.234.567", 1234567.0),
        ("1,234.5", 1234.5),
        ("1.234,5", 1234.5),
        ("12'345", 12345.0),
        ("12\u2019345.5", 12345.5),
        ("12\u00a0345", 12345.0),
        ("12\u202f345,5", 12345.5),
        ("0,125", 0.125),
        ("1234,125", 1234.125),
    ],
)
def test_marks_between_thousands(text: str, number: float) -> None:
    """Where a number can be read in one way only, it is."""
    assert local_number(text) == number


@pytest.mark.parametrize("cell", ["12'345 MiB", "12\u00a0345\u00a0MiB", "12\u202f345 MiB"])
def test_a_size_with_marks_between_thousands(cell: str) -> None:
    """Spreadsheets of some languages put an apostrophe or a narrow space there."""
    assert CellColumn(0, "memory.used", Signal.MEMORY_USED_BYTES, "MiB")[cell] == 12345 * 2.0**20
