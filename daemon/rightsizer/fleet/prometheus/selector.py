"""PromQL selectors: quoted values, and label matchers added to every query."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, Self

from msgspec import Struct

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
"""Special characters of RE2."""
_KEPT: Final = 8
"""The same devices recur in many queries."""


def quoted(value: str) -> str:
    """Return a PromQL string literal."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def any_of(values: Iterable[str]) -> str:
    """Return a regular expression, anchored by PromQL, that matches exactly these values."""
    return "|".join(_SPECIAL.sub(r"\\\g<0>", value) for value in values)


def selector(
    metric: str, labels: Mapping[str, str | Iterable[str]] | None = None, *further: str
) -> str:
    """Return a selector of a metric, or of any, by label values, one or several each.

    An empty tuple of values matches nothing. Empty further matchers are omitted.
    """
    matchers = [
        f"{name}={quoted(wanted)}" if isinstance(wanted, str) else _matcher(name, tuple(wanted))
        for name, wanted in (labels or {}).items()
    ]
    matchers += filter(None, further)
    return metric + ("{" + ",".join(matchers) + "}" if matchers else "")


@lru_cache(maxsize=_KEPT)
def _matcher(name: str, values: tuple[str, ...]) -> str:
    if not values:
        # An empty expression would match series without the label.
        return f'{name}=~".^"'
    if len(values) == 1:
        return f"{name}={quoted(values[0])}"
    return f"{name}=~{quoted(any_of(values))}"


_STRING: Final = r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|`[^`]*`'
_MATCHER: Final = re.compile(rf"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(?:=~|!~|!=|=)\s*(?:{_STRING})\s*")
_BY_NAMES: Final = re.compile(
    rf"(?P<function>last_over_time\()?\{{(?P<first>(?:{_MATCHER.pattern},)*)"
    r'__name__=~"(?P<names>[\w:|]+)"'
    rf"(?P<last>(?:,{_MATCHER.pattern})*)\}}(?(function)(?P<range>\[\w+\]\))|(?!\[))"
)


def with_exact_names(promql: str) -> str:
    """Return the query with each selector by several names as a union of selectors by one.

    Of ranges only those of `last_over_time`, which keeps names; others stay as they are.
    """

    def union(match: re.Match[str]) -> str:
        function = match["function"] or ""
        range_ = match["range"] or ""
        others = f"{match['first']}{match['last'].removeprefix(',')}".removesuffix(",")
        inside = f"{{{others}}}" if others else ""
        parts = (f"{function}{name}{inside}{range_}" for name in match["names"].split("|"))
        # Metrics of one device have the same labels.
        return f"({' or on (__name__) '.join(parts)})"

    return _BY_NAMES.sub(union, promql)


_TOKEN: Final = re.compile(
    rf"(?P<string>{_STRING})"
    r"|(?P<space>\s+|#[^\n]*)"
    r"|(?P<window>\[[^\]]*\])"
    r"|(?P<number>(?:0[xX][0-9a-fA-F]+|\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)"
    r"[a-z0-9]*)"
    r"|(?P<word>[A-Za-z_:][A-Za-z0-9_:]*)"
    r"|(?P<sign>.)",
    re.DOTALL,
)
_LABEL_LISTS: Final = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_KEYWORDS: Final = _LABEL_LISTS | {"and", "or", "unless", "atan2", "bool", "offset", "inf", "nan"}
_AGGREGATIONS: Final = frozenset(
    {
        "sum",
        "min",
        "max",
        "avg",
        "group",
        "stddev",
        "stdvar",
        "count",
        "count_values",
        "bottomk",
        "topk",
        "quantile",
        "limitk",
        "limit_ratio",
    }
)


class Matchers(Struct, frozen=True):
    """Matchers added to every selector."""

    text: str = ""
    """Without braces and trailing comma."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the matchers of a setting, with or without braces.

        Raises:
            ValueError: it contains anything else.
        """
        inner = text.strip()
        if inner.startswith("{") and inner.endswith("}"):
            inner = inner[1:-1].strip()
        inner = inner.removesuffix(",").rstrip()
        at = 0
        while inner and at <= len(inner):
            match = _MATCHER.match(inner, at)
            if match is None or (match.end() < len(inner) and inner[match.end()] != ","):
                raise ValueError(
                    f"fleet.matchers: '{text}' has something at '{inner[at:].strip()}' that is no "
                    'label matcher; write them as in cluster="paris",env=~"production|staging"'
                )
            at = match.end() + 1
        return cls(inner)

    @property
    def names(self) -> tuple[str, ...]:
        """Labels in the matchers."""
        return tuple(match[1] for match in _MATCHER.finditer(self.text))

    def merge(self, promql: str) -> str:
        """Return the query with the matchers in each of its selectors."""
        return "".join(self._merged(promql)) if self.text else promql

    def _merged(self, promql: str) -> Iterator[str]:
        tokens = [(match.lastgroup, match.group()) for match in _TOKEN.finditer(promql)]
        is_label_list = is_in_braces = False
        for index, (kind, text) in enumerate(tokens):
            rest = (token.lower() for kind, token in tokens[index + 1 :] if kind != "space")
            following = next(rest, "")
            yield text
            if text == "}":
                is_in_braces = False
            elif text == "{":
                is_in_braces = True
                yield self.text if following == "}" else f"{self.text},"
            elif text == ")":
                is_label_list = False
            elif kind == "word" and not is_in_braces and not is_label_list:
                is_label_list = text.lower() in _LABEL_LISTS and following == "("
                is_metric = following not in ("(", "{") and text.lower() not in _KEYWORDS
                is_sum = text.lower() in _AGGREGATIONS and following in ("by", "without")
                if is_metric and not is_sum:
                    yield f"{{{self.text}}}"
