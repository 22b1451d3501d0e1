"""Random questions of plans, and what answers to them must not say."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Final

from msgspec.structs import replace

from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.plan_file import plan_of_flags
from rightsizer.planner.planner import Planner
from rightsizer.sizing.requirement import Requirement

Question = Mapping[str, str]

_WRITING: Final = (
    "llama-3.1-8b",
    "llama-3.1-70b",
    "qwen2.5-0.5b",
    "qwen3-32b",
    "qwen3-30b-a3b",
    "mixtral-8x7b",
    "gpt-oss-120b",
    "mistral-7b",
)
_IN_ONE_PASS: Final = ("bert-base", "bge-m3", "resnet-50", "vit-base", "whisper-large-v3", "sdxl")
_GPUS: Final = (
    "A10",
    "A100-SXM4-80GB",
    "B200",
    "H100-PCIE-80GB",
    "H100-SXM5-80GB",
    "H200-SXM-141GB",
    "L4",
    "L40S",
    "MI300X",
    "RTX4090",
)
_TIMES: Final[Mapping[str, tuple[str, ...]]] = {
    "ttft": ("300ms", "1s", "p95=1s", "p99=2s", "5s"),
    "tpot": ("15ms", "30ms", "50ms", "p95=60ms", "100ms"),
    "latency": ("5s", "15s", "p95=30s"),
}
_PASS_TIMES: Final = ("20ms", "50ms", "200ms", "p95=1s", "5s", "20s")
_TIMES_LOAD: Final = 3
_ROUNDING: Final = 1.01
"""Ratio within which costs are equal: candidates rank by three digits."""


def random_question(seed: int) -> dict[str, str]:
    """Question of one kind of GPU, alike for the same seed."""
    random = Random(seed)
    rate = f"{10 ** random.uniform(-1, 2.5):.2f}"
    question = {"rps": rate, "gpus": random.choice(_GPUS)}
    if random.random() < 0.7:
        question["model"] = random.choice(_WRITING)
        question["in"] = random.choice(("128", "1000", "4000", "16000"))
        question["out"] = random.choice(("50", "250", "1000"))
        question |= {
            word: random.choice(times) for word, times in _TIMES.items() if random.random() < 0.4
        }
    else:
        question["model"] = random.choice(_IN_ONE_PASS)
        question["latency"] = random.choice(_PASS_TIMES)
    if random.random() < 0.4:
        question["arrivals"] = random.choice(("poisson", "steady", "closed"))
    if random.random() < 0.2:
        question["provider"] = "any"
    return question


def _answer(planner: Planner, requirement: Requirement) -> PlanCandidate:
    return planner.predicted(requirement, requirement.gpus[0])


def contradictions(planner: Planner, question: Question) -> Iterator[str]:
    """Yield what the answers to a question and to similar ones say against each other."""
    requirement = plan_of_flags(question).items[0].requirement
    assert requirement is not None
    load = requirement.load
    assert load.units_per_second is not None
    now = _answer(planner, requirement)
    many = replace(load, units_per_second=load.units_per_second * _TIMES_LOAD)
    more = _answer(planner, replace(requirement, load=many))
    yield from _easier(now, more, f"at {_TIMES_LOAD} times the load")
    most = planner.settings.plan.gpu_maximum
    if now.fits and _TIMES_LOAD * now.count <= most:
        if (more.fits, more.is_sure) < (True, now.is_sure):
            yield f"{now} hold the load, and no number {_TIMES_LOAD} times as much"
        elif more.is_sure and _cost(more) > _TIMES_LOAD * _cost(now) * _ROUNDING:
            yield f"{now} hold the load, and {more} {_TIMES_LOAD} times as much"
    for key in ("ttft_ms", "tpot_ms", "latency_ms"):
        target = getattr(load, key)
        if target is not None:
            tight = replace(load, **{key: target / 1.5})
            yield from _easier(now, _answer(planner, replace(requirement, load=tight)), key)
    if now.fits and requirement.parallel is None:
        given = _answer(planner, replace(requirement, parallel=now.layout))
        if (given.fits, given.count, given.rate) != (True, now.count, now.rate):
            yield f"{now} ({now.layout}) is found, and given it is {given}: {given.rejections}"


def _easier(now: PlanCandidate, then: PlanCandidate, change: str) -> Iterator[str]:
    """Yield how what is asked more of does better."""
    if (then.fits, then.fits and then.is_sure) > (now.fits, now.fits and now.is_sure):
        yield f"{change} {then} hold, and nothing without"
    elif now.fits and then.fits and then.is_sure and _cost(then) * _ROUNDING < _cost(now):
        yield f"{change} {then} are enough, and {now} without"


def _cost(candidate: PlanCandidate) -> float:
    """Dollars an hour; without a price, GPUs."""
    dollars = candidate.dollars_per_hour
    return candidate.paid_count if dollars is None else dollars
