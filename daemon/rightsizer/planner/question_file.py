"""Question files in YAML or JSON: one question, several documents, or a list."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.config.row import Faults, Row
from rightsizer.io.yaml import Document, YamlError, load_yaml_documents, yaml_text
from rightsizer.model.errors import ConfigurationError, RequirementError, RightsizerError

_SCIENTIFIC: Final = re.compile(r"[-+]?\d[\d_]*(?:\.\d*)?[eE][-+]?\d+")
"""YAML 1.1 reads `7e9` as text, JSON as a number."""
_KEYS: Final = re.compile(r"[a-z_.]+")
_Answer = TypeVar("_Answer")


def _documents(file: Path, remedy: str) -> list[Document]:
    try:
        documents = load_yaml_documents(yaml_text(file), str(file))
    except YamlError as error:
        raise RequirementError(str(error)) from None
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


class FileQuestion(Struct, frozen=True):
    """One mapping of a file."""

    row: Row
    faults: Faults
    """With that of a row that is no mapping, whose own faults are discarded."""
    document: Document

    @classmethod
    def of(cls, values: Any, path: tuple[str | int, ...], document: Document) -> Self:
        """Create the question at a place of a document."""
        faults = Faults(document)
        return cls(Row(values, path, faults), faults, document)

    def refuse(self) -> None:
        """Raise all faults, with line, column and remedy."""
        try:
            self.faults.refuse()
        except ConfigurationError as error:
            raise RequirementError(str(error)) from None

    def placed(self, error: object) -> RequirementError:
        """Return an error with the place of each key before its line."""
        lines = []
        for line in str(error).splitlines():
            key = line.partition(":")[0]
            keys = key.split(".") if _KEYS.fullmatch(key) else []
            lines.append(f"{self.document.where((*self.row.path, *keys))}: {line}")
        return RequirementError("\n".join(lines))


class QuestionFile(Struct, frozen=True):
    """All questions of a file, in order."""

    questions: tuple[FileQuestion, ...]
    is_list: bool
    """Whether the answer is a list too."""

    def answers(self, answer: Callable[[FileQuestion], _Answer]) -> list[_Answer | str]:
        """Answer each question; in a list, failures are replaced by their error."""
        found: list[_Answer | str] = []
        for question in self.questions:
            try:
                found.append(answer(question))
            except RightsizerError as error:
                if not self.is_list:
                    raise
                found.append(str(error))
        return found


def read_questions(file: Path, remedy: str) -> QuestionFile:
    """Read all questions of a file; the remedy is for an empty one."""
    questions = list[FileQuestion]()
    documents = _documents(file, remedy)
    is_list = len(documents) > 1
    for document in documents:
        if isinstance(document.data, list):
            is_list = True
            items = enumerate(document.data)
            questions += [FileQuestion.of(each, (at,), document) for at, each in items]
        else:
            questions.append(FileQuestion.of(document.data, (), document))
    return QuestionFile(tuple(questions), is_list)
