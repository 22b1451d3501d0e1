"""A request as handlers see it, and their answer."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self

__all__ = ["Request", "Response"]


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked."""

    method: str
    path: str
    query: Mapping[str, list[str]] = field(default_factory=dict)
    accept: str = ""
    accept_encoding: str = ""


@dataclass(frozen=True, slots=True)
class Response:
    """What is answered."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_text(
        cls,
        text: str,
        status: HTTPStatus = HTTPStatus.OK,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """A line of plain text."""
        return cls(f"{text}\n".encode(), status=status, headers=headers or {})

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """A value as JSON."""
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return cls(f"{text}\n".encode(), "application/json; charset=utf-8")
