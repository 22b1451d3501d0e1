"""Open recommendations that say the same of many workloads of a team, and their commands."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Self, TypeVar

from rightsizer.advice.compatible import ExclusiveKey, compatible, savings_of
from rightsizer.console.advice import advice_block, dollars_per_day
from rightsizer.io.terminal import counted
from rightsizer.model.values import OPEN_STATES, FindingKind, Severity, dollars_text, worth_rank
from rightsizer.report.blocks import Block, Code, Section, section
from rightsizer.report.labels import action_label, first_names, reason_label, uncapitalized
from rightsizer.report.rows import WorkloadRow

_Piece = Mapping[str, Any]
_AnyPiece = TypeVar("_AnyPiece", bound=_Piece)
_FEWEST: Final = 3
"""Two are as short one by one."""
_MOST_NAMED: Final = 4
MOST_IDS: Final = 3
_SHELL: Final = "sh"
_HEAD: Final = """\
#!/bin/sh
# Commands of recommendations, for review: keep what you agree with.
"""


def open_recommendations(advice: Iterable[_AnyPiece]) -> list[_AnyPiece]:
    """Return the open pieces, in order."""
    return [piece for piece in advice if piece["state"] in OPEN_STATES]


def heading_of(action: str, kind: str, reason: str) -> str:
    """Return what a recommendation says, as in `Release the GPU: idle, but held`."""
    return f"{action_label(action, kind)}: {uncapitalized(reason_label(reason))}"


class AdviceGroup(WorkloadRow, frozen=True, kw_only=True):
    """Row of recommendations of one kind on workloads of one team; alone, one of any kind."""

    pieces: tuple[_Piece, ...]

    @classmethod
    def of(cls, pieces: Sequence[_Piece]) -> Self:
        """Return the row of some recommendations: of the least certain, and the most severe."""
        first = pieces[0]
        added = compatible(pieces, ExclusiveKey.of_form)
        dollars = sum(map(dollars_per_day, added))
        confidence = min(float(piece["confidence"]) for piece in pieces)
        severities = (Severity(piece["severity"]) for piece in pieces)
        severity = max(severities, key=lambda severity: severity.rank)
        return cls(
            pieces=tuple(pieces),
            title=f"{len(pieces)} {_noun(pieces)} of {_team(first)}"
            if len(pieces) > 1
            else str(first["key"] or first_names(first["devices"], _MOST_NAMED)),
            cluster=first["cluster"],
            team=first["team"],
            freed_gpus=sum(savings_of(piece).gpus for piece in added),
            to_do=heading_of(first["action"], first["finding"], first["reasons"][0]),
            severity=severity,
            saves_dollars_per_day=dollars,
            rank=worth_rank(severity, dollars, confidence),
            confidence=confidence,
            id=first["id"] if len(pieces) == 1 else f"{len(pieces)} ids",
        )

    @property
    def name(self) -> str:
        """What they are, whose, and what they save: `180 idle pods of team research: $3,974 a day`.

        Without a price, the GPUs.
        """
        first = self.pieces[0]
        gpus = {uuid for piece in self.pieces for uuid in piece["devices"]}
        dollars = self.saves_dollars_per_day
        worth = f"{dollars_text(dollars)} a day" if dollars else counted(len(gpus), "GPU")
        if len(self.pieces) == 1:
            return f"{self.to_do}, {self.title}: {worth}"
        is_idle = first["finding"] == FindingKind.IDLE
        reason = "" if is_idle else f", {uncapitalized(reason_label(first['reasons'][0]))}"
        what = f"{'idle ' if is_idle else ''}{_noun(self.pieces)} of {_team(first)}"
        return f"{len(self.pieces)} {what}{reason}: {worth}"

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands of all, each once."""
        return tuple(dict.fromkeys(text for piece in self.pieces for text in _commands(piece)))

    @property
    def sentences(self) -> Section:
        """Its reason, savings and confidence, or which recommendations it is of."""
        if len(self.pieces) == 1:
            (piece,) = self.pieces
            action = action_label(piece["action"], piece["finding"])
            return advice_block(piece, action, piece["key"] or "")
        keys = [str(piece["key"] or piece["workload"]) for piece in self.pieces]
        ids = first_names([piece["id"] for piece in self.pieces], MOST_IDS)
        commands = self.commands
        how: Block = f"{len(commands)} commands; --commands FILE writes them" if commands else ""
        if len(commands) == 1:
            how = Code(commands[0])
        return section(self.name, f"{first_names(keys, _MOST_NAMED)} ({ids})", how)

    def document(self) -> dict[str, object]:
        """Return the group's document; what its recommendations say is in theirs."""
        return {
            "heading": self.to_do,
            "subject": self.title,
            "title": self.name,
            "cluster": self.cluster,
            "team": self.team,
            "advice": [piece["id"] for piece in self.pieces],
            "gpus": self.freed_gpus,
            "dollars_per_day": self.saves_dollars_per_day or None,
            "confidence": self.confidence,
            "commands": self.commands,
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
    lines = [f"# {group.name}"] if len(group.pieces) > 1 else []
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
