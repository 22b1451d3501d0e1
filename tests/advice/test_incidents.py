"""Findings of devices that share a cause become one finding of what they share."""

from typing import Any

import pytest
from msgspec.structs import replace

from cases import NOW, after, case, window
from faulty_node import (
    BUS,
    EIGHT,
    FABRIC,
    ROWS,
    closed,
    machine,
    node,
    opened,
    run,
    uuids,
)
from readings import HOUR, gpu, workload
from readings import snapshot as silence
from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.advice.engine import judge_all, judge_span
from rightsizer.advice.incident import (
    parts_of,
    with_incidents,
)
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.rules import (
    RULES,
    hardware_unhealthy,
)
from rightsizer.advice.rules.rule import Exclusion, Rule
from rightsizer.model.advice import AdviceEventKind, AdviceState
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.finding import FindingKind, Node, SharedPart
from rightsizer.model.reading import Missing, Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Down
from rightsizer.model.state import State
from rightsizer.model.units import nanoseconds
from rightsizer.model.window import Window
from standing_cases import HEALTHY, instance


def test_dead_fabric_manager_is_one_finding_of_its_domain() -> None:
    """With all eight GPUs, the domain and the cause."""
    (event,) = run(Ledger(), node(dict.fromkeys(EIGHT, FABRIC)))
    found = event.advice.finding
    assert found.kind is FindingKind.DEGRADED
    assert found.devices == found.culprits == uuids(*EIGHT)
    assert found.summary.startswith("NVLink domain (8 of 8 GPUs): GPUs 0, 1, 2, 3, 4, 5, 6 and 7")
    assert found.summary.count("has not joined the NVLink fabric") == 1
    assert found.workload is None
    texts = [instruction.text for instruction in found.instructions]
    assert len(texts) == len(set(texts))


def test_dead_nvswitch_is_one_finding_of_the_node() -> None:
    """No link is up on any GPU, so that only their past tells, and no link tells a domain."""
    down = {index: {Signal.NVLINK_LINKS_UP: 0.0} for index in EIGHT}
    past = {f"GPU-{index}": 18.0 for index in EIGHT}
    placements = replace(machine(), links=())
    cases = [
        replace(each, node=replace(each.node, nvlinks_up=past))
        for each in node(down, topology=placements)
        if each.node is not None
    ]
    (event,) = run(Ledger(), cases)
    assert event.advice.finding.devices == uuids(*EIGHT)
    assert event.advice.finding.summary.startswith("Node (8 of 8 GPUs): ")
    assert event.advice.finding.summary.count("18 of 18 NVLinks are down") == 1


def test_dead_switch_is_one_finding_of_the_gpus_below_it() -> None:
    """The nearest bridge above both is named; a switch with healthy GPUs is none."""
    (event,) = run(Ledger(), node(xids={2: BUS, 3: BUS}))
    found = event.advice.finding
    assert found.devices == uuids(2, 3)
    assert found.summary.startswith("PCIe switch or port 0000:a1:00.0 (2 of 2 GPUs): ")
    assert "fallen off the bus" in found.summary


def test_dead_root_port_is_one_finding_of_both_switches() -> None:
    """The smallest part that explains all."""
    (event,) = run(Ledger(), node(xids=dict.fromkeys(range(4), BUS)))
    assert "0000:b0:00.0 (4 of 4 GPUs)" in event.advice.finding.summary


def test_two_dead_switches_are_two_findings() -> None:
    """Without a part that most of whose GPUs are lost, there is no larger cause."""
    events = run(Ledger(), node(xids=dict.fromkeys((0, 1, 6, 7), BUS)))
    assert [event.advice.finding.devices for event in events] == [uuids(0, 1), uuids(6, 7)]


def test_power_brake_is_one_finding_of_the_node() -> None:
    """A power supply pulls the brake of all GPUs at once."""
    brake = {Signal.CLOCK_EVENT_REASONS: 128.0}
    cases = node(dict.fromkeys(EIGHT, brake), conditions=dict.fromkeys(EIGHT, 0.5))
    (event,) = run(Ledger(), cases)
    assert event.advice.finding.summary.startswith("Node (8 of 8 GPUs): ")
    assert "power supply" in event.advice.finding.summary
    assert event.advice.finding.rule == "thermal_throttled"


def test_driver_that_hangs_is_one_finding_of_the_node() -> None:
    """No GPU gives a reading."""
    (event,) = run(Ledger(), node(down=dict.fromkeys(EIGHT, "the driver does not answer")))
    assert event.advice.finding.devices == uuids(*EIGHT)
    assert event.advice.finding.summary.count("the driver does not answer") == 1


