"""The evaluation of serving predictions, over a small table of its own."""

import gzip
import math
from pathlib import Path
from statistics import median

import pytest
from msgspec.structs import replace

from evaluation.options import Options
from evaluation.sizing import serving, serving_peer
from evaluation.sizing.serving import beside_peer, closed_form_ms, evaluate, measured_errors
from evaluation.sizing.serving_apart import is_computed_in_full, readings, server_of, set_apart
from evaluation.sizing.serving_fit import Constants, Linear, fit
from evaluation.sizing.serving_intervals import interval_coverage
from evaluation.sizing.serving_offline import OFFLINE_FILE, offline_rows, predicted
from evaluation.sizing.serving_peer import PeerTimes, peer_times
from evaluation.sizing.serving_published import (
    published_errors,
    published_mixtures,
    published_rates,
)
from evaluation.sizing.serving_queue import arrival_errors
from evaluation.sizing.serving_truth import FILE, Row, read_rows
from measured import with_rows
from profiler_environment import Absent
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.serving_settings import ServingModelSettings

HEADER = (
    "id,silicon_data_source,model_path,system,precision,mode,isl,osl,batch_size,tp_size,pp_size,"
    "silicon_ttft_ms,silicon_tpot_ms"
)
ROWS = (
    "r1,source_file=a.csv; x=8,Qwen/Qwen3-32B,h100_sxm,,agg,1024,1024,8,2,1,154,15.9",
    "r2,source_file=a.csv; x=9,Qwen/Qwen3-32B,h100_sxm,,agg,1024,1024,128,4,1,413,25.6",
    "r3,source_file=b.csv,meta-llama/Llama-3.1-70B,h100_sxm,fp8,agg,1024,1024,64,8,1,185,15.5",
    "r4,source_file=c.csv,nvidia/Llama-3.1-8B-Instruct-FP8,h200_sxm,fp8,agg,2000,100,64,1,1,122,9.74",
    "r5,source_file=c.csv,nvidia/Llama-3.1-8B-Instruct-FP8,h200_sxm,fp8,agg,4000,2000,128,1,1,111,23.5",
    "r6,,Qwen/Qwen3-32B,h100_sxm,fp8,disagg,4000,1000,,,,367,8.7",
    "r7,,somebody/else,h100_sxm,fp8,agg,4000,1000,1,1,1,367,8.7",
)


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    """A folder with seven rows, five of which can be judged."""
    (tmp_path / FILE).write_text("\n".join((HEADER, *ROWS)), "utf-8")
    return tmp_path


def test_rows_tell_their_formats(truth: Path) -> None:
    """The default is 16 bits; other modes and unknown models are omitted."""
    rows = list(read_rows(truth / FILE))

    assert [row.requirement.precision.weights for row in rows] == [
        NumberFormat.BF16,
        NumberFormat.BF16,
        NumberFormat.FP8,
        NumberFormat.FP8,
        NumberFormat.FP8,
    ]
    assert [row.file for row in rows] == ["a.csv", "a.csv", "b.csv", "c.csv", "c.csv"]


def test_prompts_beyond_the_matrix_units_are_noticed(truth: Path) -> None:
    """2,000 tokens of 64 requests in 1.1 s exceed an H200's compute; that file is separate."""
    rows = list(read_rows(truth / FILE))

    assert [is_computed_in_full(row) for row in rows] == [True, True, True, False, True]
    assert set_apart(rows) == {"c.csv"}


@pytest.mark.parametrize("ratio", [0.3, 0.7])
def test_a_cached_share_is_found_again(truth: Path, ratio: float) -> None:
    """Rows generated with a prefix cache are explained by it, and by nothing else as well."""
    rows = [
        replace(row, tpot_ms=server_of(row, ratio).at(row.concurrency).tpot_ms.value)
        for row in read_rows(truth / FILE)
    ]
    stated, cached, *others = readings(rows)

    assert cached.title.startswith(f"{ratio:.0%} of each prompt")
    assert cached.distance == pytest.approx(0.0, abs=1e-9)
    assert all(each.distance > 0.05 for each in (stated, *others))


