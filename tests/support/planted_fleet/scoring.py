"""Answers of `rightsizer fleet` beside what was planted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from planted_fleet.plant import Plant, Style
from planted_fleet.plants import PENDING, PLANTS
from planted_fleet.series import Gpu, planted_gpus
from rightsizer.model.finding import Reason

__all__ = ["Case", "Score", "score"]


class Case(Struct, frozen=True, eq=False):
    """A plant in one cluster."""

    style: Style
    plant: Plant
    uuids: frozenset[str]

    def __str__(self) -> str:
        """Name the case."""
        return f"{self.plant.what}, in {self.style}"


class Score(Struct, frozen=True):
    """What became of each planted case."""

    found: tuple[Case, ...]
    missed: tuple[Case, ...]
    abstained: tuple[Case, ...]
    """What the metrics cannot show, with the missing metric named by each rule."""
    unexplained: tuple[Case, ...]
    """What the metrics cannot show, without that."""
    decoys: tuple[Case, ...]
    quiet: tuple[Case, ...]
    """Decoys of which nothing was said."""
    false: tuple[str, ...]
    """Advice that is not true of its GPUs: cluster, key and reason, and of which case."""

    @property
    def recall(self) -> float:
        """Share of what metrics can show that was found."""
        return len(self.found) / (len(self.found) + len(self.missed))

    def of(self, style: Style) -> "Score":
        """The same of one cluster."""

        def mine(cases: tuple[Case, ...]) -> tuple[Case, ...]:
            return tuple(case for case in cases if case.style is style)

        return Score(
            found=mine(self.found),
            missed=mine(self.missed),
            abstained=mine(self.abstained),
            unexplained=mine(self.unexplained),
            decoys=mine(self.decoys),
            quiet=mine(self.quiet),
            false=tuple(name for name in self.false if name.startswith(f"{style}:")),
        )


def score(document: Mapping[str, Any]) -> Score:
    """Compare an answer with every verdict in it to what was planted."""
    gpus = {gpu.uuid: gpu for gpu in planted_gpus()}
    cases = tuple(_cases(gpus.values()))
    verdicts: Sequence[Mapping[str, Any]] = document["findings"]
    advice = [each for each in document["advice"] if each["closed"] is None]
    false = [*_false(advice, gpus), *_wrong_waits(document)]
    said_of = {case: [each for each in advice if _is_about(each, case)] for case in cases}
    visible = [case for case in cases if case.plant.reasons]
    found = [case for case in visible if any(_reports(each, case) for each in said_of[case])]
    hidden = [case for case in cases if case.plant.abstains]
    told = [case for case in hidden if _abstains(verdicts, case)]
    decoys = [case for case in cases if case.plant.is_decoy]
    return Score(
        tuple(found),
        tuple(case for case in visible if case not in found),
        tuple(told),
        tuple(case for case in hidden if case not in told),
        tuple(decoys),
        tuple(case for case in decoys if not any(str(case) in each for each in false)),
        tuple(false),
    )


def _cases(gpus: Iterable[Gpu]) -> Iterator[Case]:
    known = tuple(gpus)
    for plant in PLANTS:
        for style in Style:
            mine = [gpu.uuid for gpu in known if (gpu.style, gpu.plant) == (style, plant)]
            if mine:
                yield Case(style, plant, frozenset(mine))


def _uuids(verdict: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(verdict["culprits"] or verdict["devices"])


def _is_about(verdict: Mapping[str, Any], case: Case) -> bool:
    return not case.uuids.isdisjoint(_uuids(verdict))


def _reports(verdict: Mapping[str, Any], case: Case) -> bool:
    text = "\n".join(each["text"] for each in verdict["instructions"])
    is_due = not case.plant.reasons.isdisjoint(map(Reason, verdict["reasons"][:1]))
    return is_due and case.plant.says in text


def _abstains(verdicts: Iterable[Mapping[str, Any]], case: Case) -> bool:
    said = [verdict for verdict in verdicts if not case.uuids.isdisjoint(verdict["devices"])]
    return all(
        any(
            each["rule"] == wanted.rule and wanted.metric in (each["abstained"] or "")
            for each in said
        )
        for wanted in case.plant.abstains
    )


def _false(advice: Iterable[Mapping[str, Any]], gpus: Mapping[str, Gpu]) -> Iterator[str]:
    for each in advice:
        about = [gpus[uuid] for uuid in _uuids(each) if uuid in gpus]
        clusters = {gpu.style for gpu in about}
        reason = Reason(each["reasons"][0])
        if len(clusters) != 1:
            yield f"{'+'.join(sorted(clusters))}: {each['key']} {reason} is of no one cluster"
            continue
        (style,) = clusters
        wrong = {
            gpu.plant.what for gpu in about if reason not in gpu.plant.reasons | gpu.plant.also
        }
        for what in sorted(wrong):
            yield f"{style}: {each['key']} {reason} ({each['rule']}): {what}, in {style}"


def _wrong_waits(document: Mapping[str, Any]) -> Iterator[str]:
    """Pending work whose offer is not what its cluster has free now."""
    for pending in PENDING:
        key = f"{pending.style}/kubernetes:research/{pending.name}"
        rows = [each for each in document["waiting_work"] if each["key"] == key]
        now = sum(row["now_gpus"] for row in rows)
        if len(rows) != 1 or now != pending.free_gpus:
            yield f"{pending.style}: {key}: {now} GPUs offered now, {pending.free_gpus} are free"
