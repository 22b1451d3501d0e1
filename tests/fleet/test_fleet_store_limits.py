"""Queries above a store's limits are halved, and the allowed size is remembered."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faulty_store import FaultyStore, Reply, StoreRequest, answer, faulty_store, refusal
from rightsizer.fleet.prometheus.client import PrometheusStore, QuerySpan
from rightsizer.fleet.prometheus.endpoint import LimitKind, recognized
from rightsizer.fleet.settings import StoreSettings
from rightsizer.model.errors import StoreLimitError

SECOND = 10**9
START = 1_794_960_000 * SECOND
STEP = 300 * SECOND

SPAN_REFUSALS = (
    (422, "query processing would load too many samples into memory in query execution"),
    (400, "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing it"),
    (503, "query timed out in expression evaluation"),
    (503, "query was canceled in expression evaluation"),
    (
        422,
        (
            "expanding series: proxy Series(): rpc error: code = Aborted desc = receive series "
            "from Addr: store-1:9091: rpc error: code = ResourceExhausted desc = exceeded series "
            "limit: limit 10 violated (got 11)"
        ),
    ),
    (422, "fetch series: rpc error: code = Code(422) desc = exceeded chunks limit: limit 30"),
    (500, "grpc: received message larger than max (10277563 vs. 4194304)"),
    (
        422,
        (
            "the query exceeded the maximum number of series (limit: 100000 series) "
            "(err-mimir-max-series-per-query). Consider reducing the time range"
        ),
    ),
    (422, "the query exceeded the aggregated chunks size limit (err-mimir-max-chunks-bytes)"),
    (
        422,
        (
            "the estimated number of chunks for the query exceeded the maximum allowed (limit: 9 "
            "chunks) (err-mimir-max-estimated-chunks-per-query)"
        ),
    ),
    # pkg/util/limiter/query_limiter.go of cortexproject/cortex.
    (422, "the query hit the aggregated data size limit (limit: 1048576 bytes)"),
    # pkg/store/limiter.go of thanos-io/thanos, which its query component has too.
    (422, "failed to send samples: limit 1000 violated (got 1080)"),
    (422, "err-mimir-max-estimated-memory-consumption-per-query"),
    (422, "the query time range exceeds the limit (query length: 768h0m0s, limit: 24h0m0s)"),
    (422, "the query hit the max number of series limit (limit: 100 series)"),
    (422, "the number of matching timeseries exceeds 300000; either narrow down the search"),
    (422, "cannot select more than -search.maxSamplesPerQuery=1000000000 samples"),
    (422, "too many points for the given step=1000: 300001; cannot exceed the limit"),
    (422, "not enough memory for processing 5 data points across 2 time series"),
    (422, "query failed: cannot exceed -search.maxPointsPerTimeseries=30000"),
    (503, "timeout exceeded during the query: -search.maxQueryDuration"),
    # storage/index.go of m3db/m3: of one index block.
    (
        400,
        (
            "query exceeded limit: require_exhaustive=true, series_limit=1, series_matched=1, "
            "docs_limit=0, docs_matched=4"
        ),
    ),
    (400, "The requested time range exceeds the maximum"),
    (500, "upstream request timeout"),
    # GoogleCloudPlatform/prometheus-engine#767.
    (
        422,
        (
            "generic::aborted: User has requested 5853MiB of memory for processing queries on one "
            "Monarch node (limit 5847MiB), refusing to grant further memory for this query."
        ),
    ),
    (413, "Request Entity Too Large"),
    (504, "Gateway Time-out"),
)
"""Statuses and messages of the stores' refusals."""


def store(faulty: FaultyStore, **changes: Any) -> PrometheusStore:
    """A store client without real waits."""
    settings = StoreSettings(**{"url": faulty.url, "timeout_seconds": 5.0, **changes})
    return PrometheusStore(settings, sleep=lambda _: None)


def allows(points: int, reply: Reply) -> Callable[[StoreRequest], Reply]:
    """Handler that refuses queries of more points."""
    return lambda asked: answer(asked) if asked.points <= points else reply


