"""A real Prometheus and a real VictoriaMetrics give the same answers."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from prometheus_server import Prometheus, prometheus_server, scrape_config
from rightsizer.fleet.cache.grid import DAY, FINE_STEP, Grid
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.prometheus.selector import Matchers, selector
from rightsizer.fleet.settings import StoreSettings
from rightsizer.model.errors import StoreError, StoreLimitError
from victoria_server import victoria_server

pytestmark = pytest.mark.prometheus

SECOND = 10**9
GRID = Grid(day=20_600, step=FINE_STEP)
"""May 2026: in the past for any clock that runs these tests."""
DEVICES = 12
GAP = 40
"""Intervals without samples at the end of the day, for every other device."""
AWKWARD = 'a"b\\c.d|e{f}'
MEANS = "max by (uuid) (avg_over_time(load[5m]))"


def past() -> str:
    """A day of devices with samples every two minutes, in two clusters; one is scraped twice."""
    lines = ["# TYPE load gauge"]
    for number in range(DEVICES):
        known = GRID.count - GAP * (number % 2)
        labels = f'uuid="GPU-{number}",cluster="{"paris" if number < 8 else "oslo"}"'
        lines += [
            f"load{{{labels}}} {number + at / 1000} {GRID.start // SECOND + at * 300 + 60 * part}"
            for at in range(known)
            for part in (1, 3)
        ]
    escaped = AWKWARD.replace("\\", "\\\\").replace('"', '\\"')
    lines += [
        "# TYPE odd gauge",
        f'odd{{name="{escaped}"}} 1 {GRID.start // SECOND + 60}',
        f'odd{{name="aXb"}} 2 {GRID.start // SECOND + 60}',
        f'odd{{name="none"}} NaN {GRID.start // SECOND + 60}',
    ]
    return "\n".join(lines) + "\n# EOF\n"


@contextmanager
def prometheus(*flags: str) -> Iterator[Prometheus]:
    """A Prometheus with these samples."""
    with prometheus_server(scrape_config(), past=past(), flags=flags) as server:
        yield server


@contextmanager
def victoria(*flags: str) -> Iterator[Prometheus]:
    """A VictoriaMetrics with these samples."""
    with victoria_server(past=past(), flags=flags) as server:
        yield server


def store(server: Prometheus, matchers: str = "") -> PrometheusStore:
    """The client of a server."""
    return PrometheusStore(StoreSettings(url=server.url), matchers, sleep=lambda _: None)


def day(of: PrometheusStore, promql: str = MEANS) -> dict[str, dict[int | None, float]]:
    """Values of a day by UUID and place in the grid."""
    found = of.range(promql, GRID.start + GRID.step, GRID.end, GRID.step)
    return {
        each.labels["uuid"]: {
            GRID.places(moment): round(value, 9)
            for moment, value in zip(each.times, each.values, strict=True)
        }
        for each in found
    }


def wanted() -> dict[str, dict[int, float]]:
    """Stored values."""
    return {
        f"GPU-{number}": {
            at: round(number + at / 1000, 9) for at in range(GRID.count - GAP * (number % 2))
        }
        for number in range(DEVICES)
    }


def test_both_give_what_was_put_in() -> None:
    """Every interval is in its place, with the gaps; neither store shifts or adds a sample."""
    with prometheus() as one, victoria() as other:
        stores = (store(one), store(other))
        assert day(stores[0]) == day(stores[1]) == wanted()
        for each in stores:
            each.close()


def test_neither_shifts_the_times_that_are_asked_for() -> None:
    """By default VictoriaMetrics aligns times to its cache, and holds the newest samples back."""
    begin = GRID.start + 7 * SECOND
    with prometheus() as one, victoria() as other:
        answers = [
            store(each).range('load{uuid="GPU-0"}', begin, begin + 99 * FINE_STEP, FINE_STEP)
            for each in (one, other)
        ]
    now = time.time()
    scraped = f"# TYPE fresh gauge\nfresh 5 {now - 2:.3f}\n# EOF\n"
    with victoria_server(past=scraped, flags=["-search.latencyOffset=30s"]) as server:
        (fresh,) = store(server).instant("fresh", int(now) * SECOND)

    # The first sample is a minute into the day.
    wanted_times = [begin + at * FINE_STEP for at in range(1, 100)]
    assert [list(each.times) for (each,) in answers] == [wanted_times] * 2
    assert list(fresh.values) == [5.0]


def test_both_take_selectors_and_moments_alike() -> None:
    """Covers labels with special characters, alternatives, no match, matchers and samples."""
    moment = GRID.start + 120 * SECOND
    with prometheus() as one, victoria() as other:
        for of in (store(one), store(other)):
            for value, count in ((AWKWARD, 1), ([AWKWARD], 1), ([AWKWARD, "zzz"], 1), ([], 0)):
                found = of.instant(selector("odd", {"name": value}), moment)
                assert [(list(each.times), list(each.values)) for each in found] == [
                    ([moment], [1.0])
                ] * count
            samples = of.instant('load{uuid="GPU-1"}[5m]', GRID.start + 300 * SECOND)
            assert [list(sample.times) for sample in samples] == [
                [GRID.start + 60 * SECOND, GRID.start + 180 * SECOND]
            ]
            assert [each.values[0] for each in of.instant("vector(7)", moment)] == [7.0]
            unknown = of.instant(selector("odd", {"name": "none"}), moment)
            assert all(not math.isnan(value) for each in unknown for value in each.values)
        for server in (one, other):
            of = store(server, '{cluster="oslo"}')
            assert set(day(of)) == {f"GPU-{number}" for number in range(8, DEVICES)}


def test_matcher_insertion_parses_promql_as_prometheus_does() -> None:
    """The resulting text parses, and has the matchers in every selector."""
    queries = {
        "sum by (a) (rate(up[5m:1m] offset -5m)) / on (a) group_left () count(b{}) > bool 1e-3": 2,
        'label_replace(x @ end(), "a", "$1", "b", "(.*)}") unless ignoring (c) {__name__="d"}': 2,
        "topk(3, avg) or quantile without (by) (.5, sum_over_time(count[1h30m]))": 2,
        "-vector(time()) ^ NaN atan2 vector(-Inf) + a == 0x1F": 1,
    }
    with prometheus_server(scrape_config()) as server:
        merged = {
            server.get("format_query", query=Matchers.parse('c="d"').merge(query)): count
            for query, count in queries.items()
        }

    assert {text: text.count('c="d"') for text in merged} == merged


@pytest.mark.parametrize("samples", [100, 1000])
def test_prometheus_refuses_samples(samples: int) -> None:
    """With a low limit of samples a query, the day is still complete."""
    with prometheus(f"--query.max-samples={samples}") as server:
        of = store(server)
        assert day(of) == wanted()

    assert of.use.halvings > 0


def test_prometheus_refuses_one_step() -> None:
    """The caller must divide too large a result of one moment."""
    with (
        prometheus("--query.max-samples=5") as server,
        pytest.raises(StoreLimitError, match="would load too many samples"),
    ):
        day(store(server))


def test_prometheus_gives_no_more_points() -> None:
    """The client never queries that many at once."""
    with prometheus() as server:
        of = store(server)
        of.range("load", GRID.start, GRID.start + DAY, SECOND * 2)

    assert (of.use.queries, of.use.halvings) == (4, 0)


def test_victoria_refuses_points() -> None:
    """With a low limit of points a series, the day is still complete."""
    with victoria("-search.maxPointsPerTimeseries=50") as server:
        of = store(server)
        assert day(of) == wanted()

    assert of.use.halvings > 0


@pytest.mark.parametrize(
    ("flag", "promql", "message"),
    [
        ("-search.maxUniqueTimeseries=5", MEANS, "matching timeseries exceeds 5"),
        # It counts whole blocks, of up to 8192 samples, for any time range.
        ("-search.maxSamplesPerQuery=1500", MEANS, "cannot select more than"),
        ("-search.maxQueryLen=64", f"{MEANS} or {MEANS}", "too long query; got 82 bytes"),
    ],
)
def test_victoria_refuses_many_devices(flag: str, promql: str, message: str) -> None:
    """A shorter time does not help; the caller gets the error."""
    with victoria(flag) as server, pytest.raises(StoreLimitError, match=message):
        day(store(server), promql)


def test_both_tell_what_is_wrong_with_a_query() -> None:
    """The error has the store's own message, and no second attempt is made."""
    with prometheus() as one, victoria() as other:
        for server in (one, other):
            of = store(server)
            with pytest.raises(StoreError, match=r"refused \(4\d\d\).*(parse|parsing|unexpected)"):
                of.instant("load{", GRID.start)
            assert of.use.queries == 1
