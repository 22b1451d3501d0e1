"""MLPerf logs: the load generator's summary and detail, alone and combined, and training."""

from pathlib import Path

import pytest

from profile_mlperf import detail, detail_text, logged, summary, training
from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import BenchmarkResult, Profile
from rightsizer.profiler.figures import result_text
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.mlperf.load_generator import (
    MLPERF_DETAIL,
    MLPERF_SUMMARY,
    merged,
    named_figure,
    percentile_name,
)
from rightsizer.profiles.mlperf.training import MLPERF_TRAINING, finite
from rightsizer.profiles.reader import Head, ProfileReader

READERS = (MLPERF_SUMMARY, MLPERF_DETAIL, MLPERF_TRAINING)


def read(folder: Path, text: str, reader: ProfileReader = MLPERF_SUMMARY) -> Profile:
    """The profile of a log."""
    path = folder / "log.txt"
    path.write_text(text, "utf-8")
    return reader.read(path, ReadLimits())


def result_of(profile: Profile) -> BenchmarkResult:
    """Benchmark result of a profile."""
    assert profile.benchmark is not None
    return profile.benchmark


@pytest.mark.parametrize(
    ("headline", "additional", "figures"),
    [
        ("Samples per second: 3590.46", [], {"samples_per_second": 3590.46}),
        ("Samples per second     :3590.46", [], {"samples_per_second": 3590.46}),
        (
            "Samples per second: 107.477\nTokens per second: 31302.7",
            [],
            {"samples_per_second": 107.477, "tokens_per_second": 31302.7},
        ),
        (
            "Tokens per second (inferred): 31302.7",
            [],
            {"inferred_tokens_per_second": 31302.7, "tokens_per_second": 31302.7},
        ),
        (
            "Scheduled samples per second : 76001.89",
            ["Completed samples per second    : 76000.99"],
            {
                "scheduled_samples_per_second": 76001.89,
                "completed_samples_per_second": 76000.99,
                "samples_per_second": 76000.99,
            },
        ),
        ("90th percentile latency (ns) : 1086217", [], {"latency_p90_seconds": 0.001086217}),
        ("99th percentile latency (ns) : 41984475", [], {"latency_p99_seconds": 0.041984475}),
        ("Samples per query : 272", [], {"samples_per_query": 272}),
        (
            "Samples per second: 1",
            [
                "99.90 percentile latency (ns)   : 48360363",
                "50.00 percentile first token latency (ns)   : 180758928",
                "Min First Token latency (ns)                : 35443590",
                "99.00 percentile time to output token (ns)   : 146040006",
                "Mean Time to Output Token (ns)               : 123263268",
                "QPS w/ loadgen overhead         : 965.58",
                "QPS w/o loadgen overhead        : 999.87",
            ],
            {
                "samples_per_second": 1,
                "latency_p999_seconds": 0.048360363,
                "ttft_p50_seconds": 0.180758928,
                "ttft_min_seconds": 0.03544359,
                "tpot_p99_seconds": 0.146040006,
                "tpot_mean_seconds": 0.123263268,
                "queries_per_second_with_overhead": 965.58,
                "queries_per_second": 999.87,
            },
        ),
    ],
)
def test_figures_of_a_summary(
    tmp_path: Path, headline: str, additional: list[str], figures: dict[str, float]
) -> None:
    """Covers every scenario of every round, in seconds and rates a second."""
    profile = read(tmp_path, summary(headline, additional=additional))
    assert result_of(profile).figures == pytest.approx(figures)


@pytest.mark.parametrize(
    ("written", "scenario"), [("Single Stream", "SingleStream"), ("MultiStream", "MultiStream")]
)
def test_scenarios_have_one_name(tmp_path: Path, written: str, scenario: str) -> None:
    """Older rounds have a space in it."""
    assert result_of(read(tmp_path, summary(scenario=written))).scenario == scenario


def test_target_value_is_no_result(tmp_path: Path) -> None:
    """Targets have names of their own, and 0 is no target."""
    parameters = [
        "target_qps : 101",
        "target_latency (ns): 0",
        "ttft_latency (ns): 2000000000",
        "tpot_latency (ns): 200000000",
        "min_duration (ms): 600000",
        "qsl_rng_seed : 12786827339337101903",
        "print_timestamps : false",
    ]
    result = result_of(read(tmp_path, summary(parameters=parameters)))
    assert result.figures == pytest.approx(
        {
            "samples_per_second": 3590.46,
            "target_queries_per_second": 101,
            "target_ttft_seconds": 2.0,
            "target_tpot_seconds": 0.2,
            "minimum_duration_seconds": 600.0,
        }
    )


