"""Headings of CSV by their words: signal, unit and GPU of a column; places of time and names."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Any, Final, NamedTuple

from rightsizer.io.yaml import load_beside
from rightsizer.model.dcgm_fields import DCGM_FIELDS
from rightsizer.model.device import BY_INDEX
from rightsizer.model.signal import Signal
from rightsizer.model.units import Unit
from rightsizer.telemetry.dcgm.series import DcgmSeries, interpret, wanted
from rightsizer.telemetry.recordings.nvidia_smi_columns import signal_columns
from rightsizer.telemetry.recordings.prometheus_text import interpreted, named_line
from rightsizer.telemetry.recordings.row import RecordingDeviceFacts, RecordingNotes
from rightsizer.telemetry.recordings.text_file import TextFile, delimiter_of, split_csv_line

_WORD: Final = re.compile(r"%|[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_UNIT_CASE: Final = re.compile("iB|[mk][WB]|Hz")
"""Units that are one word in spite of their capitals."""
_LOADED: Final[Mapping[str, Any]] = load_beside(__file__, "headings.yaml")
_UNITS, _SYNONYMS, _ALONE = (
    {word: meaning for meaning, words in _LOADED[section].items() for word in words}
    for section in ("units", "synonyms", "alone")
)
_FILLERS, _VAGUE, _OF_GPUS, _OF_HOSTS = (
    frozenset(_LOADED[section]) for section in ("fillers", "vague", "gpus", "hosts")
)
TIMES, DEVICES, UUIDS, NAMES, NODES = (
    frozenset(_LOADED[section]) for section in ("times", "devices", "uuids", "names", "nodes")
)
METRICS, VALUES, LABELS = (
    frozenset(_LOADED[section]) for section in ("metrics", "values", "labels")
)
"""Whole headings, in words separated by spaces."""
_SIGNALS: Final = {
    frozenset(words.split()): (column.signal, column.unit)
    for words, column in signal_columns("words").items()
}
"""By significant words of a heading; an empty unit is stated or inferred."""
_MEMORY: Final = frozenset({"memory"})
_SIZES: Final = frozenset({"KiB", "MiB", "GiB", "bytes"})
_ENDINGS: Final = {"MiB": "mib", "GiB": "gib", "bytes": "bytes", "%": "pct"}
SAMPLED_ROWS: Final = 10_000
"""Rows by which missing units are inferred."""
_BYTES_FROM: Final = 2**20
"""Maximum from which memory must be in bytes: as MiB it would be 1 TiB."""
_MILLIWATTS_FROM: Final = 5000
"""Maximum from which power must be in NVML's milliwatts: no board draws as many watts."""
_MIB_FROM: Final = 512
"""Maximum from which memory must be in MiB: no board has as many GiB; below, it is ambiguous."""
_FOR_EXCEL: Final = "sep="
"""A directive that may precede the headings."""
_DEVICE_WORDS: Final = frozenset({"gpu", "gpus", "cuda", "card", "cards", "device", "devices"})
TELLING_WORDS: Final = _DEVICE_WORDS.union(_OF_GPUS, _OF_HOSTS, _SYNONYMS, *_SIGNALS)
"""Words that say what a value is of."""
_GPU_INDEX: Final = re.compile(r"(?:gpu|cuda|card|device|nvidia)?[\s_:/#-]*(\d+)", re.IGNORECASE)
_SOME_GPU: Final = '{gpu="0"}'

NumberedRow = tuple[int, Sequence[str]]
"""Line and cells."""


class Heading(NamedTuple):
    """Content of a column: a signal of a device, or of the row's device."""

    signal: Signal
    unit: str | None
    device: str | None = None
    facts: RecordingDeviceFacts | None = None
    is_bare: bool = False
    """Whether it may also be the size of the whole memory."""


def heading_line(head: Sequence[str]) -> tuple[str, list[str]]:
    """Return the line of headings, and its cells."""
    line = next((line for line in head if not line.startswith(_FOR_EXCEL)), "")
    return line, [cell.strip() for cell in split_csv_line(line, delimiter_of(line))]


def table_cells(text: TextFile, notes: RecordingNotes) -> Iterator[NumberedRow]:
    """Yield the rows below a table's headings, with their lines."""
    heading, headings = heading_line(text.head)
    delimiter = delimiter_of(heading)
    for number, line in text.lines(notes):
        cells = split_csv_line(line, delimiter)
        if line.startswith(_FOR_EXCEL) or line.strip() == heading:
            continue
        if len(cells) == len(headings):
            yield number, cells
        else:
            notes.skip(number, line)


def gpu_index(cell: str) -> int | None:
    """Return the index of a GPU as scripts write it: `0`, `gpu0`, `cuda:0`; `None` for others."""
    found = _GPU_INDEX.fullmatch(cell)
    return None if found is None else int(found[1])


def words_of(heading: str) -> list[str]:
    """Return the words of a heading in lower case; letters, digits and '%' are apart."""
    plain = _UNIT_CASE.sub(lambda unit: unit[0].lower(), heading)
    return [word.lower() for word in _WORD.findall(plain)]


def is_series(text: str) -> bool:
    """Whether a heading is a metric's name, or a series with labels."""
    return "{" in text or wanted(text)


