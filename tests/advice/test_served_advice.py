"""What the planner answers about engines becomes recommendations of their workloads."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from cases import NOW, after, case, window
from readings import gpu, workload
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.rules.rule import Judgement
from rightsizer.advice.served import EngineAnswer, served_judgements
from rightsizer.io.codec import convert
from rightsizer.model.finding import Action, FindingKind, Reason, Savings
from rightsizer.model.state import State
from rightsizer.web.view.advice import target_label, title_label

CHAT: Final[dict[str, Any]] = {"model": "org/chat-8b", "engine": "vllm", "window_seconds": 9e4}
HELD: Final = case(
    [window({State.PRODUCTIVE: 24.0}), window({State.PRODUCTIVE: 24.0})],
    workload("chat"),
    [gpu(0), gpu(1)],
)


def change(gpu_key: str, count: int, dollars: float | None) -> dict[str, Any]:
    """One way to run it, saving as many dollars as more than three parts and less than five."""
    return {
        "change": f"{count} x {gpu_key}",
        "text": f"{count} x {gpu_key}: as advised",
        "candidate": {"gpu": gpu_key, "paid_count": count, "fits": True},
        "probability": 0.97,
        "risk": "Low",
        "canary": "send it a tenth of the traffic",
        "launch": "vllm serve org/chat-8b",
        "savings_dollars_per_hour": dollars,
        "savings_dollars_per_hour_low": dollars and 0.75 * dollars,
        "savings_dollars_per_hour_high": dollars and 1.25 * dollars,
    }


def answer(
    kind: str = "", *changes: dict[str, Any], abstained: str = "", devices: str = "GPU-0 GPU-1"
) -> EngineAnswer:
    """What is answered about an engine on two H100."""
    problem = {
        "kind": kind,
        "summary": f"chat: {kind}",
        "abstained": abstained or None,
        "options": changes,
    }
    fields = {
        "name": "chat",
        "load": {**CHAT, "devices": devices.split()},
        "predicted": {"gpu": "H100", "paid_count": 2},
        "findings": [problem] if kind else [],
    }
    return convert(fields, EngineAnswer)


def judged(*answers: EngineAnswer) -> Judgement:
    """The judgement of the workload."""
    (judgement,) = served_judgements(answers, [HELD, case([window({})], None, [gpu(2)])])
    return judgement


@pytest.mark.parametrize(
    ("kind", "after_gpu", "reason", "action"),
    [
        ("too_large", "L40S", Reason.GPU_OVERPROVISIONED, Action.CHANGE_GPU_TYPE),
        ("too_large", "H100", Reason.GPU_OVERPROVISIONED, Action.REDUCE_GPU_COUNT),
        ("wide_format", "H100", Reason.GPU_OVERPROVISIONED, Action.REDUCE_GPU_COUNT),
        ("by_hour", "H100", Reason.DIURNAL_AUTOSCALE, Action.AUTOSCALE),
    ],
)
def test_engine_with_more_than_it_needs_is_advised_with_its_savings(
    kind: str, after_gpu: str, reason: Reason, action: Action
) -> None:
    """With the plan's certainty, risk, launch and canary."""
    judgement = judged(answer(kind, change(after_gpu, 1, 4.0)))
    finding = judgement.finding

    assert judgement.may_open
    assert (finding.reasons, finding.action) == ((reason,), action)
    assert finding.summary == f"GPUs 0 and 1: chat: {kind}."
    assert finding.confidence == 0.97
    assert finding.savings.dollars_per_hour == 4.0
    assert finding.savings.gpus_low == (None if kind == "by_hour" else 1.0)
    assert [instruction.text for instruction in finding.instructions] == [
        "vllm serve org/chat-8b",
        "send it a tenth of the traffic",
    ]


@pytest.mark.parametrize(
    ("after_gpu", "count", "action", "label"),
    [
        ("H100", 4, Action.ADD_GPUS, "Use more GPUs"),
        ("H100", 2, Action.CHANGE_LAYOUT, "Change the layout or format of the model"),
        ("H200", 2, Action.CHANGE_GPU_TYPE, "Move to a larger GPU"),
        ("H200", 4, Action.CHANGE_GPU_TYPE, "Move to a larger GPU"),
    ],
)
def test_engine_that_is_short_is_advised_without_savings(
    after_gpu: str, count: int, action: Action, label: str
) -> None:
    """What it costs stands in the alternatives; only another board is a move to it."""
    finding = judged(answer("too_small", change(after_gpu, count, -6.0))).finding

    assert finding.kind is FindingKind.UNDERPROVISIONED
    assert (finding.action, finding.options[0].action) == (action, action)
    assert title_label(finding, {}) == f"{label}: chat"
    assert target_label(finding) == (f"{count} x H200" if after_gpu == "H200" else "")
    assert finding.savings == Savings(reason="the engine is too small for its load")
    assert finding.options[0].savings is None


def test_several_engines_of_one_workload_are_advised_nothing() -> None:
    """Its GPUs are no one model's; the reason names each model once, with its engines' number."""
    large = answer("too_large", change("L40S", 1, 4.0))
    other = answer(devices="GPU-1")
    embedding = replace(other, load=replace(other.load, model="org/embed"))
    alike = judged(large, other)

    assert not alike.may_open
    assert alike.finding.abstained == "several engines serve on its GPUs: 2 of chat-8b"
    assert judged(large, other, embedding).finding.abstained == (
        "several engines serve on its GPUs: 2 of chat-8b, embed"
    )


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        (
            answer("too_large", change("L40S", 1, 4.0), abstained="measured for less than a day"),
            "chat: too_large; measured for less than a day",
        ),
        (answer("too_large", change("L40S", 1, 4.0), devices="GPU-0"), "on a part of its GPUs"),
    ],
)
def test_what_the_planner_withholds_opens_nothing(engine: EngineAnswer, why: str) -> None:
    """Nor does an engine beside something else in its workload; both say why."""
    judgement = judged(engine)

    assert not judgement.may_open
    assert judgement.still_holds is None
    assert why in str(judgement.finding.abstained)


def test_recommendation_stays_until_the_planner_answers_otherwise() -> None:
    """An answer that is withheld for a time neither ends nor keeps it."""
    ledger = Ledger()
    large = answer("too_large", change("L40S", 1, 4.0))
    withheld = answer("too_large", change("L40S", 1, 4.0), abstained="not as predicted")
    ledger.update([judged(large)], NOW)
    for hour in range(1, 4):
        ledger.update([judged(withheld)], after(60.0 * hour))
    (advice,) = ledger.advice()
    assert advice.is_open

    for hour in range(4, 7):
        ledger.update([judged(answer())], after(60.0 * hour))
    assert not any(advice.is_open for advice in ledger.advice())
