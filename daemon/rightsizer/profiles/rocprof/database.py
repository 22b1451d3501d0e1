"""Reader of rocpd, the SQLite database that rocprofv3 writes: tables with a suffix a process."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rightsizer.model.profile import Profile, ProfileFormat
from rightsizer.model.values import ProfileError
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.nsight_systems.database import MAGIC, ExportDatabase, open_export
from rightsizer.profiles.reader import Head, ProfileReader
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.rocprof.events import RocmEvents

_MARK: Final = b"rocpd_kernel_dispatch"
_KERNELS: Final = "rocpd_kernel_dispatch"
_GPU: Final = "GPU"
_MARKERS: Final = "MARKER"


class _Process:
    """Tables of one process, by their suffix."""

    def __init__(self, database: ExportDatabase, suffix: str) -> None:
        self._database = database
        self._suffix = suffix
        self.strings = dict(self.rows("rocpd_string", ("id",), ("string",)))
        self.symbols = {
            key: plain or name
            for key, plain, name in self.rows(
                "rocpd_info_kernel_symbol", ("id",), ("display_name", "kernel_name")
            )
        }
        events = self.rows("rocpd_event", ("id",), ("stack_id", "category_id"))
        self.events = {key: (stack, self.strings.get(category)) for key, stack, category in events}
        agents = self.rows(
            "rocpd_info_agent", ("id",), ("type", "absolute_index", "product_name", "name")
        )
        self.agents = {
            key: (f"Agent {key if index is None else index}", product or name or "", kind)
            for key, kind, index, product, name in agents
        }

    def rows(
        self, table: str, required: Sequence[str], optional: Sequence[str] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table of the process."""
        return self._database.rows(f"{table}{self._suffix}", required, optional)

    def agent(self, number: Any) -> str:
        """Return the name of an agent."""
        return self.agents.get(number, (f"Agent {number}", "", _GPU))[0]

    def correlation(self, event: Any) -> int | None:
        """Return what an event has in common with the call that it belongs to."""
        stack, _ = self.events.get(event, (None, None))
        return stack if type(stack) is int else None


def recognizes(head: Head) -> bool:
    """Whether a file is a SQLite database with rocpd's tables."""
    return head.data.startswith(MAGIC) and _MARK in head.data


def read(path: Path, limits: ReadLimits) -> Profile:
    """Read a database; raises `ProfileError` if it is broken, too large, or of several processes.

    Source of the tables: rocprofiler-sdk, share/rocprofiler-sdk-rocpd/rocpd_tables.sql.
    """
    with open_export(path, limits) as database:
        suffixes = sorted(
            name.removeprefix(_KERNELS) for name in database.tables if name.startswith(_KERNELS)
        )
        if not suffixes:
            raise ProfileError("a SQLite database without kernels of rocpd; record it again")
        if len(suffixes) > 1:
            raise ProfileError(
                f"{len(suffixes)} processes in one database, whose calls cannot be told apart; "
                "record each into a file of its own (rocprofv3 --output-file %rank%)"
            )
        process = _Process(database, suffixes[0])
        boards = {agent: name for agent, name, _ in process.agents.values()}
        events = RocmEvents(Recorder(limits), boards)
        _record(process, events)
        events.unread.update(database.unread)
        return events.profile(ProfileFormat.ROCPD, path.name)


def _record(process: _Process, events: RocmEvents) -> None:
    times = ("start", "end")
    for start, end, agent, kernel, queue, stream, event in process.rows(
        _KERNELS, (*times, "agent_id", "kernel_id"), ("queue_id", "stream_id", "event_id")
    ):
        events.kernel(
            process.agent(agent),
            f"queue {stream if stream is not None else queue}",
            str(process.symbols.get(kernel) or "(no name)"),
            (start, end),
            process.correlation(event),
        )
    copied = ("name_id", "src_agent_id", "dst_agent_id", "size")
    for start, end, name, source, target, size in process.rows("rocpd_memory_copy", times, copied):
        direction = str(process.strings.get(name, ""))
        is_from = process.agents.get(source, ("", "", ""))[2] == _GPU
        agent = process.agent(source if is_from else target)
        events.copy(agent, direction, (start, end), size if type(size) is int else None)
    for start, end, name, thread, event in process.rows(
        "rocpd_region", (*times, "name_id"), ("tid", "event_id")
    ):
        text = str(process.strings.get(name, ""))
        _, category = process.events.get(event, (None, None))
        number = thread if type(thread) is int else 0
        if str(category).startswith(_MARKERS):
            events.marker(text, (start, end), number)
        elif text.startswith("hip"):
            events.call(text, (start, end), process.correlation(event), number)
        else:
            events.unread[f"region of {category or 'no category'}"] += 1


ROCPD: Final = ProfileReader(ProfileFormat.ROCPD, recognizes, read)
