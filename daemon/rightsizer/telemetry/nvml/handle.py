"""Handle of one device for one thread at a time; refused calls are made again only rarely."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, TypeVar

import pynvml
from msgspec.structs import replace

from rightsizer.io.clock import Clock
from rightsizer.model.values import NANOSECONDS_PER_SECOND, Missing, Nanoseconds
from rightsizer.telemetry.nvml.inventory import DeviceTarget
from rightsizer.telemetry.nvml.library import FieldKey, NvmlFailure, NvmlLibrary
from rightsizer.telemetry.nvml.settings import LiveSettings

H = TypeVar("H")
_NOT_FETCHED: Final = NvmlFailure(
    Missing.NOT_READ, "nvmlDeviceGetFieldValues", "the field was not asked for"
)
_REFUSAL: Final = pynvml.NVML_ERROR_INVALID_ARGUMENT
_RETRY_AFTER: Final[Nanoseconds] = 600 * NANOSECONDS_PER_SECOND
"""Time after which refused calls are made again: drivers refuse some that they answer later."""


class DeviceHandle:
    """A GPU or MIG instance with the driver resources held for it."""

    def __init__(
        self,
        target: DeviceTarget,
        *,
        library: NvmlLibrary,
        clock: Clock,
        settings: LiveSettings,
        sysfs: Path = Path("/sys"),
    ) -> None:
        self.target = target
        self.library = library
        self.clock = clock
        self.settings = settings
        self.sysfs = sysfs
        self._unsupported: dict[Hashable, NvmlFailure] = {}
        self._answered: set[Hashable] = set()
        """Calls and fields that had an answer: one refusal is not final for them."""
        self._retry_at: Nanoseconds | None = None
        self.retries = 0
        """How often refusals were forgotten; for collectors that keep their own."""
        self._constant: dict[Hashable, Any] = {}
        self._held: dict[Hashable, Any] = {}
        self.resources = ExitStack()
        """Driver resources, freed when the handle is closed."""
        self._fields: Mapping[FieldKey, Any] = {}
        self.fields_time: Nanoseconds = 0
        """When this round's fields were fetched, on the steady clock."""

    def ask(self, name: str, *arguments: Hashable, key: Hashable = None) -> Any:
        """Call the driver for this device; return its answer or a `NvmlFailure`.

        Unsupported calls are cached by their arguments, or by `key` where those change each time.
        """
        key = (name, *arguments) if key is None else key
        failure = self._unsupported.get(key)
        if failure is not None:
            return failure
        answer = self.library.ask(name, self.target.handle, *arguments)
        if key not in self._answered:
            self._remember(key, answer)
        return answer

    def fetch_fields(self, keys: Sequence[FieldKey]) -> None:
        """Fetch numbered fields in one call, for `field` to return in this round."""
        self.fields_time = self.clock.time()
        self._retry_refused()
        answers = self.ask_fields([key for key in keys if key not in self._unsupported])
        for key in answers.keys() - self._answered:
            self._remember(key, answers[key])
        self._fields = answers

    def ask_fields(self, keys: Sequence[FieldKey]) -> Mapping[FieldKey, Any]:
        """Fetch numbered fields in a call of its own; each is a value or a failure, uncached."""
        answers = self.library.ask_fields(self.target.handle, keys) if keys else {}
        return self._one_by_one(keys, answers) if isinstance(answers, NvmlFailure) else answers

    def field(self, key: FieldKey) -> Any:
        """Return a numbered field fetched for this round, or a `NvmlFailure`."""
        answer = self._fields.get(key)
        return self._unsupported.get(key, _NOT_FETCHED) if answer is None else answer

    def _one_by_one(self, keys: Sequence[FieldKey], failure: NvmlFailure) -> dict[FieldKey, Any]:
        """Fetch fields singly, for drivers that refuse a call because of one of them."""
        if failure.code != _REFUSAL:
            return dict.fromkeys(keys, failure)
        if len(keys) == 1:
            return dict.fromkeys(keys, replace(failure, reason=Missing.NOT_SUPPORTED))
        answers: dict[FieldKey, Any] = {}
        for key in keys:
            answers.update(self.ask_fields((key,)))
        return answers

    def ask_first(self, *calls: tuple[Any, ...]) -> Any:
        """Return the answer to the first supported call; fallbacks for older drivers come last.

        Some drivers refuse a version of a structure as an invalid argument. What has answered once
        has no fallback: the older call may mean something else.
        """
        answer: Any = None
        for call in calls:
            answer = self.ask(*call)
            if not isinstance(answer, NvmlFailure) or call in self._answered:
                return answer
            if not answer.is_unsupported and answer.code != _REFUSAL:
                return answer
        return answer

    def ask_once(self, name: str, *arguments: Hashable) -> Any:
        """Return the answer to a call whose answer cannot change."""
        key = (name, *arguments)
        if key in self._constant:
            return self._constant[key]
        answer = self.ask(name, *arguments)
        if not isinstance(answer, NvmlFailure):
            self._constant[key] = answer
        return answer

    def hold(self, make: Callable[..., H], *arguments: Hashable) -> H:
        """Return what `make` creates of this handle and the arguments, on first use."""
        key = (make, *arguments)
        if key not in self._held:
            self._held[key] = make(self, *arguments)
        held: H = self._held[key]
        return held

    def close(self) -> None:
        """Free all resources."""
        self.resources.close()
        self._held.clear()

    def _remember(self, key: Hashable, answer: Any) -> None:
        """Note the first answer to a call or field, or that it is refused."""
        if not isinstance(answer, NvmlFailure):
            self._answered.add(key)
        elif answer.is_unsupported:
            self._unsupported[key] = answer

    def _retry_refused(self) -> None:
        if self._retry_at is None or self.fields_time >= self._retry_at:
            self.retries += self._retry_at is not None
            self._retry_at = self.fields_time + _RETRY_AFTER
            self._unsupported.clear()
