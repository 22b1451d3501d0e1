"""The description of the API, as it is served: OpenAPI 3.1, written in YAML beside this file."""

import functools
import importlib.resources
from typing import Any

from rightsizer.edge.yaml import load_yaml

__all__ = ["openapi_document"]


@functools.cache
def openapi_document() -> dict[str, Any]:
    """The document as plain values."""
    file = importlib.resources.files("rightsizer.publish.web") / "openapi.yaml"
    data: dict[str, Any] = load_yaml(file.read_text(encoding="utf-8"), file.name).data
    return data
