"""View of all GPUs as one table: one row per board, highest potential savings first."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from rightsizer.model.advice import Advice
from rightsizer.model.device import Device
from rightsizer.model.finding import UNADVISED, Rank
from rightsizer.web.view.device import DeviceCardView
from rightsizer.web.view.totals import Spending, WasteView, waste_view


class OverviewRow(Struct, frozen=True):
    """Row of a board or a MIG instance."""

    card: DeviceCardView
    waste: WasteView
    """Of the span; for a divided board, over its instances."""
    to_do: tuple[Advice, ...]
    """Advice, highest savings first."""
    ended: Advice | None
    """Latest advice that is no longer open."""
    instances: tuple["OverviewRow", ...] = ()


def overview_rows(
    devices: Sequence[DeviceCardView],
    spending: Callable[[Device], Spending],
    advice: Sequence[Advice],
) -> tuple[OverviewRow, ...]:
    """Return a row per board, with its MIG instances: silent ones first, then as in `advise`."""
    by_parent: dict[str, list[DeviceCardView]] = {}
    for card in devices:
        if (mig := card.report.device.mig) is not None:
            by_parent.setdefault(mig.parent_uuid, []).append(card)
    rows = [
        _row(card, by_parent.get(card.report.device.uuid, []), spending, advice)
        for card in devices
        if card.report.device.mig is None
    ]
    return tuple(sorted(rows, key=_most_to_save_first))


def _most_to_save_first(row: OverviewRow) -> tuple[bool, Rank, bool, float]:
    """Rank by its best recommendation as in `advise`; without any, by waste."""
    best = row.to_do[0].finding if row.to_do else None
    is_cause = best is not None and row.card.report.device.uuid in best.culprits
    rank = UNADVISED if best is None else best.rank
    return row.card.report.down is None, rank, not is_cause, -row.waste.wasted.gpu_hours


def _row(
    card: DeviceCardView,
    inside: Sequence[DeviceCardView],
    spending: Callable[[Device], Spending],
    advice: Sequence[Advice],
) -> OverviewRow:
    instances = [_row(view, (), spending, advice) for view in inside]
    of = [view.report.device for view in inside or [card]]
    uuids = {card.report.device.uuid, *(device.uuid for device in of)}
    about = [each for each in advice if not uuids.isdisjoint(each.finding.devices)]
    opened = [each for each in about if each.is_open]
    ended = [each for each in about if not each.is_open]
    return OverviewRow(
        card=card,
        waste=waste_view(map(spending, of)),
        to_do=tuple(sorted(opened, key=lambda each: each.finding.rank)),
        ended=max(ended, key=lambda each: each.closed or 0, default=None),
        instances=tuple(sorted(instances, key=_most_to_save_first)),
    )