def test_driver_that_is_away_is_one_finding_of_the_node() -> None:
    """Even if all GPUs share a switch, which is not the cause; with its word and the remedy."""
    away = Down(Missing.LOST, "the NVIDIA kernel module is not loaded", is_of_driver=True)
    (event,) = run(Ledger(), node(down=dict.fromkeys((0, 1), away), indices=(0, 1)))
    found = event.advice.finding
    assert found.devices == uuids(0, 1)
    assert found.summary.startswith("Node (2 of 2 GPUs): GPUs 0 and 1: the driver is away: ")
    assert found.summary.count("the NVIDIA kernel module is not loaded") == 1
    assert [
        instruction.title for instruction in found.instructions if "driver" in instruction.title
    ] == ["Find out why the driver is away, and load it again or reboot"]


def test_driver_that_is_away_when_the_agent_starts_is_one_finding() -> None:
    """The history names the GPUs, of which no reading comes; not before five minutes."""
    accounts = NodeAccounts()
    for index in EIGHT:
        accounts.restore_record(DeviceRecord(gpu(index)))
    away = {gpu(index).uuid: Down(Missing.LOST, "not loaded", is_of_driver=True) for index in EIGHT}
    ledger = Ledger()
    for second in range(0, 420, 60):
        snapshot = silence(second, [gpu(index) for index in EIGHT], {})
        accounts.post(replace(snapshot, down=away))
        cases = accounts.snapshot(snapshot.wall_time).cases
        rules = [hardware_unhealthy.RULE]
        judged = with_incidents(
            judge_all(cases, rules),
            rules,
            lambda rule, cases=cases: cases(nanoseconds(rule.conduct().long_seconds)),
            lambda rule, _: rule,
            ledger.advice(),
        )
        events = ledger.update(judged, snapshot.wall_time)
        assert len(opened(events)) == (second == 300)
    (advice,) = ledger.advice()
    assert advice.finding.devices == uuids(*EIGHT)


@pytest.mark.parametrize("reason", [Missing.RELEASED, Missing.SUSPENDED])
def test_gpus_that_are_away_on_purpose_are_no_finding(reason: Missing) -> None:
    """Released for an update of the driver or a virtual machine, or asleep."""
    away = Down(reason, "on purpose", is_of_driver=True)
    assert not run(Ledger(), node(down=dict.fromkeys(EIGHT, away)))


def test_driver_that_is_back_ends_the_finding() -> None:
    """Once, after the quiet period."""
    ledger = Ledger()
    away = Down(Missing.LOST, "not loaded", is_of_driver=True)
    run(ledger, node(down=dict.fromkeys(EIGHT, away)))
    events = [event for minutes in range(10, 70, 10) for event in run(ledger, node(), minutes)]
    assert [event.kind for event in events] == [AdviceEventKind.CLOSED]


def test_gpu_that_is_down_for_a_moment_is_no_finding() -> None:
    """A driver reload takes minutes."""
    cases = node(down={0: "GPU is lost"})
    brief = [
        replace(each, windows=(replace(each.windows[0], states={State.UNKNOWN: 299 * 10**9}),))
        for each in cases
    ]
    assert not run(Ledger(), brief)
    assert opened(run(Ledger(), cases))


def test_cause_of_each_gpu_by_itself_stays_its_own() -> None:
    """Memory wears out on each board; two boards are two repairs."""
    events = run(Ledger(), node(dict.fromkeys(EIGHT, ROWS)))
    assert len(opened(events)) == 8
    assert all(len(event.advice.finding.devices) == 1 for event in events)


def test_instances_of_one_board_share_its_fault() -> None:
    """One finding of the GPU, however many workloads it has."""
    cut = [replace(instance(), uuid=f"MIG-{number}") for number in range(3)]
    reading = Reading("GPU-0", 0, {**HEALTHY, **ROWS})
    around = Node(devices=(gpu(0), *cut), readings={"GPU-0": reading})
    cases = [
        replace(
            case([window({State.PRODUCTIVE: 1.0})], workload(f"job-{each.uuid}"), [each]),
            node=around,
        )
        for each in cut
    ]
    (event,) = run(Ledger(), cases)
    assert event.advice.finding.devices == ("MIG-0", "MIG-1", "MIG-2")
    assert event.advice.finding.summary.startswith("GPU 0 (3 of 3 instances)")


