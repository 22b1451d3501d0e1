"""`rightsizer explain` and `advise`: the reasoning, for people and programs."""

import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Struct
from msgspec.structs import asdict, replace

from advice_history import keep_advice
from cases import NOW, after, finding
from readings import gpu, reading
from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.advice.storage import Storage
from rightsizer.agent.offline_advice import explain_offline, run_offline
from rightsizer.agent.settings import Settings
from rightsizer.cli.advise import advise_blocks
from rightsizer.cli.main import main
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.finding import (
    Action,
    Finding,
    FindingKind,
    Instruction,
    Option,
    Reason,
    Risk,
    Savings,
    Severity,
)
from rightsizer.model.settings import Spec
from rightsizer.model.signal import Signal
from rightsizer.model.state import State
from rightsizer.model.units import HOUR
from rightsizer.model.window import Window
from rightsizer.report.block_text import text_of
from rightsizer.report.explanation import explain_advice, product
from rightsizer.report.explanation_blocks import explanation_blocks
from rightsizer.web.view.advice import grouped

UUID = "GPU-00000000-1111-2222-3333-444455556666"


class Thresholds(Struct, frozen=True):
    """A rule's thresholds."""

    on_ratio: Annotated[
        float, Spec(help="Share that must be idle.", unit="ratio", source="a book")
    ] = 0.9
    patience_seconds: Annotated[float, Spec(help="How long that is borne.", unit="seconds")] = (
        7200.0
    )


class Rules(Struct, frozen=True):
    """One rule's settings."""

    idle: Thresholds = Thresholds()


def whole() -> Finding:
    """A finding with a value in every part."""
    return finding(
        devices=(UUID,),
        summary="GPU 0: held by llama but idle 97% of the last 2 h.",
        severity=Severity.HIGH,
        confidence_factors={"tier": 1.0, "coverage": 0.95, "certainty": 0.94},
        confidence=0.893,
        options=(
            Option(
                "give back: GPU 0",
                Risk.LOW,
                action=Action.RELEASE,
                time_ratio=1.2,
                time_ratio_low=1.1,
                time_ratio_high=1.4,
                fits=True,
                dollars_per_hour_low=1.0,
                dollars_per_hour_high=2.0,
                savings=Savings(gpus_low=0.9, gpus_high=1.0),
                risks={"compute": Risk.LOW, "memory": Risk.VERY_LOW},
            ),
        ),
        savings=Savings(
            gpus_low=0.9,
            gpus_high=1.0,
            dollars_per_hour_low=1.9,
            dollars_per_hour_high=3.1,
            price_source="a catalogue",
            price_date="2026-08",
        ),
        instructions=(Instruction("Delete the pod", "kubectl -n a delete pod llama", "sh"),),
        evidence={
            "window_seconds": 7200.0,
            "known_seconds": 6840.0,
            "coverage_ratio": 0.95,
            "tier": ["profiling"],
            "idle_ratio": {UUID: 0.97},
            "threshold_ratio": 0.9,
        },
    )


def test_an_explanation_reads_as_agreed(golden: Callable[[str | Path, str], None]) -> None:
    """Every section, in lines of a hundred columns, except for commands to type."""
    advice = Advice(
        whole(), AdviceState.CLAIMED, NOW, after(30), actor="ana", why="moving it on Monday"
    )
    text = text_of(explanation_blocks(explain_advice(advice, Rules(), names={UUID: "GPU 0"})))
    golden("explain.txt", text + "\n")

    long = [line for line in text.splitlines() if len(line) > 100]
    assert all("increase(" in line for line in long)


def test_evidence_of_dismissed_advice_has_no_times() -> None:
    """The time of the dismissal is not that of the evidence."""
    judged = whole()
    evidence = {**judged.evidence, "window_seconds": 7200.0, "known_seconds": 7200.0}
    advice = Advice(replace(judged, evidence=evidence), AdviceState.DISMISSED, NOW, NOW, closed=NOW)
    text = text_of(explanation_blocks(explain_advice(advice, Rules())))
    assert "2 h, of which 2 h are known" in text
    assert "from " not in next(line for line in text.splitlines() if "are known" in line)


