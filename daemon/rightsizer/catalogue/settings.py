"""Settings of the catalogue: the operator's files of boards and prices."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from msgspec import Struct

from rightsizer.model.settings import Spec


class PriceSettings(Struct, frozen=True):
    """GPU prices that the operator pays, with the same key as in plan and price files.

    Attributes:
        dollars_per_gpu_hour: US dollars per GPU-hour, by key, name or family such as h100;
            overrides other prices.
    """

    dollars_per_gpu_hour: Annotated[Mapping[str, float], Spec(within=(0.0, 10000.0))] = (
        MappingProxyType({})
    )


class CatalogueSettings(Struct, frozen=True):
    """Additions and corrections to the packaged boards and prices.

    Attributes:
        boards_file: YAML file that changes or adds boards.
        prices_file: YAML file that changes or adds prices; the packaged ones age.
    """

    boards_file: str = ""
    prices_file: str = ""

    @property
    def boards_path(self) -> Path | None:
        """Path of the board file, or `None`."""
        return Path(self.boards_file) if self.boards_file else None

    @property
    def prices_path(self) -> Path | None:
        """Path of the price file, or `None`."""
        return Path(self.prices_file) if self.prices_file else None
