"""Reads what an operator knows better: files of boards and of prices."""

from pathlib import Path

from rightsizer.catalogue.boards_file import extend_boards
from rightsizer.catalogue.catalogue import Catalogue, built_in, packaged_boards
from rightsizer.catalogue.prices import Prices
from rightsizer.catalogue.prices_file import built_in_prices, extended_prices
from rightsizer.io.yaml import Document, YamlError, load_yaml
from rightsizer.model.errors import ConfigurationError


def read_catalogue(file: Path | None) -> Catalogue:
    """The packaged catalogue, with the changes and additions of a file where one is named.

    Raises:
        ConfigurationError: the file cannot be read, or has faults; each with line and column.
    """
    return built_in() if file is None else extended_catalogue(read_document(file))


def read_prices(file: Path | None, catalogue: Catalogue) -> Prices:
    """The packaged prices, with the changes and additions of a file where one is named.

    Raises:
        ConfigurationError: the file cannot be read, or has faults; each with line and column.
    """
    if file is None:
        return built_in_prices()
    return extended_prices(read_document(file), catalogue)


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