def test_an_explanation_says_first_that_its_recommendation_has_ended() -> None:
    """Nobody acts on what is no longer open."""
    advice = Advice(whole(), AdviceState.EXPIRED, NOW, NOW, closed=NOW)
    first, *_ = text_of(explanation_blocks(explain_advice(advice, Rules()))).splitlines()
    assert "· no longer open: expired " in first


def test_as_many_cheaper_gpus_are_no_saved_ones() -> None:
    """What saves money and no GPU says how."""
    saves = Savings(0.0, 0.0, 3.0, 4.0)
    judged = replace(whole(), savings=saves, options=(Option("L4", Risk.LOW, savings=saves),))
    advice = Advice(judged, AdviceState.ACTIVE, NOW, NOW)
    text = text_of(explanation_blocks(explain_advice(advice, Rules())))
    assert text.count("a cheaper GPU in place of this one") == 2
    assert "0 GPU" not in text.replace("GPU 0", "")
    assert "saves no GPU" not in text


def test_a_list_reads_as_agreed(golden: Callable[[str | Path, str], None]) -> None:
    """Open advice by its worth, closed advice, and rules that abstained."""
    idle = whole()
    stall = finding(
        id="stall",
        kind=FindingKind.INEFFICIENT,
        reasons=(Reason.HIDDEN_STALL,),
        action=Action.INVESTIGATE_STRAGGLER,
        summary="GPU 1 is busy without working. " * 5,
        savings=Savings(reason="what the stall costs depends on its cause"),
    )
    silent = [
        finding(id=f"quiet{number}", abstained="only 30 s of telemetry", rule="idle")
        for number in range(5)
    ]
    advice = [
        Advice(stall, AdviceState.ACTIVE, NOW, NOW),
        Advice(idle, AdviceState.CLAIMED, NOW, NOW, actor="ana"),
        Advice(finding(id="minor"), AdviceState.ACTIVE, NOW - 1, NOW),
        Advice(finding(id="over"), AdviceState.EXPIRED, NOW, NOW, closed=NOW),
    ]
    text = text_of(advise_blocks([idle, stall, *silent], advice))
    golden("advise.txt", text + "\n")

    assert max(map(len, text.splitlines())) <= 100
    assert text.index("high, claimed by ana") < text.index("minor")


def test_nothing_to_say_is_said() -> None:
    """In one line."""
    assert text_of(advise_blocks([], [])) == "0 recommendations are open."


def test_factors_are_told_as_a_product() -> None:
    """With a sign that is true: rounded or cut values are approximate."""
    assert product({"tier": 0.85, "coverage": 1.0}, 0.85) == "tier 0.85 x coverage 1 = 0.85"
    assert product({"tier": 1.0}, 0.999) == "tier 1 ~ 0.999"
    assert product({}, 0.5) == "0.5"


def test_recording_that_names_gpus_by_index_has_no_promql() -> None:
    """No agent exports such a device; the index is what people know."""
    found = replace(whole(), devices=("index:1",), evidence={"idle_ratio": {"index:1": 0.97}})
    advice = Advice(found, AdviceState.ACTIVE, NOW, NOW)
    names = {"index:1": "GPU 1"}
    explanation = explain_advice(advice, Rules(), recorded={"index:1"}, names=names)
    text = text_of(explanation_blocks(explanation))
    assert "Prometheus" not in text
    assert "Where: llama on GPU 1\n" in text.replace(f"{found.workload}", "llama")
    assert "  Idle  97%" in text
    assert "index:" not in text.partition("How to")[0]


@pytest.mark.parametrize("uuid", ["pci:0000:65:00.0", "index:1"])
def test_live_gpu_without_a_uuid_has_promql(tmp_path: Path, uuid: str) -> None:
    """An agent exports it by the name that it gives it, which is its `uuid` in the metrics."""
    history = tmp_path / "h.db"
    with closing(Storage(str(history))) as storage:
        window = Window(uuid, NOW - HOUR, NOW, {State.IDLE_EMPTY: HOUR})
        device = gpu(1, uuid=uuid)
        live = reading(device, 1.0, {}).enriched({Signal.GPU_BUSY: 0.0}, "utilization")
        known = DeviceRecord(device, None, NOW, reading=live)
        storage.save_windows([window], (), [known])
    id_ = keep_advice(
        history, devices=(uuid,), evidence=whole().evidence | {"idle_ratio": {uuid: 0.97}}
    )
    queries = explain_offline(history, Settings(), id_).queries
    assert f'uuid="{uuid}"' in next(query for query in queries if query.device).promql


