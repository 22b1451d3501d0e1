"""The fit of throughput ratios, and the output of its evaluation."""

import gzip
import itertools
import math
from pathlib import Path

import pytest

from evaluation.options import Options
from evaluation.sizing import mig, ratios
from evaluation.sizing import training as training_truth
from evaluation.sizing.mlperf import FILE, Cell, pairs, read_cells
from evaluation.sizing.ratio_errors import error_of, left_out
from evaluation.sizing.ratio_fit import fit_cells
from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.ratio import board_features
from rightsizer.sizing.workload_family import ModelKind, WorkloadActivity, parse_workload

GPUS = ("T4", "A10", "A30", "A100-SXM4-80GB", "H100-SXM5-80GB", "L4", "L40S", "B200")
WORKLOAD = parse_workload("inference-cnn")
HEAD = (
    "round,division,submitter,system,accelerator,gpu_key,count,benchmark,scenario,metric,value,"
    "per_accelerator,weight_dtype,source"
)


def planted(name: str, own: dict[str, float]) -> Cell:
    """Throughput that scales with bandwidth only, except for a board's own effect."""
    logs = {
        gpu: board_features(built_in().get(gpu), WORKLOAD)["bandwidth"] + own.get(gpu, 0.0)
        for gpu in GPUS
    }
    return Cell(name, "resnet50", "Offline", WORKLOAD, logs)


def test_more_cells_move_the_fit_to_what_was_planted() -> None:
    """More measurements outweigh a priori exponents."""
    few, many = (
        fit_cells([planted(str(each), {}) for each in range(count)], WorkloadActivity.INFERENCE)
        for count in (2, 40)
    )
    pair = next(pairs([planted("other", {})]))
    assert abs(error_of(pair, many)) < abs(error_of(pair, few))
    assert many.exponents["bandwidth"] > few.exponents["bandwidth"] > 0.27


def test_a_boards_own_way_takes_more_than_one_cell() -> None:
    """One submission that is half as fast again hardly counts; forty do."""
    one, all_cells = (
        fit_cells(
            [planted(str(at), {"L4": 0.4} if at < often else {}) for at in range(40)],
            WorkloadActivity.INFERENCE,
        ).beyond("L4", "cnn")
        for often in (1, 40)
    )
    assert all_cells > one + 0.15


def test_repeats_of_a_measurement_count_once() -> None:
    """Forty cells of one round move the fit no further than one does."""
    one, repeated = (
        fit_cells([planted("v1", {"L4": 0.4})] * count, WorkloadActivity.INFERENCE)
        for count in (1, 40)
    )
    assert repeated.beyond("L4", "cnn") == pytest.approx(one.beyond("L4", "cnn"))


def test_boards_nobody_measured_share_their_architecture() -> None:
    """Residuals of an L4 and an L40S apply to other boards of their architecture."""
    plain, faster = (
        fit_cells([planted(str(each), own) for each in range(20)], WorkloadActivity.INFERENCE)
        for own in ({}, {"L4": 0.3, "L40S": 0.3})
    )
    gained = {
        name: faster.beyond_architecture(name, "cnn") - plain.beyond_architecture(name, "cnn")
        for name in ("Ada", "Hopper")
    }
    assert gained["Ada"] > 0.05 > gained["Hopper"]


def test_a_fits_exponents_sum_to_one() -> None:
    """For any measurements, a board twice as good in everything is twice as fast."""
    fit = fit_cells([planted(str(each), {"L4": 0.4}) for each in range(20)], WORKLOAD.activity)
    for family in ModelKind:
        figures = ("compute", "bandwidth", "power", "l2")
        assert sum(fit.exponent(figure, family) for figure in figures) == pytest.approx(1.0)


