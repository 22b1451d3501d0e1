"""Compiler of expressions into closures over the values of one reading.

What a layout of signals does not have is folded away, so that a closure reads what is there.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from math import nextafter
from operator import attrgetter, ge, itemgetter, lt
from typing import Any, Final, TypeAlias, TypeVar

from rightsizer.accounting import expressions as e

Values: TypeAlias = Mapping[str, Any]
"""Number of each name, `None` if unknown."""
Number: TypeAlias = "float | Callable[[Values], float | None] | None"
"""Compiled term: a closure, or a constant where none is needed."""
Verdict: TypeAlias = "float | Callable[[Values], float]"
"""Compiled claim: its margin, or in tests its truth."""

MATCH_MARGIN: Final = 0.5
"""Margin from which a value counts as matching."""
JUST_OUTSIDE: Final = nextafter(MATCH_MARGIN, 0.0)


def margin_above(value: float, threshold: float) -> float:
    """Margin of a value above a threshold; at half of the threshold it is 0.25."""
    if value < threshold:
        return min(JUST_OUTSIDE, MATCH_MARGIN * value / threshold)
    if threshold >= 1:
        return 1.0
    return MATCH_MARGIN + MATCH_MARGIN * (value - threshold) / (1.0 - threshold)


def margin_below(value: float, threshold: float) -> float:
    """Margin of a value below a threshold; at twice the threshold it is 0.25."""
    if value < threshold:
        return MATCH_MARGIN + MATCH_MARGIN * (threshold - value) / threshold
    return min(JUST_OUTSIDE, MATCH_MARGIN * threshold / value) if value > 0 else 0.0


class FloatInterpreter:
    """Compiler for one layout of names, and for settings."""

    def __init__(
        self, settings: object, names: Collection[str], certain: Collection[str] = ()
    ) -> None:
        """Compile for names that may be known, of which some certainly are."""
        self._settings = settings
        self._names = names
        self._certain = certain

    def term(self, term: e.Term) -> Number:
        """Compile a term."""
        match term:
            case e.Constant(value):
                return value
            case e.Setting(path):
                return float(attrgetter(path)(self._settings))
            case e.Name(name):
                return itemgetter(name) if name in self._names else None
            case e.Clipped(inner):
                return _applied(_clipped, self.term(inner))
            case e.Binary(left, right):
                return _applied(_BINARY[type(term)], self.term(left), self.term(right))
            case e.Highest(terms):
                return self._extreme(max, terms)
            case e.Lowest(terms):
                return self._extreme(min, terms)
            case e.FirstKnown(terms):
                return _first_known([self.term(inner_term) for inner_term in terms])
            case e.Choice(condition, then, otherwise):
                return _choice(self.test(condition), self.term(then), self.term(otherwise))
        raise TypeError(f"{term!r} is no term")

    def margin(self, claim: e.Claim) -> Verdict:
        """Compile a claim into its margin."""
        match claim:
            case e.Comparison():
                return self._comparison(claim, margin_above, margin_below)
            case e.All(claims):
                return _least([self.margin(part) for part in claims])
            case e.Any(claims):
                return _most([self.margin(part) for part in claims])
            case e.When(condition, then, otherwise):
                return _choice(self.test(condition), self.margin(then), self.margin(otherwise))
            case e.Unless(inner, doubt):
                return self._doubted(self.margin(inner), self.test(doubt))
        return _as_margin(self.test(claim))

    def test(self, claim: e.Claim) -> Verdict:
        """Compile a claim into whether it holds."""
        match claim:
            case e.Comparison():
                return self._comparison(claim, ge, lt)
            case e.Known(name) | e.Flag(name) | e.HasBits(name):
                return self._of_name(claim, name)
            case e.Not(inner):
                return _negated(self.test(inner))
            case e.All(claims):
                return _every([self.test(part) for part in claims])
            case e.Any(claims):
                return _some([self.test(part) for part in claims])
            case e.When(condition, then, otherwise):
                return _choice(self.test(condition), self.test(then), self.test(otherwise))
            case e.Unless(inner, doubt):
                return _every([self.test(inner), _negated(self.test(doubt))])
            case e.Stronger(inner, other):
                return _greater(self.margin(inner), self.margin(other))
        raise TypeError(f"{claim!r} is no claim")

    def _of_name(self, claim: e.Claim, name: str) -> Verdict:
        if name not in self._names:
            return False
        match claim:
            case e.Known():
                return name in self._certain or _is_known(name)
            case e.HasBits(_, mask):
                return lambda values: bool(int(values[name]) & mask)
        return itemgetter(name)

    def _extreme(self, choose: Callable[..., float], terms: tuple[e.Term, ...]) -> Number:
        parts = [part for part in map(self.term, terms) if part is not None]
        if len(parts) <= 1:
            return parts[0] if parts else None
        of = [closed(part) for part in parts]

        def extreme(values: Values) -> float | None:
            chosen: float | None = None
            for part in of:
                value = part(values)
                if value is not None:
                    chosen = value if chosen is None else choose(chosen, value)
            return chosen

        return extreme

    def _comparison(
        self,
        claim: e.Comparison,
        above: Callable[[float, float], float],
        beneath: Callable[[float, float], float],
    ) -> Verdict:
        value = self.term(claim.term)
        limit = self.term(claim.threshold)
        unknown = float(claim.if_unknown)
        if value is None or limit is None:
            return unknown
        compare = above if claim.is_above else beneath
        read = closed(value)
        if not callable(limit):

            def by_constant(values: Values) -> float:
                number = read(values)
                return unknown if number is None else compare(number, limit)

            return by_constant

        def by_term(values: Values) -> float:
            number = read(values)
            threshold = limit(values)
            return unknown if number is None or threshold is None else compare(number, threshold)

        return by_term

    @staticmethod
    def _doubted(margin: Verdict, doubt: Verdict) -> Verdict:
        if not callable(margin) or not callable(doubt):
            return margin if not doubt else _least([margin, JUST_OUTSIDE])

        def doubted(values: Values) -> float:
            distance = margin(values)
            return min(distance, JUST_OUTSIDE) if doubt(values) else distance

        return doubted


def closed(value: Any) -> Callable[[Values], Any]:
    """A compiled value as a closure."""
    return value if callable(value) else lambda _: value


def _clipped(value: float) -> float:
    return 1.0 if value > 1.0 else max(0.0, value)


def _product(left: float, right: float) -> float:
    return left * right


def _quotient(left: float, right: float) -> float | None:
    return left / right if right > 0.0 else None


def _difference(left: float, right: float) -> float:
    return left - right


_BINARY: Final[Mapping[type[e.Term], Callable[[float, float], float | None]]] = {
    e.Product: _product,
    e.Quotient: _quotient,
    e.Difference: _difference,
}


def _applied(function: Callable[..., float | None], *parts: Number) -> Number:
    if None in parts:
        return None
    if not any(map(callable, parts)):
        return function(*parts)
    first = closed(parts[0])
    if len(parts) == 1:

        def of_one(values: Values) -> float | None:
            value = first(values)
            return None if value is None else function(value)

        return of_one
    second = closed(parts[1])

    def of_two(values: Values) -> float | None:
        left = first(values)
        right = second(values)
        return None if left is None or right is None else function(left, right)

    return of_two


def _first_known(parts: Sequence[Number]) -> Number:
    numbers = [part for part in parts if part is not None]
    if not numbers or not callable(numbers[0]):
        return numbers[0] if numbers else None
    if len(numbers) == 1:
        return numbers[0]
    first = numbers[0]
    rest = closed(_first_known(numbers[1:]))

    def first_known(values: Values) -> float | None:
        value = first(values)
        return rest(values) if value is None else value

    return first_known


_Part = TypeVar("_Part", Number, Verdict)


def _choice(condition: Verdict, then: _Part, otherwise: _Part) -> _Part:
    if not callable(condition):
        return then if condition else otherwise
    if then == otherwise:
        return then
    one = closed(then)
    other = closed(otherwise)
    return lambda values: one(values) if condition(values) else other(values)


def _least(parts: list[Verdict]) -> Verdict:
    limit = min([1.0, *(part for part in parts if not callable(part))])
    margins = [part for part in parts if callable(part)]
    if not margins or limit <= 0.0:
        return limit
    if len(margins) == 1 and limit >= 1.0:
        return margins[0]

    def least(values: Values) -> float:
        lowest = limit
        for margin in margins:
            value = margin(values)
            if value <= 0.0:
                return 0.0
            if value < lowest:  # noqa: PLR1730 - a call of `min` for each device and second.
                lowest = value
        return lowest

    return least


def _most(parts: list[Verdict]) -> Verdict:
    limit = max([0.0, *(part for part in parts if not callable(part))])
    margins = [part for part in parts if callable(part)]
    if not margins or limit >= 1.0:
        return limit
    if len(margins) == 1 and limit <= 0.0:
        return margins[0]

    def most(values: Values) -> float:
        highest = limit
        for margin in margins:
            value = margin(values)
            if value > highest:  # noqa: PLR1730 - a call of `max` for each device and second.
                highest = value
        return highest

    return most


def _every(parts: list[Verdict]) -> Verdict:
    tests = [part for part in parts if callable(part)]
    if not all(part for part in parts if not callable(part)):
        return False
    if len(tests) <= 1:
        return tests[0] if tests else True

    def every(values: Values) -> bool:
        for test in tests:  # noqa: SIM110 - a generator for each device and second.
            if not test(values):
                return False
        return True

    return every


def _some(parts: list[Verdict]) -> Verdict:
    tests = [part for part in parts if callable(part)]
    if any(part for part in parts if not callable(part)):
        return True
    if len(tests) <= 1:
        return tests[0] if tests else False

    def some(values: Values) -> bool:
        for test in tests:  # noqa: SIM110 - a generator for each device and second.
            if test(values):
                return True
        return False

    return some


def _negated(part: Verdict) -> Verdict:
    return (lambda values: not part(values)) if callable(part) else not part


def _as_margin(part: Verdict) -> Verdict:
    return (lambda values: float(bool(part(values)))) if callable(part) else float(bool(part))


def _is_known(name: str) -> Verdict:
    return lambda values: values[name] is not None


def _greater(margin: Verdict, other: Verdict) -> Verdict:
    if not callable(margin) and not callable(other):
        return margin > other
    one = closed(margin)
    two = closed(other)
    return lambda values: one(values) > two(values)
