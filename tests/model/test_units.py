"""Units and durations at the edge."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.model.units import (
    Unit,
    convert,
    format_duration,
    nanoseconds,
    parse_duration,
    seconds,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 0.5),
        ("1s", 1.0),
        ("10m", 600.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("14d", 1_209_600.0),
        ("1w", 604_800.0),
        ("1y", 31_536_000.0),
        ("0s", 0.0),
    ],
)
def test_duration_is_read_in_prometheus_notation(text: str, expected: float) -> None:
    """Numbers with units are summed."""
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "10", "10x", "m", "10 m", "1h-5m", "10min", "m10"])
def test_invalid_duration_is_refused_with_the_remedy(text: str) -> None:
    """The message quotes the text and has an example."""
    with pytest.raises(ValueError, match="is not a duration; write it like '10m'") as refusal:
        parse_duration(text)
    assert f"'{text}'" in str(refusal.value)


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (0, "0 s"),
        (45, "45 s"),
        (59.6, "1 min"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (7201, "2 h"),
        (86_400, "1 d"),
        (3 * 86_400 + 7200, "3 d 2 h"),
    ],
)
def test_duration_is_reported_in_two_units_at_most(duration: float, expected: str) -> None:
    """People need the order of magnitude."""
    assert format_duration(duration) == expected


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        ("%", (Unit.RATIO, 0.01)),
        ("[MiB]", (Unit.BYTES, 2.0**20)),
        (" GB ", (Unit.BYTES, 1e9)),
        ("W", (Unit.WATTS, 1.0)),
        ("mW", (Unit.WATTS, 1e-3)),
        ("MHz", (Unit.HERTZ, 1e6)),
        ("KiB/s", (Unit.BYTES_PER_SECOND, 1024.0)),
        ("C", (Unit.CELSIUS, 1.0)),
    ],
)
def test_spelling_leads_to_the_base_unit(spelling: str, expected: tuple[Unit, float]) -> None:
    """Case, spaces and the brackets of nvidia-smi do not matter."""
    assert convert(spelling) == expected


def test_unknown_spelling_is_a_key_error() -> None:
    """The caller adds the place in the file."""
    with pytest.raises(KeyError):
        convert("furlongs")


@given(st.integers(0, 10**9))
def test_milliseconds_survive_as_nanoseconds(milliseconds: int) -> None:
    """A duration of up to eleven days in whole milliseconds is exact."""
    assert nanoseconds(milliseconds / 1000) == milliseconds * 1_000_000


@given(st.integers(0, 2**53))
def test_seconds_and_nanoseconds_are_inverse(duration: int) -> None:
    """They are exact to the nanosecond for a hundred days."""
    assert abs(nanoseconds(seconds(duration)) - duration) <= 1
