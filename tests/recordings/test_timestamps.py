"""Timestamps as logs write them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.model.epoch import parse_epoch
from rightsizer.recordings.timestamps import DayAndMonth, parse_calendar, parse_timestamp

NOON = 1_706_702_400_000_000_000  # 2024-01-31 12:00 UTC


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024/01/31 12:00:00.789", NOON + 789_000_000),
        ("2024/01/31 12:00:00", NOON),
        ("2024-01-31T12:00:00Z", NOON),
        ("2024-01-31T12:00:00.123456789Z", NOON + 123_456_789),
        ("2024-01-31 13:00:00.5+01:00", NOON + 500_000_000),
        ("2024-01-31T12:00", NOON),
        ("2024-01-31 12:00:00 UTC", NOON),
        ("2024-01-31 12:00:00.5 PST", NOON + 500_000_000),
        ("Wed Jan 31 12:00:00 2024", NOON),
        ("Wed Jan 31 12:00:00 UTC 2024", NOON),
        ("20240131_120000", NOON),
        ("20240131-12:00:00", NOON),
        ("20240131T120000Z", NOON),
        ("20240131T120000.5", NOON + 500_000_000),
        ("1706702400", NOON),
        ("1706702400.5", NOON + 500_000_000),
        ("1706702400123", NOON + 123_000_000),
        ("1706702400123456", NOON + 123_456_000),
        ("1706702400123456789", NOON + 123_456_789),
        ("1.7067024e9", NOON),
        ("0", 0),
        ("57", 57_000_000_000),
        ("31.01.2024 12:00:00", NOON),
        ("31.1.2024, 12:00:00,5", NOON + 500_000_000),
        ("1/31/2024 12:00:00 PM", NOON),
        ("Wed Jan 31 12:00:00 PM UTC 2024", NOON),
        ("Wed 31 Jan 2024 12:00:00 PM UTC", NOON),
        ("1/31/2024 1:00 pm", NOON + 3_600_000_000_000),
        ("Jan 31, 2024 @ 12:00:00.500", NOON + 500_000_000),
        ("Wed Jan 31 2024 13:00:00 GMT+0100 (Central European Time)", NOON),
        ("Wed, 31 Jan 2024 12:00:00 GMT", NOON),
        ("31/Jan/2024:12:00:00 +0000", NOON),
        ("01/31/2024 12:00:00 AM", NOON - 43_200_000_000_000),
    ],
)
def test_each_spelling_is_its_nanosecond(text: str, expected: int) -> None:
    """Every spelling leads to whole nanoseconds since the epoch, without a zone in UTC."""
    assert parse_timestamp(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "noon",
        "31/01/2024 12:00",
        "1/2/2024 12:00",
        "31/1/2024 12:00 PM",
        "2024-13-01",
        "2024/01/31 12:00:0",
        "9999-01-01",
        "-1",
        "nan",
        "Wed Foo 31 12:00:00 2024",
        "20241331_120000",
        "1e99",
        "99999999999999999999",
    ],
)
def test_invalid_time_is_refused(text: str) -> None:
    """Anything else is a ValueError and never some number."""
    with pytest.raises(ValueError, match=r".+"):
        parse_timestamp(text)


@given(
    moment=st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)),  # noqa: DTZ001 - zones below.
    hours=st.integers(-12, 14),
)
def test_iso_times_are_read_back_exactly(moment: datetime, hours: int) -> None:
    """A time in any zone is the same point as the standard library says, to the microsecond."""
    zoned = moment.replace(tzinfo=timezone(timedelta(hours=hours)))
    expected = (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    assert parse_calendar(zoned.isoformat()) == expected


@given(nanosecond=st.integers(0, 4_000_000_000_000_000_000))
def test_epochs_lose_nothing(nanosecond: int) -> None:
    """Seconds with nine decimals, and nanoseconds given as such, are exact."""
    whole, below = divmod(nanosecond, 1_000_000_000)
    assert parse_epoch(f"{whole}.{below:09d}", 1_000_000_000) == nanosecond
    assert parse_epoch(str(nanosecond), 1) == nanosecond


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1/31/2024 12:00:00"], NOON),
        (["31/01/2024 12:00:00.5"], NOON + 500_000_000),
        (["01-31-2024 12:00"], NOON),
        (["1/2/2024 12:00:00", "31/1/2024 9:00:00"], NOON + 86_400_000_000_000),
        (["1/2/2024 12:00:00"], None),
        (["13/1/2024 12:00:00", "1/13/2024 12:00:00"], None),
        (["2024-01-31 12:00:00"], None),
        (["1/31/2024, 12:00:00.000 PM"], NOON),
        (["31/1/2024 12:00:00 PM", "2/1/2024 1:00:00 AM"], NOON),
        (["1/2/2024 11:59:00", "2/2/2024 12:00:00"], NOON + 86_400_000_000_000 - 60_000_000_000),
    ],
)
def test_day_above_twelve_tells_the_order_of_day_and_month(
    texts: list[str], expected: int | None
) -> None:
    """Of one file: where no date tells it, or they contradict each other, it stays unknown."""
    order = DayAndMonth()
    for text in texts:
        order.add(text)
    assert order.parse(texts[0]) == expected