def times(of: PrometheusStore, points: int) -> list[int]:
    """Steps of an answer."""
    (series,) = of.range("up", START, START + (points - 1) * STEP, STEP)
    assert [time / SECOND for time in series.times] == list(series.values)
    return [(time - START) // STEP for time in series.times]


@pytest.mark.parametrize(("status", "text"), SPAN_REFUSALS)
def test_each_store_is_understood(status: int, text: str) -> None:
    """A refusal leads to halves until they are allowed; the result has all times."""
    with faulty_store() as faulty:
        faulty.judge = allows(40, refusal(status, text))
        of = store(faulty)
        assert times(of, 100) == list(range(100))

    assert [each.points for each in faulty.asked] == [100, 50, 25, 25, 25, 25]
    assert (of.use.halvings, of.use.retries) == (2, 0)


@given(st.integers(1, 60), st.integers(1, 60))
def test_any_limit_gives_every_step_once(points: int, allowed: int) -> None:
    """For any query and limit, no step is duplicated or missing."""
    found: list[range] = []
    with faulty_store() as faulty:
        faulty.judge = allows(allowed, refusal(422, "err-mimir-max-chunks-per-query"))
        assert times(store(faulty), points) == list(range(points))
        found = [range(each.points) for each in faulty.asked]

    assert sum(len(each) for each in found if len(each) <= allowed) == points


def test_allowed_size_is_remembered() -> None:
    """The next query is of that size, and is not refused."""
    with faulty_store() as faulty:
        faulty.judge = allows(40, refusal(422, "exceeded series limit"))
        of = store(faulty)
        times(of, 64)
        faulty.asked.clear()
        times(of, 64)

    assert [each.points for each in faulty.asked] == [32, 32]


def test_another_step_has_its_own_span() -> None:
    """One step of an hour reads as much as twelve of five minutes."""
    with faulty_store() as faulty:
        faulty.judge = allows(40, refusal(422, "exceeded series limit"))
        of = store(faulty)
        times(of, 64)
        faulty.asked.clear()
        of.range("up", START, START + 39 * 12 * STEP, 12 * STEP)

    assert [each.points for each in faulty.asked] == [40]


def test_a_span_grows_back() -> None:
    """After some successes a larger size is tried; one refusal in nine is the cost."""
    span = QuerySpan()
    span.succeed(STEP, 288, was_refused=False)
    assert span.points(STEP) == 11_000
    span.succeed(STEP, 36, was_refused=True)
    for _ in range(8):
        assert span.points(STEP) == 36
        span.succeed(STEP, 12, was_refused=False)
        span.succeed(STEP, 36, was_refused=False)
    assert span.points(STEP) == 72


def test_points_of_a_series_are_never_too_many() -> None:
    """Prometheus allows 11,000, so that no more are queried."""
    with faulty_store() as faulty:
        of = store(faulty)
        assert times(of, 25_000) == list(range(25_000))

    assert [each.points for each in faulty.asked] == [11_000, 11_000, 3_000]
    assert of.use.halvings == 0


def test_one_step_that_is_too_much_is_told_to_the_caller() -> None:
    """Only fewer devices help; the limit does not apply to the next query."""
    with faulty_store() as faulty:
        faulty.judge = allows(0, refusal(422, "cannot select more than 1 samples"))
        of = store(faulty)
        with pytest.raises(StoreLimitError, match=r"cannot select more than 1.*fewer devices"):
            times(of, 8)
        with pytest.raises(StoreLimitError, match="fewer devices"):
            of.instant("up", START)
        faulty.judge = answer
        faulty.asked.clear()
        times(of, 8)

    assert [each.points for each in faulty.asked] == [8]


@pytest.mark.parametrize(
    "reply",
    [
        refusal(422, "too long query; got 20000 bytes; mustn't exceed `-search.maxQueryLen=16384`"),
        refusal(400, "err-mimir-max-query-expression-size-bytes"),
        Reply(414, b"Request-URI Too Long"),
    ],
)
def test_a_text_that_is_too_long_is_not_asked_in_halves(reply: Reply) -> None:
    """A shorter time range makes no query text shorter."""
    with faulty_store(reply) as faulty, pytest.raises(StoreLimitError, match="fewer devices"):
        times(store(faulty), 8)

    assert len(faulty.asked) == 1


def test_an_answer_that_is_too_large_is_asked_in_halves() -> None:
    """Memory is bounded, whatever the store would return."""
    with faulty_store() as faulty:
        of = store(faulty, response_maximum_bytes=2000)
        assert times(of, 100) == list(range(100))

    assert [each.points for each in faulty.asked] == [100, 50, 50]


def test_series_may_come_and_go_between_halves() -> None:
    """Each keeps its own times, with a gap where it was missing."""

    def judge(asked: StoreRequest) -> Reply:
        begin = int(asked.parameters["start"])
        uuids = ["a", "b"] if begin == START // SECOND else ["b", "c"]
        rows = [
            f'{{"metric":{{"uuid":"{uuid}"}},"values":[[{begin},"1"],[{begin + 300},"2"]]}}'
            for uuid in uuids
        ]
        text = (
            f'{{"status":"success","data":{{"resultType":"matrix","result":[{",".join(rows)}]}}}}'
        )
        return Reply(body=text.encode())

    with faulty_store(refusal(422, "exceeded chunks limit")) as faulty:
        faulty.judge = judge
        found = store(faulty).range("up", START, START + 3 * STEP, STEP)

    assert {each.labels["uuid"]: (len(each.times), list(each.values)) for each in found} == {
        "a": (2, [1, 2]),
        "b": (4, [1, 2, 1, 2]),
        "c": (2, [1, 2]),
    }
    assert list(found[1].times) == list(range(START, START + 3 * STEP + 1, STEP))


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (422, "many-to-many matching not allowed", None),
        (400, "parse error: unexpected end of input", None),
        (500, "boom", None),
        (503, "upstream connect error", LimitKind.BUSY),
        (503, "query timed out in query queue", LimitKind.BUSY),
        (503, "query timed out in expression evaluation", LimitKind.TIME),
    ],
)
def test_other_faults_are_no_limits(status: int, text: str, kind: LimitKind | None) -> None:
    """An invalid query stays invalid in halves, and a busy store is queried later."""
    found = recognized(status, text)

    assert (found and found.kind) == kind


def test_a_limit_is_reported_without_the_query() -> None:
    """VictoriaMetrics repeats the whole query before the message."""
    found = recognized(422, 'error when executing query="max(up)": cannot select more than 5')

    assert found is not None
    assert found.text == "cannot select more than 5"
