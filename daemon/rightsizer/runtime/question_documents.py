"""The documents of a file that asks something of the sizing, YAML or JSON."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rightsizer.domain.errors import RequirementError
from rightsizer.edge.yaml import Document, YamlError, load_yaml_documents

__all__ = ["read_documents"]

_SCIENTIFIC: Final = re.compile(r"[-+]?\d[\d_]*(?:\.\d*)?[eE][-+]?\d+")
"""YAML 1.1 takes `7e9` for text; JSON and everybody else for a number."""


def read_documents(file: Path, remedy: str) -> list[Document]:
    """All documents of a file that hold anything, in their order.

    Args:
        file: What to read.
        remedy: What to do about a file that is empty.

    Raises:
        RequirementError: it cannot be read, is neither YAML nor JSON, or is empty.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
        # JSON may be indented by tabs, which YAML refuses; inside its texts there are none.
        plain = text.replace("\t", " ") if text.lstrip()[:1] in {"{", "["} else text
        documents = load_yaml_documents(plain, str(file))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RequirementError(f"{file}: cannot be read: {reason}; mend the path") from None
    except UnicodeDecodeError:
        raise RequirementError(f"{file}:1:1: is not UTF-8; save it as UTF-8") from None
    except YamlError as error:
        raise RequirementError(f"{error}; mend the YAML or JSON") from None
    filled = [each for each in documents if each.data is not None]
    if not filled:
        raise RequirementError(f"{file}: is empty; {remedy}")
    return [replace(each, data=_numbers(each.data)) for each in filled]


def _numbers(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _numbers(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_numbers(value) for value in data]
    if isinstance(data, str) and _SCIENTIFIC.fullmatch(data):
        return float(data.replace("_", ""))
    return data
