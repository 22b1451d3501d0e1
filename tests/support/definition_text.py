"""Interpreter of expressions as text, for documentation; thresholds are those of settings."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Final

from rightsizer.accounting import expressions as e
from rightsizer.model.driver_codes import ClockEvent

__all__ = ["TextInterpreter"]

_OPERATORS: Final = {e.Product: "x", e.Quotient: "/", e.Difference: "-"}


class TextInterpreter:
    """Writes terms and claims as text in Markdown; names are in backticks."""

    def __init__(self, settings: object, names: Mapping[e.Claim, str] = {}) -> None:
        """Write for settings; claims that have names are written by these inside others."""
        self._settings = settings
        self._names = names

    def term(self, term: e.Term) -> str:
        """Return a term as text."""
        match term:
            case e.Constant(value):
                return "unknown" if value is None else number_text(value)
            case e.Setting(path):
                return number_text(float(attrgetter(path)(self._settings)))
            case e.Name(name):
                return f"`{name}`"
            case e.Clipped(inner):
                return self.term(inner)
            case e.Binary(left, right):
                return f"{self._part(left)} {_OPERATORS[type(term)]} {self._part(right)}"
            case e.Highest(terms):
                return f"max({self._listed(terms)})"
            case e.Lowest(terms):
                return f"min({self._listed(terms)})"
            case e.FirstKnown(terms):
                return ", else ".join(map(self.term, terms))
            case e.Choice(condition, then, otherwise):
                others = "" if otherwise == e.UNKNOWN else f", else {self.term(otherwise)}"
                return f"{self.term(then)} if {self.claim(condition)}{others}"
        raise TypeError(term)

    def claim(self, claim: e.Claim) -> str:
        """Return a claim as text."""
        match claim:
            case e.All(()):
                return "always"
            case e.Comparison(term, threshold, is_above, if_unknown):
                sign = ">=" if is_above else "<"
                text = f"{self.term(term)} {sign} {self.term(threshold)}"
                return f"{text} or unknown" if if_unknown else text
            case e.Known(name):
                return f"`{name}` is known"
            case e.Flag(name):
                return f"`{name}`"
            case e.HasBits(name, mask):
                bits = [f"`{bit.name}`" for bit in ClockEvent if bit & mask]
                return f"`{name}` has {'any of ' if bits[1:] else ''}{', '.join(bits)}"
            case e.Not(e.Known(name)):
                return f"`{name}` is unknown"
            case e.Not(e.Flag(name)):
                return f"not `{name}`"
            case e.Not(inner):
                text = self._inner(inner)
                is_one = inner in self._names or text == f"({self.claim(inner)})"
                return f"not {text}" if is_one else f"not ({text})"
        return self._joined(claim)

    def _joined(self, claim: e.Claim) -> str:
        match claim:
            case e.All(claims):
                return " and ".join(map(self._inner, claims))
            case e.Any(claims):
                return " or ".join(map(self._inner, claims))
            case e.When(condition, then, otherwise):
                test = self.claim(condition)
                return f"if {test}: {self._inner(then)}, else: {self._inner(otherwise)}"
            case e.Unless(inner, doubt):
                return f"{self._inner(inner)}; in doubt where {self._inner(doubt)}"
            case e.Stronger(inner, other):
                return f"{self._inner(inner)} by more than {self._inner(other)}"
        raise TypeError(claim)

    def _listed(self, terms: tuple[e.Term, ...]) -> str:
        return ", ".join(map(self.term, terms))

    def _part(self, term: e.Term) -> str:
        inner = term.term if isinstance(term, e.Clipped) else term
        text = self.term(inner)
        return f"({text})" if isinstance(inner, e.Binary | e.FirstKnown | e.Choice) else text

    def _inner(self, claim: e.Claim) -> str:
        if claim in self._names:
            return f"*{self._names[claim]}*"
        text = self.claim(claim)
        is_joined = isinstance(claim, e.All | e.Any | e.When | e.Unless | e.Stronger)
        is_open = isinstance(claim, e.Comparison) and claim.if_unknown
        return f"({text})" if is_open or (is_joined and text != "always") else text


def number_text(value: float) -> str:
    """Return a number without a leading zero, bytes in MiB."""
    if value >= 2**20 and value % 2**20 == 0:
        return f"{value / 2**20:g} MiB"
    return f"{value:g}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:g}"
