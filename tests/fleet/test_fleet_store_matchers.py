"""The operator's matchers in every selector, and selectors that sources write."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.fleet.prometheus.selector import Matchers, any_of, quoted, selector

QUERIES = {
    "up": "up{c='d'}",
    "job:up:sum": "job:up:sum{c='d'}",
    "up{}": "up{c='d'}",
    'up{a="}",b=~"x{2}"}': """up{c='d',a="}",b=~"x{2}"}""",
    '{__name__="up"}': """{c='d',__name__="up"}""",
    "rate(up[5m]) offset 1h": "rate(up{c='d'}[5m]) offset 1h",
    "up offset -5m": "up{c='d'} offset -5m",
    "max_over_time(up[1h30m:5m] @ 1700000000)": "max_over_time(up{c='d'}[1h30m:5m] @ 1700000000)",
    "up @ end()": "up{c='d'} @ end()",
    "sum by (uuid, sum) (up)": "sum by (uuid, sum) (up{c='d'})",
    "sum(up) without (by)": "sum(up{c='d'}) without (by)",
    "topk (3, up)": "topk (3, up{c='d'})",
    "count": "count{c='d'}",
    'count_values("up", up)': """count_values("up", up{c='d'})""",
    "a / on (x) group_left (y) b": "a{c='d'} / on (x) group_left (y) b{c='d'}",
    "a * ignoring (x) group_right b": "a{c='d'} * ignoring (x) group_right b{c='d'}",
    "a == bool b and c unless d": "a{c='d'} == bool b{c='d'} and c{c='d'} unless d{c='d'}",
    "vector(1) + time() + 0x1F + 1e3 + .5 + Inf + NaN": None,
    'label_replace(up, "a", "$1", "b", "(.*)")': (
        """label_replace(up{c='d'}, "a", "$1", "b", "(.*)")"""
    ),
    "up # {down}\n + a": "up{c='d'} # {down}\n + a{c='d'}",
    "sum BY (uuid) (up)": "sum BY (uuid) (up{c='d'})",
    """max by (uuid) (up{a='\\'}'})""": """max by (uuid) (up{c='d',a='\\'}'})""",
}
"""Result of each query; `None` for one without selectors."""


@pytest.mark.parametrize("promql", QUERIES)
def test_every_selector_gets_them(promql: str) -> None:
    """Functions, label lists, strings, durations and comments are unchanged."""
    wanted = QUERIES[promql]

    assert Matchers.parse("c='d'").merge(promql) == (promql if wanted is None else wanted)


@pytest.mark.parametrize("promql", QUERIES)
def test_without_matchers_a_query_stays(promql: str) -> None:
    """It is unchanged to the letter."""
    assert Matchers.parse(" ").merge(promql) == promql


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ""),
        ('cluster="paris"', 'cluster="paris"'),
        (' { cluster = "paris" , env=~"a|b", } ', 'cluster = "paris" , env=~"a|b"'),
        ("a!=`b`,c!~'d\\'e'", "a!=`b`,c!~'d\\'e'"),
        ('a="}, b",c="\\""', 'a="}, b",c="\\""'),
    ],
)
def test_matchers_are_read_as_promql_has_them(text: str, wanted: str) -> None:
    """Braces are optional, and any quotes are allowed."""
    assert Matchers.parse(text).text == wanted


@pytest.mark.parametrize(
    "text",
    ["paris", "cluster=paris", 'cluster="paris', 'up{cluster="paris"}', 'a="b" c="d"', 'a="b",,'],
)
def test_invalid_matcher_is_refused(text: str) -> None:
    """The message has the position and an example."""
    with pytest.raises(ValueError, match=r"fleet\.matchers: .* write them as in cluster="):
        Matchers.parse(text)


def test_a_selector_says_what_it_selects() -> None:
    """One value is compared, several are alternatives, none match nothing."""
    assert selector("up") == "up"
    assert selector("up", {"a": 'b"\\\n'}) == 'up{a="b\\"\\\\\\n"}'
    assert selector("up", {"uuid": ["GPU-1"], "b": "c"}) == 'up{uuid="GPU-1",b="c"}'
    assert selector("up", {"uuid": ["GPU-1", "a.b"]}) == 'up{uuid=~"GPU-1|a\\\\.b"}'
    assert selector("up", {"uuid": []}) == 'up{uuid=~".^"}'


@given(st.lists(st.text(min_size=1), min_size=1), st.text())
def test_an_expression_matches_its_values_alone(values: list[str], other: str) -> None:
    """Special characters in values are literal."""
    expression = re.compile(any_of(values))

    assert all(expression.fullmatch(value) for value in values)
    assert (expression.fullmatch(other) is not None) == (other in values)


@given(st.text())
def test_a_literal_ends_where_it_should(value: str) -> None:
    """No value escapes its quotes, and matchers are never inserted into a literal."""
    query = f"up{{a={quoted(value)}}}"

    assert Matchers.parse('c="d"').merge(query) == f'up{{c="d",a={quoted(value)}}}'
