"""A recording with known truth through the whole chain, and the JSON of the design."""

import csv
import json
import tempfile
from collections.abc import Mapping
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from recordings import BOARD, SIGNALS_OF, START, replayed, write_recording, write_states
from rightsizer.advice.policy import Policy, PolicyMatch
from rightsizer.advice.rules import RULES
from rightsizer.agent.offline_advice import run_offline
from rightsizer.agent.replay import Replay, filled_history, replay, replay_document
from rightsizer.agent.settings import Settings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.cli.replay import replay_blocks
from rightsizer.io.codec import plain
from rightsizer.model.finding import Finding, Reason
from rightsizer.model.signal import Signal
from rightsizer.model.state import State, UnknownReason
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.model.workload import WorkloadClass
from rightsizer.recordings.source import open_recording
from rightsizer.report.block_text import text_of
from rightsizer.report.labels import UNKNOWN_LABELS
from rightsizer.report.timeline import Timeline

HOUR: Final = 3600
EVERY: Final = tuple(SIGNALS_OF)
FORM_KEYS: Final = {
    "uuid",
    "index",
    "name",
    "tier",
    "seconds",
    "states",
    "conditions",
    "waste",
    "signals",
    "needs",
    "overprovisioned",
    "saturated",
    "underprovisioned",
}
FINDING_KEYS: Final = {
    "id",
    "rule",
    "finding",
    "reasons",
    "devices",
    "culprits",
    "workload",
    "action",
    "summary",
    "options",
    "confidence",
    "confidence_factors",
    "risk",
    "savings",
    "evidence",
    "abstained",
}


def verdict(result: Replay, rule: str) -> Finding:
    """A rule's verdict on the only case."""
    (found,) = (finding for finding in result.findings if finding.rule == rule)
    return found


def test_every_second_gets_the_state_that_it_was(tmp_path: Path) -> None:
    """Ten states of a hundred seconds each; none is mistaken for another."""
    log = write_states(tmp_path / "log.csv", *((state, 100) for state in EVERY))
    (device,) = replayed(log).devices

    assert device.window.states == dict.fromkeys(EVERY, 100 * NANOSECONDS_PER_SECOND)


def test_a_gap_is_unknown_beyond_the_longest_usual_one(tmp_path: Path) -> None:
    """The reading after a gap accounts for five seconds; the time before is unknown."""
    log = write_states(
        tmp_path / "log.csv",
        (State.PRODUCTIVE, 50),
        (State.UNKNOWN, 60),
        (State.IDLE_HELD, 50),
    )
    (device,) = replayed(log).devices

    assert dict(device.window.states) == {
        State.PRODUCTIVE: 50 * NANOSECONDS_PER_SECOND,
        # The first reading after the gap is one second late.
        State.UNKNOWN: 56 * NANOSECONDS_PER_SECOND,
        State.IDLE_HELD: 54 * NANOSECONDS_PER_SECOND,
    }


@pytest.mark.parametrize(("interval", "between"), [(60, 600), (300, 1800), (1200, 1800)])
def test_sparse_recording_is_judged_less_often(tmp_path: Path, interval: int, between: int) -> None:
    """Runs of the rules are six readings apart if these are sparse, up to half an hour."""
    log = write_states(tmp_path / "log.csv", (State.IDLE_HELD, 6 * HOUR), interval_seconds=interval)
    (advice,) = replayed(log).advice
    since_start = advice.opened // NANOSECONDS_PER_SECOND - START
    assert since_start % between < interval


@given(
    steps=st.lists(
        st.tuples(
            st.integers(1, 20_000_000), st.sampled_from(EVERY), st.sampled_from(["GPU-0", "GPU-1"])
        ),
        min_size=2,
        max_size=60,
    )
)
def test_states_sum_to_wall_time_exactly(steps: list[tuple[int, State, str]]) -> None:
    """For any times and missing readings: last minus first, to the nanosecond."""
    at_microseconds = 0
    rows = []
    times = dict[str, list[int]]()
    for step, state, device in steps:
        at_microseconds += step
        rows.append((at_microseconds / 1e6, device, SIGNALS_OF[state]))
        times.setdefault(device, []).append(at_microseconds)
    with tempfile.TemporaryDirectory() as folder:
        result = replayed(write_recording(Path(folder) / "log.csv", rows))

    for summary in result.devices:
        of_device = times[summary.device.uuid]
        assert summary.window.accounted == (of_device[-1] - of_device[0]) * 1000
    assert {summary.device.uuid for summary in result.devices} == set(times)


