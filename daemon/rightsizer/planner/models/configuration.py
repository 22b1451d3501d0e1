"""Values of a `config.json`, asked for by key and told by key where they are wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.model.errors import RequirementError

_MOST: Final = 1e18


@dataclass(frozen=True, slots=True)
class Configuration:
    """A parsed configuration of Hugging Face's transformers."""

    values: Mapping[str, object]
    defaults: Mapping[str, int]

    def whole(self, key: str, otherwise: int | None = None) -> int | None:
        """A whole number, or what stands for one that is missing or null.

        Raises:
            RequirementError: there is something else.
        """
        value = self.values.get(key)
        if value is None:
            return self.defaults.get(key, otherwise)
        if isinstance(value, bool) or not isinstance(value, int):
            raise RequirementError(f"config.json: {key}: {value!r} is not a whole number")
        if value < 0:
            raise RequirementError(f"config.json: {key}: {value} is negative")
        return value

    def needed(self, key: str) -> int:
        """A whole number that has to be there.

        Raises:
            RequirementError: it is not.
        """
        value = self.whole(key)
        if value is None:
            raise RequirementError(
                f"config.json: {key}: is missing; take the file as published with the model"
            )
        if value == 0:
            raise RequirementError(f"config.json: {key}: 0 is not above 0")
        return value

    def wholes(
        self, key: str, count: int | None = None, otherwise: int | None = None
    ) -> tuple[int, ...]:
        """Whole numbers above 0 of a list; a single one stands for `count` of them.

        Raises:
            RequirementError: there is something else, or another number of them.
        """
        value = self.values.get(key)
        if not isinstance(value, list | tuple):
            alone = self.whole(key, otherwise)
            if not alone or not count:
                raise RequirementError(
                    f"config.json: {key}: is no list of whole numbers above 0;"
                    " take the file as published with the model"
                )
            return (alone,) * count
        if not value or len(value) != (count or len(value)):
            wanted = f"not {count}" if count else "where some are needed"
            raise RequirementError(f"config.json: {key}: has {len(value)} entries, {wanted}")
        return tuple(Configuration({key: item}, {}).needed(key) for item in value)

    def number(self, key: str, otherwise: float) -> float:
        """A number above 0, or what stands for one that is missing or null.

        Raises:
            RequirementError: there is something else.
        """
        value = self.values.get(key)
        if value is None:
            return otherwise
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST:
            raise RequirementError(f"config.json: {key}: {value!r} is not a number above 0")
        return float(value)

    def is_set(self, key: str, *, otherwise: bool = False) -> bool:
        """A switch."""
        value = self.values.get(key)
        return otherwise if value is None else bool(value)

    def text(self, key: str) -> str:
        """Text, empty where there is none."""
        value = self.values.get(key)
        return value if isinstance(value, str) else ""

    def part(self, key: str) -> Mapping[str, object]:
        """A nested mapping, empty where there is none."""
        value = self.values.get(key)
        return value if isinstance(value, Mapping) else {}

    def lists(self, key: str) -> tuple[object, ...]:
        """The entries of a list, empty where there is none."""
        value = self.values.get(key)
        return tuple(value) if isinstance(value, list | tuple) else ()

    def names(self, key: str) -> tuple[str, ...]:
        """A list of text, empty where there is none."""
        value = self.values.get(key)
        if not isinstance(value, list | tuple):
            return ()
        return tuple(item for item in value if isinstance(item, str))
