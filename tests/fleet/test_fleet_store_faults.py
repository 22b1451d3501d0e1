"""A store that is down, slow, truncated, strict or no store: faults are reported or retried."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_process import eventually
from faulty_store import FaultyStore, Reply, StoreRequest, answer, faulty_store, refusal
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.settings import StoreSettings
from rightsizer.model.errors import StoreError
from web_certificates import Authority

SECOND = 10**9
START = 1_794_960_000 * SECOND
STEP = 300 * SECOND


def store(
    faulty: FaultyStore | str, sleep: Callable[[float], object] = lambda _: None, **changes: Any
) -> PrometheusStore:
    """A store client without real waits."""
    url = faulty if isinstance(faulty, str) else faulty.url
    usual = {"url": url, "timeout_seconds": 5.0, "patience_seconds": 0.0}
    settings = StoreSettings(**{**usual, **changes})
    return PrometheusStore(settings, sleep=sleep, jitter=lambda: 1.0)


def query_range(of: PrometheusStore, points: int = 4) -> list[float]:
    """Values of an answer, which equal their times."""
    (series,) = of.range("up", START, START + (points - 1) * STEP, STEP)
    assert [time / SECOND for time in series.times] == list(series.values)
    return [value - START / SECOND for value in series.values]


def test_a_question_has_all_that_stores_want() -> None:
    """Times, timeout, and what each store needs for a complete answer."""
    with faulty_store() as faulty:
        of = store(faulty, tenant="a", timeout_seconds=30.0)
        assert query_range(of) == [0, 300, 600, 900]
        of.instant("up", START + SECOND // 4)
        of.close()

    first, second = faulty.asked
    assert (first.method, first.path) == ("POST", "/api/v1/query_range")
    assert first.parameters == {
        "query": "up", "start": "1794960000", "end": "1794960900", "step": "300",
        "timeout": "30s", "dedup": "true", "partial_response": "false",
        "deny_partial_response": "1", "nocache": "1", "max_lookback": "5m",
    }  # fmt: skip
    # M3 cuts answers at its limits otherwise.
    assert first.headers["M3-Limit-Require-Exhaustive"] == "true"
    assert first.headers["X-Scope-OrgID"] == "a"
    # pkg/tenancy/tenancy.go of thanos-io/thanos: the default of --query.tenant-header.
    assert first.headers["THANOS-TENANT"] == "a"
    assert (second.path, second.parameters["time"]) == ("/api/v1/query", "1794960000.250")


def test_a_store_that_is_down_is_reported() -> None:
    """The message names the address and what to check, after the allowed attempts."""
    slept: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"

    with pytest.raises(
        StoreError, match=rf"{url} cannot be reached: .*refused; check fleet\.store\.url"
    ):
        query_range(store(url, slept.append))
    assert slept == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_store_that_hangs_is_not_asked_forever(concurrency: int) -> None:
    """Smaller queries, which help a busy store, are tried a few times before the error."""
    with faulty_store() as faulty:
        faulty.judge = lambda _: Reply(is_slow=True)
        with pytest.raises(StoreError, match="nothing in time, however little"):
            query_range(store(faulty, timeout_seconds=0.1, concurrency=concurrency, tries=3), 288)

    assert [each.points for each in faulty.asked] == [288, 144, 72]


@pytest.mark.parametrize(
    "fault",
    [
        Reply(body=b'{"status":"success"}' * 99, is_cut=True),
        # Its length matches, as where a proxy had only a part of it.
        Reply(body=b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"uu'),
        refusal(503, "upstream connect error", "unavailable"),
        refusal(502, "bad gateway"),
        refusal(422, "err-mimir-tenant-max-request-rate: slow down"),
        refusal(429, "rejected by the limited queries (err-mimir-query-limited)"),
        # pkg/ingester/errors.go of grafana/mimir, wrapped by gRPC.
        refusal(
            500,
            "rpc error: code = ResourceExhausted desc = ingester is currently too busy to process "
            "queries, try again later",
            "internal",
        ),
        # ring/ring.go of grafana/dskit: for the time of a rollout.
        refusal(500, "too many unhealthy instances in the ring", "internal"),
        # pkg/querier/blocks_store_queryable.go of grafana/mimir.
        refusal(
            500,
            "the consistency check failed because some blocks were not queried "
            "(err-mimir-store-consistency-check-failed). The non-queried blocks are: 01",
        ),
        # pkg/querier/blocks_store_queryable.go of grafana/mimir: the compactor is late.
        refusal(500, "the bucket index is too old (err-mimir-bucket-index-too-old)"),
        # app/vmselect/main.go of VictoriaMetrics: 503, and 429 in recent versions.
        refusal(
            429,
            "couldn't start executing the request in 10.000 seconds, since "
            "-search.maxConcurrentRequests=8 concurrent requests are executed. Possible solutions: "
            "to reduce query load; to increase -search.maxQueueDuration=10s; to increase "
            "-search.maxQueryDuration=30s",
            "429",
        ),
        refusal(503, "query timed out in query queue", "timeout"),
        # GoogleCloudPlatform/prometheus-engine#767.
        refusal(
            500,
            "expanding series: generic::aborted: invalid status monarch::220: Cancelled due to the "
            "number of queries whose evaluation is blocked waiting for memory is 502, which is "
            "equal to or greater than the limit of 500.",
            "internal",
        ),
        refusal(503, "cannot handle more than 8 concurrent search requests during 10s", "503"),
    ],
)
def test_transient_fault_is_retried(fault: Reply) -> None:
    """The same query is sent once more, after a wait."""
    slept: list[float] = []
    with faulty_store(fault) as faulty:
        of = store(faulty, slept.append)
        assert query_range(of) == [0, 300, 600, 900]

    assert slept == [1.0]
    assert (of.use.queries, of.use.retries, of.use.halvings) == (2, 1, 0)


class RestartingStore:
    """Store that answers, is unavailable for some requests, and answers again."""

    def __init__(self, away: int, fault: Reply) -> None:
        self.left = away + 1
        self.fault = fault
        """Requests until it is back; the first one is answered."""
        self.away = away

    def __call__(self, query: StoreRequest) -> Reply:
        """The answer, but for the requests of the outage."""
        self.left -= 1
        return self.fault if 0 <= self.left < self.away else answer(query)


@pytest.mark.parametrize(
    "fault", [refusal(503, "starting up"), Reply(body=b"{", is_cut=True), Reply(502, b"bad")]
)
def test_a_store_that_restarts_is_waited_for(fault: Reply) -> None:
    """Waiting exceeds the retries, with delays up to half a minute; each is reported."""
    slept: list[float] = []
    waits: list[tuple[float, float]] = []
    with faulty_store() as faulty:
        faulty.judge = RestartingStore(9, fault)
        settings = StoreSettings(url=faulty.url, timeout_seconds=5.0)
        of = PrometheusStore(
            settings,
            sleep=slept.append,
            jitter=lambda: 1.0,
            waiting=lambda waited, patience: waits.append((waited, patience)),
        )
        query_range(of)
        assert query_range(of) == [0, 300, 600, 900]

    assert slept == [1, 2, 4, 8, 16, 30, 30, 30, 30]
    assert waits[0] == (0.0, 600.0)
    assert waits[-1] == (121.0, 600.0)


def test_a_store_that_stays_away_is_given_up_after_its_patience() -> None:
    """The error is the same as without waiting."""
    slept: list[float] = []
    with faulty_store() as faulty:
        of = store(faulty, slept.append, patience_seconds=100.0)
        query_range(of)
    with pytest.raises(StoreError, match=r"cannot be reached: .*refused; check fleet\.store\.url"):
        query_range(of)
    assert slept == [1, 2, 4, 8, 16, 30, 30]


def test_store_that_never_answered_is_not_waited_for() -> None:
    """A wrong address is reported after a few seconds."""
    slept: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(StoreError, match="refused"):
        query_range(store(url, slept.append, patience_seconds=600.0))
    assert slept == [1, 2, 4]


def test_a_full_queue_is_given_time_and_asked_for_less() -> None:
    """Mimir splits a long query into many requests; halves fit, an instant query waits."""
    slept: list[float] = []
    full = refusal(429, "too many outstanding requests", "too_many_requests")
    with faulty_store(full) as faulty:
        of = store(faulty, slept.append)
        assert query_range(of) == [0, 300, 600, 900]
        assert [each.points for each in faulty.asked] == [4, 2, 2]
        faulty.replies += [full, full]
        assert query_range(of, 1) == [0]

    assert slept == [1.0, 1.0, 2.0]
    assert (of.use.retries, of.use.halvings) == (2, 1)


def test_a_store_may_ask_for_patience() -> None:
    """The client waits as long as the response says, within a limit."""
    slept: list[float] = []
    with faulty_store(
        refusal(429, "slow down", Retry_After="7"), refusal(429, "slow down", Retry_After="9999")
    ) as faulty:
        query_range(store(faulty, slept.append))

    assert slept == [7.0, 60.0]


def test_an_answer_that_always_breaks_off_is_reported() -> None:
    """The error follows all attempts, and refers to the log of the store or proxy."""
    with faulty_store() as faulty:
        faulty.judge = lambda query: Reply(body=answer(query).body, is_cut=True)
        with pytest.raises(StoreError, match=r"broke off: .*; see its log"):
            query_range(store(faulty, tries=3))

    assert len(faulty.asked) == 3


def test_an_answer_that_is_always_broken_is_reported() -> None:
    """As one that always breaks off."""
    with faulty_store() as faulty:
        faulty.judge = lambda query: Reply(body=answer(query).body[:-9])
        with pytest.raises(StoreError, match=r"with JSON that is broken or cut off .*; see its"):
            query_range(store(faulty, tries=3))

    assert len(faulty.asked) == 3


def test_a_query_that_hangs_once_is_asked_again() -> None:
    """It cannot be made smaller, and may have been lost."""
    with faulty_store(Reply(is_slow=True)) as faulty:
        of = store(faulty, timeout_seconds=0.5)
        assert list(of.instant("up", START)) == []

    assert (of.use.queries, of.use.retries) == (2, 1)


def test_stop_event_ends_the_retries() -> None:
    """A set event ends the attempts."""
    ended = threading.Event()
    ended.set()
    with faulty_store(refusal(503, "later")) as faulty, pytest.raises(StoreError, match="later"):
        query_range(store(faulty, ended.wait))

    assert len(faulty.asked) == 1


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(401, b"no org id"), r"401: no org id; check .*tenant"),
        (Reply(403, b"forbidden"), r"403: forbidden; check what fleet\.store\.token_file"),
        (Reply(404, b"page not found"), r"404: .*; check the path .*/prometheus for Mimir"),
        (Reply(302, headers={"Location": "https://sso/login"}), "points to https://sso/login"),
        # Amazon's, without a signature; vmselect, without a tenant; nginx.
        (
            Reply(403, b'{"message":"Missing Authentication Token"}'),
            "403: .*; Amazon's store wants",
        ),
        (Reply(400, b'unsupported path requested: "/api/v1/query"'), "; check the path of"),
        (Reply(400, b"1:29: parse error: unexpected character: '.'"), "; check fleet.pool_labels"),
        (Reply(400, b"<title>400 The plain HTTP request was sent to HTTPS port"), "; write https"),
        (Reply(body=b"<html>Sign in", headers={"Content-Type": "text/html"}), "login page"),
        (Reply(body=b"\x00\xff\xfe"), "not JSON"),
        (refusal(400, "1:4: parse error", "bad_data"), r"refused \(400\): 1:4: parse error"),
        (refusal(422, "many-to-many matching"), r"refused \(422\): many-to-many"),
        (refusal(500, "boom", "internal"), r"refused \(500\): boom"),
    ],
)
def test_permanent_fault_is_reported_at_once(reply: Reply, message: str) -> None:
    """The error has the store's own message and a remedy; no second attempt is made."""
    with faulty_store(reply) as faulty, pytest.raises(StoreError, match=message) as raised:
        query_range(store(faulty))

    assert faulty.url in str(raised.value)
    assert len(faulty.asked) == 1


