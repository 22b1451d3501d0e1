"""An assistant: a client of the official SDK that starts `rightsizer mcp` and calls its tools."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
from msgspec import Struct

from agent_process import RIGHTSIZER

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, Tool

__all__ = ["ToolAnswer", "call_tools", "listed_tools"]

_PATIENCE_SECONDS: Final = 60.0


class ToolAnswer(Struct, frozen=True):
    """What an assistant gets for a call."""

    document: dict[str, Any] | None
    text: str
    is_error: bool


def listed_tools(*flags: str | Path) -> dict[str, Tool]:
    """Return the tools that a server with some flags offers, by name."""

    async def ask() -> list[Tool]:
        async with _client(flags) as client:
            return (await client.list_tools()).tools

    return {tool.name: tool for tool in anyio.run(ask)}


def call_tools(
    flags: tuple[str | Path, ...], *calls: tuple[str, Mapping[str, Any]]
) -> list[ToolAnswer]:
    """Return the answers to calls, one after the other, of one server with some flags."""

    async def ask() -> list[ToolAnswer]:
        async with _client(flags) as client:
            return [
                _answer(await client.call_tool(name, dict(arguments))) for name, arguments in calls
            ]

    return anyio.run(ask)


def _client(flags: tuple[str | Path, ...]) -> Client:
    # The library takes half a second to load, and every worker collects the tests.
    from mcp import Client, StdioServerParameters, stdio_client  # noqa: PLC0415

    program, *arguments = RIGHTSIZER
    server = StdioServerParameters(
        command=program,
        args=[*arguments, "mcp", *map(str, flags)],
        env=dict(os.environ),
    )
    # By default errors go where `sys.stderr` led at its import: into a test's captured text.
    transport = stdio_client(server, errlog=sys.__stderr__ or sys.stderr)
    return Client(transport, read_timeout_seconds=_PATIENCE_SECONDS)


def _answer(result: CallToolResult) -> ToolAnswer:
    text = "\n".join(part.text for part in result.content if part.type == "text")
    return ToolAnswer(result.structured_content, text, result.is_error)
