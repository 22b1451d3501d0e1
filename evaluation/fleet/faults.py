"""Faults planted in a fleet of three clusters that only exporters watch, in real stores.

Each cluster names the holders of GPUs in its own way; nodes, deployments and pods of two have the
same names. A fault counts as found by open advice on its GPUs with a reason that is due.
"""

import tempfile
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Final

from evaluation.options import Options
from measured import summarized
from planted_fleet.look import advice_of, looked, looked_in_shards
from planted_fleet.plant import Style
from planted_fleet.plants import PLANTS
from planted_fleet.remote_write import STORES, filled_store
from planted_fleet.scoring import Score, score
from planted_fleet.series import DAYS, planted_gpus

_INTERVALS: Final = (30, 60, 300)
"""Of the exporters' scrapes, in seconds."""
_ALL: Final = "all"
_Key = tuple[str, int]


def evaluate(_: Options) -> Iterator[str]:
    """Recall, false advice and abstentions by store, scrape interval and style of labels."""
    gpus = planted_gpus()
    decoys = sum(plant.is_decoy for plant in PLANTS)
    yield (
        f"{len(gpus)} GPUs on {len({(gpu.style, gpu.node) for gpu in gpus})} nodes of "
        f"{len(Style)} clusters over {DAYS} days; {len(PLANTS) - decoys} kinds of faults and "
        f"{decoys} cases that look like faults.\n"
    )
    scores: dict[_Key, Score] = {}
    answers: dict[_Key, frozenset[object]] = {}
    apart: dict[_Key, int] = {}
    for store, interval in product(STORES, _INTERVALS):
        with (
            filled_store(store, interval) as server,
            tempfile.TemporaryDirectory(prefix="planted-") as folder,
        ):
            document = looked(server, Path(folder))
            shards = looked_in_shards(server, Path(folder))
        key = store, interval
        scores[key] = score(document)
        answers[key] = frozenset(advice_of(document))
        apart[key] = len(advice_of(document) ^ advice_of(shards))
    headings = ("store", "scrapes", "labels", "found", "false", "abstained", "decoys left alone")
    alike: dict[tuple[str, ...], list[str]] = {}
    for store, *cells in _rows(scores):
        alike.setdefault(tuple(cells), []).append(store)
    lines = ((", ".join(stores), *cells) for cells, stores in alike.items())
    yield summarized(lines, headings, sums_up=lambda line: line[2] == _ALL)
    yield ""
    for (store, interval), each in scores.items():
        what = {"missed": each.missed, "no metric named": each.unexplained, "false": each.false}
        for kind, cases in what.items():
            for case in cases:
                yield f"\n{store}, {interval} s, {kind}: {case}."
    alone = (
        f"{len(answers[STORES[0], interval] ^ answers[STORES[1], interval])} at {interval} s"
        for interval in _INTERVALS
    )
    yield (
        f"\nRecommendations of one store alone: {', '.join(alone)}; of one run or of its shards "
        f"alone: {sum(apart.values())}."
    )


def _rows(scores: Mapping[_Key, Score]) -> Iterator[tuple[str, ...]]:
    for (store, interval), whole in scores.items():
        for style in Style:
            each = whole.of(style)
            hidden = len(each.abstained) + len(each.unexplained)
            yield (
                store,
                f"{interval} s",
                style.name.lower(),
                f"{len(each.found)} of {len(each.found) + len(each.missed)}",
                str(len(each.false)),
                f"{len(each.abstained)} of {hidden}",
                f"{len(each.quiet)} of {len(each.decoys)}",
            )
        yield (store, f"{interval} s", _ALL, f"{whole.recall:.2f}", str(len(whole.false)), "", "")
