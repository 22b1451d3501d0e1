"""dcgm-exporter alone: recorded series and samples give the same answers on a generated fleet."""

from typing import Final

import pytest
from msgspec.structs import replace

from estate.command import Answer, ask_fleet
from estate.dcgm import dcgm_runs
from estate.layout import SMALL
from estate.life import Life, live
from estate.series import Counters
from estate.stores import filled_folder, recorded_prometheus
from estate.truth import Metrics
from evaluation.fleet.estate import START, same_verdicts, sources_of
from prometheus_server import prometheus_server, scrape_config
from rightsizer.fleet.sources.figures import rules_text

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(240)]

DAYS: Final = 3
"""The last day has a sample a minute and is read by five minutes, the one before by the hour."""
NODES: Final = frozenset({"train-3", "batch-1", "serve-1", "dev-1", "spare-1"})
"""One node of each kind of work; promtool needs time for every GPU."""


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    """Answers, by recorded series and by samples."""
    machines = tuple(machine for machine in SMALL.machines if machine.name in NODES)
    life: Life = live(replace(SMALL, machines=machines), DAYS, START, tick_seconds=300, variants=1)
    metrics = {run.name for run in dcgm_runs(life, Counters(), 0, 1)}
    settings = {"lookback": f"{DAYS - 1}d", "workers": 1}
    with filled_folder(life, *sources_of(life, Metrics.DCGM)) as data:
        with prometheus_server(scrape_config(), data=data) as server:
            raw = ask_fleet(server.url, life.end, settings=settings)
        with recorded_prometheus(life, data, rules_text(metrics)) as server:
            recorded = ask_fleet(server.url, life.end, settings=settings)
    return {"raw": raw, "recorded": recorded}


def test_the_look_reads_what_was_recorded(answers: dict[str, Answer]) -> None:
    """The probe reports that recorded series are used."""
    for name, answer in answers.items():
        (source,) = (e for e in answer.document["sources"] if e["source"] == "dcgm-exporter")
        assert any("recorded" in each for each in source["can"]) == (name == "recorded")
        assert not any("ecorded" in each for each in source["warnings"])


def test_judgements_are_the_same(answers: dict[str, Answer]) -> None:
    """IDs, reasons and actions are equal, teams' hours and energy within 3% of all held."""
    raw = answers["raw"]
    recorded = answers["recorded"]
    both, one = same_verdicts(raw.findings, recorded.findings)
    assert one == frozenset()
    assert len(both) == len(raw.findings) > 0
    assert recorded.document["coverage_ratio"] == pytest.approx(
        raw.document["coverage_ratio"], abs=1e-6
    )
    for ours, theirs in zip(recorded.document["teams"], raw.document["teams"], strict=True):
        assert ours["team"] == theirs["team"]
        near = 0.03 * theirs["held_gpu_hours"]
        for key in ("held_gpu_hours", "used_gpu_hours", "wasted_gpu_hours"):
            assert ours[key] == pytest.approx(theirs[key], abs=near), key
        assert ours["kilowatt_hours"] == pytest.approx(theirs["kilowatt_hours"], rel=0.03)
