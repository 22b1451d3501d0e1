"""Question files in YAML or JSON: one question, several documents, or a list."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.config.loader import read_document, refusal
from rightsizer.config.validator import Fault
from rightsizer.io.yaml import Document, YamlError, below, load_yaml_documents, yaml_text
from rightsizer.model.errors import ConfigurationError, RequirementError, RightsizerError

_SCIENTIFIC: Final = re.compile(r"[-+]?\d[\d_]*(?:\.\d*)?[eE][-+]?\d+")
"""YAML 1.1 reads `7e9` as text, JSON as a number."""
_KEYS: Final = re.compile(r"[a-z_.]+")
_Answer = TypeVar("_Answer")
_Document = TypeVar("_Document")


def _documents(file: Path, remedy: str) -> list[Document]:
    try:
        documents = load_yaml_documents(yaml_text(file), str(file))
    except YamlError as error:
        raise RequirementError(str(error)) from None
    filled = [document for document in documents if document.data is not None]
    if not filled:
        raise RequirementError(f"{file}: is empty; {remedy}")
    return [replace(document, data=_numbers(document.data)) for document in filled]


def _numbers(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _numbers(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_numbers(value) for value in data]
    if isinstance(data, str) and _SCIENTIFIC.fullmatch(data):
        return float(data.replace("_", ""))
    return data


class FileQuestion(Struct, frozen=True):
    """One question of a file."""

    document: Document

    @property
    def values(self) -> Mapping[Any, Any]:
        """Its keys as they stand in the file; none if it is no mapping."""
        return below(self.document.data)

    def read(self, kind: type[_Document], beside: Iterable[Fault] = ()) -> _Document:
        """Read it; raise all faults, with line, column and remedy."""
        try:
            return read_document(kind, self.document, beside=beside)
        except ConfigurationError as error:
            raise RequirementError(str(error)) from None

    def refusal(self, faults: Iterable[Fault]) -> RequirementError:
        """Error with faults that show beyond the file."""
        return RequirementError(str(refusal(self.document, faults)))

    def placed(self, error: object) -> RequirementError:
        """Return an error with the place of each key before its line."""
        lines = []
        for line in str(error).splitlines():
            key = line.partition(":")[0]
            keys = key.split(".") if _KEYS.fullmatch(key) else []
            lines.append(": ".join(filter(None, (self.document.where(keys), line))))
        return RequirementError("\n".join(lines))


class FailedQuestion(Struct, frozen=True):
    """Why a question of a list has no answer."""

    error: str

    @property
    def text(self) -> str:
        """In place of the answer."""
        return f"error: {self.error}"


class QuestionFile(Struct, frozen=True):
    """All questions of a file, in order."""

    questions: tuple[FileQuestion, ...]
    is_list: bool
    """Whether the answer is a list too."""

    def answers(self, answer: Callable[[FileQuestion], _Answer]) -> list[_Answer | FailedQuestion]:
        """Answer each question; in a list, failures are replaced by their error."""
        answers: list[_Answer | FailedQuestion] = []
        for question in self.questions:
            try:
                answers.append(answer(question))
            except RightsizerError as error:
                if not self.is_list:
                    raise
                answers.append(FailedQuestion(str(error)))
        return answers


def read_questions(file: Path, remedy: str) -> QuestionFile:
    """Read all questions of a file; the remedy is for an empty one."""
    documents = _documents(file, remedy)
    is_list = len(documents) > 1 or isinstance(documents[0].data, list)
    items = [
        item
        for document in documents
        for item in (document.items() if isinstance(document.data, list) else [document])
    ]
    return QuestionFile(tuple(map(FileQuestion, items)), is_list)
