"""Advice whose savings can be summed."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.advice.compatible import ExclusiveKey, compatible, savings_sum
from rightsizer.console.advice import heading
from rightsizer.io.codec import plain
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.finding import Savings
from rightsizer.model.units import dollars_text
from rightsizer.report.advice_document import advice_document
from rightsizer.report.advice_rows import total_savings
from tests.support.report_samples import EPOCH, finding, report_facts

_UUIDS = tuple(f"GPU-{place}" for place in range(4))
_MONEY = st.one_of(st.none(), st.integers(-4, 40).map(float))
_PIECES = st.lists(
    st.tuples(
        st.sampled_from((None, None, "g", "h")),
        st.sets(st.sampled_from(_UUIDS), min_size=1, max_size=3),
        _MONEY,
    ),
    max_size=7,
).map(
    lambda rows: [
        Advice(
            finding(
                id=f"a{place}",
                exclusive_group=group,
                devices=tuple(sorted(devices)),
                savings=Savings(1.0, 1.0, dollars, dollars),
            ),
            AdviceState.ACTIVE,
            EPOCH,
            EPOCH,
        )
        for place, (group, devices, dollars) in enumerate(rows)
    ]
)


def _advice(rows: Iterable[tuple[str, tuple[int, ...], float]]) -> list[Advice]:
    """By name, GPUs and savings."""
    pieces = [
        finding(
            id=name,
            devices=tuple(_UUIDS[place] for place in places),
            savings=Savings(1.0, 1.0, dollars, dollars),
        )
        for name, places, dollars in rows
    ]
    return [Advice(piece, AdviceState.ACTIVE, EPOCH, EPOCH) for piece in pieces]


def _dollars(advice: Advice) -> float:
    return advice.finding.savings.dollars_per_hour


@given(_PIECES)
def test_savings_lie_between_the_largest_and_the_sum(pieces: list[Advice]) -> None:
    """No GPU and no group is counted twice, and what costs money saves none."""
    found = compatible(pieces, ExclusiveKey.of)
    total = sum(map(_dollars, found))
    saving = [max(0.0, _dollars(piece)) for piece in pieces]
    assert max(saving, default=0.0) <= total <= sum(saving)
    devices = [uuid for each in found for uuid in each.finding.devices]
    groups = [each.finding.exclusive_group for each in found if each.finding.exclusive_group]
    assert len(devices) == len(set(devices))
    assert len(groups) == len(set(groups))


@given(_PIECES)
def test_page_terminal_and_report_sum_alike(pieces: list[Advice]) -> None:
    """One node has one sum, wherever it is read."""
    hourly = savings_sum(pieces).dollars_per_hour
    daily = f"{dollars_text(24 * hourly)} a day together"
    assert (daily in heading([plain(advice_document(piece)) for piece in pieces], "by age")) == (
        hourly > 0
    )
    monthly = total_savings(report_facts(advice=tuple(pieces))).dollars_per_month_typical
    assert (monthly or 0.0) == pytest.approx(730 * hourly)


def test_neighbor_of_what_is_left_out_counts() -> None:
    """Advice that is not counted itself excludes nothing."""
    advice = _advice((("a", (0, 1), 9.0), ("b", (1, 2), 5.0), ("c", (2, 3), 4.0)))
    assert [each.id for each in compatible(advice, ExclusiveKey.of)] == ["a", "c"]
    assert savings_sum(advice).dollars_per_hour == 13.0


@pytest.mark.parametrize(("together", "counted"), [(2.0, ["b", "c"]), (4.0, ["a"])])
def test_several_on_single_gpus_count_where_they_save_more(
    together: float, counted: list[str]
) -> None:
    """Than the one on all of these GPUs, although it saves more than each."""
    rows = (("a", (0, 1), together), ("b", (0,), 1.9), ("c", (1,), 1.9))
    assert [each.id for each in compatible(_advice(rows), ExclusiveKey.of)] == counted
