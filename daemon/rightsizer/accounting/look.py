"""One look at the accounts: taken under a lock in no time, worked out when that is free."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rightsizer.accounting.case_view import CaseView, DeviceView, allocator_of
from rightsizer.accounting.past import RememberedLoad, RememberedPast
from rightsizer.accounting.provisioning import provision
from rightsizer.accounting.reader import Reader
from rightsizer.domain.finding import Case
from rightsizer.domain.node import Node
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.window import Window

__all__ = ["Look"]

_EVER: Final[Nanoseconds] = 2**63
"""Later than any time."""


class Look:
    """The accounts at one moment, which gives the cases of any span up to then.

    What spans have in common is read once and kept for as long as the look; for one thread.
    """

    def __init__(self, views: Sequence[CaseView], node: Node, now: Nanoseconds) -> None:
        """Nothing is worked out yet.

        Args:
            views: What the cases are made of.
            node: The machine as the last snapshot showed it.
            now: The end of all spans, wall time.
        """
        self._views, self._node, self._now = tuple(views), node, now
        self._reader = Reader()
        self._loads: dict[tuple[str, Nanoseconds], RememberedLoad] = {}

    def cases(self, span: Nanoseconds | None) -> tuple[Case, ...]:
        """What the rules judge: the devices of each holder, each case of which knows the others.

        Args:
            span: How far back, at most to when the holder took the device; `None` for
                everything that was posted.
        """
        cases = tuple(self._case(view, span) for view in self._views)
        around = replace(self._node, cases=cases)
        return tuple(replace(case, node=around) for case in cases)

    def _case(self, view: CaseView, span: Nanoseconds | None) -> Case:
        start, end = (0, _EVER) if span is None else (self._now - span, self._now)
        windows = tuple(
            self._whole(each) if span is None else self._window(each, start)
            for each in view.devices
        )
        return Case(
            key=view.key,
            workload=view.workload,
            devices=tuple(each.device for each in view.devices),
            windows=windows,
            provisioning=tuple(
                provision(window, allocator_of(view.workload), view.provisioning, each.demands)
                for each, window in zip(view.devices, windows, strict=True)
            ),
            past=RememberedPast(self._load(view, end), start, end),
        )

    def _window(self, view: DeviceView, start: Nanoseconds) -> Window:
        """At most since the device is held as it is."""
        return view.recollection.window(max(start, view.since), self._now, self._reader)

    def _whole(self, view: DeviceView) -> Window:
        return replace(view.whole, blocks=view.recollection.blocks(0, _EVER))

    def _load(self, view: CaseView, end: Nanoseconds) -> RememberedLoad:
        """Of the group; without one of the only device, as far as it is its present holder's."""
        key = view.key, end
        if key not in self._loads:
            first, *others = view.devices
            found, since = view.group, 0
            # Of a workload nothing may be remembered, as in a history of former times.
            if found is None and not others:
                found, since = first.recollection, 0 if end == _EVER else first.since
            self._loads[key] = RememberedLoad(found, since, end, view.past, self._reader)
        return self._loads[key]
