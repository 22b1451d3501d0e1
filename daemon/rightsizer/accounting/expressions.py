"""Expressions over named signals, facts and settings, in which accounting is defined.

They are data: `float_interpreter` compiles them for one reading, the fleet evaluates them over
columns. What is not measured is unknown, which is neither at least nor below anything.
"""

from __future__ import annotations

from msgspec import Struct


class Term(Struct, frozen=True):
    """Number, or unknown."""

    def __mul__(self, other: Term) -> Term:
        return Product(self, other)

    def __truediv__(self, other: Term) -> Term:
        return Quotient(self, other)

    def __sub__(self, other: Term) -> Term:
        return Difference(self, other)


class Name(Term, frozen=True):
    """Signal, fact of a device, or derived term."""

    name: str


class Setting(Term, frozen=True):
    """Setting by its path, as in `network.port_ratio`."""

    path: str


class Constant(Term, frozen=True):
    """Number, unknown if it is `None`."""

    value: float | None


class Binary(Term, frozen=True):
    """Term of two; unknown if either is."""

    left: Term
    right: Term


class Product(Binary, frozen=True):
    """Left times right."""


class Quotient(Binary, frozen=True):
    """Left over right; unknown where the right one is not positive."""


class Difference(Binary, frozen=True):
    """Left minus right."""


class Clipped(Term, frozen=True):
    """Within 0 and 1."""

    term: Term


class Highest(Term, frozen=True):
    """Highest of the known ones."""

    terms: tuple[Term, ...]


class Lowest(Term, frozen=True):
    """Lowest of the known ones."""

    terms: tuple[Term, ...]


class FirstKnown(Term, frozen=True):
    """The first that is known."""

    terms: tuple[Term, ...]


class Choice(Term, frozen=True):
    """One of two terms."""

    condition: Claim
    then: Term
    otherwise: Term


class Claim(Struct, frozen=True):
    """What holds or does not, by a margin; 0.5 is the least with which it holds."""

    def __and__(self, other: Claim) -> Claim:
        return All((*_parts(self, All), *_parts(other, All)))

    def __or__(self, other: Claim) -> Claim:
        return Any((*_parts(self, Any), *_parts(other, Any)))

    def __invert__(self) -> Claim:
        return Not(self)


class Comparison(Claim, frozen=True):
    """Whether a term is at least a threshold, or below it."""

    term: Term
    threshold: Term
    is_above: bool
    if_unknown: bool
    """Whether it holds where the term is unknown."""


class Known(Claim, frozen=True):
    """Whether a name is known."""

    name: str


class Flag(Claim, frozen=True):
    """Whether a name is known and not 0."""

    name: str


class HasBits(Claim, frozen=True):
    """Whether any bit of a mask is set."""

    name: str
    mask: int


class All(Claim, frozen=True):
    """Whether all hold, by the smallest margin."""

    claims: tuple[Claim, ...]


class Any(Claim, frozen=True):
    """Whether any holds, by the largest margin."""

    claims: tuple[Claim, ...]


class Not(Claim, frozen=True):
    """Whether one does not hold, without a margin."""

    claim: Claim


class When(Claim, frozen=True):
    """One of two claims."""

    condition: Claim
    then: Claim
    otherwise: Claim


class Unless(Claim, frozen=True):
    """A claim that is in doubt, just outside, where another holds."""

    claim: Claim
    doubt: Claim


class Stronger(Claim, frozen=True):
    """Whether one claim has a larger margin than another."""

    claim: Claim
    other: Claim


def at_least(term: str | Term, threshold: str | Term, *, if_unknown: bool = False) -> Claim:
    """A name or term is at least a setting or term."""
    return Comparison(_term(term), _setting(threshold), is_above=True, if_unknown=if_unknown)


def below(term: str | Term, threshold: str | Term, *, if_unknown: bool = False) -> Claim:
    """A name or term is below a setting or term."""
    return Comparison(_term(term), _setting(threshold), is_above=False, if_unknown=if_unknown)


def rests(term: str, threshold: str | Term) -> Claim:
    """A name is below a setting or term, as far as it is measured."""
    return below(term, threshold, if_unknown=True)


def highest(*terms: str | Term) -> Term:
    """Highest of names and terms."""
    return Highest(tuple(map(_term, terms)))


def share(part: str | Term, whole: str | Term) -> Term:
    """One of another, within 0 and 1."""
    return Clipped(Quotient(_term(part), _term(whole)))


def _term(term: str | Term) -> Term:
    return Name(term) if isinstance(term, str) else term


def _setting(threshold: str | Term) -> Term:
    return Setting(threshold) if isinstance(threshold, str) else threshold


def _parts(claim: Claim, kind: type[All | Any]) -> tuple[Claim, ...]:
    return claim.claims if isinstance(claim, kind) else (claim,)


ALWAYS: Claim = All(())
"""Holds by the largest margin."""
UNKNOWN: Term = Constant(None)
