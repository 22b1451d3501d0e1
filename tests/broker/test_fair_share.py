"""Order of the queue by priority, usage and waiting time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker_node import ticket
from readings import DAY, HOUR, SECOND
from rightsizer.broker.lease import Ticket
from rightsizer.broker.settings import BrokerSettings
from rightsizer.broker.state import ShareUsage, ranked

SETTINGS = BrokerSettings()
WEEK_SECONDS = 7 * 86400.0


def waiting(name: str, user: str = "ada", asked: int = 0, priority: int = 0) -> Ticket:
    """A ticket in the queue."""
    return replace(ticket(name, user=user, priority=priority), asked=asked)


def order(tickets: list[Ticket], usage: ShareUsage, now: int) -> list[str]:
    """Ids in the order of service."""
    return [each.id for each in ranked(tickets, usage, SETTINGS, now)]


def test_usage_halves_in_a_half_life() -> None:
    """Usage a week ago counts half, two weeks ago a quarter."""
    usage = ShareUsage(0, {"ada": 800.0})
    assert usage.charged(7 * DAY, {}, WEEK_SECONDS).gpu_seconds["ada"] == pytest.approx(400.0)
    assert usage.charged(14 * DAY, {}, WEEK_SECONDS).gpu_seconds["ada"] == pytest.approx(200.0)


def test_an_hour_on_two_gpus_is_two_gpu_hours() -> None:
    """Decay within an hour is small."""
    usage = ShareUsage(0).charged(HOUR, {"ada": 2.0}, WEEK_SECONDS)
    assert usage.gpu_seconds["ada"] == pytest.approx(7200.0, rel=0.01)


@given(
    st.lists(st.integers(1, 10**7), min_size=1, max_size=30),
    st.dictionaries(st.sampled_from(["ada", "bo"]), st.floats(0.001, 8), min_size=1),
)
def test_it_does_not_matter_how_often_usage_is_charged(
    steps: list[int], rates: dict[str, float]
) -> None:
    """Charging every second and once a week give the same."""
    at_once = ShareUsage(0, {"cy": 50_000.0}).charged(sum(steps) * SECOND, rates, WEEK_SECONDS)
    usage = ShareUsage(0, {"cy": 50_000.0})
    now = 0
    for step in steps:
        now += step * SECOND
        usage = usage.charged(now, rates, WEEK_SECONDS)
    assert {"ada": 0.0, "bo": 0.0, "cy": 0.0, **usage.gpu_seconds} == pytest.approx(
        {"ada": 0.0, "bo": 0.0, "cy": 0.0, **at_once.gpu_seconds}, rel=1e-6, abs=1.0
    )


def test_nothing_is_charged_for_time_that_runs_backwards() -> None:
    """An earlier time than the last changes nothing."""
    usage = ShareUsage(HOUR, {"ada": 7.0})
    assert usage.charged(0, {"ada": 8.0}, WEEK_SECONDS) is usage


def test_one_who_used_less_goes_first() -> None:
    """Among tickets of one priority and age."""
    usage = ShareUsage(0, {"ada": 1000.0, "bo": 10.0})
    assert order([waiting("1", "ada"), waiting("2", "bo")], usage, HOUR) == ["2", "1"]


def test_priority_goes_before_fair_share() -> None:
    """One priority step outweighs any usage."""
    usage = ShareUsage(0, {"ada": 1e9})
    tickets = [waiting("1", "bo", HOUR), waiting("2", "ada", HOUR, priority=1)]
    assert order(tickets, usage, HOUR) == ["2", "1"]


def test_waiting_for_long_enough_goes_before_priority() -> None:
    """Eleven days outweigh ten steps, so that no ticket starves."""
    tickets = [waiting("low", priority=-10), waiting("new", "bo", asked=12 * DAY)]
    assert order(tickets, ShareUsage(0, {"ada": 1e9}), 12 * DAY) == ["low", "new"]


def test_equal_tickets_are_identified_by_age_then_by_id() -> None:
    """The order is deterministic."""
    tickets = [waiting("b", asked=5), waiting("c", asked=4), waiting("a", asked=5)]
    assert order(tickets, ShareUsage(), 6) == ["c", "a", "b"]


TICKETS = st.builds(
    waiting,
    name=st.uuids().map(str),
    user=st.sampled_from(["ada", "bo", "cy"]),
    asked=st.integers(0, 10 * DAY),
    priority=st.integers(-10, 10),
)


@given(st.lists(TICKETS, max_size=12, unique_by=lambda each: each.id), st.randoms())
def test_the_order_does_not_depend_on_how_tickets_come(
    tickets: list[Ticket], chance: object
) -> None:
    """Any permutation of tickets and usage gives the same order."""
    shares = {"ada": 100.0, "bo": 3000.0, "cy": 9.0}
    shuffled = sorted(tickets, key=lambda each: hash((str(chance), each.id)))
    backwards = dict(reversed(shares.items()))
    assert order(tickets, ShareUsage(0, shares), 10 * DAY) == order(
        shuffled, ShareUsage(0, backwards), 10 * DAY
    )


@given(TICKETS, st.lists(TICKETS, max_size=8))
def test_every_ticket_is_some_day_before_all_that_come_later(
    first: Ticket, later: list[Ticket]
) -> None:
    """After waiting for the span of priorities plus one step, whatever the usage."""
    span = SETTINGS.operator_priority - SETTINGS.lowest_priority + 1
    after = first.asked + round(span * SETTINGS.aging_seconds * SECOND)
    others = [replace(each, id=f"{at} later", asked=after + at) for at, each in enumerate(later)]
    usage = ShareUsage(0, {first.client.user: 1e12})
    assert order([*others, first], usage, after + DAY)[0] == first.id