def test_a_part_is_refused() -> None:
    """Half of a fleet would look like an idle one."""
    with faulty_store() as faulty:
        faulty.judge = lambda query: answer(query, isPartial=True)
        with pytest.raises(StoreError, match="a partial answer: isPartial is true; check that"):
            query_range(store(faulty))


def test_a_remark_is_kept() -> None:
    """A warning in an answer is no error; it is stored once."""
    remark = "PromQL info: metric might not be a counter"
    with faulty_store() as faulty:
        faulty.judge = lambda query: answer(query, infos=[remark])
        of = store(faulty)
        query_range(of)
        query_range(of)

    assert of.warnings == (remark,)


def test_a_proxy_may_allow_reading_only() -> None:
    """After one 405, queries are sent in the URL."""

    def judge(query: StoreRequest) -> Reply:
        return answer(query) if query.method == "GET" else Reply(405, b"method not allowed")

    with faulty_store() as faulty:
        faulty.judge = judge
        of = store(faulty)
        query_range(of)
        query_range(of)

    assert [each.method for each in faulty.asked] == ["POST", "GET", "GET"]


def test_answers_may_be_packed() -> None:
    """Compression is requested, decoded, and counted by the unpacked size."""
    with faulty_store() as faulty:
        faulty.judge = lambda query: Reply(
            body=answer(query).body, headers={"Content-Encoding": "gzip"}
        )
        of = store(faulty)
        assert len(query_range(of, 288)) == 288

    assert faulty.asked[0].headers["Accept-Encoding"] == "gzip"
    assert of.use.received_bytes == len(answer(faulty.asked[0]).body)
    assert (of.use.series, of.use.samples) == (1, 288)


