"""A simulated week of leases on a node whose agent is killed."""

from pathlib import Path

from broker_node import hgx, pcie_box
from evaluation.broker.allocators import FirstFree, LocalBroker
from evaluation.broker.arrivals import arrivals
from evaluation.broker.shares import lend_and_kill
from evaluation.broker.week import live


def test_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    """A hundred arrivals, three kills with -9 in the middle of a request, one file."""
    coming = arrivals(100, seed=2, span_seconds=86400.0)
    found = lend_and_kill(hgx(), coming, 3, tmp_path)
    assert (found.kills, found.lost, found.resurrected) == (3, 0, 0)
    assert found.lived.doubles == found.lived.overfull == 0
    assert found.lived.waits.keys() == {each.ticket.id for each in coming}


def test_a_week_with_kills_is_the_week_without(tmp_path: Path) -> None:
    """All clients get the same GPUs at the same times."""
    coming = arrivals(30, seed=3, span_seconds=20_000.0)
    killed = lend_and_kill(pcie_box(), coming, 2, tmp_path).lived
    assert killed.waits == live(LocalBroker(), pcie_box(), coming).waits


def test_people_wait_less_than_with_first_free_placement() -> None:
    """Sharing and backfill pay off, and pairs stay together."""
    coming = arrivals(60, seed=4, span_seconds=30_000.0)
    managed, first = (live(each, pcie_box(), coming) for each in (LocalBroker(), FirstFree()))
    assert sum(managed.waits.values()) < sum(first.waits.values())
    assert managed.leased_seconds < first.leased_seconds
    assert managed.joined >= first.joined
