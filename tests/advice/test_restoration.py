"""Restoration of a lost ledger from metrics and annotations."""

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import NOW, finding
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.restoration import Restoration, RestoredAdvice, restored
from rightsizer.advice.settings import LedgerSettings
from rightsizer.model.advice import OPEN_STATES, Advice, AdviceState, Region, Scraped
from rightsizer.model.units import Nanoseconds

ID = "aaaaaaaaaaaa"
SECOND = 10**9
HOUR = 3600 * 10**9
DAY = 24 * HOUR
OURS = frozenset({"GPU-0"})
SETTINGS = LedgerSettings()
ACTIVE = AdviceState.ACTIVE
CLAIMED = AdviceState.CLAIMED
SNOOZED = AdviceState.SNOOZED
DISMISSED = AdviceState.DISMISSED


def scraped(
    state: AdviceState = ACTIVE,
    seen: Nanoseconds = NOW - HOUR,
    opened: Nanoseconds = NOW - 9 * DAY,
    id: str = ID,  # noqa: A002 - the advice's own word.
) -> Scraped:
    """An item as scraped from metrics."""
    return Scraped(id, opened, state, seen)


def region(  # noqa: PLR0913 - one keyword for each thing that a test varies.
    state: AdviceState = ACTIVE,
    *,
    opened: Nanoseconds = NOW - 9 * DAY,
    end: Nanoseconds = NOW - 9 * DAY,
    decided: Nanoseconds | None = None,
    expires: Nanoseconds | None = None,
    device: str = "GPU-0",
    id: str = ID,  # noqa: A002 - the advice's own word.
) -> Region:
    """An item as read from an annotation; decisions are by ana."""
    restored = replace(finding(), id=id, devices=(device,))
    actor, why = (None, "") if decided is None else ("ana", "mine")
    advice = Advice(restored, state, opened, opened, expires, actor=actor, why=why)
    return Region(advice, end, decided)


def changed(mark: Region, **facts: Any) -> Region:
    """The region of other advice."""
    return replace(mark, advice=replace(mark.advice, **facts))


def made(*traces: Scraped | Region) -> Restoration:
    """The ledger restored from both, on a node with one GPU."""
    metrics = [trace for trace in traces if isinstance(trace, Scraped)]
    regions = [trace for trace in traces if isinstance(trace, Region)]
    return restored(metrics, regions, OURS, NOW, SETTINGS)


def test_metrics_alone_tell_the_state_and_nothing_else() -> None:
    """A note says so in place of a reason."""
    open_advice = made(scraped(CLAIMED)).open_advice[ID]
    assert (open_advice.state, open_advice.opened, open_advice.actor) == (
        CLAIMED,
        NOW - 9 * DAY,
        None,
    )
    assert open_advice.why == "from metrics, which tell neither who nor why"


def test_a_snooze_of_metrics_lasts_as_the_settings_say() -> None:
    """From when it was last seen; a snooze that has already ended is dropped."""
    open_advice = made(scraped(SNOOZED)).open_advice[ID]
    assert open_advice.expires == NOW - HOUR + 7 * DAY
    assert open_advice.why.endswith("; until when is taken from the settings")
    over = made(scraped(SNOOZED, seen=NOW - 8 * DAY)).open_advice[ID]
    assert over == RestoredAdvice(NOW - 9 * DAY)


def test_an_annotation_brings_who_why_and_until_when() -> None:
    """If both report the same state, and also without metrics."""
    mark = region(SNOOZED, decided=NOW - DAY, expires=NOW + DAY)
    whole = RestoredAdvice(NOW - 9 * DAY, SNOOZED, NOW + DAY, "ana", "mine")
    assert made(scraped(SNOOZED), mark).open_advice == {ID: whole}
    assert made(mark).open_advice == {ID: whole}


def test_the_later_of_two_witnesses_is_believed() -> None:
    """An annotation may lag behind, and a scrape may be missed."""
    early, late = (region(CLAIMED, decided=time) for time in (NOW - 2 * HOUR, NOW - SECOND))
    assert made(scraped(ACTIVE), early).open_advice == {ID: RestoredAdvice(NOW - 9 * DAY)}
    assert made(scraped(ACTIVE), late).open_advice[ID].state is CLAIMED


def test_a_snooze_that_is_over_is_not_restored() -> None:
    """It is active again, and is not announced again."""
    mark = region(SNOOZED, decided=NOW - DAY, expires=NOW)
    assert made(mark).open_advice == {ID: RestoredAdvice(NOW - 9 * DAY)}


