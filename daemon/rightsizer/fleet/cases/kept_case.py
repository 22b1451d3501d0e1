"""A case of kept days, whose windows are summed up when somebody looks at them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from rightsizer.domain.device import Device
from rightsizer.domain.finding import Case
from rightsizer.domain.node import Node
from rightsizer.domain.pattern import Past
from rightsizer.domain.window import Provisioning, Window
from rightsizer.domain.workload import Workload

__all__ = ["CaseSums", "KeptCase"]

Windows = tuple[Window, ...]
Provisionings = tuple[Provisioning, ...]


class CaseSums:
    """The windows of a case, each made at most once, however often the case is told anew."""

    def __init__(
        self, windows: Callable[[], Windows], provisioning: Callable[[Windows], Provisionings]
    ) -> None:
        """Nothing is made yet.

        Args:
            windows: Makes one for each device.
            provisioning: Makes what follows from them.
        """
        self._windows, self._provisioning = windows, provisioning

    @cached_property
    def windows(self) -> Windows:
        """One for each device."""
        return self._windows()

    @cached_property
    def provisioning(self) -> Provisionings:
        """One for each device."""
        return self._provisioning(self.windows)


class KeptCase(Case):
    """A case over a span that most rules never ask about; elsewhere it is as any other."""

    __slots__ = ("_sums",)
    _sums: CaseSums

    def __init__(  # noqa: PLR0913 # The fields of a case.
        self,
        key: str,
        workload: Workload | None,
        devices: tuple[Device, ...],
        sums: CaseSums,
        past: Past | None,
        *,
        node: Node | None = None,
    ) -> None:
        """Nothing is summed up yet."""
        # As a frozen dataclass does it.
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "workload", workload)
        object.__setattr__(self, "devices", devices)
        object.__setattr__(self, "past", past)
        object.__setattr__(self, "node", node)
        object.__setattr__(self, "_sums", sums)

    @property
    def windows(self) -> Windows:
        """One for each device, in the same order."""
        return self._sums.windows

    @property
    def provisioning(self) -> Provisionings:
        """One for each device, in the same order."""
        return self._sums.provisioning

    def on(self, node: Node | None) -> KeptCase:
        """The same on a node."""
        return KeptCase(self.key, self.workload, self.devices, self._sums, self.past, node=node)
