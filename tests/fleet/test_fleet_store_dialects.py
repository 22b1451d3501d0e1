"""Stores that refuse other parameters and selectors by several names, as Google's and Elastic's.

Texts: pyrra-dev/pyrra#1063, GoogleCloudPlatform/prometheus-engine#1601 and #767, and the page on
PromQL's limits in Elasticsearch.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from dcgm_estate import BUSY, EMPTY, NOW, EstatePast, Phase, gpu
from faulty_store import Reply, StoreRequest, answer, faulty_store, refusal
from fleet_command import asked_in_process, configured
from odd_estate import END, odd_estate
from prometheus_server import prometheus_server, scrape_config
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.prometheus.selector import with_exact_names
from rightsizer.fleet.settings import StoreSettings
from rightsizer.model.errors import StoreError

START: Final = 1_794_960_000 * 10**9
KNOWN: Final = frozenset({"query", "time", "start", "end", "step"})


def google(name: str) -> Reply:
    """Google's refusal of a parameter."""
    text = (
        f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter. '
        f"Field '{name}' could not be found in request message."
    )
    error = {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}
    return Reply(400, json.dumps({"error": error}).encode())


def elastic(name: str) -> Reply:
    """Elasticsearch's refusal of a parameter."""
    text = f"request [/_prometheus/api/v1/query] contains unrecognized parameter: [{name}]"
    return Reply(400, json.dumps({"error": {"reason": text}, "status": 400}).encode())


MATCH: Final = refusal(
    400,
    'invalid parameter "query": substitute queries failed: convert vector selector failed: =~ is '
    "an unsupported matchtype for the __name__ label: invalid argument",
    "bad_data",
)


def strict(
    refused: Callable[[str], Reply], answered: Callable[[StoreRequest], Reply] = answer
) -> Callable[[StoreRequest], Reply]:
    """A store that refuses unknown parameters, and selectors without exactly one name."""

    def judge(asked: StoreRequest) -> Reply:
        if unknown := sorted(asked.parameters.keys() - KNOWN):
            return refused(unknown[0])
        bare = re.sub(r'"[^"]*"', '""', asked.parameters["query"])
        is_named = not re.search(r"__name__ *(=~|!)|(^|[ (,])\{", bare)
        return answered(asked) if is_named else MATCH

    return judge


def store(url: str) -> PrometheusStore:
    """A store client without real waits."""
    settings = StoreSettings(url=url, timeout_seconds=5.0, patience_seconds=0.0)
    return PrometheusStore(settings, sleep=lambda _: None)


@pytest.mark.parametrize("refused", [google, elastic])
def test_refused_parameters_are_left_out_from_then_on(refused: Callable[[str], Reply]) -> None:
    """One query more in all; also for the parts of the store by matchers."""
    with faulty_store() as faulty:
        faulty.judge = strict(refused)
        of = store(faulty.url)
        for part in (of, of.within('a="b"')):
            (series,) = part.range("up", START, START + 10**12, 10**11)
            assert len(series.times) == 11

    assert [len(asked.parameters.keys() - KNOWN) for asked in faulty.asked] == [6, 0, 0]


def test_several_names_are_asked_for_one_by_one() -> None:
    """A proxy may drop the parameters, so that the name is refused first."""
    with faulty_store() as faulty:
        faulty.judge = lambda asked: MATCH if "=~" in asked.parameters["query"] else answer(asked)
        store(faulty.url).instant('count({__name__=~"a|b"})', START)

    assert faulty.asked[-1].parameters["query"] == "count((a or on (__name__) b))"


def test_a_refusal_that_stays_is_reported() -> None:
    """With the store's own words, which Google nests."""
    with faulty_store() as faulty:
        faulty.judge = lambda _: google("query")
        with pytest.raises(StoreError, match=r"refused: Unknown name .query.: Cannot bind"):
            store(faulty.url).instant("up", START)
    assert len(faulty.asked) == 2


@pytest.mark.parametrize("status", [405, 406, 415])
def test_forms_that_are_refused_become_addresses(status: int) -> None:
    """Elasticsearch refuses forms by their type, other stores by the method."""
    with faulty_store() as faulty:
        faulty.judge = lambda asked: answer(asked) if asked.method == "GET" else Reply(status)
        store(faulty.url).instant("up", START)
    assert [asked.method for asked in faulty.asked] == ["POST", "GET"]


@pytest.mark.parametrize(
    ("query", "exact"),
    [
        ('{__name__=~"a|b:c",d="}|e"}', '(a{d="}|e"} or on (__name__) b:c{d="}|e"})'),
        ('{f="g,,h",__name__=~"a",d=""}', '(a{f="g,,h",d=""})'),
        (
            'last_over_time({__name__=~"a|b"}[5m])',
            "(last_over_time(a[5m]) or on (__name__) last_over_time(b[5m]))",
        ),
        ('sum(up{job=~"a|b"})', 'sum(up{job=~"a|b"})'),
    ],
)
def test_names_of_a_selector_become_a_union(query: str, exact: str) -> None:
    """Other matchers stay with each, whatever their values."""
    assert with_exact_names(query) == exact


@pytest.mark.parametrize(
    "query",
    [
        'count_over_time({__name__=~"a|b"}[5m])',
        'last_over_time({__name__=~"a|b"}[5m:1m])',
        'last_over_time({__name__=~"a|b"}[5m] @ 1)',
    ],
)
def test_ranges_that_lose_names_stay_as_they_are(query: str) -> None:
    """A store that refuses them says so, in place of an error of syntax."""
    assert with_exact_names(query) == query


@pytest.mark.prometheus
@pytest.mark.parametrize("source", ["agents", "dcgm-exporter"])
def test_a_strict_store_gives_the_same_fleet(tmp_path: Path, source: str) -> None:
    """A whole look, at a real Prometheus behind such a front end."""
    past = EstatePast()
    for number, values in enumerate((BUSY, EMPTY)):
        labels = {"Hostname": "gpu-1", "modelName": "NVIDIA H100 80GB HBM3", "cluster": "prod"}
        past.device([Phase(0, 24, values)], UUID=gpu(number), gpu=str(number), **labels)
    of_exporters = prometheus_server(scrape_config(), past=past.text())
    with odd_estate(("plain",)) if source == "agents" else of_exporters as server:
        url, now = (server, END) if isinstance(server, str) else (server.url, NOW // 10**9)

        def forwarded(asked: StoreRequest) -> Reply:
            body = urlencode(asked.parameters).encode()
            try:
                with urlopen(url + asked.path, data=body, timeout=20) as found:
                    return Reply(body=found.read())
            except HTTPError as error:
                with error:
                    return Reply(error.code, error.read())

        with faulty_store() as front:
            front.judge = strict(google, forwarded)
            found = []
            for number, each in enumerate((url, front.url)):
                (tmp_path / str(number)).mkdir()
                config = configured(tmp_path / str(number), each, lookback="4d")
                said = asked_in_process(config, "--json", "--all", "--at", str(now))
                found.append(said.document | {"use": None})
    assert found[0] == found[1]
    assert found[0]["gpus"] >= 2
    assert found[0]["findings"]