def test_unmeasured_family_uses_the_plain_model() -> None:
    """Board effects of one family do not apply to others."""
    fit = fit_cells([planted(str(each), {"L4": 0.4}) for each in range(20)], WORKLOAD.activity)
    assert fit.beyond("L4", "cnn") > 0.05
    assert fit.beyond("L4", "speech") == fit.beyond_architecture("Ada", "speech") == 0.0


def test_intervals_are_set_without_what_was_left_out() -> None:
    """A pair counts for its GPUs, family, benchmark and round only."""
    cells = [planted(name, {}) for name in ("v1", "v2")]
    first = next(left_out(cells, WORKLOAD.activity))
    assert (first.left_out, first.held) == ("GPU", first.pair.gpu)
    about = {"cnn", "resnet50", first.pair.cell.round, first.pair.gpu, first.pair.other}
    assert all(map(first.tells_of, about))
    assert not any(map(first.tells_of, {"llm", "v3", *GPUS} - about))


def test_families_nobody_measured_keep_what_is_known_before() -> None:
    """Encoders depend on compute more than graphs do, whatever other networks measured."""
    fit = fit_cells([planted("v1", {})], WorkloadActivity.INFERENCE)
    assert fit.exponent("compute", "diffusion") > fit.exponent("compute", "graph")
    assert fit.exponent("bandwidth", "diffusion") < fit.exponent("bandwidth", "graph")


def test_cells_are_medians_of_one_benchmark(tmp_path: Path) -> None:
    """By GPU, over systems; open results, other scenarios and unknown GPUs are omitted."""
    rows = [
        ("closed", "T4", "Offline", "100"),
        ("closed", "T4", "Offline", "400"),
        ("closed", "L4", "Offline", "300"),
        ("open", "L4", "Offline", "9000"),
        ("closed", "", "Offline", "9000"),
        ("closed", "L4", "SingleStream", "9000"),
    ]
    lines = [
        f"v1,{division},s,y,a,{gpu},1,resnet50,{scenario},samples/s,{value},{value},int8,u"
        for division, gpu, scenario, value in rows
    ]
    file = tmp_path / FILE
    file.write_bytes(gzip.compress("\n".join([HEAD, *lines]).encode()))
    (cell,) = read_cells(file, WorkloadActivity.INFERENCE)
    assert cell.workload.name == "inference-cnn-offline"
    assert cell.logs["T4"] == pytest.approx(math.log(200))
    (pair,) = pairs([cell])
    assert abs(pair.log_ratio) == pytest.approx(math.log(1.5))
    assert read_cells(file, WorkloadActivity.TRAINING) == ()


def test_trainings_are_compared_by_time_and_by_samples(tmp_path: Path) -> None:
    """Accelerator counts are equal; time to train and samples a second are separate."""
    rows = [
        ("A30", "8", "time_to_train_min", "60", ""),
        ("L40", "8", "time_to_train_min", "40", ""),
        ("L40", "4", "time_to_train_min", "90", ""),
        ("A30", "8", "throughput_logged", "100", ""),
        ("L40", "8", "samples/s", "120", "15"),
    ]
    lines = [
        f"v1,closed,s,y,a,{gpu},{count},bert,train,{metric},{value},{each},,u"
        for gpu, count, metric, value, each in rows
    ]
    file = tmp_path / FILE
    file.write_bytes(gzip.compress("\n".join([HEAD, *lines]).encode()))
    cells = read_cells(file, WorkloadActivity.TRAINING)
    ratios_of = {cell.scenario: cell.logs["L40"] - cell.logs["A30"] for cell in cells}
    assert {cell.workload.gpus for cell in cells} == {8}
    assert ratios_of == {
        "time to train": pytest.approx(math.log(1.5)),
        "samples a second": pytest.approx(math.log(1.2)),
    }


def test_without_the_truth_evaluations_say_so(tmp_path: Path) -> None:
    """They print nothing else."""
    for module, folder in itertools.product((mig, ratios, training_truth), (None, tmp_path)):
        (line,) = module.evaluate(Options(truth=folder))
        assert line.startswith("Skipped: ")
