"""Error for a file in no known format, with the command that reads it."""

import re
from collections.abc import Callable, Container, Sequence
from itertools import pairwise
from shlex import quote
from typing import Final

from rightsizer.model.table import table_rows
from rightsizer.model.values import RecordingError, Signal
from rightsizer.recordings.headed_table import heading_line
from rightsizer.recordings.heading_words import (
    DEVICES,
    QUANTITY,
    UNITS,
    gpu_index,
    place_of,
    read_headings,
    time_places,
    words_of,
)
from rightsizer.recordings.row import MESSAGE
from rightsizer.recordings.table import local_number
from rightsizer.recordings.text_file import TextFile, delimiter_of, row_of, split_csv_line
from rightsizer.recordings.timestamps import is_timestamp, page_time, seconds_text

_SHOWN: Final = 80
_COLUMNS: Final = "timestamp,gpu_index,util_pct,memory_used_mib,power_w"
_JQ_FILTERS: Final = {row["key"]: row["filter"] for row in table_rows(__file__, "jq_filters.csv")}
"""By keys that only answers of CloudWatch, Google Cloud, Azure, Datadog and Zabbix have."""
_NUMBER: Final = re.compile(r"-?\d+(?:[.,]\d+)? ?%?")
_PERCENT: Final = re.compile(r"(?:100|\d{1,2})(?:[.,]\d+)? ?%?")
_UTIL: Final = "util_pct"
_LEFT_OUT: Final = "x"
_NAMES_BY_UNIT: Final = {
    **dict.fromkeys(UNITS.values(), _LEFT_OUT),
    "%": _UTIL,
    "MiB": "memory_used_mib",
    "GiB": "memory_used_gib",
    "W": "power_w",
    "mW": "power_mw",
}
_DIGITS: Final = re.compile(r"\d+")
_GPU: Final = re.compile(r"gpu\W{0,3}(\d+)", re.IGNORECASE)
_OTHER_TOOLS: Final = {
    "the output of tegrastats (Jetson)": re.compile(
        r"\bRAM \d+/\d+MB.*\b(?:GR3D_FREQ|EMC_FREQ|SWAP)\b"
    ),
    "the output of rocm-smi or amd-smi (AMD)": re.compile(
        r"ROCm System Management Interface|\bSCLK\b.*\bMCLK\b|AMD-SMI|\bGFX_CLK\b|\bGFX_CLOCK\b"
    ),
    "the output of intel_gpu_top (Intel)": re.compile(r"\bRC6\b.*\bRCS\b|\"rc6\"|Render/3D/0"),
    "the output of xpu-smi (Intel)": re.compile(
        r"XPUM_STATS|\bTile (?:ID|Id)\b|\bIntel\(R\) Data Center GPU\b"
    ),
    "a list of points of InfluxDB (Telegraf)": re.compile(
        r"^(?:> )?nvidia_smi,\S+ |^#datatype,|\b_measurement\b|\"fields\".*\"nvidia_smi\"",
        re.MULTILINE,
    ),
    "the output of nvidia-smi -q -x (XML)": re.compile(r"<nvidia_smi_log>"),
    "metrics of OpenTelemetry (OTLP)": re.compile(r"\A\s*\[?\s*\{\s*\"resourceMetrics\""),
}
"""By what only their output has."""
_FEWEST_ROWS: Final = 9
"""Rows from which numbers that only grow are a counter."""
_MOST_UNKNOWN: Final = 3
"""Columns of numbers under headings: of more, none is the likely one."""


def check_tool(text: TextFile) -> None:
    """Fail for the output of a tool that is not read."""
    start = "\n".join(text.head)
    for tool, other_tool in _OTHER_TOOLS.items():
        if other_tool.search(start):
            raise RecordingError(
                f"{text.name}:1: is {tool}, which is not read: write a CSV with the "
                f"columns {_COLUMNS}"
            )


