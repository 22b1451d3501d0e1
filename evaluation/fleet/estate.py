"""A generated estate in real stores: which planted faults `rightsizer fleet` finds, by source.

Both stores are filled with the same fourteen days and asked the same; what the nodes' own agents
say of the same GPUs stands beside.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

from estate.agents import agent_findings, whole_jobs
from estate.command import Answer, ask_fleet
from estate.dcgm import dcgm_runs
from estate.kube import kube_runs
from estate.layout import LARGE, Layout
from estate.life import Life, live
from estate.own import own_runs
from estate.series import Counters
from estate.served import planted_waits, wait_score
from estate.slurm import slurm_runs
from estate.stores import Source, filled_prometheus, filled_victoria
from estate.truth import Metrics, Score, planted_in, score
from evaluation.options import Options
from measured import as_rows, summarized, table
from prometheus_server import Prometheus
from rightsizer.model.finding import Finding
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.simulator.source import DEFAULT_START

DAYS: Final = 14
START: Final = DEFAULT_START // NANOSECONDS_PER_SECOND
STORES: Final[Mapping[str, Callable[..., AbstractContextManager[Prometheus]]]] = {
    "Prometheus": filled_prometheus,
    "VictoriaMetrics": filled_victoria,
}

_METRICS: Final = (Metrics.OWN, Metrics.DCGM)
"""What rules record of the first is the same to a client, and twice the time here."""
_IN_ALL: Final = "in all"

Verdict = tuple[str, str, tuple[str, ...], str]
"""An id, which holds the rounded target too; a finding, its reasons, an action."""


def evaluate(_: Options) -> Iterator[str]:
    """All of it, of the estate of a hundred GPUs."""
    # The days that the nodes' agents are given.
    life = live(LARGE, DAYS, START, tick_seconds=300, variants=1)
    yield (
        f"{LARGE.size} GPUs on {len(LARGE.machines)} nodes over {DAYS} days, a sample of each "
        f"series every five minutes, and every minute on the last of them.\n"
    )
    answers: dict[tuple[Metrics, str], Answer] = {}
    for metrics in _METRICS:
        for store, filled in STORES.items():
            with filled(life, *sources_of(life, metrics)) as server:
                answers[metrics, store] = ask_fleet(server.url, life.end)
    scores = {key: score(LARGE, key[0], answer.findings) for key, answer in answers.items()}
    planted = table(_found(LARGE, scores), ("planted", *(f"{m}, {s}" for m, s in scores)))
    yield as_rows(f"{planted}\n")
    yield table(
        _figures(scores, answers), ("metrics", "store", "found", "wrong", "wall", "queries")
    )
    for (metrics, store), each in scores.items():
        for wrong in each.wrong:
            yield f"\nWrong, from {metrics} in {store}: {wrong}."
    yield "\n" + summarized(
        _waiting(LARGE, answers),
        ("waiting", *(f"{m}, {s}" for m, s in answers)),
        sums_up=lambda line: line[0] == _IN_ALL,
    )
    beside = _beside_agents(answers, agent_findings(LARGE, DAYS, life.end))
    said = ((*row, *counts) for row, counts in zip(_agreement(answers), beside, strict=True))
    headings = ("both stores", "one store", "node and fleet", "node alone", "fleet alone")
    yield "\nSaid by:\n\n" + table(said, ("metrics", *headings)) + "\n"


def sources_of(life: Life, metrics: Metrics) -> tuple[Source, ...]:
    """Sources of the fleet in a store, counters from 0."""
    schedulers = partial(kube_runs, life), partial(slurm_runs, life)
    if metrics is Metrics.DCGM:
        return partial(dcgm_runs, life, Counters()), *schedulers
    own = partial(own_runs, life, Counters(), records=metrics is Metrics.RULES)
    return own, *schedulers


def verdicts(findings: Iterable[Mapping[str, Any]]) -> frozenset[Verdict]:
    """Verdicts that two stores must share."""
    return frozenset(
        (finding["id"], finding["finding"], tuple(finding["reasons"]), finding["action"])
        for finding in findings
    )


def same_verdicts(
    ones: Iterable[Mapping[str, Any]], others: Iterable[Mapping[str, Any]]
) -> tuple[frozenset[Verdict], frozenset[Verdict]]:
    """Shared verdicts, and those of one store alone."""
    first = verdicts(ones)
    second = verdicts(others)
    return first & second, first ^ second


def _found(
    layout: Layout, scores: Mapping[tuple[Metrics, str], Score]
) -> Iterator[tuple[str, ...]]:
    for planted in planted_in(layout, Metrics.OWN):
        cells = (
            ("yes" if planted in each.found else "no") if metrics in planted.needs else "not seen"
            for (metrics, _), each in scores.items()
        )
        yield planted.what, *cells


def _waiting(
    layout: Layout, answers: Mapping[tuple[Metrics, str], Answer]
) -> Iterator[tuple[str, ...]]:
    """Rows of waiting work: whether each store proposes the planted placement."""
    scores = {key: wait_score(layout, key[0], answer.document) for key, answer in answers.items()}
    for planted in planted_waits(layout, Metrics.OWN):
        cells = (
            ("yes" if planted in each.found else "no") if metrics in planted.needs else "not seen"
            for (metrics, _), each in scores.items()
        )
        yield planted.what, *cells
    counts = (
        f"{len(each.found)} of {len(each.found) + len(each.missed)}, {len(each.wrong)} wrong"
        for each in scores.values()
    )
    yield _IN_ALL, *counts


def _figures(
    scores: Mapping[tuple[Metrics, str], Score], answers: Mapping[tuple[Metrics, str], Answer]
) -> Iterator[tuple[str, ...]]:
    for (metrics, store), each in scores.items():
        answer = answers[metrics, store]
        all_of_it = len(each.found) + len(each.missed)
        yield (
            str(metrics),
            store,
            f"{len(each.found)} of {all_of_it}",
            str(len(each.wrong)),
            f"{answer.wall_seconds:.1f} s",
            str(answer.document["use"]["queries"]),
        )


def _agreement(answers: Mapping[tuple[Metrics, str], Answer]) -> Iterator[tuple[str, ...]]:
    for metrics in _METRICS:
        found = (answers[metrics, store].findings for store in STORES)
        both, one = same_verdicts(*found)
        yield str(metrics), str(len(both)), str(len(one))


def _beside_agents(
    answers: Mapping[tuple[Metrics, str], Answer], nodes: Mapping[str, tuple[Finding, ...]]
) -> Iterator[tuple[str, ...]]:
    """Of jobs that one node has all of, by the rules that both have."""
    whole = whole_jobs(LARGE)
    said = [
        finding for findings in nodes.values() for finding in findings if finding.workload in whole
    ]
    of_nodes = {(each.id, str(each.action)) for each in said}
    for metrics in _METRICS:
        findings = answers[metrics, "Prometheus"].findings
        rules = {each.rule for each in said} | {finding["rule"] for finding in findings}
        of_fleet = {
            (finding["id"], finding["action"])
            for finding in findings
            if finding["workload"] in whole and finding["rule"] in rules
        }
        counts = (of_nodes & of_fleet, of_nodes - of_fleet, of_fleet - of_nodes)
        yield str(metrics), *(str(len(count)) for count in counts)