@pytest.mark.parametrize("busy", [0, 5])
def test_free_instances_of_one_gpu_are_one_finding(busy: int) -> None:
    """However many others are held; a whole GPU that is free stays its own."""
    cut = [replace(instance(), uuid=f"MIG-{number}") for number in range(2 + busy)]
    around = Node(devices=(gpu(0), gpu(1), *cut))
    free = window({State.IDLE_EMPTY: 24.0})
    works = window({State.PRODUCTIVE: 24.0})
    cases = [case([free], None, [each]) for each in cut[:2]]
    cases += [case([works], workload(f"job-{each.uuid}"), [each]) for each in cut[2:]]
    cases.append(case([free], None, [gpu(1)]))
    cases = [replace(each, node=around) for each in cases]
    rules = [rule for rule in RULES if rule.name == "idle"]
    judgements = judge_all(lambda _: cases, rules)
    folded = with_incidents(judgements, rules, lambda _: cases, lambda rule, _: rule)
    events = Ledger().update(folded, NOW)
    found = {event.advice.finding.devices: event.advice.finding for event in opened(events)}
    assert set(found) == {("MIG-0", "MIG-1"), ("GPU-1",)}
    summary = found["MIG-0", "MIG-1"].summary
    assert summary.startswith(f"GPU 0 (2 of {2 + busy} instances): ")


def test_idle_gpus_are_no_incident() -> None:
    """Whole ones share nothing that is to be given back."""
    idle = [
        replace(
            each,
            windows=tuple(replace(one, states={State.IDLE_HELD: HOUR}) for one in each.windows),
        )
        for each in node()
    ]
    found = judge_span(idle)
    folded = with_incidents(found, RULES, lambda _: idle, lambda rule, _: rule)
    assert [each.finding for each in folded] == [each.finding for each in found]


def test_incident_keeps_its_id_while_gpus_join_and_leave() -> None:
    """The first five, then all, then three; each is named while it lasts."""
    ledger = Ledger()
    (event,) = run(ledger, node(dict.fromkeys(range(5), FABRIC)))
    for minutes, count in ((10, 8), (20, 3), (30, 8)):
        events = run(ledger, node(dict.fromkeys(range(count), FABRIC)), minutes)
        (advice,) = (each for each in ledger.advice() if each.is_open)
        assert not opened(events)
        assert not closed(events)
        assert advice.id == event.advice.id
        assert advice.finding.devices == uuids(*range(count))


def test_incident_grows_from_a_switch_to_the_node() -> None:
    """Under the same id."""
    ledger = Ledger()
    (event,) = run(ledger, node(xids={0: BUS, 1: BUS}))
    events = run(ledger, node(xids=dict.fromkeys(EIGHT, BUS)), 10)
    (advice,) = (each for each in ledger.advice() if each.is_open)
    assert not opened(events)
    assert advice.id == event.advice.id
    assert advice.finding.devices == uuids(*EIGHT)
    assert advice.finding.summary.startswith("Node (8 of 8 GPUs)")


def test_incident_outlives_its_workloads() -> None:
    """The driver's end ends the job; its GPUs are free, each a case of its own."""
    ledger = Ledger()
    fabric = dict.fromkeys(EIGHT, FABRIC)
    (event,) = run(ledger, node(fabric, held=[list(EIGHT)]))
    assert event.advice.finding.workload == workload("job-0").key
    free = [replace(each, key=each.devices[0].uuid, workload=None) for each in node(fabric)]
    assert not run(ledger, free, 10)
    (advice,) = ledger.advice()
    assert advice.id == event.advice.id
    assert advice.finding.workload is None


def test_what_remains_opens_after_the_incident() -> None:
    """After half an hour with a single sick GPU the incident ends; then that GPU has its own."""
    ledger = Ledger()
    run(ledger, node(dict.fromkeys(EIGHT, FABRIC)))
    alone = node({5: FABRIC})
    assert not run(ledger, alone, 10)
    assert not run(ledger, alone, 30)
    (ended,) = run(ledger, alone, 40)
    assert ended.kind is AdviceEventKind.CLOSED
    (event,) = run(ledger, alone, 50)
    assert event.kind is AdviceEventKind.OPENED
    assert event.advice.finding.devices == uuids(5)


def test_healthy_node_ends_the_incident_once() -> None:
    """After the quiet period, with one event."""
    ledger = Ledger()
    run(ledger, node(dict.fromkeys(EIGHT, FABRIC)))
    events = [event for minutes in range(10, 70, 10) for event in run(ledger, node(), minutes)]
    assert [event.kind for event in events] == [AdviceEventKind.CLOSED]


def test_unknown_gpus_neither_end_nor_keep_an_incident() -> None:
    """No verdict is no recovery."""
    ledger = Ledger()
    run(ledger, node(dict.fromkeys(EIGHT, FABRIC)))
    blind = [
        replace(each, node=replace(each.node, readings={}))
        for each in node()
        if each.node is not None
    ]
    for minutes in range(10, 100, 10):
        assert not run(ledger, blind, minutes)


