"""View of all GPUs as one table: one row per board, highest potential savings first."""

from collections.abc import Callable, Sequence

from rightsizer.model.advice import Advice
from rightsizer.model.device import Device
from rightsizer.model.finding import UNADVISED
from rightsizer.report.gpu_row import GpuRow
from rightsizer.web.view.device import DeviceCardView, down_label
from rightsizer.web.view.totals import Spending, WasteView, waste_view


class OverviewRow(GpuRow, frozen=True, kw_only=True):
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
    return tuple(sorted(rows, key=lambda row: row.order))


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
    to_do = tuple(sorted(opened, key=lambda each: each.finding.rank))
    first = to_do[0].finding if to_do else None
    report = card.report
    waste = waste_view(map(spending, of))
    return OverviewRow(
        uuid=report.device.uuid,
        title=card.title,
        state=card.state,
        down=down_label(report),
        holders=tuple(holding.workload.key for holding in report.holdings),
        served=card.served,
        needs=card.needs,
        wasted_ratio=waste.wasted_ratio if waste.parts else None,
        wasted_gpu_hours=waste.wasted.gpu_hours,
        rank=UNADVISED if first is None else first.rank,
        is_cause=first is not None and report.device.uuid in first.culprits,
        card=card,
        waste=waste,
        to_do=to_do,
        ended=max(ended, key=lambda each: each.closed or 0, default=None),
        instances=tuple(sorted(instances, key=lambda row: row.order)),
    )
