"""Properties of all fleet rules, for any input."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from estate_views import MARKET, complaints, findings, hours, pool, view, work
from rightsizer.advice.rules.rule import OpeningPolicy
from rightsizer.fleet.model import FleetPool, FleetView, HourlySeries
from rightsizer.fleet.pools.hourly import SpareSettings, spare_of
from rightsizer.fleet.rules import FLEET_RULES
from rightsizer.fleet.rules.rule import FleetRule
from rightsizer.model.finding import Reason, Risk
from rightsizer.model.settings import descriptions_of
from rightsizer.model.workload import WorkloadClass

shapes = st.tuples(st.integers(0, 32), st.integers(0, 32), st.integers(0, 23), st.integers(1, 24))


def course_of(shape: tuple[int, int, int, int]) -> Any:
    """Held GPUs by the hour of the day."""
    one, other, first, length = shape
    return lambda hour: float(one if (hour - first) % 24 < length else other)


def estate(shape: tuple[int, int, int, int], small: int, compute: float) -> FleetView:
    """A pool with a daily cycle, one of small workloads, and a spare one."""
    works = [
        work(
            f"s-{at}",
            "small",
            {"small-0": 1},
            WorkloadClass.NOTEBOOK if at % 2 else WorkloadClass.SERVING,
            compute=compute,
            memory=0.2,
            first=at,
            namespace=f"n-{at % 3}",
        )
        for at in range(small)
    ]
    pools = [
        pool("daily", course_of(shape)),
        pool("small", course_of((8, 8, 0, 24)), nodes=1),
        pool("spare", course_of((4, 4, 0, 24)), nodes=2),
    ]
    return view(pools, works)


def shuffled(of: FleetView, random: Random) -> FleetView:
    """The same values in another order."""

    def mixed(given: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(random.sample(given, len(given)))

    def turned(each: FleetPool) -> FleetPool:
        nodes = random.sample(list(each.size_by_node), len(each.size_by_node))
        return replace(
            each,
            devices=mixed(each.devices),
            size_by_node={node: each.size_by_node[node] for node in nodes},
            node_free={node: each.node_free[node] for node in reversed(nodes)},
        )

    pools = mixed([turned(each) for each in of.pools])
    return replace(of, pools=pools, workloads=mixed(of.workloads))


@settings(max_examples=15)
@given(shapes, st.integers(0, 6), st.floats(0.05, 0.6), st.randoms(use_true_random=False))
def test_the_order_of_things_is_none_of_a_verdict(
    shape: tuple[int, int, int, int], small: int, compute: float, random: Random
) -> None:
    """Stores return pools, devices, nodes and workloads in any order."""
    of = estate(shape, small, compute)
    assert findings(shuffled(of, random)) == findings(of)


def longer(of: HourlySeries, unknown: int) -> HourlySeries:
    """Unknown hours appended to the known ones."""
    return HourlySeries(of.start, [*of.values, *[None] * unknown])


@settings(max_examples=15)
@given(shapes, st.integers(1, 14 * 24))
def test_unknown_hours_create_no_advice(shape: tuple[int, int, int, int], unknown: int) -> None:
    """Unknown hours do not count as idle."""
    of = estate(shape, 4, 0.2)
    pools = tuple(
        replace(
            each,
            present=longer(each.present, unknown),
            held=longer(each.held, unknown),
            held_peak=longer(each.held_peak, unknown),
            active=longer(each.active, unknown),
            node_free={node: longer(free, unknown) for node, free in each.node_free.items()},
        )
        for each in of.pools
    )
    works = tuple(
        replace(
            workload,
            busy=longer(workload.busy, unknown),
            compute=longer(workload.compute, unknown),
            memory_bytes=longer(workload.memory_bytes, unknown),
        )
        for workload in of.workloads
    )
    then = replace(of, pools=pools, workloads=works, end=of.end + unknown * 3600 * 10**9)
    assert set(complaints(then)) <= set(complaints(of))


@given(
    st.lists(st.one_of(st.none(), st.integers(0, 32)), min_size=1, max_size=48),
    st.integers(0, 47),
    st.integers(0, 32),
)
def test_more_load_never_frees_more_gpus(values: list[int | None], at: int, more: int) -> None:
    """If more had been held, no more GPUs would be spare."""
    one = pool("any", lambda hour: values[hour % len(values)], days=2)
    held = list(one.held_peak.values)
    held[at] = min(32.0, (held[at] or 0.0) + more)
    if values[at % len(values)] is None:
        return
    risen = replace(one, held_peak=replace(one.held_peak, values=held))
    assert spare_of(risen, SpareSettings()).gpus <= spare_of(one, SpareSettings()).gpus


@settings(max_examples=10)
@given(st.floats(0.05, 0.5), st.integers(2, 8))
def test_packing_places_nobody_twice(compute: float, small: int) -> None:
    """This holds for every way of sharing."""
    found = findings(estate((8, 8, 0, 24), small, compute))["packing", "pool/small"]
    together = found.evidence.get("together", [])
    assert isinstance(together, list)
    placed = [key for each in together for key in each["workloads"]]
    assert len(placed) == len(set(placed))


def test_an_estate_of_which_nothing_is_known_gets_no_advice() -> None:
    """Every rule abstains or finds no problem."""
    dark = pool("dark", lambda _: None)
    nothing = hours(lambda _: None)
    job = work("job", "dark", {"dark-0": 1}, WorkloadClass.NOTEBOOK, compute=lambda _: None)
    job = replace(job, busy=nothing, memory_bytes=nothing)
    assert complaints(view([dark], [job])) == {}


def test_an_empty_estate_has_no_verdicts() -> None:
    """The store has no devices."""
    assert findings(view([])) == {}


def test_the_registry_names_every_rule_once() -> None:
    """Configuration, documentation and ledger refer to rules by name."""
    names = [rule.name for rule in FLEET_RULES]
    assert len(names) == len(set(names)) == 11


@pytest.mark.parametrize("rule", FLEET_RULES, ids=lambda rule: rule.name)
def test_every_threshold_is_a_setting_with_its_source(rule: FleetRule[Any]) -> None:
    """The spans of the opening policy lie within one another."""

    def bare(of: Any) -> list[str]:
        found = []
        known = descriptions_of(type(of))
        for field in of.__struct_fields__:
            value = getattr(of, field)
            if isinstance(value, Struct):
                found.extend(bare(value))
            elif not (described := known.get(field)) or not (described.help and described.source):
                found.append(field)
        return found

    assert bare(rule.settings) == []
    conduct = rule.conduct()
    assert isinstance(conduct, OpeningPolicy)
    assert conduct.short_seconds < conduct.long_seconds
    assert conduct.minimum_known_seconds <= conduct.long_seconds
    assert rule.relaxed(0.6).settings.on_ratio == pytest.approx(0.6 * rule.settings.on_ratio)


def test_every_finding_names_a_known_risk_and_reason() -> None:
    """Labels of every output exist for it."""
    for complaint in complaints(estate((30, 4, 8, 12), 6, 0.2)).values():
        assert complaint.reasons[0] in Reason
        assert complaint.risk in Risk
        assert 0.0 < complaint.confidence <= 1.0
        assert MARKET.settings.minimum_confidence_ratio <= complaint.confidence