def upgraded(state: AdviceState = AdviceState.ACTIVE) -> Ledger:
    """The ledger of a version that opened eight, after an hour."""
    ledger = Ledger()
    cases = node(dict.fromkeys(EIGHT, FABRIC))
    ledger.update(judge_all(lambda _: cases, [hardware_unhealthy.RULE]), NOW)
    assert len(ledger.advice()) == 8
    if state is not AdviceState.ACTIVE:
        for advice in ledger.advice():
            ledger.act(advice.id, state, "ana", after(5), why="known")
    return ledger


def test_eight_open_ones_become_one() -> None:
    """One opens, and the eight end at once, each with its id."""
    ledger = upgraded()
    events = run(ledger, node(dict.fromkeys(EIGHT, FABRIC)), 10)
    (event,) = opened(events)
    assert len(closed(events)) == 8
    assert {each.advice.why for each in closed(events)} == {f"part of {event.advice.id}"}
    assert [each.id for each in ledger.advice() if each.is_open] == [event.advice.id]
    assert not run(ledger, node(dict.fromkeys(EIGHT, FABRIC)), 20)


@pytest.mark.parametrize("state", [AdviceState.CLAIMED, AdviceState.SNOOZED])
def test_decision_on_all_eight_is_taken_over(state: AdviceState) -> None:
    """Who works on all of them works on the incident."""
    ledger = upgraded(state)
    run(ledger, node(dict.fromkeys(EIGHT, FABRIC)), 10)
    (advice,) = (each for each in ledger.advice() if each.is_open)
    assert (advice.state, advice.actor, advice.why) == (state, "ana", "known")


def test_dismissal_of_all_eight_dismisses_the_incident() -> None:
    """What was decided for each is not asked again for all."""
    ledger = upgraded(AdviceState.DISMISSED)
    assert not run(ledger, node(dict.fromkeys(EIGHT, FABRIC)), 10)


def test_excluded_findings_are_not_folded() -> None:
    """A policy that ignores all of them ignores the incident."""
    cases = node(dict.fromkeys(EIGHT, FABRIC))
    ignored = tuple(
        each.with_exclusions((Exclusion(why="known"),), NOW)
        for each in judge_all(lambda _: cases, [hardware_unhealthy.RULE])
    )
    rules = [hardware_unhealthy.RULE]
    assert with_incidents(ignored, rules, lambda _: cases, lambda rule, _: rule) == ignored


def test_parts_without_a_topology_are_boards_and_the_node() -> None:
    """What is not known is not named."""
    kinds = [part.kind for part in parts_of([gpu(0), gpu(1)], None)]
    assert kinds == [SharedPart.BOARD, SharedPart.BOARD, SharedPart.NODE]
    assert [part.kind for part in parts_of([gpu(0)], machine())] == [SharedPart.BOARD]


def test_a_gpu_is_told_to_be_sick_once_whoever_holds_it() -> None:
    """Short jobs come and go on it: one recommendation, opened once, of its present holder."""
    ledger = Ledger()
    held = [
        [replace(gpu_case, key=f"slurm/{job}", workload=workload(job)) for gpu_case in one]
        for job in ("first", "second", "third")
        for one in [node(xids={3: BUS}, indices=[3])]
    ]
    free = [replace(gpu_case, key="GPU-3", workload=None) for gpu_case in held[0]]
    (event,) = run(ledger, held[0])
    later = [run(ledger, cases, 10.0 * n) for n, cases in enumerate([*held[1:], free], start=1)]
    (advice,) = ledger.advice()

    assert later == [[], [], []]
    assert advice.id == event.advice.id
    assert event.advice.finding.workload == workload("first").key
    assert event.advice.finding.summary.startswith("GPU 3: Xid 79 once")
    assert advice.finding.workload is None


@pytest.mark.parametrize(("hours", "told"), [(2, "last 2 h ago"), (30, "")])
def test_the_age_of_a_fault_is_known_to_a_job_that_has_just_come(hours: int, told: str) -> None:
    """Its windows are empty, and the node's time is not."""
    (present,) = node(xids={3: XidLog({48: 1}, 48, NOW - hours * HOUR)}, indices=[3])
    assert present.node is not None
    fresh = replace(
        present,
        windows=[Window("GPU-3", start=0, end=0)],
        node=replace(present.node, wall_time=NOW),
    )
    summaries = [event.advice.finding.summary for event in run(Ledger(), [fresh])]

    assert len(summaries) == bool(told)
    assert all(told in summary for summary in summaries)


