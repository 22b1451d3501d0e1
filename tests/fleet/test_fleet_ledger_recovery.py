"""Recovery of a fleet's recommendations from a real store after its ledger was lost."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import pytest

from prometheus_server import prometheus_server, scrape_config
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.recovery import scraped_last
from rightsizer.fleet.settings import StoreSettings
from rightsizer.model.advice import AdviceState
from rightsizer.simulator.source import DEFAULT_START
from victoria_server import victoria_server

pytestmark = pytest.mark.prometheus

SECOND: Final = 10**9
HOUR: Final = 3600
NOON: Final = DEFAULT_START // SECOND + 12 * HOUR
LOOKBACK: Final = 14 * 86400 * SECOND
INFO: Final = "rightsizer_advice_info"
OPENED: Final = "rightsizer_advice_opened_timestamp_seconds"
COVERAGE: Final = "rightsizer_fleet_coverage_ratio"
FLEET: Final = 'job="fleet",instance="fleet:19400"'
AGENT: Final = 'job="agents",instance="n1:19400"'


def past() -> str:
    """A fleet that was scraped from six to noon, at first with one more recommendation."""
    lines: dict[str, list[str]] = {OPENED: [], COVERAGE: []}
    for time in range(NOON - 6 * HOUR, NOON + 1, 60):
        lines[COVERAGE].append(f"{COVERAGE}{{{FLEET}}} 0.9 {time}\n")
        lines[OPENED].append(f'{OPENED}{{id="kept",{FLEET}}} {NOON - 9 * HOUR}.25 {time}\n')
        lines[OPENED].append(f'{OPENED}{{id="theirs",{AGENT}}} {NOON - 8 * HOUR} {time}\n')
        lines[OPENED].append(f'{OPENED}{{id="later",{FLEET}}} {NOON + 9999 * HOUR} {time}\n')
        if time < NOON - HOUR:
            lines[OPENED].append(f'{OPENED}{{id="closed",{FLEET}}} {NOON - 7 * HOUR} {time}\n')
    return "".join([*("".join(line) for line in lines.values()), "# EOF\n"])


@pytest.fixture(scope="module")
def store() -> Iterator[PrometheusStore]:
    """A VictoriaMetrics that has scraped it."""
    with victoria_server(past=past()) as server:
        yield PrometheusStore(StoreSettings(url=server.url))


@pytest.mark.parametrize("hours", [0, 0.2, 9, 13 * 24])
def test_advice_open_at_the_end_is_restored(store: PrometheusStore, hours: float) -> None:
    """Closed, agents' own and undecodable ones are not restored, whatever the age."""
    now = round((NOON + hours * HOUR) * SECOND)
    found = scraped_last(store, now, LOOKBACK)
    assert {each.id: each.opened for each in found.values()} == {
        "kept": (NOON - 9 * HOUR) * SECOND + SECOND // 4
    }


def test_advice_older_than_the_lookback_is_forgotten(store: PrometheusStore) -> None:
    """No series of it are left in the lookback."""
    assert scraped_last(store, (NOON + 15 * 86400) * SECOND, LOOKBACK) == {}


@pytest.mark.parametrize("minutes", [0, 2, 60, 3 * 1440])
def test_a_service_that_ran_for_a_minute_is_remembered(minutes: int) -> None:
    """It may have run between steps of five minutes, and need not be scraped any more."""
    opened = NOON - 3600
    lines = {COVERAGE: "", OPENED: ""}
    for time in range(NOON + 7, NOON + 67, 5):
        lines[COVERAGE] += f"{COVERAGE}{{{FLEET}}} 0.9 {time}\n"
        lines[OPENED] += f'{OPENED}{{id="kept",{FLEET}}} {opened} {time}\n'
    with victoria_server(past="".join([*lines.values(), "# EOF\n"])) as server:
        store = PrometheusStore(StoreSettings(url=server.url))
        now = (NOON + 67 + minutes * 60) * SECOND
        found = scraped_last(store, now, LOOKBACK)
        assert {each.id: each.opened for each in found.values()} == {"kept": opened * SECOND}


@pytest.mark.parametrize("kind", ["prometheus", "victoria"])
def test_the_last_state_counts(kind: str) -> None:
    """Of several states in one scrape interval the last counts, with the second of its start."""
    lines: dict[str, list[str]] = {COVERAGE: [], OPENED: [], INFO: []}
    states = ["active", "snoozed", "claimed", "claimed"]
    for time, state in zip(range(NOON, NOON + 16, 4), states, strict=True):
        lines[COVERAGE].append(f"{COVERAGE}{{{FLEET}}} 0.9 {time}\n")
        for advice_id, last_state in (("kept", state), ("odd", "unheard_of")):
            label = f'id="{advice_id}",{FLEET}'
            lines[OPENED].append(f"{OPENED}{{{label}}} {NOON - HOUR} {time}\n")
            lines[INFO] += [
                f'{INFO}{{uuid="{uuid}",state="{last_state}",{label}}} 1 {time}\n'
                for uuid in ("GPU-1", "GPU-2")
            ]
    text = "".join(line for name in lines for line in sorted(lines[name], key=_series))
    serve = victoria_server if kind == "victoria" else partial(prometheus_server, scrape_config())
    with serve(past=f"{text}# EOF\n") as server:
        store = PrometheusStore(StoreSettings(url=server.url))
        found = scraped_last(store, (NOON + HOUR) * SECOND, LOOKBACK)
    assert {each.id: each.state for each in found.values()} == {
        "kept": AdviceState.CLAIMED,
        "odd": AdviceState.ACTIVE,
    }
    assert found["kept"].seen in ((NOON + 11) * SECOND, (NOON + 12) * SECOND)


def _series(line: str) -> str:
    return line.partition("}")[0]


def test_it_takes_a_handful_of_queries(store: PrometheusStore) -> None:
    """One series gives the time; the rest is read at one moment."""
    before = store.use
    scraped_last(store, (NOON + 9 * HOUR) * SECOND, LOOKBACK)
    used = store.use.since(before)
    assert used.queries <= 5
    assert used.samples < 500
