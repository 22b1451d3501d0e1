"""Memory estimates against what was measured and published, beside the reference's closed form."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from evaluation.options import Options
from evaluation.sizing.memory_truth import Row, bounds, predicted_gib, read_rows, setting_of
from measured import as_rows, quantile, table
from rightsizer.sizing.memory_estimate import memory_error_factor

FILE: Final = "memory_truth.csv"
MEDIAN_FLOOR: Final = 0.025
TAIL_FLOOR: Final = 0.12
_LEVEL: Final = 0.9

Judged = tuple[Row, float]


def evaluate(options: Options) -> Iterator[str]:
    """Errors by kind of figure, accuracy of fits, and widths of intervals."""
    if options.truth is None or not (options.truth / FILE).is_file():
        yield f"Skipped: RIGHTSIZER_TRUTH does not name a folder with `{FILE}`.\n"
        return
    read = read_rows(options.truth / FILE)
    judged = [
        (row, gib)
        for row in read
        if not row.is_derived and not row.is_bound and (gib := predicted_gib(row)) is not None
    ]
    yield table(_errors(judged), ("figures", "rows", "median", "p90", "closed form", "p90", ""))
    yield _explained(read, judged)
    fits = list(_fits(read))
    yield f"Of {len(fits)} models known to fit or not {_passed(fits)} are estimated so.\n"
    yield as_rows(table(fits, ("what fits", "estimated, GiB", "known, GiB", "")) + "\n")
    yield table(
        _coverage(judged),
        ("interval", "rows", "covered", "factor", "factor by the other models"),
    )
    yield (
        "\nThe last column is the narrowest factor that covers 90% of the rows of all other "
        "models, its range over the models left out. No constant of the memory model is fitted: "
        "each is counted or quoted, so that all rows are out of sample but for the factors.\n"
    )


def _passed(lines: Sequence[Sequence[str]]) -> int:
    return sum(line[-1] == "pass" for line in lines)


def _explained(read: Sequence[Row], judged: Sequence[Judged]) -> str:
    measured = [row for row in read if not row.is_derived and not row.is_bound]
    derived = [row for row in read if row.is_derived]
    exact = sum(
        math.isclose(gib, row.gib, rel_tol=1e-3, abs_tol=5e-5)
        for row in derived
        if (gib := predicted_gib(row)) is not None
    )
    return (
        f"\n{len(measured) - len(judged)} of {len(measured)} rows do not tell what was run "
        f"(recipes, offloading, multimodal profiling) and are left out. Of {len(derived)} rows "
        f"that are arithmetic {exact} agree. Peaks of an allocator are compared without context "
        "and fragments, reserved memory without context.\n"
    )


def _errors(judged: Sequence[Judged]) -> Iterator[tuple[str, ...]]:
    with_form = [(row, gib) for row, gib in judged if row.closed_form_gib is not None]
    groups: list[tuple[str, Sequence[Judged]]] = [
        ("with a closed form", with_form),
        ("all", judged),
        ("serving", [each for each in judged if each[0].values["mode"] == "infer"]),
        ("training", [each for each in judged if each[0].values["mode"] == "train"]),
    ]
    for title, group in groups:
        ours = [abs(gib / row.gib - 1) for row, gib in group]
        forms = [abs(row.closed_form_gib / row.gib - 1) for row, _ in group if row.closed_form_gib]
        middle = quantile(ours, 0.5)
        tail = quantile(ours, _LEVEL)
        kept = middle <= MEDIAN_FLOOR and tail <= TAIL_FLOOR
        same = len(forms) == len(ours)
        yield (
            title,
            str(len(ours)),
            f"{middle:.1%}",
            f"{tail:.1%}",
            f"{quantile(forms, 0.5):.1%}" if same else "",
            f"{quantile(forms, _LEVEL):.1%}" if same else "",
            ("pass" if kept else "FAIL") if same else "",
        )


def _fits(read: list[Row]) -> Iterator[tuple[str, ...]]:
    for row, estimate, agrees in bounds(read):
        unit = 1e9 / 2**30 if row.values["component"].endswith("_gb") else 1.0
        sign = "at most" if row.values["component"] == "fits_total_gb" else "over"
        yield (
            f"{row.name}, {row.values['n_gpus']} GPUs",
            f"{estimate.total_bytes / 2**30:.1f}",
            f"{sign} {row.gib * unit:.1f}",
            "pass" if agrees else "FAIL",
        )


def _coverage(judged: Sequence[Judged]) -> Iterator[tuple[str, ...]]:
    for title, mode in (("serving", "infer"), ("training", "train")):
        group = [(row, gib) for row, gib in judged if row.values["mode"] == mode]
        factors = [_factor_of(row) for row, _ in group]
        covered = sum(
            _apart(row, gib) <= math.log(factor)
            for (row, gib), factor in zip(group, factors, strict=True)
        )
        models = {row.values["model"] for row, _ in group}
        if len(models) == 1:
            continue
        others = [
            covering_factor(_apart(row, gib) for row, gib in group if row.values["model"] != model)
            for model in sorted(models)
        ]
        yield (
            title,
            str(len(group)),
            f"{covered / len(group):.0%}",
            f"x{min(factors):.2f}",
            f"x{min(others):.2f} to x{max(others):.2f}",
        )


def covering_factor(distances: Iterable[float]) -> float:
    """The factor that 90% of distances, |ln(estimated / measured)|, lie within."""
    return math.exp(quantile(distances, _LEVEL))


def _apart(row: Row, gib: float) -> float:
    return abs(math.log(gib / row.gib))


def _factor_of(row: Row) -> float:
    found = setting_of(row)
    assert found is not None, row
    return memory_error_factor(found[0])
