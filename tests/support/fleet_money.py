"""The one truth of a fleet's money: what no answer may promise."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rightsizer.advice.compatible import savings_of
from rightsizer.fleet.summary import summary_of
from rightsizer.model.finding import FindingKind

__all__ = ["money_faults"]

_HOURS_A_DAY: Final = 24.0
_ROUNDING: Final = 1.001


def money_faults(answer: Mapping[str, Any]) -> Iterator[str]:
    """What an answer promises beyond what its GPUs lose a day, a line each."""
    held: dict[str, list[Mapping[str, Any]]] = {}
    for row in answer["holdings"]:
        held.setdefault(row["uuid"], []).append(row)
    summary = summary_of(answer)
    lost: dict[str, float] = {}
    for piece in summary.advice:
        rows = [row for uuid in piece["devices"] for row in held.get(uuid, ())]
        rows = [row for row in rows if row["workload"] == piece["workload"]] or rows
        is_priced = all(row["dollars_per_day"] is not None for row in rows)
        if not is_priced or not all(uuid in held for uuid in piece["devices"]):
            continue
        is_idle = piece["finding"] == FindingKind.IDLE
        lost[piece["id"]] = sum(map(_cost if is_idle else _lost, rows))
        saved = savings_of(piece).dollars_per_hour * _HOURS_A_DAY
        if saved > lost[piece["id"]] * _ROUNDING:
            yield f"{piece['key']}: saves ${saved:.2f} of ${lost[piece['id']]:.2f}"
    for group in summary.groups:
        most = sum(lost.get(piece["id"], 0.0) for piece in group.pieces)
        if group.pieces[0]["id"] in lost and group.saves_dollars_per_day > most * _ROUNDING:
            yield f"{group.title}: of ${most:.2f}"
    rows = answer["holdings"]
    if summary.reclaimable is not None and all(row["dollars_per_day"] is not None for row in rows):
        idle = _idle(summary.advice)
        most = sum(_cost(row) if row["uuid"] in idle else _lost(row) for row in rows)
        if summary.reclaimable.value > most * _ROUNDING:
            yield f"${summary.reclaimable.value:.2f} to regain of ${most:.2f}"


def _idle(advice: Any) -> set[str]:
    """GPUs that are idle now, which cost more a day than they lost on average before."""
    idle = (piece for piece in advice if piece["finding"] == FindingKind.IDLE)
    return {uuid for piece in idle for uuid in piece["devices"]}


def _cost(row: Mapping[str, Any]) -> float:
    return float(row["dollars_per_day"])


def _lost(row: Mapping[str, Any]) -> float:
    held = row["held_gpu_hours"]
    return _cost(row) * (1.0 - row["used_gpu_hours"] / held if held else 1.0)
