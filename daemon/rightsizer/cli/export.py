"""`rightsizer export`: the local history as a table, which is only read."""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final

from rightsizer.cli.command import Command
from rightsizer.cli.moment import moment
from rightsizer.cli.output import discard_output
from rightsizer.cli.settings_flag import add_config_flag, settings_of
from rightsizer.domain.errors import RightsizerError, UsageError
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.edge.whole_file import WholeFile
from rightsizer.publish.export.formats import FORMATS
from rightsizer.runtime.export import ExportQuery, export_rows
from rightsizer.runtime.settings import Settings

__all__ = ["COMMAND"]

_DESCRIPTION = """\
Write the local history as a table: a row for each device and span of time, with the seconds of
each state, waste, energy, quantiles of use and holders. docs/export.md tells every column. The
history is only read, beside the agent that writes it.
"""

_GRAINS: Final[Mapping[str, Nanoseconds]] = {
    "5m": 300 * NANOSECONDS_PER_SECOND,
    "1h": 3600 * NANOSECONDS_PER_SECOND,
}
_BINARY: Final = frozenset({"parquet"})


def configure(parser: argparse.ArgumentParser) -> None:
    """Which part of the history, how fine, in which format, and where to."""
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="OUT", help="without it to standard output"
    )
    parser.add_argument(
        "--from",
        dest="since",
        type=moment,
        metavar="TIME",
        help="windows that begin then or later: ISO 8601, in UTC unless it says otherwise, or "
        "seconds since the epoch",
    )
    parser.add_argument(
        "--to", dest="until", type=moment, metavar="TIME", help="windows that begin before then"
    )
    parser.add_argument(
        "--devices",
        type=lambda text: tuple(filter(None, text.split(","))),
        metavar="LIST",
        help="uuids or indexes, divided by commas; without it all",
    )
    parser.add_argument(
        "--grain",
        choices=_GRAINS,
        default="5m",
        help="span of a row; what is already merged into hours stays an hour",
    )
    parser.add_argument("--format", choices=FORMATS, default="csv", help="how it is written")
    parser.add_argument(
        "--history.path",
        dest="history_path",
        type=Path,
        metavar="FILE",
        help="the history; without it history.path of the configuration "
        f"(default: {Settings().history.path})",
    )
    add_config_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the table; a file appears when it is whole."""
    settings = settings_of(arguments)
    path = arguments.history_path or Path(settings.history.path)
    since, until = arguments.since or 0, arguments.until
    if until is not None and until <= since:
        raise UsageError("--to: is not after --from, so that nothing lies between them")
    if arguments.file is not None and arguments.file.resolve() == path.resolve():
        raise UsageError(f"OUT {arguments.file}: is the history itself; name another file")
    if arguments.file is None and arguments.format in _BINARY:
        raise UsageError(f"--format {arguments.format}: name a file to write to")
    query = ExportQuery(_GRAINS[arguments.grain], since, until, arguments.devices or ())
    out = _standard_output() if arguments.file is None else WholeFile(arguments.file, "export")
    with export_rows(path, query) as rows, out as stream:
        table = FORMATS[arguments.format](stream)
        for row in rows:
            table.write(row)
        table.close()
    return 0


@contextlib.contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        raise RightsizerError(
            f"standard output cannot be written: {error.strerror}; make room where it goes, or "
            "name a file"
        ) from None


COMMAND = Command("export", "write the local history as a table", configure, run, _DESCRIPTION)