def test_a_token_is_read_each_time(tmp_path: Path) -> None:
    """It may be rotated at run time; messages never contain it."""
    file = tmp_path / "token"
    file.write_text("first\n")
    with faulty_store() as faulty:
        of = store(faulty, token_file=str(file))
        query_range(of)
        file.write_text("second\n")
        faulty.judge = lambda query: Reply(403, query.headers["Authorization"].encode())
        with pytest.raises(StoreError, match=r"answered 403: \*\*\*;"):
            query_range(of)
        file.unlink()
        with pytest.raises(StoreError, match=r"token'; check fleet\.store\.token_file"):
            query_range(of)

    assert [each.headers["Authorization"] for each in faulty.asked] == [
        "Bearer first",
        "Bearer second",
    ]


def test_a_user_has_a_password(tmp_path: Path) -> None:
    """Basic authentication takes the password from a file, which must not be empty."""
    file = tmp_path / "password"
    file.write_text("open sesame\n")
    with faulty_store() as faulty:
        of = store(faulty, username="ali", password_file=str(file))
        query_range(of)
        file.write_text("\n")
        with pytest.raises(StoreError, match=r"password_file is empty"):
            query_range(of)

    assert faulty.asked[0].headers["Authorization"] == "Basic YWxpOm9wZW4gc2VzYW1l"


