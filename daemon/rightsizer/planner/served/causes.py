"""Candidate causes of an engine that is not as predicted, likeliest first."""

import math
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from rightsizer.model.errors import RequirementError
from rightsizer.planner.display import number
from rightsizer.planner.planner import Planner
from rightsizer.planner.served.prediction import ServedPrediction, as_it_runs
from rightsizer.sizing.collectives import HostLink
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import Parallelism, Requirement

_SLOWER: Final = (
    "the board is throttled: see its clocks, power and temperature",
    "CUDA graphs are off (enforce_eager), or the host is slow",
    "a version of the engine from before what is predicted",
)
_FASTER: Final = (
    ("model", "the model is another one than its name says (an alias): state it with --model"),
    ("prefix_cache", "a prefix cache that is not exported"),
    ("", "speculative decoding that is not exported"),
)
"""What an engine may not tell, and the cause that it then may be."""
_EXPLAINED: Final = math.log(1.25)
"""Distance of a measurement from what a cause predicts, within which the cause explains it."""


def causes_of(prediction: ServedPrediction, planner: Planner) -> tuple[str, ...]:
    """Return causes: first those whose own prediction is nearest to what is measured."""
    figure = next(iter(prediction.off), None) or prediction.figure("tpot_ms")
    if figure is None or figure.ratio is None:
        return ()
    is_slower = figure.ratio > 1.0
    explained = []
    for requirement, text in _hypotheses(prediction, is_slower=is_slower):
        try:
            rate = planner.predicted(requirement, prediction.engine.board.key).rate
        except RequirementError:
            continue
        predicted = rate.tpot_ms if figure.what == "tpot_ms" else rate.ttft_ms
        if predicted is None or not predicted.value:
            continue
        distance = abs(math.log(figure.measured / predicted.value))
        if distance < min(_EXPLAINED, abs(math.log(figure.ratio))):
            explained.append((distance, f"{text}: {number(predicted.value)} ms is predicted so"))
    stated = prediction.engine.stated
    others = _SLOWER if is_slower else tuple(text for what, text in _FASTER if what not in stated)
    return (*(text for _, text in sorted(explained)), *others)


def _hypotheses(
    prediction: ServedPrediction, *, is_slower: bool
) -> Iterator[tuple[Requirement, str]]:
    """Yield the requirement under each cause that the planner can predict."""
    requirement = as_it_runs(prediction.engine)
    layout = prediction.engine.layout
    if is_slower and layout.tensor > 1:
        for link, text in (
            (HostLink.PCIE, "its GPUs talk over PCIe, not NVLink"),
            (HostLink.NONE, "its GPUs talk through the host, without peer access"),
        ):
            yield replace(requirement, link=link), text
    is_layout_told = "tensor" in prediction.engine.stated
    if is_slower and layout.tensor > 1 and not is_layout_told:
        apart = Parallelism(1, data=layout.gpus)
        yield replace(requirement, parallel=apart), "replicas of one GPU each, not tensor parallel"
    if not is_slower and layout.data > 1 and not is_layout_told:
        whole = Parallelism(layout.gpus)
        yield replace(requirement, parallel=whole), "tensor parallel over all GPUs, not replicas"
    if "format" in prediction.engine.stated:
        return
    now = requirement.precision.weights.bytes_per_parameter
    for weights in (NumberFormat.BF16, NumberFormat.FP8, NumberFormat.INT4):
        is_wider = weights.bytes_per_parameter > now
        if weights is not requirement.precision.weights and is_wider == is_slower:
            precision = replace(requirement.precision, weights=weights)
            yield replace(requirement, precision=precision), f"weights are in {weights}"
