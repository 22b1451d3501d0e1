"""View of all GPUs: one row per board, most urgent first, of which some have a card, too."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct

from rightsizer.advice.compatible import savings_sum
from rightsizer.model.values import Advice, Device, DeviceReport, Report, State
from rightsizer.report.labels import HOURS_A_DAY, MomentLabel, action_label, moment_label
from rightsizer.report.rows import GpuRow, savings_fields
from rightsizer.web.view.advice import group_label, grouped, target_label, title_label
from rightsizer.web.view.device import (
    DeviceContext,
    DevicePast,
    FitView,
    down_label,
    fit_view,
    model_label,
)
from rightsizer.web.view.signals import SignalChart, signal_charts
from rightsizer.web.view.strip import StripView, strip_view
from rightsizer.web.view.totals import Spending, WasteView, range_label, waste_view


class OverviewRow(GpuRow, frozen=True, kw_only=True):
    """Row, and card, of a board or a MIG instance."""

    report: DeviceReport
    last_sample: MomentLabel | None
    is_fresh: bool
    strip: StripView
    signals: tuple[SignalChart, ...]
    """Over the time of the strip, for a single selected GPU."""
    fit: FitView
    waste: WasteView
    """Of the span; for a divided board, over its instances."""
    opened: tuple[Advice, ...]
    """Open advice, highest savings first."""
    ended: Advice | None
    """Latest advice that is no longer open."""
    instances: tuple["OverviewRow", ...] = ()


class OverviewTable(Struct, frozen=True):
    """What the rows of a node are made from."""

    node: Report
    names: Mapping[str, str]
    """Device titles, by uuid."""
    fresh: Collection[str]
    context: DeviceContext
    past_of: Callable[[str], DevicePast]
    spending: Callable[[Device], Spending]

    def rows(self, devices: Sequence[DeviceReport]) -> tuple[OverviewRow, ...]:
        """Return a row per board, with its instances: silent ones first, then as in `advise`."""
        uuids = {report.device.uuid for report in devices}
        inside: dict[str, list[DeviceReport]] = {}
        boards = []
        for report in devices:
            mig = report.device.mig
            if mig is not None and mig.parent_uuid in uuids:
                inside.setdefault(mig.parent_uuid, []).append(report)
            else:
                boards.append(report)
        rows = (self._row(report, inside.get(report.device.uuid, ())) for report in boards)
        return tuple(sorted(rows, key=lambda row: row.order))

    def _row(self, report: DeviceReport, inside: Sequence[DeviceReport]) -> OverviewRow:
        device = report.device
        uuid = device.uuid
        context = self.context
        instances = [self._row(instance, ()) for instance in inside]
        devices = [instance.device for instance in inside] or [device]
        uuids = {uuid, *(instance.uuid for instance in devices)}
        about = [
            recommendation
            for recommendation in self.node.advice
            if not uuids.isdisjoint(recommendation.finding.devices)
        ]
        opened = sorted(
            (recommendation for recommendation in about if recommendation.is_open),
            key=lambda recommendation: recommendation.finding.rank,
        )
        ended = [recommendation for recommendation in about if not recommendation.is_open]
        waste = waste_view(map(self.spending, devices))
        is_fresh = uuid in self.fresh
        past = self.past_of(uuid)
        drawn = context.stretch(self.node.wall_time)
        sampled = report.last_sample
        return OverviewRow(
            uuid=uuid,
            title=device.title,
            model=model_label(report),
            state=report.state if is_fresh else State.UNKNOWN,
            down=down_label(report),
            holders=tuple(holding.workload.key for holding in report.holdings),
            served=tuple(load for load in self.node.served if is_fresh and uuid in load.devices),
            needs=tuple(
                need for need in self.node.agent.served_needs if is_fresh and uuid in need.devices
            ),
            readings=report.signals if is_fresh else {},
            wasted_dollars=waste.wasted.dollars_typical,
            wasted_range=range_label(waste) if waste.wasted.dollars_typical else "",
            report=report,
            last_sample=moment_label(sampled, context.now) if sampled is not None else None,
            is_fresh=is_fresh,
            strip=strip_view(past.drawn, drawn.end, context.drawn, context.grain),
            signals=signal_charts((past.blocks,), drawn) if past.blocks else (),
            fit=fit_view(report.provisioning if is_fresh else {}, context.fit),
            waste=waste,
            opened=tuple(opened),
            ended=max(ended, key=lambda recommendation: recommendation.closed or 0, default=None),
            instances=tuple(sorted(instances, key=lambda row: row.order)),
            is_cause=bool(opened) and uuid in opened[0].finding.culprits,
            use=waste.use,
            **(advised(opened, self.names, uuid, instances) if opened else {}),
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
    details = (target_label(first), f"and {others} more" if others else "")
    return {
        "to_do": label,
        "to_do_detail": "; ".join(filter(None, details)),
        "severity": first.severity,
        "rank": first.rank,
        **savings_fields(saved, 0 if instances else len(first.devices)),
    }
