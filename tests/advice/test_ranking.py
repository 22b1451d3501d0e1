"""The order of options."""

from hypothesis import given
from hypothesis import strategies as st

from rightsizer.advice.risk import ranked
from rightsizer.model.finding import Option, Risk, Savings


def option(risk: Risk, gpus: float | None = None, dollars: float | None = None) -> Option:
    """An option."""
    savings = Savings(
        gpus_low=gpus, gpus_high=gpus, dollars_per_hour_low=dollars, dollars_per_hour_high=dollars
    )
    return Option(f"{risk} {gpus} {dollars}", risk, savings=savings)


def test_safest_first_then_what_saves_most() -> None:
    """An unknown risk ranks with a harmful one."""
    low = option(Risk.LOW, 1.0)
    more = option(Risk.LOW, 2.0)
    unknown = option(Risk.UNKNOWN, 9.0)
    high = option(Risk.HIGH, 3.0)
    safe = option(Risk.VERY_LOW, 0.1)
    assert ranked([low, unknown, high, more, safe]) == (safe, more, low, unknown, high)


def test_money_decides_where_all_have_a_price() -> None:
    """Otherwise GPUs decide, since an option without a price saves no less."""
    cheap = option(Risk.LOW, 2.0, 1.0)
    dear = option(Risk.LOW, 1.0, 5.0)
    assert ranked([cheap, dear]) == (dear, cheap)
    assert ranked([cheap, dear, option(Risk.LOW, 0.5)])[0] == cheap


@given(st.lists(st.sampled_from(Risk), max_size=8))
def test_ranking_keeps_all_options_and_the_order_of_equals(risks: list[Risk]) -> None:
    """The mildest step comes first."""
    given_options = [Option(str(at), risk) for at, risk in enumerate(risks)]
    found = ranked(given_options)
    assert sorted(found, key=given_options.index) == given_options
    keys = [(each.risk.rank, given_options.index(each)) for each in found]
    assert keys == sorted(keys)
