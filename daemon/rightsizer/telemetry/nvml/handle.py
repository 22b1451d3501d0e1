"""A device as its one thread asks it: what it does not offer is asked for once."""

from collections.abc import Callable, Hashable
from typing import Any, Final, Protocol, TypeVar

from rightsizer.domain.reading import Missing
from rightsizer.edge.clock import Clock
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.inventory import Target
from rightsizer.telemetry.nvml.library import Library
from rightsizer.telemetry.nvml.settings import LiveSettings

__all__ = ["Handle"]


class Held(Protocol):
    """Something of the driver's that must be given back."""

    def close(self) -> None:
        """Give it back."""


H = TypeVar("H", bound=Held)
_FIELD: Final = "field"


class Handle:
    """A GPU or MIG instance, with everything that the driver lent for it."""

    def __init__(
        self, target: Target, *, library: Library, clock: Clock, settings: LiveSettings
    ) -> None:
        """A handle for the thread that owns the library."""
        self.target = target
        self.library = library
        self.clock = clock
        self.settings = settings
        self._unsupported: dict[Hashable, Failure] = {}
        self._constant: dict[Hashable, Any] = {}
        self._held: dict[Hashable, Held] = {}

    def ask(self, name: str, *arguments: Hashable) -> Any:
        """What the driver says of this device, or a `Failure`.

        What is not supported is remembered and costs nothing from then on.
        """
        key = (name, *arguments)
        return self._unsupported.get(key) or self._remember(
            key, self.library.ask(name, self.target.handle, *arguments)
        )

    def ask_field(self, field_id: int) -> Any:
        """The value of one of NVML's numbered fields, or a `Failure`."""
        key = (_FIELD, field_id)
        return self._unsupported.get(key) or self._remember(
            key, self.library.ask_field(self.target.handle, field_id)
        )

    def ask_first(self, *calls: tuple[Any, ...]) -> Any:
        """The answer to the first call that is supported; older drivers know only the later."""
        answer: Any = None
        for call in calls:
            answer = self.ask(*call)
            if not isinstance(answer, Failure) or answer.reason is not Missing.NOT_SUPPORTED:
                return answer
        return answer

    def ask_once(self, name: str, *arguments: Hashable) -> Any:
        """The answer to a question whose answer cannot change."""
        key = (name, *arguments)
        if key in self._constant:
            return self._constant[key]
        answer = self.ask(name, *arguments)
        if not isinstance(answer, Failure):
            self._constant[key] = answer
        return answer

    def hold(self, make: Callable[["Handle"], H]) -> H:
        """What `make` makes for this handle, made once and closed with it."""
        held = self._held.get(make)
        if held is None:
            held = self._held[make] = make(self)
        return held  # type: ignore[return-value] # The dictionary pairs each maker with its own.

    def close(self) -> None:
        """Give back what is held."""
        for held in self._held.values():
            held.close()
        self._held.clear()

    def _remember(self, key: Hashable, answer: Any) -> Any:
        if isinstance(answer, Failure) and answer.reason is Missing.NOT_SUPPORTED:
            self._unsupported[key] = answer
        return answer