def test_a_pause_of_the_client_is_found_again(truth: Path) -> None:
    """With half of 64 requests in flight, 64 take as long as an answer and a pause."""
    *_, row = (read_row for read_row in read_rows(truth / FILE) if read_row.concurrency == 64)
    half = server_of(row).at(32)
    residence_ms = half.ttft_ms.value + row.requirement.load.output_tokens * half.tpot_ms.value
    made = replace(row, tpot_ms=half.tpot_ms.value)
    _, _, pausing, _ = readings([made])

    assert float(pausing.title.split()[0]) == pytest.approx(residence_ms / 1e3, abs=0.125)
    assert pausing.distance < 0.05


def test_requests_of_a_node_are_spread_over_its_replicas(truth: Path) -> None:
    """Eight requests on eight GPUs, two a model, are two on each model."""
    first = next(iter(read_rows(truth / FILE)))
    *_, spread = readings([first])

    assert spread.served == ((first, server_of(first).at(2)),)


def test_the_fit_finds_what_rows_were_made_of(truth: Path) -> None:
    """From the model's own times between tokens the fit recovers its constants."""
    rows = [Linear.of(row) for row in read_rows(truth / FILE)]
    made = [
        Linear(
            row=_measured(row, row.rest_ms + 21 * row.layer_ms + 570 * row.request_ms),
            rest_ms=row.rest_ms,
            layer_ms=row.layer_ms,
            request_ms=row.request_ms,
        )
        for row in rows
    ]

    assert fit(made) == Constants(layer=21, request=570)


def test_the_reference_form_is_reproduced(truth: Path) -> None:
    """For the first row, by hand: 65.5 GB of weights and caches, 64 layers, 8 prompts."""
    first = next(iter(read_rows(truth / FILE)))

    assert closed_form_ms(first) == pytest.approx(16.9, rel=0.03)


