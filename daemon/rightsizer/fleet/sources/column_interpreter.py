"""Expressions of accounting over columns: many devices, interval by interval.

As `accounting.float_interpreter`, with `nan` for unknown; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import attrgetter
from typing import Final

import numpy as np

from rightsizer.accounting import expressions as e
from rightsizer.accounting.definitions import (
    ACTIVE,
    AT_REST,
    AT_WORK,
    CLOCK_RATIO,
    DERIVED,
    HAS_UTILIZATION,
    LOSSES,
    TIERS,
    USED_COMPUTE,
    Losses,
)
from rightsizer.accounting.float_interpreter import JUST_OUTSIDE, MATCH_MARGIN
from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.model.values import Cause, Device, State, Tier, link_bytes_per_second

_DERIVED: Final = {"clock_ratio": CLOCK_RATIO, **DERIVED, **USED_COMPUTE}
_NEVER: Final = np.zeros((), bool)


_FACTS: Final[Mapping[str, Callable[[Device], float | None]]] = {
    "memory_capacity_bytes": attrgetter("memory_total_bytes"),
    "memory_total_bytes": attrgetter("memory_total_bytes"),
    "power_capacity_watts": attrgetter("power_limit_watts"),
    "sm_clock_capacity_hertz": attrgetter("sm_clock_maximum_hertz"),
    "achievable_compute_ratio": attrgetter("achievable_compute_ratio"),
    "achievable_bandwidth_ratio": attrgetter("achievable_bandwidth_ratio"),
    "nvlink_bytes_per_second": attrgetter("nvlink_bytes_per_second"),
    "pcie_bytes_per_second": lambda device: link_bytes_per_second(
        device.pcie_generation_maximum, device.pcie_width_maximum
    ),
}
"""What expressions name of a device."""


def facts_of(devices: Sequence[Device]) -> dict[str, Floats]:
    """Return facts of devices by name, a row each; `nan` if unknown."""
    return {
        name: np.array([[fact(device) or np.nan] for device in devices], float).reshape(-1, 1)
        for name, fact in _FACTS.items()
    }


class ColumnInterpreter:
    """Evaluator of terms and claims over named columns, each once."""

    def __init__(self, columns: Mapping[str, Floats], settings: object) -> None:
        """Evaluate over columns that broadcast with one another; others are unknown."""
        self._columns = columns
        self._settings = settings
        self._terms: dict[e.Term, Floats] = {}
        self._claims: dict[e.Claim, Floats] = {}

    def term(self, term: e.Term | str) -> Floats:
        """Value of a term, or of a name."""
        term = e.Name(term) if isinstance(term, str) else term
        if term not in self._terms:
            self._terms[term] = np.asarray(self._term(term), float)
        return self._terms[term]

    def holds(self, claim: e.Claim) -> Floats:
        """Where a claim holds."""
        if claim not in self._claims:
            self._claims[claim] = np.asarray(self._holds(claim), bool)
        return self._claims[claim]

    def _term(self, term: e.Term) -> Floats | float:
        match term:
            case e.Constant(value):
                return np.nan if value is None else value
            case e.Setting(path):
                return float(attrgetter(path)(self._settings))
            case e.Name(name):
                derived = _DERIVED.get(name, e.UNKNOWN)
                return self._columns[name] if name in self._columns else self.term(derived)
            case e.Clipped(inner):
                return np.clip(self.term(inner), 0.0, 1.0)
            case e.Binary(left, right):
                return _BINARY[type(term)](self.term(left), self.term(right))
            case e.Highest(terms):
                return reduce(np.fmax, map(self.term, terms))
            case e.Lowest(terms):
                return reduce(np.fmin, map(self.term, terms))
            case e.FirstKnown(terms):
                return reduce(_first_known, map(self.term, terms))
            case e.Choice(condition, then, otherwise):
                return np.where(self.holds(condition), self.term(then), self.term(otherwise))
        raise TypeError(f"{term!r} is no term")

    def _holds(self, claim: e.Claim) -> Floats:
        match claim:
            case e.Comparison():
                return self._compare(claim)
            case e.Known(name) | e.Flag(name) | e.HasBits(name):
                return _of_value(claim, self.term(name))
            case e.Not(inner):
                return ~self.holds(inner)
            case e.All(claims):
                return self._all(claims)
            case e.Any(claims):
                return reduce(np.logical_or, map(self.holds, claims), _NEVER)
            case e.When(condition, then, otherwise):
                return np.where(self.holds(condition), self.holds(then), self.holds(otherwise))
            case e.Unless(inner, doubt):
                holds = self.holds(inner)
                return holds & ~self.holds(doubt) if holds.any() else holds
            case e.Stronger(inner, other):
                return self._margin(inner) > self._margin(other)
        raise TypeError(f"{claim!r} is no claim")

    def _compare(self, claim: e.Comparison) -> Floats:
        value = self.term(claim.term)
        threshold = self.term(claim.threshold)
        # A comparison with `nan` is false.
        if claim.is_above and claim.if_unknown:
            return ~(value < threshold)
        if claim.is_above:
            return value >= threshold
        return ~(value >= threshold) if claim.if_unknown else value < threshold

    def _all(self, claims: Iterable[e.Claim]) -> Floats:
        matches = ~_NEVER
        for claim in claims:
            matches = matches & self.holds(claim)
            if not matches.any():
                return matches
        return matches

    def _margin(self, claim: e.Claim) -> Floats:
        match claim:
            case e.Comparison():
                return self._comparison_margin(claim)
            case e.All(claims):
                return reduce(np.minimum, map(self._margin, claims), np.ones(()))
            case e.Any(claims):
                return reduce(np.maximum, map(self._margin, claims), np.zeros(()))
            case e.When(condition, then, otherwise):
                return np.where(self.holds(condition), self._margin(then), self._margin(otherwise))
            case e.Unless(inner, doubt):
                margin = self._margin(inner)
                return np.where(self.holds(doubt), np.minimum(margin, JUST_OUTSIDE), margin)
        return self.holds(claim).astype(float)

    def _comparison_margin(self, claim: e.Comparison) -> Floats:
        value = self.term(claim.term)
        threshold = self.term(claim.threshold)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if claim.is_above:
                inside = np.where(threshold >= 1, 1.0, (value - threshold) / (1.0 - threshold))
                outside = value / threshold
                matches = value >= threshold
            else:
                inside = (threshold - value) / threshold
                outside = np.where(value > 0, threshold / value, 0.0)
                matches = value < threshold
        inner = MATCH_MARGIN + MATCH_MARGIN * inside
        margin = np.where(matches, inner, np.minimum(JUST_OUTSIDE, MATCH_MARGIN * outside))
        unknown = np.isnan(value) | np.isnan(threshold)
        return np.where(unknown, float(claim.if_unknown), margin)


def _of_value(claim: e.Claim, value: Floats) -> Floats:
    match claim:
        case e.Known():
            return ~np.isnan(value)
        case e.HasBits(_, mask):
            return np.asarray(np.nan_to_num(value).astype(int) & mask > 0)
    return (value > 0.0) | (value < 0.0)


def _quotient(left: Floats, right: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(left / np.where(right > 0.0, right, np.nan))


_BINARY: Final[Mapping[type[e.Term], Callable[[Floats, Floats], Floats]]] = {
    e.Product: np.multiply,
    e.Quotient: _quotient,
    e.Difference: np.subtract,
}


def _first_known(one: Floats, other: Floats) -> Floats:
    return np.where(np.isnan(one), other, one)


def states_of(over: ColumnInterpreter, shape: tuple[int, ...]) -> dict[State, Floats]:
    """Return where each state is the first that matches; elsewhere it is unknown."""
    masks: dict[State, Floats] = {
        state: np.zeros(shape, bool) for state in State if state is not State.UNKNOWN
    }
    is_active = over.holds(ACTIVE)
    for rows, is_theirs in ((AT_REST, ~is_active), (AT_WORK, is_active)):
        left = over.holds(HAS_UTILIZATION) & is_theirs
        for row in rows:
            if not left.any():
                break
            matches = left & over.holds(row.claim)
            left = left & ~matches
            if row.state is not State.UNKNOWN:
                masks[row.state] = masks[row.state] | matches
    return masks


def tiers_of(over: ColumnInterpreter) -> Iterator[tuple[Tier, Floats]]:
    """Yield where each tier of telemetry is the first that matches."""
    is_left: Floats = ~_NEVER
    for tier, claim in TIERS:
        is_at = is_left & over.holds(claim)
        is_left = is_left & ~is_at
        yield tier, is_at


def waste_of(
    over: ColumnInterpreter, states: Mapping[State, Floats], used_ratio: Floats
) -> dict[Cause, Floats]:
    """Return the unused share by cause; unknown where the use is."""
    alike: dict[Losses, Floats] = {}
    for state, losses in LOSSES.items():
        alike[losses] = alike.get(losses, _NEVER) | states[state]
    waste: dict[Cause, Floats] = {}
    unused = np.maximum(0.0, 1.0 - used_ratio)
    for losses, is_theirs in alike.items():
        left = np.where(is_theirs, unused, 0.0)
        for cause, limit in losses:
            part = np.minimum(left, over.term(limit))
            waste[cause] = waste.get(cause, np.zeros(())) + part
            left = left - part
    return waste
