"""Server of the Model Context Protocol over standard input and output.

A call runs its command in a process of its own, which is ended with the call: what an assistant is
told is what the command prints, and no fault of one ends the server.
"""

from collections.abc import Mapping, Sequence
from subprocess import DEVNULL, PIPE
from typing import Any

import anyio
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from rightsizer import __version__
from rightsizer.assistant.tools import TOOL_ROWS, AssistantTool, ToolSources
from rightsizer.io.codec import encode
from rightsizer.model.values import RightsizerError, UsageError

_INSTRUCTIONS = (
    "Rightsizer accounts for every second of every GPU and says what size it should have been. "
    "Ask for recommendations first, then explain one by its id before you propose to follow it. "
    "Figures are intervals, and a missing value is unknown, never zero."
)


class AssistantServer:
    """Tools of an assistant, and the processes that answer their calls."""

    def __init__(
        self, program: Sequence[str], sources: ToolSources, *, allows_changes: bool
    ) -> None:
        self._program = tuple(program)
        self._sources = sources
        self._tools = {
            row.name: AssistantTool(row) for row in TOOL_ROWS if allows_changes or not row.is_change
        }

    async def run(self) -> None:
        """Serve until standard input ends."""
        server: Server[dict[str, Any]] = Server(
            "rightsizer",
            version=__version__,
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    async def _list(
        self, _: ServerRequestContext[dict[str, Any]], __: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[_described(tool) for tool in self._tools.values()])

    async def _call(
        self, _: ServerRequestContext[dict[str, Any]], params: CallToolRequestParams
    ) -> CallToolResult:
        try:
            document = await self._answer(params.name, params.arguments or {})
        except RightsizerError as error:
            return CallToolResult(content=[TextContent(text=str(error))], is_error=True)
        text = encode(document).decode()
        return CallToolResult(content=[TextContent(text=text)], structured_content=document)

    async def _answer(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        tool = self._tools.get(name)
        if tool is None:
            if any(row.name == name for row in TOOL_ROWS):
                remedy = "start 'rightsizer mcp' with --allow-changes"
                raise UsageError(f"{name} changes recommendations, which is off; {remedy}")
            raise UsageError(f"there is no tool '{name}'; choose from {', '.join(self._tools)}")
        line = tool.command_line(arguments, self._sources)
        done = await anyio.run_process(
            [*self._program, *line], stdin=DEVNULL, stdout=PIPE, stderr=PIPE, check=False
        )
        output = done.stdout.decode("utf-8", "replace")
        return tool.answer(output, done.stderr.decode("utf-8", "replace"), arguments)


def _described(tool: AssistantTool) -> Tool:
    is_change = tool.row.is_change
    return Tool(
        name=tool.row.name,
        title=tool.row.title,
        description=tool.description,
        input_schema=tool.schema,
        annotations=ToolAnnotations(
            read_only_hint=not is_change, destructive_hint=False, open_world_hint=False
        ),
    )


def serve_assistant(program: Sequence[str], sources: ToolSources, *, allows_changes: bool) -> None:
    """Serve an assistant until standard input ends."""
    anyio.run(AssistantServer(program, sources, allows_changes=allows_changes).run)
