"""Open recommendations that say the same of many workloads of a team, and their commands."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Self, TypeVar

from msgspec import Struct

from rightsizer.advice.compatible import ExclusiveKey, compatible, savings_of
from rightsizer.console.advice import dollars_per_day
from rightsizer.io.terminal import counted
from rightsizer.model.advice import OPEN_STATES
from rightsizer.model.finding import FindingKind, Rank, Severity, worth_rank
from rightsizer.model.units import dollars_text
from rightsizer.report.labels import action_label, first_names, reason_label, uncapitalized

_Piece = Mapping[str, Any]
_AnyPiece = TypeVar("_AnyPiece", bound=_Piece)
_FEWEST: Final = 3
"""Two are as short one by one."""
_MOST_NAMED: Final = 4
_SHELL: Final = "sh"
_HEAD: Final = """\
#!/bin/sh
# Commands of recommendations, for review: keep what you agree with.
"""


def opened(advice: Iterable[_AnyPiece]) -> list[_AnyPiece]:
    """Return the open pieces, in order."""
    return [piece for piece in advice if piece["state"] in OPEN_STATES]


def heading_of(action: str, kind: str, reason: str) -> str:
    """Return what a recommendation says, as in `Release the GPU: idle, but held`."""
    return f"{action_label(action, kind)}: {uncapitalized(reason_label(reason))}"


class AdviceGroup(Struct, frozen=True):
    """Recommendations of one kind on workloads of one team; alone, one of any kind."""

    pieces: tuple[_Piece, ...]
    added: tuple[_Piece, ...]
    """Those whose savings can be added up."""

    @classmethod
    def of(cls, pieces: Sequence[_Piece]) -> Self:
        """Return the group of some recommendations."""
        return cls(tuple(pieces), tuple(compatible(pieces, ExclusiveKey.of_form)))

    @property
    def rank(self) -> Rank:
        """Sort key, as on a node: critical first, then by savings."""
        severity = max(
            (Severity(piece["severity"]) for piece in self.pieces),
            key=lambda severity: severity.rank,
        )
        return worth_rank(severity, self.dollars_per_day, self.confidence)

    @property
    def gpus(self) -> float:
        """GPUs that they give back."""
        return sum(savings_of(piece).gpus for piece in self.added)

    @property
    def confidence(self) -> float:
        """Of the least certain."""
        return min(float(piece["confidence"]) for piece in self.pieces)

    @property
    def heading(self) -> str:
        """What to do and why."""
        first = self.pieces[0]
        return heading_of(first["action"], first["finding"], first["reasons"][0])

    @property
    def subject(self) -> str:
        """Whom it concerns: a workload, a node, a pool, GPUs; of several, how many of whom."""
        first = self.pieces[0]
        if len(self.pieces) > 1:
            return f"{len(self.pieces)} {_noun(self.pieces)} of {_team(first)}"
        return str(first["key"] or first_names(first["devices"], _MOST_NAMED))

    @property
    def dollars_per_day(self) -> float:
        """What they save."""
        return sum(map(dollars_per_day, self.added))

    @property
    def title(self) -> str:
        """What they are, whose, and what they save: `180 idle pods of team research: $3,974 a day`.

        Without a price, the GPUs.
        """
        first = self.pieces[0]
        gpus = {uuid for piece in self.pieces for uuid in piece["devices"]}
        dollars = self.dollars_per_day
        worth = f"{dollars_text(dollars)} a day" if dollars else counted(len(gpus), "GPU")
        if len(self.pieces) == 1:
            return f"{self.heading}, {self.subject}: {worth}"
        is_idle = first["finding"] == FindingKind.IDLE
        reason = "" if is_idle else f", {uncapitalized(reason_label(first['reasons'][0]))}"
        what = f"{'idle ' if is_idle else ''}{_noun(self.pieces)} of {_team(first)}"
        return f"{len(self.pieces)} {what}{reason}: {worth}"

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands of all, each once."""
        return tuple(dict.fromkeys(text for piece in self.pieces for text in _commands(piece)))

    def encoded(self) -> dict[str, Any]:
        """Encode the group; what its recommendations say is in theirs."""
        first = self.pieces[0]
        return {
            "heading": self.heading,
            "subject": self.subject,
            "title": self.title,
            "cluster": first["cluster"],
            "team": first["team"],
            "advice": [piece["id"] for piece in self.pieces],
            "gpus": self.gpus,
            "dollars_per_day": self.dollars_per_day or None,
            "confidence": self.confidence,
            "commands": list(self.commands),
        }


def groups_of(advice: Sequence[_Piece]) -> list[AdviceGroup]:
    """Return open advice in groups, in the order of their first; fewer than three stay alone."""
    by_kind: dict[tuple[object, ...], list[_Piece]] = {}
    for piece in advice:
        is_of_workload = bool(piece["workload"])
        kind = (piece["cluster"], piece["team"], piece["finding"], piece["action"])
        key = (*kind, *piece["reasons"][:1]) if is_of_workload else (piece["id"],)
        by_kind.setdefault(key, []).append(piece)
    groups = []
    for pieces in by_kind.values():
        together = [pieces] if len(pieces) >= _FEWEST else [[piece] for piece in pieces]
        groups += [AdviceGroup.of(some) for some in together]
    places = {piece["id"]: place for place, piece in enumerate(advice)}
    groups.sort(key=lambda group: (group.rank, places[group.pieces[0]["id"]]))
    return groups


def commands_text(groups: Iterable[AdviceGroup]) -> str:
    """Return a shell script with the commands of groups."""
    return _HEAD + "".join(map(_section, groups))


def _section(group: AdviceGroup) -> str:
    lines = [f"# {group.title}"] if len(group.pieces) > 1 else []
    seen = set[str]()
    for piece in group.pieces:
        lines.append(f"# {piece['id']}: {' '.join(piece['summary'].split())}")
        lines += [text for text in _commands(piece) if text not in seen]
        seen.update(_commands(piece))
    return "\n" + "\n".join(lines) + "\n"


def _commands(piece: _Piece) -> Iterator[str]:
    for instruction in piece["instructions"]:
        if instruction["language"] == _SHELL:
            yield instruction["text"].rstrip("\n")


def _team(piece: _Piece) -> str:
    cluster = f" in {piece['cluster']}" if piece["cluster"] else ""
    return (f"team {piece['team']}" if piece["team"] else "no known team") + cluster


def _noun(pieces: Sequence[_Piece]) -> str:
    kinds = {piece["workload"].partition("/")[0].partition(":")[0] for piece in pieces}
    if kinds == {"slurm"}:
        return "jobs"
    is_single = all(len(piece["devices"]) == 1 for piece in pieces)
    is_kubernetes = all("kubernetes:" in piece["workload"] for piece in pieces)
    return "pods" if is_kubernetes and is_single else "workloads"
