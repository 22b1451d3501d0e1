"""A file that asks one question, several, or a list of them, in YAML or JSON."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rightsizer.catalogue.row import Faults, Row
from rightsizer.domain.errors import ConfigurationError, RequirementError
from rightsizer.edge.yaml import Document, YamlError, load_yaml_documents

__all__ = ["Question", "QuestionFile", "read_questions"]

_SCIENTIFIC: Final = re.compile(r"[-+]?\d[\d_]*(?:\.\d*)?[eE][-+]?\d+")
"""YAML 1.1 takes `7e9` for text; JSON and everybody else for a number."""
_KEYS: Final = re.compile(r"[a-z_]+(?:\.[a-z_]+)*")


@dataclass(frozen=True, slots=True)
class Question:
    """One mapping of a file."""

    row: Row
    faults: Faults
    document: Document

    def refuse(self) -> None:
        """Raise all that is wrong with it, with line, column and remedy.

        Raises:
            RequirementError: anything is.
        """
        try:
            self.faults.refuse()
        except ConfigurationError as error:
            raise RequirementError(str(error)) from None

    def placed(self, error: Exception) -> RequirementError:
        """An error whose message begins with a key, with the place of that key before it."""
        message = str(error)
        key = _KEYS.match(message.partition(":")[0])
        path = key[0].split(".") if key else []
        return RequirementError(f"{self.document.where((*self.row.path, *path))}: {message}")


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """All that a file asks, in its order."""

    questions: tuple[Question, ...]
    is_list: bool
    """Whether the answer is a list too."""


def read_questions(file: Path) -> QuestionFile:
    """Every question of a file.

    Raises:
        RequirementError: it cannot be read, is neither YAML nor JSON, or is empty.
    """
    documents = _documents(file)
    is_list = len(documents) > 1 or isinstance(documents[0].data, list)
    found = (question for document in documents for question in _questions(document))
    return QuestionFile(tuple(found), is_list)


def _documents(file: Path) -> list[Document]:
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
    filled = [replace(each, data=_numbers(each.data)) for each in documents]
    filled = [each for each in filled if each.data is not None]
    if not filled:
        raise RequirementError(f"{file}: is empty; 'rightsizer project --help' shows what it takes")
    return filled


def _questions(document: Document) -> Iterator[Question]:
    data: Any = document.data
    items = [((at,), each) for at, each in enumerate(data)] if isinstance(data, list) else None
    for path, values in [((), data)] if items is None else items:
        faults = Faults(document)
        yield Question(Row(values, path, faults), faults, document)


def _numbers(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _numbers(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_numbers(value) for value in data]
    if isinstance(data, str) and _SCIENTIFIC.fullmatch(data):
        return float(data.replace("_", ""))
    return data