def test_replayed_log_is_explained_without_promql(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the whole way from the file: what the replay stores names no collector."""
    log = tmp_path / "log.csv"
    history = tmp_path / "h.db"
    start = datetime(2026, 1, 1, tzinfo=UTC)
    times = (start + timedelta(seconds=30 * number) for number in range(960))
    rows = (f"{time:%Y/%m/%d %H:%M:%S}.000, 0, 0 %, 0 MiB, 81920 MiB\n" for time in times)
    head = "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n"
    log.write_text(head + "".join(rows))
    assert main(["replay", str(log), "--into", str(history)]) == 0
    findings, advice, _ = run_offline(history, Settings())
    assert {uuid for each in findings for uuid in each.devices} == {"index:0"}
    ids = {each.id for each in (*findings, *advice)}
    assert ids
    for id_ in ids:
        assert explain_offline(history, Settings(), id_).queries == ()
    capsys.readouterr()


def test_expired_advice_says_what_that_is() -> None:
    """On a demonstration it is closed minutes after it was read."""
    advice = Advice(whole(), AdviceState.EXPIRED, NOW, NOW, closed=NOW)
    text = text_of(explanation_blocks(explain_advice(advice, Rules())))
    assert "\n  expired: over, superseded, or its workload is gone\n" in text


def test_advice_of_a_history_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For people and programs; an unknown id lists similar ones."""
    history = tmp_path / "h.db"
    facts = {
        name: getattr(whole(), name) for name in asdict(whole()) if name not in ("id", "workload")
    }
    id_ = keep_advice(history, **facts)
    flags = ("--history.path", str(history))
    assert main(["explain", id_, *flags]) == 0
    text = capsys.readouterr().out
    assert main(["explain", id_, "--json", *flags]) == 0
    document = json.loads(capsys.readouterr().out)

    assert "idle 97% of the last 2 h" in text
    assert "recommender.rules.idle.on_ratio: 0.9" in text
    assert document["confidence"]["product"] == "tier 1 x coverage 0.95 x certainty 0.94 = 0.893"
    assert [query["name"] for query in document["queries"]] == [
        "known_seconds",
        "coverage_ratio",
        "idle_ratio",
    ]
    assert main(["explain", id_, "--history.path", str(tmp_path / "none.db")]) == 1
    assert "does not exist; name one with --history.path" in capsys.readouterr().err


def test_similar_advice_shares_one_sentence() -> None:
    """From three GPUs without a workload on: the first in full, the others by name and id."""
    savings = Savings(dollars_per_hour_low=1.0, dollars_per_hour_high=1.0)
    empty = [
        Advice(
            finding(
                id=f"empty{index}",
                devices=(f"GPU-{index}",),
                workload=None,
                action=Action.RELEASE,
                summary=f"GPU {index}: empty and idle since noon.",
                savings=savings,
            ),
            AdviceState.ACTIVE,
            NOW,
            NOW,
        )
        for index in range(4)
    ]
    text = text_of(advise_blocks([], empty))
    assert text.count("Release the GPU: GPU") == 1
    assert "GPU 0: empty and idle since noon." in text
    more = (
        "and 3 more like it, which save $72 a day: GPU 1 (empty1), GPU 2 (empty2), GPU 3 (empty3)"
    )
    assert f"    {more}\n" in text
    assert "more like it" not in text_of(advise_blocks([], empty[:2]))


def test_faults_of_several_gpus_are_each_told() -> None:
    """GPUs without a workload may have different faults."""
    broken = [
        Advice(
            finding(
                id=f"broken{index}",
                kind=FindingKind.DEGRADED,
                reasons=(Reason.HARDWARE_UNHEALTHY,),
                workload=None,
                summary=f"GPU {index}: Xid {48 + index}.",
            ),
            AdviceState.ACTIVE,
            NOW,
            NOW,
        )
        for index in range(4)
    ]
    text = text_of(advise_blocks([], broken))
    assert all(f"GPU {index}: Xid {48 + index}." in text for index in range(4))
    assert [*map(len, grouped(broken))] == [1] * 4
