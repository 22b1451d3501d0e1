"""What a node's engines would need, asked of the planner in a process of its own."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from cases import case, window
from readings import EPOCH, gpu, workload
from rightsizer.agent.served_needs import ServedNeeds
from rightsizer.io.clock import FastClock
from rightsizer.model.served_load import ServedLatency, ServedLoad
from rightsizer.model.state import State
from rightsizer.model.units import HOUR

CHAT = ServedLoad(
    model="meta-llama/Llama-3.1-8B-Instruct",
    engine="vllm",
    window_seconds=86400.0,
    requests_per_second=0.5,
    prompt_tokens=900.0,
    output_tokens=220.0,
    devices=("GPU-0", "GPU-1"),
    board="NVIDIA H100 80GB HBM3",
    time_to_first_token=ServedLatency(0.06),
    time_per_output_token=ServedLatency(0.0055),
    ttft="1s",
    tpot="50ms",
)


def test_needs_of_engines_are_those_of_the_planner() -> None:
    """By their GPUs; of an unknown board it says why there are none."""
    lost = ServedLoad("x", "vllm", 60.0, devices=("GPU-2",))
    needs = ServedNeeds(lambda *_: (CHAT, lost), None, FastClock(EPOCH))
    assert needs.latest == ()
    needs.ask()
    known, unknown = needs.latest
    assert known.devices == CHAT.devices
    assert known.model == "Llama-3.1-8B-Instruct"
    assert known.short.startswith("1 x ")
    assert known.needs.startswith(f"{known.short}: ")
    assert "to keep TTFT <= 1s, TPOT <= 50ms" in known.needs
    assert known.saves.startswith("saves $")
    assert unknown.short == "unknown"
    assert unknown.needs.startswith("unknown: x: runs on an unknown GPU")


def test_nothing_is_asked_without_engines() -> None:
    """No process starts."""
    needs = ServedNeeds(lambda *_: (), None, FastClock(EPOCH))
    needs.ask()
    assert needs.latest == ()


def test_needs_become_recommendations_of_the_workload() -> None:
    """As the planner answers about an engine that has more than it needs."""
    held = case(
        [window({State.PRODUCTIVE: 24.0}), window({State.PRODUCTIVE: 24.0})],
        workload("chat"),
        [gpu(0), gpu(1)],
    )
    needs = ServedNeeds(lambda *_: (CHAT,), None, FastClock(EPOCH), lambda _: (held,))
    assert needs.combined_with((), frozenset(), EPOCH) == ()
    needs.ask()
    (judgement,) = needs.combined_with((), frozenset(), EPOCH)

    assert judgement.may_open
    assert judgement.key == held.key
    assert judgement.finding.exclusive_group is not None
    assert judgement.finding.savings.dollars_per_hour > 0.0


def test_engines_that_share_their_gpus_are_advised_nothing() -> None:
    """The need says with what it shares them."""
    other = replace(CHAT, model="Qwen/Qwen3-8B")
    needs = ServedNeeds(lambda *_: (CHAT, other), None, FastClock(EPOCH))
    needs.ask()

    assert [need.short for need in needs.latest] == ["unknown", "unknown"]
    assert all("shares its GPUs with" in need.needs for need in needs.latest)


def test_engine_that_served_for_minutes_teaches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What starts is slow; an hour later it is known."""
    learned = tmp_path / "learned.json"
    monkeypatch.setenv("RIGHTSIZER_SIZING__LEARNED_FILE", str(learned))
    for load, is_learned in ((replace(CHAT, window_seconds=600.0), False), (CHAT, True)):
        ServedNeeds(lambda *_, load=load: (load,), None, FastClock(EPOCH)).learn()
        assert learned.exists() is is_learned


def test_each_hour_teaches_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the phase of the job: the last whole hour, and none twice."""
    monkeypatch.setenv("RIGHTSIZER_SIZING__LEARNED_FILE", str(tmp_path / "learned.json"))
    clock = FastClock(EPOCH)
    asked: list[tuple[int, int | None]] = []

    def loads(since: int, until: int | None = None) -> tuple[ServedLoad, ...]:
        asked.append((since, until))
        return (CHAT,)

    needs = ServedNeeds(loads, None, clock)
    needs.learn()
    needs.learn()
    hour = EPOCH - EPOCH % HOUR

    assert asked == [(hour - HOUR, hour)]
