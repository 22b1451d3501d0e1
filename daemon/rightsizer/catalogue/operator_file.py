"""Reads what an operator knows better: files of boards and of prices."""

from pathlib import Path
from typing import Final

from rightsizer.catalogue.boards_file import extend_boards
from rightsizer.catalogue.catalogue import Catalogue, built_in, packaged_boards
from rightsizer.catalogue.prices import Prices
from rightsizer.catalogue.prices_file import (
    STATED,
    built_in_prices,
    dollars_by_key,
    extended_prices,
)
from rightsizer.catalogue.settings import PriceSettings
from rightsizer.io.yaml import Document, YamlError, load_yaml
from rightsizer.model.errors import ConfigurationError

_NOTHING_PAID: Final = PriceSettings()


def read_catalogue(file: Path | None) -> Catalogue:
    """The packaged catalogue, with the changes and additions of a file where one is named.

    Raises:
        ConfigurationError: the file cannot be read, or has faults; each with line and column.
    """
    return built_in() if file is None else extended_catalogue(read_document(file))


def read_prices(
    file: Path | None, catalogue: Catalogue, settings: PriceSettings = _NOTHING_PAID
) -> Prices:
    """The packaged prices, with those of a file where one is named, and those of the settings.

    Raises:
        ConfigurationError: the file cannot be read, or has faults; each with line and column. Or
            the settings name a board that is not known.
    """
    prices = built_in_prices() if file is None else extended_prices(read_document(file), catalogue)

    def refuse(name: str, why: str) -> None:
        raise ConfigurationError(f"prices.{STATED}.{name}: {why}")

    keys = dollars_by_key(settings.dollars_per_gpu_hour, catalogue, refuse)
    return prices.with_stated(keys, "the configuration")


def extended_catalogue(own: Document) -> Catalogue:
    """The packaged catalogue with an operator's changes and additions.

    Raises:
        ConfigurationError: with everything that is wrong with them, a line each.
    """
    return Catalogue(extend_boards(packaged_boards(), own))


def read_document(file: Path) -> Document:
    """A YAML file.

    Raises:
        ConfigurationError: it cannot be read, or is not YAML.
    """
    try:
        return load_yaml(file.read_text(encoding="utf-8-sig"), str(file))
    except FileNotFoundError:
        raise ConfigurationError(f"{file}: there is no such file; mend the path") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigurationError(f"{file}: cannot be read: {reason}; mend the path") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file}:1:1: is not UTF-8; save it as UTF-8") from None
    except YamlError as error:
        raise ConfigurationError(str(error)) from None