def test_a_dismissal_is_restored_until_it_expires() -> None:
    """Completely, as closed advice."""
    mark = region(DISMISSED, end=NOW - DAY, decided=NOW - DAY, expires=NOW + 1)
    found = made(scraped(seen=NOW - DAY - SECOND), mark)
    (advice,) = found.closed
    assert found.open_advice == {}
    assert (advice.state, advice.closed, advice.expires) == (DISMISSED, NOW - DAY, NOW + 1)
    assert (advice.actor, advice.why, advice.opened) == ("ana", "mine", NOW - 9 * DAY)
    assert made(changed(mark, expires=NOW)) == Restoration()


def test_a_dismissal_of_a_former_program_lasts_as_the_settings_say() -> None:
    """Its annotation has the end and nothing more."""
    (advice,) = made(region(DISMISSED, end=NOW - DAY)).closed
    assert advice.expires == NOW + 29 * DAY
    assert advice.actor is None
    assert advice.why.startswith("from an annotation, which tells neither who nor why; ")
    assert made(region(DISMISSED, end=NOW - 30 * DAY)) == Restoration()


def test_repeatable_event_is_not_restored() -> None:
    """Nor what a policy excludes without a ledger, nor advice of other nodes."""
    dismissed = region(DISMISSED, end=NOW - DAY, decided=NOW - DAY, expires=NOW + DAY)
    assert made(region(AdviceState.SUCCEEDED, end=NOW - DAY, decided=NOW - DAY)) == Restoration()
    assert made(region(AdviceState.EXPIRED, end=NOW - DAY)) == Restoration()
    assert made(changed(dismissed, expires=None)) == Restoration()
    elsewhere = region(device="GPU-9").advice.finding
    assert made(changed(dismissed, finding=elsewhere)) == Restoration()


def test_an_earlier_opening_says_nothing_of_a_later_one() -> None:
    """Whether it was closed, or the closing was never recorded."""
    closed = region(DISMISSED, end=NOW - DAY, decided=NOW - DAY, expires=NOW + DAY)
    later = scraped(opened=NOW - HOUR, seen=NOW - SECOND)
    assert made(later, closed).open_advice == {ID: RestoredAdvice(NOW - HOUR)}
    assert made(later, region(CLAIMED, decided=NOW - DAY)).open_advice == {
        ID: RestoredAdvice(NOW - HOUR)
    }
    reopened = region(opened=NOW - HOUR)
    assert made(reopened, closed).open_advice == {ID: RestoredAdvice(NOW - HOUR)}
    assert made(scraped(), reopened).open_advice == {ID: RestoredAdvice(NOW - HOUR)}


_TIMES = st.integers(-40 * 24, 40 * 24).map(lambda hours: NOW + hours * HOUR)
_IDS = st.sampled_from([ID, "bbbbbbbbbbbb", "cccccccccccc"])
_SCRAPED = st.lists(
    st.builds(scraped, st.sampled_from(sorted(OPEN_STATES)), _TIMES, _TIMES, _IDS),
    unique_by=lambda each: each.id,
)
_REGIONS = st.lists(
    st.builds(
        region,
        st.sampled_from(AdviceState),
        opened=_TIMES,
        end=_TIMES,
        decided=st.none() | _TIMES,
        expires=st.none() | _TIMES,
        device=st.sampled_from(["GPU-0", "GPU-9"]),
        id=_IDS,
    ),
    max_size=6,
)


@given(_SCRAPED, _REGIONS, st.randoms())
def test_ledger_is_rebuilt_from_any_events(
    metrics: list[Scraped], regions: list[Region], chance: Random
) -> None:
    """Each id once, nothing expired or foreign, for any order of sources."""
    found = restored(metrics, regions, OURS, NOW, SETTINGS)
    quiet = list(found.closed)
    ids = [advice.id for advice in quiet]
    assert len({*ids, *found.open_advice}) == len(ids) + len(found.open_advice)
    sources = {metric.id for metric in metrics} | {each.advice.id for each in regions}
    assert {*ids, *found.open_advice} <= sources
    for advice in quiet:
        assert not advice.is_open
        assert advice.expires is not None
        assert advice.expires > NOW
        assert not OURS.isdisjoint(advice.finding.devices)
    for open_advice in found.open_advice.values():
        assert open_advice.state in OPEN_STATES
        assert open_advice.opened <= NOW
        assert (open_advice.expires is not None) == (open_advice.state is SNOOZED)
        assert open_advice.expires is None or open_advice.expires > NOW
        assert (open_advice.actor is None) or open_advice.why == "mine"
    chance.shuffle(metrics)
    chance.shuffle(regions)
    assert restored(metrics, regions, OURS, NOW, SETTINGS) == found


@given(_SCRAPED, _REGIONS)
def test_a_ledger_takes_over_whatever_is_reported(
    metrics: list[Scraped], regions: list[Region]
) -> None:
    """It announces none of it, since none of it is new."""
    ledger = Ledger()
    ledger.restore(restored(metrics, regions, OURS, NOW, SETTINGS))
    assert ledger.update([], NOW) == []