def unknown_format(
    text: TextFile, column_map: str | None, is_read: Callable[[str, str | None], bool]
) -> RecordingError:
    """Return the error for a file; `column_map` is the name of a map that has no pattern for it.

    `is_read` tries fields, and the index of the only GPU, on the first lines.
    """
    first = text.head[0]
    if MESSAGE.match(first):
        return RecordingError(
            f"{text.name}:1: is an error in place of readings: '{first[:_SHOWN]}'; correct that "
            "and record again"
        )
    # Pretty-printed JSON begins with a lone bracket.
    start = first if len(first) > 1 else " ".join(text.head)
    shown = start if len(start) <= _SHOWN else f"{start[:_SHOWN]}..."
    if column_map is not None:
        remedy = f"no pattern of {column_map} fits its name; add one under 'files'"
    elif first.startswith(("{", "[")):
        of_kind = next((jq_filter for key, jq_filter in _JQ_FILTERS.items() if key in start), None)
        remedy = (
            f"write it as CSV with the columns {_COLUMNS}, like the jq commands of "
            "docs/recordings.md"
            if of_kind is None
            else f"write it as CSV: (echo timestamp,gpu_index,util_pct; jq -r '{of_kind} | @csv' "
            f"{quote(text.name)}) > gpu.csv"
        )
    elif (
        (is_table := _is_table(text.head))
        and (fields := stated_fields(text.head))
        and is_read(fields, device := _only_device(text.head, fields))
    ):
        # Within the single quotes of the message.
        argument = fields if quote(fields) == fields else f'"{fields}"'
        flags = f"--fields {argument}" + ("" if device is None else f" --device {device}")
        remedy = (
            "where what it names util_pct is utilization in percent, use "
            f"'rightsizer replay {quote(text.name)} {flags}'; other columns are util_ratio, "
            "memory_used_mib and power_w, of several GPUs in a row gpu0_util_pct; "
            "--columns MAP.yaml takes any"
        )
    elif quantities := _told_but_busy(heading_line(text.head)[1]):
        remedy = (
            f"it tells {quantities} of GPUs, but not how busy they are: record utilization.gpu too"
        )
    elif is_table:
        remedy = (
            f"name its columns {_COLUMNS}, of several GPUs in a row gpu0_util_pct; tell what they "
            "hold with --columns MAP.yaml, or name those of a log without a heading with --fields"
        )
    else:
        remedy = (
            "record with 'rightsizer record' or 'nvidia-smi --query-gpu=timestamp,index,name,"
            "utilization.gpu,memory.used,memory.total,power.draw --format=csv -l 1'"
        )
    return RecordingError(
        f"{text.name}:1: this is in no known format: '{shown}'; {remedy}; docs/recordings.md has "
        "the formats"
    )


def _told_but_busy(headings: Sequence[str]) -> str:
    """Return the signals of a table with times that does not tell how busy GPUs are."""
    signals = {str(heading.signal) for heading in read_headings(headings).values()}
    return (
        " and ".join(sorted(signals))
        if time_places(headings) and Signal.GPU_BUSY not in signals
        else ""
    )


def _is_table(head: Sequence[str]) -> bool:
    """Whether lines have several cells, between blanks as many as each other."""
    mark = delimiter_of(heading_line(head)[0])
    widths = {len(split_csv_line(line, mark)) for line in head}
    return max(widths) > 1 and (mark != " " or len(widths) == 1 < len(head))


def _rows(head: Sequence[str]) -> tuple[list[list[str]], bool]:
    """Return the cells of rows, all as many as those of the first, and whether times are above.

    Such a time is put before the cells.
    """
    mark = delimiter_of(row_of(head))
    # A row may look like a date with a fraction.
    is_paged = page_time(head[0]) is not None and None in map(page_time, head)
    above: list[str] = []
    rows: list[list[str]] = []
    for line in head:
        if is_paged and (time := page_time(line)) is not None:
            above = [seconds_text(time)]
            continue
        row = above + [cell.strip() for cell in split_csv_line(line, mark)]
        if any(map(is_timestamp, row)) and len(row) == len((rows or [row])[0]):
            rows.append(row)
    return rows, is_paged


def _only_device(head: Sequence[str], fields: str) -> str | None:
    """Return the index of the only GPU, unless a column names it or rows share a time."""
    rows, _ = _rows(head)
    times = [next(filter(is_timestamp, row), "") for row in rows]
    return None if "gpu" in fields or len({*times}) < len(times) else "0"