def test_queries_and_samples_are_distinguished(tmp_path: Path) -> None:
    """A query of several samples has two latencies, grouped by headings."""
    additional = [
        'Intervals between each IssueQuery:  "qps" : 20, "ms" : 50',
        "99.00 percentile : 1",
        "",
        'Per-query latency:  "target_ns" : 50000000, "target_ms" : 50',
        "99.00 percentile latency (ns)   : 48092407",
        "",
        "Per-sample latency:",
        "Mean latency (ns)               : 35267245",
        "99.00 percentile latency (ns)   : 47975303",
    ]
    headline = "Samples per query : 272"
    result = result_of(read(tmp_path, summary(headline, additional=additional)))
    assert result.figures == pytest.approx(
        {
            "samples_per_query": 272,
            "latency_p99_seconds": 0.048092407,
            "sample_latency_mean_seconds": 0.035267245,
            "sample_latency_p99_seconds": 0.047975303,
        }
    )


def test_a_run_that_is_not_valid_says_why(tmp_path: Path) -> None:
    """The reason has unmet conditions and the number of errors."""
    text = summary(
        validity="INVALID", closing="\n1 warning encountered.\n\n2 ERRORS encountered.\n"
    )
    profile = read(tmp_path, text.replace("duration satisfied : Yes", "duration satisfied : NO"))
    assert result_of(profile).is_valid is False
    assert profile.notes == (
        "Not satisfied: Min duration.",
        "The load generator counted 1 warning(s).",
        "The load generator counted 2 error(s).",
    )


def test_an_accuracy_run_has_no_result(tmp_path: Path) -> None:
    """Its summary is only the closing lines, and is accepted as such."""
    text = "\nNo warnings encountered during test.\n\nNo errors encountered during test.\n"
    profile = read(tmp_path, text)
    assert result_of(profile) == BenchmarkResult("", "", None, {})
    assert profile.notes == ("It holds no result: an accuracy run, or a run that did not end.",)
    assert MLPERF_SUMMARY.recognizes(Head("a", text.encode()))


def test_a_summary_that_is_none_is_refused(tmp_path: Path) -> None:
    """The message names the missing part."""
    with pytest.raises(ProfileError, match=r"^no summary"):
        read(tmp_path, "Samples per second: 1\n")


def test_a_detail_log_gives_the_same_names(tmp_path: Path) -> None:
    """They come from its keys, with version and time."""
    text = detail(
        {
            "result_validity": "VALID",
            "result_completed_samples_per_sec": 100.354,
            "result_completed_tokens_per_second": 29228.2,
            "result_99.00_percentile_latency_ns": 118861461715,
            "result_first_token_99.90_percentile_latency_ns": 552823094,
            "result_time_per_output_token_50.00_percentile_ns": 124285539,
            "result_time_to_output_token_min": 39156781,
            "requested_server_target_latency_ns": 5,
            "result_token_throughput": 8.1e-09,
            "result_min_duration_met": False,
            "loaded_qsl_set": [1, 2, 3],
            "warned": True,
        }
    )
    profile = read(tmp_path, text, MLPERF_DETAIL)
    result = result_of(profile)
    assert (result.scenario, result.is_valid) == ("Offline", True)
    assert result.figures == pytest.approx(
        {
            "completed_samples_per_second": 100.354,
            "samples_per_second": 100.354,
            "completed_tokens_per_second": 29228.2,
            "tokens_per_second": 29228.2,
            "latency_p99_seconds": 118.861461715,
            "ttft_p999_seconds": 0.552823094,
            "tpot_p50_seconds": 0.124285539,
            "tpot_min_seconds": 0.039156781,
        }
    )
    assert profile.version == "4.1 @ c60103b05a"
    assert profile.start == 1_721_172_331_000_000_000
    assert profile.notes == (
        "Not satisfied: Min duration.",
        "The load generator counted 1 warning(s).",
    )


def test_a_detail_log_of_round_seven(tmp_path: Path) -> None:
    """In its text, requested values follow the measured ones."""
    text = detail_text(
        [
            "version : .5a1 @ f41dbd6f18",
            "Date + time of test: 2020-09-16T10:25:43Z",
            "System Under Test (SUT) name: LWIS_Server",
            "Effective Settings:",
            "Scenario : Single Stream",
            "Test mode : Performance",
            "samples_per_query : 1",
            "target_qps : 1003.36",
            "Requested Settings:",
            "Scenario : Offline",
            "target_qps : 7",
        ]
    )
    profile = read(tmp_path, text + "\ncommit of somebody\n", MLPERF_DETAIL)
    result = result_of(profile)
    assert result == BenchmarkResult(
        "LWIS_Server",
        "SingleStream",
        None,
        {"samples_per_query": 1.0, "target_queries_per_second": 1003.36},
    )
    assert profile.start == 1_600_251_943_000_000_000
    assert profile.unread == {"other lines": 1}
    assert profile.notes == ("Its round wrote results into mlperf_log_summary.txt alone.",)


