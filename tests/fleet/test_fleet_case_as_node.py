"""The same node history, once through its accounts and once through a store's days."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import pytest
from msgspec import Struct
from msgspec.structs import replace

from accounted_frames import frame_of
from readings import DAY, HOUR, MINUTE
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.advice.engine import judge_all
from rightsizer.advice.rules.rule import Judgement
from rightsizer.catalogue.catalogue import built_in
from rightsizer.fleet.cache.day_cache import HoldingRow
from rightsizer.fleet.cache.day_codec import pack, unpack
from rightsizer.fleet.cache.day_frame import DayFrame
from rightsizer.fleet.cache.grid import COARSE_STEP, FINE_STEP, Grid
from rightsizer.fleet.cases.case import BatchRequest, FleetCases
from rightsizer.fleet.cases.occupancy import occupancy_of
from rightsizer.fleet.model import FleetDevice
from rightsizer.model.finding import Case, Finding, Node
from rightsizer.model.reading import Reading
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import Workload
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource

FIRST = DEFAULT_START // DAY
NOW = DEFAULT_START + 2 * DAY + 2 * HOUR
TICK = 10 * MINUTE // 2


class Life(Struct, frozen=True):
    """Posted readings, and what a store would have of them."""

    accounts: NodeAccounts
    workloads: dict[str, Workload]
    seen: dict[str, list[tuple[Nanoseconds, str, float]]]
    """Holders with their shares over time, by device."""
    frames: dict[tuple[str, Grid], DayFrame] = {}

    def frame(self, uuid: str, grid: Grid) -> DayFrame:
        """A day as it is stored."""
        if (uuid, grid) not in self.frames:
            track = frame_of(self.accounts, uuid, grid, NOW)
            self.frames[uuid, grid] = unpack(grid, pack(track))
        return self.frames[uuid, grid]


@pytest.fixture(scope="module")
def life() -> Life:
    """Two days and two hours of eight GPUs with one fault each."""
    accounts = NodeAccounts()
    source = SimulatedSource(
        load_scenario("eight-gpu-node", built_in()),
        built_in(),
        interval=TICK,
        duration=NOW - DEFAULT_START + 1,
    )
    found = Life(accounts, {}, {})
    for snapshot in iter(source.read, None):
        accounts.post(snapshot)
        for uuid, holdings in snapshot.holdings.items():
            for held in holdings:
                found.workloads[held.workload.key] = held.workload
                row = (snapshot.wall_time, held.workload.key, held.share_ratio)
                found.seen.setdefault(uuid, []).append(row)
    return found


def fleet_cases(life: Life, step: Nanoseconds) -> FleetCases:
    """The same cases by tracks: the first day at a given step, the rest by five minutes."""
    grids = [Grid(FIRST, step), Grid(FIRST + 1, FINE_STEP), Grid(FIRST + 2, FINE_STEP)]
    devices = {device.uuid: FleetDevice(device, "node", "pool") for device in life.accounts.devices}
    frames = {uuid: [life.frame(uuid, grid) for grid in grids] for uuid in devices}
    rows = [
        row
        for uuid, seen in sorted(life.seen.items())
        for grid in grids
        for row in held_rows(uuid, grid, seen)
    ]
    found = occupancy_of(devices, rows, NOW, 10 * MINUTE)
    occupancy = replace(found, present=dict(sorted(found.present.items())))
    request = BatchRequest(occupancy, devices, life.workloads, FIRST, NOW)
    return FleetCases(request, frames, rows)


def held_rows(
    uuid: str, grid: Grid, seen: Iterable[tuple[Nanoseconds, str, float]]
) -> list[HoldingRow]:
    """Adjacent intervals become one row."""
    places = sorted(
        {
            (key, share, (time - grid.start - 1) // grid.step)
            for time, key, share in seen
            if grid.start < time <= min(NOW, grid.end)
        }
    )
    rows = []
    for (key, share), same in groupby(places, lambda each: each[:2]):
        run = [place for *_, place in same]
        starts = [place for place in run if place - 1 not in run]
        ends = [place for place in run if place + 1 not in run]
        for first, last in zip(starts, ends, strict=True):
            rows.append(HoldingRow(uuid, "rightsizer", grid, key, first, last, share))
    return rows


def verdicts(judgements: Iterable[Judgement]) -> dict[tuple[str, str], Judgement]:
    """Verdicts by key and rule."""
    return {(judgement.key, judgement.finding.rule): judgement for judgement in judgements}


def said(finding: Finding) -> tuple[object, ...]:
    """Values that must be equal in both; the ID covers the rounded target."""
    complaint = (finding.id,) if finding.is_actionable else ()
    return (finding.kind, finding.reasons, finding.action, *complaint)


@pytest.mark.parametrize("step", [FINE_STEP, COARSE_STEP])
def test_the_node_and_the_fleet_say_the_same(life: Life, step: Nanoseconds) -> None:
    """Findings, reasons, actions, rounded targets and eligibility for a recommendation agree."""

    def unread(case: Case) -> Node:
        """A node with its history only, as is common in fleets."""
        return Node(readings={device.uuid: Reading(device.uuid, 0, {}) for device in case.devices})

    node = verdicts(
        judge_all(
            lambda span: [
                replace(case, node=unread(case)) for case in life.accounts.snapshot(NOW).cases(span)
            ]
        )
    )
    fleet = verdicts(judge_all(fleet_cases(life, step).cases))
    assert fleet.keys() == node.keys()
    assert sum(each.finding.is_actionable for each in node.values()) >= 5
    for key, mine in node.items():
        theirs = fleet[key]
        assert said(theirs.finding) == said(mine.finding), key
        assert (theirs.may_open, theirs.still_holds) == (mine.may_open, mine.still_holds), key


def test_windows_are_those_of_the_node(life: Life) -> None:
    """They agree state by state to the second, over a day that ends now."""
    node = {each.key: each for each in life.accounts.snapshot(NOW).cases(DAY)}
    fleet = {each.key: each for each in fleet_cases(life, FINE_STEP).cases(DAY)}
    for key, case in node.items():
        for mine, theirs in zip(case.windows, fleet[key].windows, strict=True):
            assert theirs.uuid == mine.uuid
            for state, time in mine.states.items():
                assert theirs.states.get(state, 0) == pytest.approx(time, abs=2 * 10**9)
            assert theirs.used_seconds == pytest.approx(mine.used_seconds, rel=1e-3)
            assert theirs.energy_joules == pytest.approx(mine.energy_joules, rel=1e-3)
