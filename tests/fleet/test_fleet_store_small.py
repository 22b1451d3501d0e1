"""With a store of low limits the probe splits its queries too, with the same result."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from dcgm_estate import BUSY, EMPTY, NOW, EstatePast, Phase
from faulty_store import StoreRequest, answer, faulty_store, refusal
from prometheus_server import Prometheus
from rightsizer.fleet.encoder import encode_answer
from rightsizer.fleet.judge import FleetJudge
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.run import run_once
from rightsizer.fleet.settings import FleetConfig, FleetSettings, StoreSettings
from rightsizer.fleet.sources.pod_owners import LookbackSpan, object_labels
from rightsizer.fleet.sources.series import divided, names_of
from rightsizer.io.clock import FastClock
from rightsizer.model.errors import StoreLimitError
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from victoria_server import victoria_server

GPUS: Final = 24
HOUR: Final = 3600 * NANOSECONDS_PER_SECOND
REFUSED: Final = "not counted, since "
"""What a limit leaves unknown is named."""
ALLOWED: Final = "-search.maxUniqueTimeseries=9"
"""Fewer than GPUs, and more than a sixteenth of them with all metrics in one query."""


def uuid(number: int) -> str:
    """UUIDs are spread over all first digits, as real ones are."""
    return f"GPU-{number * 11:02x}{number:06x}-1111-4222-8333-444455556666"


@pytest.fixture(scope="module")
def past() -> str:
    """A day of GPUs of three nodes; every fourth is empty, and one has an Xid."""
    found = EstatePast(interval_seconds=120)
    for number in range(GPUS):
        readings = EMPTY if number % 4 == 0 else BUSY
        labels = {"Hostname": f"node-{number // 8}", "gpu": str(number % 8)}
        xid = {"DCGM_FI_DEV_XID_ERRORS": 79.0 if number == 5 else 0.0}
        found.device(
            [Phase(0, 24, {**readings, **xid})],
            UUID=uuid(number),
            modelName="NVIDIA H100 80GB HBM3",
            **labels,
        )
    return found.text()


def looked(server: Prometheus, folder: Path) -> dict[str, Any]:
    """The answer on a store."""
    fleet = FleetSettings(
        store=StoreSettings(url=server.url),
        path=str(folder / "fleet.db"),
        lookback_seconds=86400.0,
        workers=1,
    )
    settings = replace(FleetConfig(), fleet=fleet)
    clock = FastClock(NOW)
    with FleetJudge(settings, clock) as judge:
        return encode_answer(run_once(judge, settings, clock))


@pytest.fixture(scope="module")
def answers(
    past: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Answers on a VictoriaMetrics without limits, and on one with low limits."""
    whole = tmp_path_factory.mktemp("whole")
    part = tmp_path_factory.mktemp("part")
    with victoria_server(past=past) as one, victoria_server(past=past, flags=[ALLOWED]) as other:
        yield looked(one, whole), looked(other, part)


@pytest.mark.prometheus
def test_a_store_that_allows_few_series_gives_the_same(
    answers: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    """Findings, their devices and the probe's report are equal."""
    whole, part = answers
    assert part["devices"] == whole["devices"] == GPUS
    assert [(each["id"], each["devices"]) for each in part["findings"]] == [
        (each["id"], each["devices"]) for each in whole["findings"]
    ]
    sources = [
        {**source, "warnings": [text for text in source["warnings"] if REFUSED not in text]}
        for source in part["sources"]
    ]
    assert sources == whole["sources"]
    assert sources != part["sources"]
    assert "Last Xid 79 on 1 of the GPUs" in " ".join(
        text for source in part["sources"] for text in source["warnings"]
    )
    assert part["use"]["queries"] > whole["use"]["queries"]


def test_query_too_large_for_any_shard_is_reported() -> None:
    """The error is raised where even two digits of a UUID match too many series."""
    with faulty_store() as faulty:
        faulty.judge = lambda _: refusal(422, "err-mimir-max-series-per-query")
        store = PrometheusStore(StoreSettings(url=faulty.url), sleep=lambda _: None)
        with pytest.raises(StoreLimitError, match="less than one moment"):
            divided(store, lambda part: part.instant("up", NOW))


def test_names_are_asked_for_one_by_one() -> None:
    """This happens where all metrics together have too many series."""
    with faulty_store() as faulty:

        def judge(asked: StoreRequest) -> Any:
            many = "|" in asked.parameters["query"]
            text = "the number of matching timeseries exceeds 300000"
            return refusal(422, text) if many else answer(asked)

        faulty.judge = judge
        store = PrometheusStore(StoreSettings(url=faulty.url), sleep=lambda _: None)
        assert names_of(store, ("one", "two"), NOW) == frozenset()
    assert len(faulty.asked) == 3


def test_a_span_that_is_too_long_is_asked_by_halves() -> None:
    """Mimir limits the length of partial queries: a day of labels is read in four parts."""
    with faulty_store() as faulty:

        def judge(asked: StoreRequest) -> Any:
            long = any(f"[{hours * 3600}s]" in asked.parameters["query"] for hours in (24, 12))
            text = "the query time range exceeds the limit (query length: 24h0m0s, limit: 6h0m0s)"
            return refusal(422, text) if long else answer(asked)

        faulty.judge = judge
        store = PrometheusStore(StoreSettings(url=faulty.url), sleep=lambda _: None)
        span = LookbackSpan(NOW, 24 * HOUR)
        assert object_labels(store, "kube_pod_owner", (("pod",), {"a"}), (), span) == []
    given = [each.parameters for each in faulty.asked if "[21600s]" in each.parameters["query"]]
    ends = sorted(float(each["time"]) for each in given)
    assert ends == [NOW / NANOSECONDS_PER_SECOND - hours * 3600 for hours in (18, 12, 6, 0)]