def heading_of(text: str, *, is_of_host: bool = False, has_devices: bool = False) -> Heading | None:
    """Interpret a heading's words; `None` unless it is about a GPU.

    Args:
        text: The heading, or the name of a metric.
        is_of_host: Whether columns beside it are the host's.
        has_devices: Whether a column beside it names GPUs.
    """
    words, device, facts = words_of(text), None, None
    if (at := _number_place(words)) is not None:
        facts = RecordingDeviceFacts(index=int(words[at]))
        device, words = f"{BY_INDEX}{facts.index}", words[:at] + words[at + 1 :]
        words = [word for word in words if word not in _DEVICE_WORDS]
    unit = next((_UNITS[word] for word in words if word in _UNITS), None)
    meanings = {_SYNONYMS.get(word, word) for word in words if word not in _UNITS}
    names_gpu = device is not None or not _OF_GPUS.isdisjoint(words)
    telling = frozenset(meanings - _FILLERS)
    if names_gpu and not telling and unit is not None:
        signal = _ALONE.get(unit)
        return None if signal is None else Heading(Signal(signal), unit, device, facts)
    if names_gpu and telling == _MEMORY and unit in _SIZES:
        return Heading(Signal.MEMORY_USED_BYTES, unit, device, facts, is_bare=True)
    signal, usual = _SIGNALS.get(telling, (None, None))
    is_vague = meanings <= (_VAGUE - {"load"} if has_devices else _VAGUE)
    if signal is None or not (names_gpu or not (is_of_host or is_vague)):
        return None
    if signal is Signal.MEMORY_USED_BYTES and unit in ("%", "ratio"):
        signal = Signal.MEMORY_USED
    return Heading(signal, unit or usual or None, device, facts)


def _number_place(words: Sequence[str]) -> int | None:
    """Return the place of a GPU's number: behind its word, or last in a heading about a GPU."""
    pairs = enumerate(pairwise(words), 1)
    found = (at for at, (word, number) in pairs if word in _DEVICE_WORDS and number.isdecimal())
    if (at := next(found, None)) is not None:
        return at
    is_last = bool(words) and words[-1].isdecimal() and not _OF_GPUS.isdisjoint(words)
    return len(words) - 1 if is_last else None


def series_heading(text: str) -> Heading | None:
    """Parse name and labels of a series, as in Grafana's exports; without labels, of any GPU."""
    if not is_series(text):
        return None
    try:
        series = interpret(named_line(text) if "{" in text else f"{text}{_SOME_GPU}", interpreted)
    except ValueError:
        return None
    if not isinstance(series, DcgmSeries) or series.signal is None:
        return None
    field = DCGM_FIELDS.get(series.metric)
    unit = series.signal.unit.value if field is None else field.unit
    if "{" not in text:
        return Heading(series.signal, unit)
    return Heading(series.signal, unit, series.device, series.facts)


def read_headings(headings: Sequence[str]) -> dict[int, Heading]:
    """Return the content of columns by position; the first of several for a signal."""
    is_of_host = any(
        not _OF_HOSTS.isdisjoint(words := words_of(text)) and " ".join(words) not in NODES
        for text in headings
    )
    has_devices = place_of(headings, DEVICES | UUIDS) is not None
    read = [
        (
            at,
            series_heading(text)
            or heading_of(text, is_of_host=is_of_host, has_devices=has_devices),
        )
        for at, text in enumerate(headings)
    ]
    found: dict[tuple[str | None, Signal], tuple[int, Heading]] = {}
    for at, heading in sorted(read, key=lambda each: each[1] is not None and each[1].is_bare):
        if heading is not None:
            found.setdefault((heading.device, heading.signal), (at, heading))
    return dict(sorted(found.values()))


def place_of(headings: Sequence[str], names: AbstractSet[str]) -> int | None:
    """Return the position of the first heading with one of the names, or `None`."""
    return next((at for at, text in enumerate(headings) if " ".join(words_of(text)) in names), None)


def time_places(headings: Sequence[str]) -> Sequence[int]:
    """Return the positions of the time, or of date and time of day; empty without one."""
    apart = [at for name in ("date", "time") if (at := place_of(headings, {name})) is not None]
    first = place_of(headings, TIMES)
    return apart if len(apart) > 1 or first is None else (first,)


def unread_headings(headings: Sequence[str], read: Collection[int]) -> list[str]:
    """Return headings with a unit that are not read, without those of the host."""
    return [
        text
        for at, text in enumerate(headings)
        if at not in read
        and _UNITS.keys() & (words := {*words_of(text)})
        and _OF_HOSTS.isdisjoint(words)
    ]


def field_names(headings: Sequence[str], unread: Collection[str]) -> str:
    """Return names for `--fields` that read memory among unread headings, or an empty text.

    A device has one; other columns keep their names.
    """
    found: dict[str, str] = {}
    for text in unread:
        words = words_of(text)
        unit = next((_UNITS[word] for word in words if word in _UNITS), "")
        if "memory" not in {_SYNONYMS.get(word, word) for word in words} or unit not in _ENDINGS:
            continue
        at = _number_place(words)
        name = "" if at is None else f"gpu{words[at]}_"
        if name or not _OF_GPUS.isdisjoint(words):
            found.setdefault(f"{name}memory_used_{_ENDINGS[unit]}", text)
    names = {text: name for name, text in found.items()}
    return ",".join(names.get(text, text) for text in headings) if names else ""


def likely_unit(signal: Signal, values: Sequence[float], *, are_all: bool) -> str | None:
    """Infer the unit of a signal from finite values; `None` if they, or others, are ambiguous."""
    most = max(values, default=0.0)
    if values and are_all and not any(values):
        return signal.unit.value
    if signal.unit is Unit.WATTS:
        return "mW" if most >= _MILLIWATTS_FROM else "W"
    if signal.unit is Unit.RATIO:
        is_ratio = most <= 1.0 and any(value % 1.0 for value in values)
        return "ratio" if is_ratio else "%" if most > 1.0 else None
    return "bytes" if most >= _BYTES_FROM else "MiB" if most >= _MIB_FROM else None