def test_the_timeline_covers_the_recording_without_a_hole(tmp_path: Path) -> None:
    """Each stretch ends where the next begins, in chronological order."""
    log = write_states(tmp_path / "log.csv", *((state, 60) for state in EVERY))
    source = open_recording([log], catalogue=built_in(), board=BOARD)
    with Timeline.open(tmp_path / "out.csv") as timeline:
        replay(source, Settings(), sinks=[timeline.write])
    source.close()
    with (tmp_path / "out.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))

    assert [(line["start"], line["state"]) for line in lines] == [
        (str(START + 60 * place), str(state)) for place, state in enumerate(EVERY)
    ]
    assert all(before["end"] == after["start"] for before, after in pairwise(lines))


def test_every_rule_says_something_of_every_device(tmp_path: Path) -> None:
    """Abstentions included: silence would look healthy."""
    both = write_recording(
        tmp_path / "log.csv",
        [
            (float(at), device, SIGNALS_OF[State.IDLE_HELD])
            for at in range(200)
            for device in ("GPU-0", "GPU-1")
        ],
    )
    said = [(finding.rule, finding.devices) for finding in replayed(both).findings]

    assert sorted(said) == sorted(
        (rule.name, (device,)) for rule in RULES for device in ("GPU-0", "GPU-1")
    )


@pytest.mark.parametrize(
    ("state", "rule", "reason"),
    [
        (State.IDLE_HELD, "idle", Reason.IDLE_HELD),
        (State.IDLE_EMPTY, "idle", Reason.IDLE_EMPTY),
        (State.HIDDEN_STALL, "hidden_stall", Reason.HIDDEN_STALL),
    ],
)
def test_the_verdict_names_what_was_true(
    tmp_path: Path, state: State, rule: str, reason: Reason
) -> None:
    """Without grace or hysteresis: a ten-minute stall is enough for a finding, not for advice.

    Idleness becomes a finding, and advice, after the rule's minimum idle time.
    """
    lasting = 600 if state is State.HIDDEN_STALL else 110 * 60
    result = replayed(write_states(tmp_path / "log.csv", (state, lasting), interval_seconds=10))

    assert verdict(result, rule).reasons == (reason,)
    assert [finding.rule for finding in result.findings if finding.is_actionable] == [rule]
    assert (result.advice == ()) == (state is State.HIDDEN_STALL)


def test_few_idle_minutes_are_nothing_to_act_on(tmp_path: Path) -> None:
    """The summary has the idle time so far, and when it will be reported."""
    found = verdict(replayed(write_states(tmp_path / "log.csv", (State.IDLE_HELD, 5400))), "idle")

    assert not found.is_actionable
    assert "so far; a recommendation opens after 1 h 48 min." in found.summary


def test_a_gpu_at_work_is_not_complained_of(tmp_path: Path) -> None:
    """It has neither finding nor advice."""
    log = write_states(tmp_path / "log.csv", (State.COMPUTE_BOUND, 3 * HOUR), interval_seconds=10)
    result = replayed(log)

    assert [finding for finding in result.findings if finding.is_actionable] == []
    assert result.advice == ()


def test_advice_is_what_an_agent_would_have_opened_and_closed(tmp_path: Path) -> None:
    """Four idle hours open it after two, work closes it, and the replay reports both."""
    log = write_states(
        tmp_path / "log.csv",
        (State.COMPUTE_BOUND, HOUR),
        (State.IDLE_HELD, 4 * HOUR),
        (State.COMPUTE_BOUND, 2 * HOUR),
        interval_seconds=10,
    )
    (advice,) = replayed(log).advice
    opened, closed = (
        time / NANOSECONDS_PER_SECOND - START
        for time in (advice.opened, advice.closed or advice.opened)
    )

    assert (advice.finding.rule, advice.is_open) == ("idle", False)
    assert 2.5 * HOUR < opened < 3.5 * HOUR
    assert 5 * HOUR < closed < 6 * HOUR


def test_closed_advice_of_a_long_recording_is_reported_too(tmp_path: Path) -> None:
    """An agent drops it after a month, but a replay of two months reports it."""
    log = write_states(
        tmp_path / "log.csv",
        (State.IDLE_HELD, 12 * HOUR),
        (State.COMPUTE_BOUND, 33 * 24 * HOUR),
        interval_seconds=1800,
    )
    every_six_hours = replace(Settings().recommender, interval=6.0 * HOUR)
    settings = replace(Settings(), recommender=every_six_hours)

    assert [advice.finding.rule for advice in replayed(log, settings=settings).advice] == ["idle"]


def test_the_same_recording_gives_the_same_bytes(tmp_path: Path) -> None:
    """Ids, order and every digit."""
    chapters = ((State.HIDDEN_STALL, 2 * HOUR), (State.IDLE_HELD, 3 * HOUR))
    texts = set()
    for name in ("a.csv", "b.csv"):
        log = write_states(tmp_path / name, *chapters, interval_seconds=10)
        texts.add(json.dumps(plain(replay_document(replayed(log)))))

    assert len(texts) == 1


def test_files_of_one_recording_merge_in_any_order(tmp_path: Path) -> None:
    """A file of load and one of memory form one recording."""
    rows: Mapping[str, tuple[Signal, str]] = {
        "busy.csv": (Signal.GPU_BUSY, "0.6"),
        "memory.csv": (Signal.MEMORY_USED_BYTES, "9000000000"),
    }
    for name, (signal, value) in rows.items():
        lines = [f"{START + at},GPU-0,{value}" for at in range(100)]
        (tmp_path / name).write_text("\n".join([f"timestamp,device,{signal}", *lines]) + "\n")
    paths = [tmp_path / name for name in rows]
    forth = plain(replay_document(replayed(*paths)))
    back = plain(replay_document(replayed(*reversed(paths))))

    assert forth == back
    assert set(forth["devices"][0]["signals"]) >= {"gpu_busy", "memory_used"}


def test_advice_on_pods_closes_when_they_end(tmp_path: Path) -> None:
    """Absent pods cannot be scaled or released, although another pod continues."""
    idle = SIGNALS_OF[State.IDLE_HELD]
    busy = SIGNALS_OF[State.COMPUTE_BOUND]
    rows = [(at, "POD-1", busy) for at in range(0, 12 * HOUR, 60)]
    rows += [(at, "POD-0", idle) for at in range(0, 5 * HOUR, 60)]
    result = replayed(write_recording(tmp_path / "log.csv", sorted(rows, key=itemgetter(0))))
    (advice,) = (each for each in result.advice if each.finding.devices == ("POD-0",))

    assert advice.closed is not None
    assert advice.closed < (START + 8 * HOUR) * NANOSECONDS_PER_SECOND
    assert {summary.device.uuid for summary in result.devices} == {"POD-0", "POD-1"}


def test_the_form_has_every_key_of_the_design(tmp_path: Path) -> None:
    """Scripts rely on them."""
    log = write_states(tmp_path / "log.csv", (State.IDLE_HELD, 3 * HOUR), interval_seconds=10)
    document = plain(replay_document(replayed(log)))
    (device,), (advice,) = document["devices"], document["advice"]

    keys = {"interval_seconds", "span", "evidence", "devices", "findings", "advice"}
    assert set(document) == keys
    assert set(device) >= FORM_KEYS
    assert device["seconds"] == 3 * HOUR
    assert device["states"] == {"idle_held": 3 * HOUR}
    assert set(device["signals"]["gpu_busy"]) == {"mean", "p50", "p95", "p99", "max"}
    assert all(set(finding) >= FINDING_KEYS for finding in document["findings"])
    assert set(advice) >= FINDING_KEYS | {"state", "opened", "updated", "expires", "actor"}


def test_energy_is_null_where_power_was_never_read(tmp_path: Path) -> None:
    """0 would mean a measured zero."""
    rows = "".join(f"{START + at},pod-a,0.6\n" for at in range(100))
    (tmp_path / "log.csv").write_text(f"timestamp,device,gpu_busy\n{rows}")
    (device,) = plain(replay_document(replayed(tmp_path / "log.csv")))["devices"]

    assert device["seconds"] == 99
    assert [device[key] for key in ("energy_joules", "used_joules", "waste_joules")] == [None] * 3
    assert device["index"] is None


@pytest.mark.parametrize(
    ("columns", "cells", "why"),
    [
        ("power_watts,power_limit_watts", "300,400", UnknownReason.NO_UTILIZATION),
        ("gpu_busy,power_watts,power_limit_watts", "0,390,400", UnknownReason.DRAWS_POWER),
        ("gpu_busy,process_count,memory_used_bytes", "0.9,0,0", UnknownReason.NO_HOLDER),
        ("tensor_active", "0", UnknownReason.PARTIAL_COUNTERS),
    ],
)
def test_unknown_time_says_why(
    tmp_path: Path, columns: str, cells: str, why: UnknownReason
) -> None:
    """A log of power alone, contradictions, and signals that would not show a kernel."""
    rows = "".join(f"{START + at},pod-a,{cells}\n" for at in (*range(100), *range(200, 250)))
    (tmp_path / "log.csv").write_text(f"timestamp,device,{columns}\n{rows}")
    result = replayed(tmp_path / "log.csv")
    (device,) = plain(replay_document(result))["devices"]

    assert device["states"] == {"unknown": 249}
    assert device["unknown_reasons"] == {str(why): 153, "no_reading": 96}
    text = " ".join(text_of(replay_blocks(result)).split())
    assert f"unknown 61.4%: {UNKNOWN_LABELS[why]}" in text


def test_texts_call_a_gpu_what_its_log_calls_it(tmp_path: Path) -> None:
    """An internal index that orders the devices of a log without indices is never shown."""
    log = write_states(
        tmp_path / "log.csv", (State.IDLE_HELD, 4 * HOUR), device="pod-x", interval_seconds=10
    )
    result = replayed(log)
    text = json.dumps(plain(replay_document(result))) + text_of(replay_blocks(result))

    assert "pod-x" in verdict(result, "idle").summary
    assert "GPU 0" not in text


def test_a_recording_of_one_poll_accounts_for_nothing(tmp_path: Path) -> None:
    """It has devices and no length; every rule over time abstains."""
    by_facts = {"rank_imbalance", "gpu_count", "sharing", "exhaustion_forecast"}  # of one free GPU
    result = replayed(
        write_recording(tmp_path / "log.csv", [(0.0, "GPU-0", SIGNALS_OF[State.PRODUCTIVE])])
    )

    assert [summary.window.accounted for summary in result.devices] == [0]
    judged = {finding.rule for finding in result.findings if not finding.abstained}
    assert judged <= by_facts | {"hardware_unhealthy"}
    assert not any(finding.is_actionable for finding in result.findings)


def test_a_history_filled_by_a_replay_can_be_advised_on(tmp_path: Path) -> None:
    """The same rules over the same windows, later, without the recording."""
    log = write_states(tmp_path / "log.csv", (State.IDLE_HELD, 4 * HOUR), interval_seconds=10)
    source = open_recording([log], catalogue=built_in(), board=BOARD)
    with filled_history(tmp_path / "history.db") as filling:
        result = replay(source, Settings(), into=filling)
    source.close()
    findings, advice, _ = run_offline(tmp_path / "history.db", Settings())

    assert [(finding.rule, finding.id) for finding in findings if finding.is_actionable] == [
        (finding.rule, finding.id) for finding in result.findings if finding.is_actionable
    ]
    assert [each.id for each in advice] == [each.id for each in result.advice]
    assert not list(tmp_path.glob(".*"))


def test_productive_is_not_used(tmp_path: Path) -> None:
    """A saw-tooth of 29% on average is active nearly all the time, and mostly headroom."""
    teeth = (0.06, 0.2, 0.34, 0.56)
    rows = "".join(f"{START + at},GPU-0,{teeth[at % 4]}\n" for at in range(1201))
    (tmp_path / "log.csv").write_text(f"timestamp,device,gpu_busy\n{rows}")
    result = replayed(tmp_path / "log.csv")
    (device,) = plain(replay_document(result))["devices"]

    assert device["states"] == {"productive": 1200}
    assert device["effective_utilization"] == pytest.approx(0.29, abs=0.001)
    assert device["headroom_ratio"] == pytest.approx(0.71, abs=0.001)
    text = text_of(replay_blocks(result))
    assert "effective utilization 29.0%, headroom 71.0%, busy 29.0% on average" in text


def test_advice_to_scale_with_the_load_closes_when_the_pods_end(tmp_path: Path) -> None:
    """Within two runs of the ledger's hour, although other pods on the node continue."""
    ended = 91 * HOUR
    rows = []
    for at in range(0, 96 * HOUR, 300):
        is_day = 8 <= at // HOUR % 24 < 20
        loads = {f"pod-{phase}": 0.4 * (is_day and at // 300 % 4 != phase) for phase in range(4)}
        for pod, load in loads.items() if at <= ended else ():
            rows.append(f"{START + at},{pod},chat,{load},{load},{load / 2},0.5\n")
        rows.append(f"{START + at},other,train,0.9,0.9,0.45,0.5\n")
    header = "timestamp,device,workload,gpu_busy,sm_active,tensor_active,memory_used\n"
    (tmp_path / "log.csv").write_text(header + "".join(rows))
    settings = Settings(
        policies=(Policy(PolicyMatch(owner="chat"), WorkloadClass.SERVING),),
        recommender=replace(Settings().recommender, interval=float(HOUR)),
    )

    result = replayed(tmp_path / "log.csv", settings=settings)
    (advice,) = (each for each in result.advice if each.finding.rule == "diurnal_autoscale")

    assert set(advice.finding.devices) == {f"pod-{phase}" for phase in range(4)}
    assert advice.closed is not None
    assert 0 < advice.closed / NANOSECONDS_PER_SECOND - START - ended <= 3 * HOUR
