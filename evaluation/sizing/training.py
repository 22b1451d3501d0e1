"""Training throughput against published runs, beside a constant utilization."""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from evaluation.options import Options
from measured import quantile, table
from rightsizer.catalogue.catalogue import built_in
from rightsizer.planner.transformer_shape import TransformerDescription, completed_shape
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.requirement import ModelTask, Parallelism, Recompute, Requirement, Training
from rightsizer.sizing.training import training_rate
from rightsizer.sizing.training_settings import TrainingSettings

FILE: Final = "training_truth.csv"
_LEVEL: Final = 0.9
_CONSTANT_MFU: Final = 0.5
_FITTED: Final = (
    "linear_ratio",
    "attention_ratio",
    "element_traffic",
    "recompute_ratio",
    "exposed_ratio",
)
_STEPS: Final = (1.2, 1 / 1.2, 1.08, 1 / 1.08, 1.02, 1 / 1.02)
_MOST_SWEEPS: Final = 40
_OUTLIER_LOG: Final = 0.3
"""Runs on the brink of memory lose more, which no other figure tells."""
Row = Mapping[str, str]


def evaluate(options: Options) -> Iterator[str]:
    """Errors as shipped, and refitted without each model and each GPU."""
    if options.truth is None or not (options.truth / FILE).is_file():
        yield f"Skipped: RIGHTSIZER_TRUTH does not name a folder with `{FILE}`.\n"
        return
    rows = _read(options.truth / FILE)
    shipped = TrainingSettings()
    constant = [abs(math.log(float(row["mfu"]) / _CONSTANT_MFU)) for row in rows]
    lines = [
        _line(f"MFU of {_CONSTANT_MFU}", constant),
        _line("**ours**", [_off(row, shipped) for row in rows], _covered(rows, shipped)),
        *(
            _line(f"**ours, by other {column}s**", _out_of_sample(rows, column))
            for column in ("model", "gpu_key")
        ),
    ]
    yield table(lines, ("tokens per second", "rows", "median", "p90", "90% intervals cover"))
    found = refitted(rows)
    figures = ", ".join(f"{name} {getattr(found, name):.3g}" for name in _FITTED)
    yield f"\nRefitted on all rows: {figures}.\n"


def refitted(rows: Sequence[Row]) -> TrainingSettings:
    """The settings that come nearest to these rows, one figure at a time."""
    best = TrainingSettings()
    least = _loss(rows, best)
    for _ in range(_MOST_SWEEPS):
        before = least
        for name in _FITTED:
            for step in _STEPS:
                tried = replace(best, **{name: getattr(best, name) * step})
                loss = _loss(rows, tried)
                if loss < least:
                    best = tried
                    least = loss
        if least > before - 1e-5:
            break
    return best


def _loss(rows: Sequence[Row], settings: TrainingSettings) -> float:
    return sum(min(_off(row, settings), _OUTLIER_LOG) for row in rows) / len(rows)


def _out_of_sample(rows: Sequence[Row], column: str) -> list[float]:
    errors = []
    for value in sorted({row[column] for row in rows}):
        settings = refitted([row for row in rows if row[column] != value])
        errors += [_off(row, settings) for row in rows if row[column] == value]
    return errors


def _covered(rows: Sequence[Row], settings: TrainingSettings) -> float:
    within = 0
    for row in rows:
        rate = _rate(row, settings)
        within += rate.low <= float(row["tokens_per_s_per_gpu"]) <= rate.high
    return within / len(rows)


def _off(row: Row, settings: TrainingSettings) -> float:
    rate = _rate(row, settings).value
    return abs(math.log(rate / float(row["tokens_per_s_per_gpu"])))


def _rate(row: Row, settings: TrainingSettings) -> EstimateInterval:
    """Of one GPU."""
    model = completed_shape(TransformerDescription(parameters=float(row["params"])))
    recompute = Recompute.FULL if row["activation_ckpt"] == "True" else Recompute.NONE
    training = Training(
        micro_batch=int(row["micro_batch"]),
        global_batch=int(row["global_batch"]),
        sequence=int(row["seq_len"]),
        recompute=recompute,
        zero_stage=3,
    )
    requirement = Requirement(model, ModelTask.TRAINING, training=training)
    layout = Parallelism(data=int(row["n_gpus"]))
    made = training_rate(requirement, built_in().get(row["gpu_key"]), layout, settings)
    return made.units_per_second.scaled(1.0 / layout.gpus)


def _line(name: str, errors: Sequence[float], covered: float | None = None) -> tuple[str, ...]:
    middle = math.exp(quantile(errors, 0.5))
    tail = math.exp(quantile(errors, _LEVEL))
    share = "" if covered is None else f"{covered:.0%}"
    return (name, str(len(errors)), f"x{middle:.3f}", f"x{tail:.3f}", share)


def _read(file: Path) -> list[Row]:
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))
