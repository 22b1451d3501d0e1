"""A file that asks one question, several, or a list of them, in YAML or JSON."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rightsizer.catalogue.row import Faults, Row
from rightsizer.domain.errors import ConfigurationError, RequirementError
from rightsizer.edge.yaml import Document
from rightsizer.runtime.question_documents import read_documents

__all__ = ["Question", "QuestionFile", "read_questions"]

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


def read_questions(file: Path, command: str) -> QuestionFile:
    """Every question of a file.

    Args:
        file: What to read.
        command: Whose help shows what it takes.

    Raises:
        RequirementError: it cannot be read, is neither YAML nor JSON, or is empty.
    """
    documents = read_documents(file, f"'rightsizer {command} --help' shows what it takes")
    is_list = len(documents) > 1 or isinstance(documents[0].data, list)
    found = (question for document in documents for question in _questions(document))
    return QuestionFile(tuple(found), is_list)


def _questions(document: Document) -> Iterator[Question]:
    data: Any = document.data
    items = [((at,), each) for at, each in enumerate(data)] if isinstance(data, list) else None
    for path, values in [((), data)] if items is None else items:
        faults = Faults(document)
        yield Question(Row(values, path, faults), faults, document)
