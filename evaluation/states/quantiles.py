"""Quantiles from a histogram's buckets against those of the raw readings."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from evaluation.options import Options
from evaluation.simulated_day import simulated_ticks
from measured import table
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.model.histogram import BINS, Distribution
from rightsizer.model.state import ACTIVE_STATES, Resource, State
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Entry

SHARES: Final = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.97, 0.99, 1.0)
_BIN: Final = 1 / (BINS - 1)
_ROUNDING: Final = 1e-9
_SCENARIOS: Final = 12
"""The first of them, by name; each has distributions of its own."""

Weighted = tuple[float, Nanoseconds]


def evaluate(options: Options) -> Iterator[str]:
    """The largest errors of what is demanded of each resource, over a whole day."""
    rows: dict[Resource, list[tuple[int, float]]] = defaultdict(list)
    for path in sorted(options.scenarios.glob("*.yaml"))[:_SCENARIOS]:
        accounts = NodeAccounts()
        raw = dict[tuple[str, Resource], list[Weighted]]()
        for tick in simulated_ticks(
            path, options.first_seed, options.tick_seconds, is_varied=options.are_varied
        ):
            for entry in accounts.post(tick.snapshot):
                for resource, share in _demanded(entry):
                    raw.setdefault((entry.uuid, resource), []).append((share, entry.duration))
        for (uuid, resource), readings in raw.items():
            found = accounts.device(uuid).whole.window().demands[resource]
            rows[resource].append((len(readings), worst_error_bins(found, readings)))
    yield table(
        (
            (
                str(resource),
                str(len(errors)),
                str(sum(count for count, _ in errors)),
                f"{max(error for _, error in errors):.2f}",
                "pass" if all(error <= 1.0 + _ROUNDING for _, error in errors) else "FAIL",
            )
            for resource, errors in sorted(rows.items())
        ),
        ("demand", "devices", "readings", "largest error, bins", "at most 1"),
    )
    yield (
        "\nQuantiles of 5, 25, 50, 75, 90, 95, 97, 99 and 100% of the time of each device, "
        "against those of all its readings sorted; a bin is 0.01.\n"
    )


def _demanded(entry: Entry) -> Iterable[tuple[Resource, float]]:
    """By the definition of a demand: while at work, and for memory while it is held."""
    for resource, share in entry.shares.items():
        is_held = resource is Resource.MEMORY and entry.state is State.IDLE_HELD
        if entry.state in ACTIVE_STATES or is_held:
            yield resource, share


def exact_quantile(readings: Sequence[Weighted], share: float) -> float:
    """The smallest reading up to which a share of the weight lies."""
    ordered = sorted(readings)
    target = share * sum(weight for _, weight in ordered) * (1.0 - 1e-12)
    reached = 0
    for value, weight in ordered:
        reached += weight
        if reached >= target:
            return value
    return ordered[-1][0]


def worst_error_bins(found: Distribution, readings: Sequence[Weighted]) -> float:
    """Largest error of a quantile, in bins."""
    worst = 0.0
    for share in SHARES:
        quantile = found.quantile(share)
        if quantile is None:
            return math.inf
        worst = max(worst, abs(quantile - exact_quantile(readings, share)) / _BIN)
    return worst
