"""Findings of the agents on the fleet's nodes, each on its own GPUs alone."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from cases import moved
from estate.character import written
from estate.layout import JOBS, Layout, Machine
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.advice.policy import PolicySet
from rightsizer.advice.rules import RULES
from rightsizer.advice.service import Recommender
from rightsizer.catalogue.catalogue import built_in
from rightsizer.io.clock import FastClock
from rightsizer.model.finding import Finding
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.window import Window
from rightsizer.simulator.scenario import (
    BoardSlot,
    DeviceLocation,
    SimulatedScenario,
    SimulatedTask,
)
from rightsizer.simulator.source import SimulatedSource

__all__ = ["agent_findings", "whole_jobs"]

_DAY: Final = 86400 * NANOSECONDS_PER_SECOND


def whole_jobs(layout: Layout) -> frozenset[str]:
    """Keys of jobs entirely on one node, so that its agent sees what the fleet sees."""
    places: dict[str, set[str]] = {}
    for machine in layout.machines:
        for text in machine.gpus:
            places.setdefault(text.partition("@")[0], set()).add(machine.name)
    return frozenset(job.key for job in layout.jobs if len(places[job.name]) == 1)


def agent_findings(
    layout: Layout, days: int, end_seconds: int, *, tick_seconds: int = 300
) -> Mapping[str, tuple[Finding, ...]]:
    """Findings of each node's agent, by node: a day, repeated.

    New nodes have no such day.

    Args:
        layout: The fleet.
        days: Number of days seen by the agent.
        end_seconds: The time of the query, since the epoch.
        tick_seconds: Time between two of its readings.
    """
    end = end_seconds * NANOSECONDS_PER_SECOND
    findings = {}
    for machine in layout.machines:
        if machine.since_hours is not None:
            continue
        accounting = _past(_scenario(machine), days, end, tick_seconds * NANOSECONDS_PER_SECOND)
        recommender = Recommender(accounting, RULES, PolicySet(), FastClock(end))
        recommender.run()
        assert not recommender.failures
        findings[machine.name] = tuple(
            judgement.finding
            for judgement in recommender.judgements
            if judgement.finding.is_actionable
        )
    return findings


def _scenario(machine: Machine) -> SimulatedScenario:
    """The node alone, with the characters of its GPUs."""
    characters = written()
    board = next(slot.board for slot in characters.slots if slot.board.key == machine.board)
    slots = tuple(BoardSlot(index, board) for index in range(len(machine.gpus)))
    return replace(
        characters, name=machine.name, slots=slots, tasks=tuple(_tasks(machine, characters))
    )


def _tasks(machine: Machine, characters: SimulatedScenario) -> Iterator[SimulatedTask]:
    places: dict[str, list[int]] = {}
    for index, text in enumerate(machine.gpus):
        if text != "-":
            places.setdefault(text, []).append(index)
    for text, indexes in places.items():
        name, _, character = text.partition("@")
        tasks = [task for task in characters.tasks if task.workload.key == JOBS[name].key]
        task = tasks[-1] if character else tasks[0]
        # Ranks do the same at once; replicas have their own load each.
        groups = [indexes] if JOBS[name].is_in_step else [[index] for index in indexes]
        for group in groups:
            spots = tuple(DeviceLocation(index) for index in group)
            yield replace(task, spots=spots, memory=task.memory * len(spots))


def _past(
    scenario: SimulatedScenario, days: int, end: Nanoseconds, tick: Nanoseconds
) -> AccountingService:
    source = SimulatedSource(
        scenario, built_in(), start=end - _DAY, interval=tick, duration=_DAY + 1
    )
    accounts = NodeAccounts()
    windows = list[Window]()
    for snapshot in iter(source.read, None):
        accounts.post(snapshot)
        windows += accounts.drain_closed()
    devices = [
        replace(record, holder_since=end - days * _DAY) for record in accounts.device_records()
    ]
    accounting = AccountingService(AccountingSettings())
    accounting.restore(
        devices,
        (moved(window, -day * _DAY) for day in reversed(range(days)) for window in windows),
    )
    return accounting