def test_a_sick_gpu_of_a_large_job_stays_sick_in_the_next() -> None:
    """The decision made on it stays, too."""
    ledger = Ledger()
    (event,) = run(ledger, node({5: ROWS}, held=[list(EIGHT)]))
    ledger.act(event.advice.id, AdviceState.CLAIMED, "ops", after(5))

    assert not run(ledger, node({5: ROWS}, held=[[4, 5], [0, 1]]), 10)
    (advice,) = ledger.advice()
    assert advice.state is AdviceState.CLAIMED
    assert advice.finding.devices == uuids(5)


def test_sick_gpus_of_one_job_are_each_its_own() -> None:
    """Two boards are two repairs, whoever holds both, and each has a recommendation of its own."""
    ledger = Ledger()
    held = [list(EIGHT)]
    events = run(ledger, node({2: ROWS}, xids={5: BUS}, held=held))
    (rows, bus) = (event.advice for event in opened(events))

    assert [advice.finding.devices for advice in (rows, bus)] == [uuids(2), uuids(5)]
    assert rows.finding.workload == bus.finding.workload == workload("job-0").key
    assert rows.finding.summary.startswith("GPU 2: remapping a memory row has failed")
    assert bus.finding.summary.startswith("GPU 5: Xid 79 once")
    assert not run(ledger, node({2: ROWS}, xids={5: BUS}, held=[[2, 5, 6]]), 10)
    ended = [
        event
        for minutes in range(20, 80, 10)
        for event in run(ledger, node(xids={5: BUS}, held=held), minutes)
    ]
    assert [(event.kind, event.advice.id) for event in ended] == [(AdviceEventKind.CLOSED, rows.id)]


def test_sick_gpus_of_a_job_over_two_nodes_are_each_its_own() -> None:
    """In a fleet; a power supply is of its node, whose part of the job it holds back."""
    (rows,) = node(dict.fromkeys((2, 5), ROWS), held=[list(EIGHT)])
    (held_back,) = node(
        {index: {Signal.CLOCK_EVENT_REASONS: 128.0} for index in EIGHT},
        conditions=dict.fromkeys(EIGHT, 0.5),
        held=[list(EIGHT)],
    )
    devices = tuple(
        replace(device, host=f"node-{place // 4}") for place, device in enumerate(rows.devices)
    )
    repairs, brakes = (
        [event.advice.finding for event in run(Ledger(), [replace(job, devices=devices)])]
        for job in (rows, held_back)
    )

    assert [finding.devices for finding in repairs] == [uuids(2), uuids(5)]
    assert [finding.devices for finding in brakes] == [uuids(0, 1, 2, 3), uuids(4, 5, 6, 7)]
    assert brakes[0].summary.startswith("Node node-0 (4 of 4 GPUs): ")


def test_sick_gpu_beside_a_dead_switch_is_its_own() -> None:
    """One job has both: the switch's GPUs are one finding, the third is another."""
    events = run(Ledger(), node({5: ROWS}, xids={2: BUS, 3: BUS}, held=[list(EIGHT)]))
    devices = [event.advice.finding.devices for event in opened(events)]

    assert sorted(devices) == [uuids(2, 3), uuids(5)]


def test_recommendation_of_a_job_ends_for_those_of_its_gpus() -> None:
    """A version that opened one for both had it claimed; so are the two."""
    ledger = Ledger()
    cases = node(dict.fromkeys((2, 5), ROWS), held=[list(EIGHT)])
    ledger.update(judge_all(lambda _: cases, [hardware_unhealthy.RULE]), NOW)
    (joint,) = ledger.advice()
    ledger.act(joint.id, AdviceState.CLAIMED, "ana", after(5))
    events = run(ledger, cases, 10)
    advice = [event.advice for event in opened(events)]

    assert [event.advice.id for event in closed(events)] == [joint.id]
    assert [each.finding.devices for each in advice] == [uuids(2), uuids(5)]
    assert {(each.state, each.actor) for each in advice} == {(AdviceState.CLAIMED, "ana")}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_only_rules_of_faults_name_shared_parts(rule: Rule[Any]) -> None:
    """Declared where the fault is found; any kind but `degraded` has none."""
    cases = node(
        {0: FABRIC, 1: {Signal.CLOCK_EVENT_REASONS: 128.0}},
        xids={2: BUS},
        conditions={1: 0.5},
    )
    for judgement in judge_all(lambda _: cases, [rule]):
        finding = judgement.finding
        if finding.kind is FindingKind.DEGRADED:
            assert finding.shared_by.keys() == set(finding.culprits)
        else:
            assert not finding.shared_by