def test_both_sides_may_show_certificates(tmp_path: Path) -> None:
    """A private authority is trusted, and a client certificate is presented on request."""
    authority = Authority.made(tmp_path)
    server = authority.sign("server", "IP:127.0.0.1")
    client = authority.sign("client")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    tls.load_cert_chain(server.certificate, server.key)
    tls.verify_mode = ssl.CERT_REQUIRED
    shown = {"certificate_file": str(client.certificate), "key_file": str(client.key)}

    with faulty_store(tls=tls) as faulty:
        of = store(faulty, ca_file=str(authority.certificate), **shown)
        assert query_range(of) == [0, 300, 600, 900]
        of.close()
        with pytest.raises(StoreError, match=r"trusted: .*; check fleet\.store\.ca_file"):
            query_range(store(faulty, **shown))


def test_threads_share_few_places() -> None:
    """As many queries as the limit allows are answered together, and never more."""
    go_on = threading.Event()

    def judge(asked: StoreRequest) -> Reply:
        go_on.wait(20)
        return answer(asked)

    with faulty_store() as faulty:
        faulty.judge = judge
        of = store(faulty, concurrency=2)
        threads = [threading.Thread(target=query_range, args=(of,)) for _ in range(12)]
        for thread in threads:
            thread.start()
        eventually(lambda: faulty.at_once == 2)
        time.sleep(0.1)  # A third one would come now.
        go_on.set()
        for thread in threads:
            thread.join()
        of.close()

    assert of.use.queries == 12
    assert faulty.most_at_once == 2


@pytest.mark.parametrize(
    ("settings", "matchers"),
    [
        (StoreSettings(url=""), ""),
        (StoreSettings(url="prometheus:9090"), ""),
        (StoreSettings(url="http://localhost"), "paris"),
        (StoreSettings(url="http://localhost", token_file="a", username="b"), ""),
        (StoreSettings(url="http://localhost", key_file="a"), ""),
    ],
)
def test_unusable_settings_are_refused_at_once(settings: StoreSettings, matchers: str) -> None:
    """The error precedes any query."""
    with pytest.raises(ValueError, match="write"):
        PrometheusStore(settings, matchers)


@pytest.mark.parametrize("is_reversed", [False, True])
def test_series_come_in_one_order(*, is_reversed: bool) -> None:
    """A store of several parts returns them in the order of its parts' answers."""
    names = ["GPU-2", "GPU-0", "GPU-1"]
    result = [{"metric": {"uuid": name}, "value": [1, "1"]} for name in names]
    data = {"resultType": "vector", "result": result[::-1] if is_reversed else result}
    body = json.dumps({"status": "success", "data": data}).encode()
    with faulty_store(Reply(body=body)) as faulty:
        found = store(faulty).instant("up", START)
    assert [each.labels["uuid"] for each in found] == ["GPU-0", "GPU-1", "GPU-2"]