def stated_fields(head: Sequence[str]) -> str:
    """Return `--fields` for a CSV without GPU metrics in its headings.

    A time, what units tell, and the number that may be in percent: the last of several, or all of
    these whose headings differ in their digits alone. Empty where there is none, and for a table
    of many numbers.
    """
    _, headings = heading_line(head)
    rows, is_paged = _rows(head)
    first = rows[0] if rows else []
    time_at = next((at for at, cell in enumerate(first) if is_timestamp(cell)), None)
    is_titled = len(headings) == len(first) and headings != first
    titles = headings if is_titled else [""] * len(first)
    device_at = place_of(titles, DEVICES)
    read = read_headings(titles)
    others = [at for at in range(len(first)) if at not in (time_at, device_at, *read)]
    names = _named_by_units(others, titles, rows)
    numbers = [at for at in others if at not in names and _NUMBER.fullmatch(first[at])]
    shares = [at for at in numbers if _may_be_percent([row[at] for row in rows])]
    gpus = [_gpu_number(titles[at]) for at in shares]
    stems = {_DIGITS.sub("", titles[at]) for at in shares}
    if any(heading.signal is Signal.GPU_BUSY for heading in read.values()):
        # The time alone is unknown.
        names = {at: titles[at] for at in read}
    elif device_at is None and all(gpus) and len(stems) < len(shares) == len({*gpus}):
        names = {at: f"gpu{gpu}_util_pct" for at, gpu in zip(shares, gpus, strict=True)}
    elif _UTIL not in names.values():
        if not shares or (is_titled and len(numbers) > _MOST_UNKNOWN):
            return ""
        names[shares[-1]] = _UTIL
    if _UTIL in names.values():
        if device_at is None:
            device_at = _telling_column(rows, time_at, names)
        names |= {} if device_at is None else {device_at: "gpu_index"}
    names |= {} if time_at is None else {time_at: "timestamp"}
    return ",".join(names.get(at, _LEFT_OUT) for at in range(is_paged, len(first)))


def _named_by_units(
    places: Sequence[int], titles: Sequence[str], rows: Sequence[Sequence[str]]
) -> dict[int, str]:
    """Return names of columns by the units of their headings or cells.

    Of a unit it is the first that varies: fans and sizes are constant. Of several shares that do
    not vary none is named.
    """
    column_of_name: dict[str, int] = {}
    shares = []
    for at in places:
        cells = [row[at] for row in rows]
        words = words_of(titles[at]) or words_of(cells[0].lstrip("-+.,0123456789"))
        name = next((_NAMES_BY_UNIT[UNITS[word]] for word in words if word in UNITS), "")
        if not name or not QUANTITY.fullmatch(cells[0]):
            continue
        if name == _UTIL:
            if not _may_be_percent(cells):
                continue
            shares.append(at)
        if name not in column_of_name or (
            _varies(rows, at) and not _varies(rows, column_of_name[name])
        ):
            column_of_name[name] = at
    if len(shares) > 1 and not _varies(rows, column_of_name[_UTIL]):
        del column_of_name[_UTIL]
    return {at: name for name, at in column_of_name.items() if name != _LEFT_OUT}


def _varies(rows: Sequence[Sequence[str]], at: int) -> bool:
    return len({row[at] for row in rows}) > 1


def _may_be_percent(cells: Sequence[str]) -> bool:
    """Whether numbers may be utilization in percent: no ratio, and nothing that only grows."""
    if not all(map(_PERCENT.fullmatch, cells)):
        return False
    values = [local_number(cell.rstrip("% ")) for cell in cells]
    grows = len(values) > _FEWEST_ROWS and all(b > a for a, b in pairwise(values))
    return not grows and (max(values) > 1.0 or not any(value % 1.0 for value in values))


def _telling_column(
    rows: Sequence[Sequence[str]], time_at: int | None, names: Container[int]
) -> int | None:
    """Return the first other column that names the rows of a poll.

    Its cells differ in the rows of the first time, or take turns.
    """
    others = [at for at in range(len(rows[0]) if rows else 0) if at != time_at and at not in names]
    poll = [] if time_at is None else [row for row in rows if row[time_at] == rows[0][time_at]]
    for at in others:
        cells = [row[at] for row in poll]
        if len({*cells}) == len(cells) > 1 or _take_turns([row[at] for row in rows]):
            return at
    return None


def _take_turns(cells: Sequence[str]) -> bool:
    """Whether a few names of GPUs follow each other in one order, over and over."""
    count = len({*cells})
    is_often = 1 < count <= len(cells) / 2
    turns = all(cell == cells[at % count] for at, cell in enumerate(cells))
    return is_often and turns and all(gpu_index(cell) is not None for cell in cells)


def _gpu_number(title: str) -> str:
    """Return the number behind 'gpu' in a heading, else its last one; empty without any."""
    numbers = _GPU.findall(title) or _DIGITS.findall(title)
    return numbers[-1] if numbers else ""
