"""A configuration that comes with a model, as a file on disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rightsizer.domain.errors import RequirementError
from rightsizer.edge.yaml import YamlError, load_yaml

__all__ = ["parsed_config", "told_of"]


def parsed_config(
    file: Path, remedy: str = "name the config.json that comes with the model"
) -> dict[str, Any]:
    """What a JSON file holds.

    Raises:
        RequirementError: it cannot be read, or is no JSON object; with the remedy.
    """
    try:
        data = load_yaml(file.read_text(encoding="utf-8-sig").replace("\t", " "), str(file)).data
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RequirementError(f"model.config: {file}: {reason}; {remedy}") from None
    except (UnicodeDecodeError, YamlError) as error:
        raise RequirementError(f"model.config: {file}: is no JSON: {error}; {remedy}") from None
    if not isinstance(data, dict):
        raise RequirementError(f"model.config: {file}: is no JSON object; {remedy}")
    return data


@contextmanager
def told_of(file: Path) -> Iterator[None]:
    """What is wrong with values of a file, told with the file before it; of the plan's, as it is.

    Raises:
        RequirementError: something within was.
    """
    try:
        yield
    except RequirementError as error:
        if str(error).startswith("model."):
            raise
        raise RequirementError(f"model.config: {file}: {error}") from None
