"""View of all GPUs as one table: one row per board, most urgent first."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from rightsizer.advice.compatible import savings_sum
from rightsizer.model.values import Advice, Device
from rightsizer.report.labels import HOURS_A_DAY, action_label
from rightsizer.report.rows import GpuRow
from rightsizer.web.view.advice import group_label, grouped, target_label, title_label
from rightsizer.web.view.device import DeviceCardView, down_label, model_label
from rightsizer.web.view.totals import Spending, WasteView, part_of, range_label, waste_view


class OverviewRow(GpuRow, frozen=True, kw_only=True):
    """Row of a board or a MIG instance."""

    card: DeviceCardView
    waste: WasteView
    """Of the span; for a divided board, over its instances."""
    opened: tuple[Advice, ...]
    """Open advice, highest savings first."""
    ended: Advice | None
    """Latest advice that is no longer open."""
    instances: tuple["OverviewRow", ...] = ()


class OverviewTable(Struct, frozen=True):
    """What the rows of a node are made from."""

    spending: Callable[[Device], Spending]
    advice: Sequence[Advice]
    names: Mapping[str, str]
    """Device titles, by uuid."""

    def rows(self, devices: Sequence[DeviceCardView]) -> tuple[OverviewRow, ...]:
        """Return a row per board, with its instances: silent ones first, then as in `advise`."""
        by_parent: dict[str, list[DeviceCardView]] = {}
        for card in devices:
            if (mig := card.report.device.mig) is not None:
                by_parent.setdefault(mig.parent_uuid, []).append(card)
        rows = [
            self._row(card, by_parent.get(card.report.device.uuid, []))
            for card in devices
            if card.report.device.mig is None
        ]
        return tuple(sorted(rows, key=lambda row: row.order))

    def _row(self, card: DeviceCardView, inside: Sequence[DeviceCardView]) -> OverviewRow:
        instances = [self._row(view, ()) for view in inside]
        of = [view.report.device for view in inside or [card]]
        uuids = {card.report.device.uuid, *(device.uuid for device in of)}
        about = [
            recommendation
            for recommendation in self.advice
            if not uuids.isdisjoint(recommendation.finding.devices)
        ]
        opened = sorted(
            (recommendation for recommendation in about if recommendation.is_open),
            key=lambda e: e.finding.rank,
        )
        ended = [recommendation for recommendation in about if not recommendation.is_open]
        report = card.report
        waste = waste_view(map(self.spending, of))
        is_known = bool(waste.parts)
        return OverviewRow(
            uuid=report.device.uuid,
            title=card.title,
            model=model_label(report),
            state=card.state,
            down=down_label(report),
            holders=tuple(holding.workload.key for holding in report.holdings),
            served=card.served,
            needs=card.needs,
            readings=card.readings or {},
            used_ratio=part_of(waste.parts, "waste-used") if is_known else None,
            headroom_ratio=part_of(waste.parts, "waste-headroom"),
            wasted_ratio=waste.wasted_ratio if is_known else None,
            wasted_gpu_hours=waste.wasted.gpu_hours,
            wasted_dollars=waste.wasted.dollars_typical,
            wasted_range=range_label(waste) if waste.wasted.dollars_typical else "",
            card=card,
            waste=waste,
            opened=tuple(opened),
            ended=max(ended, key=lambda recommendation: recommendation.closed or 0, default=None),
            instances=tuple(sorted(instances, key=lambda row: row.order)),
            is_cause=bool(opened) and report.device.uuid in opened[0].finding.culprits,
            **(advised(opened, self.names, report.device.uuid, instances) if opened else {}),
        )


def advised(
    opened: Sequence[Advice],
    names: Mapping[str, str],
    uuid: str = "",
    instances: Sequence[OverviewRow] = (),
) -> dict[str, Any]:
    """Return what a row says of its first recommendations; alike ones are folded."""
    first = opened[0].finding
    group = grouped(opened)[0]
    others = len(opened) - len(group)
    names_gpus = instances or (first.culprits and uuid not in first.culprits)
    label = action_label(first.action, first.kind)
    if group[1:]:
        label = group_label(group, names)
    elif names_gpus:
        label = title_label(first, names)
    saved = savings_sum(unit[0] for unit in group).dollars_per_hour * HOURS_A_DAY
    several = f"on {len(first.devices)} GPUs" if first.devices[1:] and not instances else ""
    details = (target_label(first), f"and {others} more" if others else "")
    return {
        "to_do": label,
        "to_do_detail": "; ".join(filter(None, details)),
        "severity": first.severity,
        "saves_dollars_per_day": max(0.0, saved),
        "saves_detail": several if saved > 0 else "",
        "rank": first.rank,
    }
