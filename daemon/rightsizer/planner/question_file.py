"""Question files in YAML or JSON: one question, several documents, or a list."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rightsizer.config.row import Faults, Row
from rightsizer.io.yaml import Document, YamlError, load_yaml_documents
from rightsizer.model.errors import ConfigurationError, RequirementError

_SCIENTIFIC: Final = re.compile(r"[-+]?\d[\d_]*(?:\.\d*)?[eE][-+]?\d+")
"""YAML 1.1 takes `7e9` for text; JSON and everybody else for a number."""


def read_documents(file: Path, remedy: str) -> list[Document]:
    """All documents of a file that hold anything, in their order.

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


_KEYS: Final = re.compile(r"[a-z_]+(?:\.[a-z_]+)*")


@dataclass(frozen=True, slots=True)
class FileQuestion:
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

    questions: tuple[FileQuestion, ...]
    is_list: bool
    """Whether the answer is a list too."""


def read_questions(file: Path, command: str) -> QuestionFile:
    """Every question of a file.

    Raises:
        RequirementError: it cannot be read, is neither YAML nor JSON, or is empty.
    """
    documents = read_documents(file, f"'rightsizer {command} --help' shows what it takes")
    is_list = len(documents) > 1 or isinstance(documents[0].data, list)
    found = (question for document in documents for question in _questions(document))
    return QuestionFile(tuple(found), is_list)


def _questions(document: Document) -> Iterator[FileQuestion]:
    data: Any = document.data
    items = [((at,), each) for at, each in enumerate(data)] if isinstance(data, list) else None
    for path, values in [((), data)] if items is None else items:
        faults = Faults(document)
        yield FileQuestion(Row(values, path, faults), faults, document)