def test_summary_and_detail_make_one_result(tmp_path: Path) -> None:
    """Each completes the other; the published result takes precedence."""
    one = read(tmp_path, summary("Samples per second: 100.35"))
    other = read(
        tmp_path,
        detail({"result_samples_per_second": 100.354, "result_query_count": 5}),
        MLPERF_DETAIL,
    )
    both = merged(one, other)
    assert result_of(both).figures == {"samples_per_second": 100.35, "queries": 5.0}
    assert both.version == "4.1 @ c60103b05a"
    assert both.source == "log.txt, log.txt"
    assert both.notes == ()
    assert both.events == one.events + other.events


def test_logs_of_two_runs_are_not_made_one_unsaid(tmp_path: Path) -> None:
    """A note reports it, as when both were copied into one folder."""
    one = read(tmp_path, summary("Samples per second: 200", scenario="Server"))
    other = read(tmp_path, detail({"result_samples_per_second": 100}), MLPERF_DETAIL)
    (note,) = merged(one, other).notes[-1:]
    assert note == (
        "The summary and the detail log differ in the scenario, samples_per_second: "
        "they may be of two runs."
    )


def test_summary_and_detail_that_differ_in_validity_are_reported(tmp_path: Path) -> None:
    """One run is either valid or not."""
    one = read(tmp_path, summary("Samples per second: 200"))
    other = read(tmp_path, detail({"result_validity": "INVALID"}), MLPERF_DETAIL)
    assert any("differ in whether it is valid" in note for note in merged(one, other).notes)


@pytest.mark.parametrize(
    ("line", "figures"),
    [
        (logged("global_batch_size", True), {}),
        (logged("global_batch_size", "many"), {}),
        (logged("tracked_stats", [1]), {}),
        (logged("tracked_stats", {"throughput": None}), {}),
        (':::MLLOG {"key": 5, "time_ms": "x", "metadata": []}\n', {}),
        (':::MLLOG {"key": "run_start", "time_ms": 1e400}\n', {}),
        (":::MLLOG " + '{"a":' * 5000 + "\n", {}),
    ],
)
def test_odd_values_are_no_figures(tmp_path: Path, line: str, figures: dict[str, float]) -> None:
    """Other values are still read."""
    assert result_of(read(tmp_path, line + logged("end", 1), MLPERF_TRAINING)).figures == figures


def test_logs_that_are_none_are_refused(tmp_path: Path) -> None:
    """The message says what to name instead."""
    for reader, words in ((MLPERF_DETAIL, "mlperf_log_detail"), (MLPERF_TRAINING, "result_")):
        with pytest.raises(ProfileError, match=words):
            read(tmp_path, "something else\n", reader)


def test_each_log_is_distinguished_from_the_others() -> None:
    """Exactly one reader accepts each."""
    texts = (summary(), detail({}), training())
    for text, expected in zip(texts, READERS, strict=True):
        head = Head("log.txt", text.encode())
        assert [reader for reader in READERS if reader.recognizes(head)] == [expected]
    assert MLPERF_DETAIL.recognizes(Head("a", detail_text(["version : 1"]).encode()))
    assert not any(
        reader.recognizes(Head("a", b"lines of ':::MLLOG {json}'")) for reader in READERS
    )


def test_numbers_of_any_kind() -> None:
    """Booleans and values that are not finite are no numbers."""
    assert [finite(each) for each in (1, 2.5, "3", True, "x", None, "nan", 1e999, "9" * 400)] == [
        1.0,
        2.5,
        3.0,
        *([None] * 6),
    ]
    assert named_figure("result_mean_latency_ns", -5) is None
    assert [percentile_name(each) for each in ("50.00", "99.90", "97", "99.99")] == [
        "p50",
        "p999",
        "p97",
        "p9999",
    ]


@pytest.mark.parametrize(
    ("figures", "is_valid", "said"),
    [
        (
            {"samples_per_second": 107.477, "tokens_per_second": 31302.7},
            True,
            "31,303 tokens/s, valid",
        ),
        ({"latency_p90_seconds": 0.0016027}, False, "0.001603 s at the 90th percentile, invalid"),
        (
            {"time_to_train_seconds": 1411.2, "samples_per_second": 2.5},
            True,
            "1,411 s to train, valid",
        ),
        ({}, None, "no result, not said to be valid"),
    ],
)
def test_a_result_is_one_line(
    figures: dict[str, float],
    is_valid: bool | None,  # noqa: FBT001 - a parameter of the test.
    said: str,
) -> None:
    """The most telling figure, and whether it counts."""
    document = {
        "benchmark": "bert",
        "scenario": "Offline",
        "is_valid": is_valid,
        "figures": figures,
    }
    assert result_text(document) == f"bert Offline: {said}"