def test_errors_are_reported_by_group_and_left_out(
    truth: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Constants are those in use; rows that aiconfigurator answers are compared."""
    estimate = {"r1": PeerTimes(154, 2 * 15.9), "r2": PeerTimes(413, 2 * 25.6)}
    monkeypatch.setattr(serving, "peer_times", lambda _: estimate)
    text = "\n".join(measured_errors(truth))

    lines = [
        [cell.strip() for cell in line.split("|")[1:3]] for line in text.splitlines() if "|" in line
    ]

    assert ["files that can be computed", "3"] in lines
    assert ["rows that can be computed", "4"] in lines
    assert ["all", "5"] in lines
    assert ["all", "2"] in lines
    assert text.count("| x2.00 | x2.00 |") == 4
    assert ["by model", "3"] in lines
    assert ["h200_sxm, answers of 1000 tokens and more", "1"] in lines
    assert any(line[0].startswith("c: ") and "in a prefix cache" in line[0] for line in lines)
    assert not any(line[0].startswith("b: ") for line in lines)
    assert f"In use: {Constants.of_product().layer}, {Constants.of_product().request}," in text
    assert "time to the first token" in text


def test_a_peer_that_cannot_be_had_is_said(truth: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason replaces the table."""

    def absent(_: Path) -> dict[str, PeerTimes]:
        raise Absent("no place to install it")

    monkeypatch.setattr(serving, "peer_times", absent)
    text = "".join(beside_peer(truth / FILE, ()))
    assert "Not beside aiconfigurator: no place to install it." in text


def test_answers_of_a_peer_are_read_among_what_else_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row has a line of JSON; rows without an answer are omitted."""
    program = tmp_path / "planner"
    program.write_text(
        "#!/bin/sh\necho loading\n"
        """echo 'TOLD {"id": "a", "ttft_ms": 10.0, "tpot_ms": 2.0}'\n"""
        """echo 'TOLD {"id": "b", "error": "does not fit"}'\n"""
    )
    program.chmod(0o755)
    monkeypatch.setattr(serving_peer, "environment", lambda _: program)
    assert peer_times(tmp_path / FILE) == {"a": PeerTimes(10.0, 2.0)}


def test_published_throughput_is_within_the_range() -> None:
    """Covers each layout of TensorRT-LLM's publication; replicas' experts are fitted alone."""
    rows = published_rates()
    predicted = [row.predicted() for row in rows]
    pairs = list(zip(rows, predicted, strict=True))
    assert len(rows) == 141
    covered = sum(each.low <= row.tokens_per_second <= each.high for row, each in pairs)
    assert covered >= 0.9 * len(rows)
    fitted = [row for row in rows if row.model == "Qwen3-235B-A22B"]
    others = [row.error() for row in rows if row not in fitted]
    assert median(others) < math.log(1.1)
    assert median(row.error() for row in fitted) < math.log(1.15)


def test_experts_that_replicas_share_wait_for_the_fullest() -> None:
    """A fitted imbalance is above 1, and lowers the error on boards left out of the fit."""
    text = with_rows("\n".join(published_errors()))
    after = text.partition("| left out ")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(after) == 3
    for _, _, fitted, off, without, _ in (line.split("|") for line in after):
        assert float(fitted) > 1.0
        assert float(off.strip().removeprefix("x")) < float(without.strip().removeprefix("x"))


def test_mixtures_in_one_group_are_met() -> None:
    """Times between tokens of mixtures outside the fit, on measured boards; and first tokens."""
    errors: dict[str, list[float]] = {"TPOT": [], "TTFT": [], "tokens/s": []}
    for row in published_mixtures():
        if not row.board.startswith("MI"):
            for what, measured, estimate in row.measures():
                errors[what].append(math.log(estimate.value / measured))
    assert [len(error) for error in errors.values()] == [52, 39, 34]
    assert median(map(abs, errors["TPOT"])) < math.log(1.1)
    assert median(map(abs, errors["TTFT"])) < math.log(1.4)
    assert abs(median(errors["TTFT"])) < math.log(1.2)


def test_intervals_cover_nine_in_ten() -> None:
    """Coverage is by kind, on published rows: neither low nor complete.

    Boards with assumed efficiencies are as uncertain as published values outside the fit.
    """
    text = "".join(interval_coverage(None))
    cells = [line.split("|") for line in text.splitlines() if line.startswith("|")][2:]
    covered = {kind.strip(): float(part.strip().rstrip("%")) for _, kind, _, part, *_ in cells}
    assert set(covered) == {
        "dense, TPOT and tokens/s",
        "mixtures, TPOT and tokens/s",
        "mixtures, TTFT",
        "boards with assumed efficiencies",
    }
    assumed = covered.pop("boards with assumed efficiencies")
    assert all(85.0 <= each < 99.0 for each in covered.values()), covered
    assert assumed >= 85.0


def test_arrivals_are_compared_for_each_burstiness_and_share() -> None:
    """A short run fills every row, and meets the first tokens of Poisson arrivals."""
    shown, _ = arrival_errors(requests=40)
    lines = [line.split("|")[1:-1] for line in shown.splitlines() if "| 20 " in line]
    rows = {name.strip(): [cell.strip() for cell in cells] for name, *cells in lines}
    assert len(rows) == 12
    assert float(rows["Poisson, mean"][2]) < 0.25


def test_offline_rows_are_the_median_over_systems(tmp_path: Path) -> None:
    """Values are the closed division's tokens a second; other scenarios and boards are omitted."""
    path = tmp_path / OFFLINE_FILE
    common = "closed,llama2-70b-99,tokens/s"
    rows = (
        "round,division,benchmark,metric,scenario,gpu_key,per_accelerator",
        f"v5.1,{common},Offline,B200,12000",
        f"v5.1,{common},Offline,B200,14000",
        f"v5.1,{common},Server,B200,1",
        f"v5.1,{common},Offline,,1",
    )
    path.write_bytes(gzip.compress("\n".join(rows).encode()))
    [row] = offline_rows(path)

    assert (row.board.key, row.tokens_per_second) == ("B200", 13000)
    assert 4000 < predicted(row.board, ServingModelSettings()) < 13000


@pytest.mark.parametrize("folder", [None, Path("/nonexistent")])
def test_without_the_truth_it_is_skipped(
    folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the missing file; other parts do not depend on it."""
    for other in ("arrival_errors", "published_errors"):
        monkeypatch.setattr(serving, other, lambda other=other: [other])
    first, second, *_, last = evaluate(Options(truth=folder))
    assert (first, second) == ("arrival_errors", "published_errors")
    assert f"`{FILE}`" in last


def _measured(linear: Linear, tpot_ms: float) -> Row:
    return replace(linear.row, tpot_ms=tpot_ms)
