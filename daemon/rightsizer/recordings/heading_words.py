"""Meaning of headings and metrics' names by tables and words; places of time and names."""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Any, Final, NamedTuple

from rightsizer.io.yaml import load_beside
from rightsizer.model.dcgm_fields import DCGM_FIELDS
from rightsizer.model.values import BY_INDEX, Signal, convert
from rightsizer.recordings.nvidia_smi_columns import (
    SIGNAL_COLUMNS,
    SignalColumn,
    column_name,
    signal_columns,
    unit_of_heading,
)
from rightsizer.recordings.prometheus_text import interpreted, named_line
from rightsizer.recordings.row import on_node
from rightsizer.telemetry.dcgm.series import DcgmSeries, interpret, wanted
from rightsizer.telemetry.device_description import DeviceDescription

_WORD: Final = re.compile(r"%|[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_A-Za-z]+")
_UNIT_CASE: Final = re.compile("iB|[mk][WB]|Hz")
"""Units that are one word in spite of their capitals."""
_LOADED: Final[Mapping[str, Any]] = load_beside(__file__, "headings.yaml")
UNITS, _SYNONYMS, _ALONE = (
    {word: meaning for meaning, words in _LOADED[section].items() for word in words}
    for section in ("units", "synonyms", "alone")
)
_FILLERS, _GPU_FILLERS, _VAGUE, _OF_GPUS, _OF_HOSTS = (
    frozenset(_LOADED[section]) for section in ("fillers", "gpu_fillers", "vague", "gpus", "hosts")
)
_TIMES, _ELAPSED, _STAMPED, _QUALIFIERS = (
    frozenset(_LOADED[section]) for section in ("times", "elapsed", "stamped", "qualifiers")
)
DEVICES, UUIDS, NAMES, NODES, INSTANCES = (
    frozenset(_LOADED[section]) for section in ("devices", "uuids", "names", "nodes", "instances")
)
METRICS, VALUES, LABELS, _DATES, _TIMES_OF_DAY = (
    frozenset(_LOADED[section])
    for section in ("metrics", "values", "labels", "dates", "times_of_day")
)
"""Whole headings, in words separated by spaces."""
_SIGNALS: Final = {
    frozenset(words.split()): (column.signal, column.unit)
    for words, column in signal_columns("words").items()
}
"""By significant words of a heading; an empty unit is stated or inferred."""
DMON_MARK: Final = "dmon."
"""Before the columns of `nvidia-smi dmon` here, which are words elsewhere; no message has it."""
DMON: Final = {name: f"{DMON_MARK}{name}" for name in signal_columns("dmon")}
_EXACT: Final = {
    **SIGNAL_COLUMNS,
    "utilization.enc": SIGNAL_COLUMNS["utilization.encoder"],
    "utilization.dec": SIGNAL_COLUMNS["utilization.decoder"],
    "utilization_memory": SIGNAL_COLUMNS["utilization.memory"],
    **{DMON[name]: column for name, column in signal_columns("dmon").items()},
    **{
        field.short_name: SignalColumn(field.signal, field.unit, field.rank)
        for field in DCGM_FIELDS.values()
        if field.short_name and field.signal is not None
    },
}
"""Columns of nvidia-smi as gpustat spells them too, and those of `dcgmi dmon`."""
_TRACKER_KEY: Final = re.compile(
    r"(?>(?P<run>.+) - )?(?:.*[/ ])?(?:system\.|sys\.)?"
    r"gpu[._](?P<index>\d+)[._](?P<metric>\w+)(?:/l:(?P<node>.+))?"
    r"|.*\(gpu:(?P<physical>\d+)\)/(?P<collected>\w+) \([^)]+\)/(?:mean|last)"
)
_TRACKER: Final = signal_columns("tracker")
"""By the names of https://docs.wandb.ai/ref/system-metrics; those of one process's GPUs repeat
them; of MLflow's, Comet's and ClearML's system metrics; and of nvitop's collector."""
_MEMORY: Final = frozenset({"memory"})
_SIZES: Final = frozenset({"KiB", "MiB", "GiB", "bytes"})
_ENDINGS: Final = {"MiB": "mib", "GiB": "gib", "bytes": "bytes", "%": "pct"}
_DEVICE_WORDS: Final = frozenset({"gpu", "gpus", "cuda", "card", "cards", "device", "devices"})
_IDS: Final = frozenset({"id", "index"})
TELLING_WORDS: Final = _DEVICE_WORDS.union(_OF_GPUS, _OF_HOSTS, _SYNONYMS, *_SIGNALS)
"""Words that say what a value is of."""
EPOCH: Final = "epoch"
_GPU_INDEX: Final = re.compile(r"(?:gpu|cuda|card|device|nvidia)?[\s_:/#-]*(\d+)", re.IGNORECASE)
_OF_ROWS: Final = frozenset(
    {Signal.POWER_WATTS, Signal.POWER_LIMIT_WATTS, Signal.TEMPERATURE_CELSIUS}
)
"""Signals that are of a row's GPU beside columns of the host."""
QUANTITY: Final = re.compile(
    r"[+-]?\d(?:[\d.,'\u2019\u00a0\u202f]| (?=\d{3}(?!\d)))* ?(?P<unit>%|°?[A-Za-z]+)?"
)
PIDS: Final = frozenset({"pid", "process id", "gpu pid"})
BUS_IDS: Final = frozenset({"gpu bus id", "pci bus id", "bus id"})
_SOME_GPU: Final = '{gpu="0"}'


class Heading(NamedTuple):
    """Content of a column: a signal of a device, or of the row's device."""

    signal: Signal
    unit: str | None
    device: str | None = None
    facts: DeviceDescription | None = None
    is_bare: bool = False
    """Whether it may also be the size of the whole memory."""
    is_exact: bool = False
    """Whether it is a name of a known program, not words."""
    rank: int = 0
    """Preference among exact ones of a signal."""


def gpu_index(cell: str) -> int | None:
    """Return the index of a GPU as scripts write it: `0`, `gpu0`, `cuda:0`; `None` for others."""
    match = _GPU_INDEX.fullmatch(cell)
    return None if match is None else int(match[1])


def words_of(heading: str) -> list[str]:
    """Return the words of a heading in lower case; letters, digits and '%' are apart."""
    if not heading.isascii():
        parts = unicodedata.normalize("NFKD", heading)
        heading = "".join(part for part in parts if not unicodedata.combining(part))
    plain = _UNIT_CASE.sub(lambda unit: unit[0].lower(), heading)
    return [word.lower() for word in _WORD.findall(plain)]


def stated_unit(heading: str, column: SignalColumn) -> str | None:
    """Return the unit in a column's heading, or else its usual one; `None` for another kind's."""
    stated = unit_of_heading(heading).lstrip("°\ufffd")
    unit = UNITS.get(stated.lower(), stated) or column.unit
    try:
        return unit if convert(unit)[0] is column.signal.unit else None
    except KeyError:
        return None


def names_host(text: str) -> bool:
    """Whether a heading is about a host, and not its name."""
    words = words_of(text)
    return not _OF_HOSTS.isdisjoint(words) and " ".join(words) not in NODES


def names_gpu(text: str) -> bool:
    """Whether a heading has a word of GPUs."""
    return not _OF_GPUS.isdisjoint(words_of(text))


def heading_of(text: str, *, is_of_host: bool = False, has_devices: bool = False) -> Heading | None:
    """Interpret a heading, or the name of a metric; `None` unless it is about a GPU.

    Args:
        text: The heading, or the name of a metric.
        is_of_host: Whether columns beside it are the host's.
        has_devices: Whether a column beside it names GPUs.
    """
    if (column := _EXACT.get(text.removeprefix("gpu "))) is not None:
        return Heading(column.signal, column.unit, is_exact=True, rank=column.rank)
    if (match := _TRACKER_KEY.fullmatch(text)) is not None:
        return _tracker_heading(match)
    words = words_of(text)
    device = None
    facts = None
    if (at := _number_place(words)) is not None:
        facts = DeviceDescription(index=int(words[at]))
        before = words[:at] if words[at - 1] not in _IDS else words[: at - 1]
        device = f"{BY_INDEX}{facts.index}"
        words = before + words[at + 1 :]
        words = [word for word in words if word not in _DEVICE_WORDS]
    unit = next((UNITS[word] for word in words if word in UNITS), None)
    meanings = {_SYNONYMS.get(word, word) for word in words if word not in UNITS}
    names_gpu = device is not None or not _OF_GPUS.isdisjoint(words)
    telling = frozenset(meanings - _FILLERS - (_GPU_FILLERS if names_gpu else set()))
    is_of_gpu = names_gpu or (has_devices and not is_of_host)
    if is_of_gpu and ((telling <= _MEMORY and unit in _SIZES) or (telling == _MEMORY and not unit)):
        return Heading(Signal.MEMORY_USED_BYTES, unit, device, facts, is_bare=True)
    if is_of_gpu and not telling and unit in _ALONE:
        alone = Signal(_ALONE[unit])
        return Heading(alone, unit, device, facts) if names_gpu or alone in _OF_ROWS else None
    signal, usual = _SIGNALS.get(telling, (None, None))
    # What is headed as `memory.used [MiB]` is of nvidia-smi, whatever stands beside it.
    column = SIGNAL_COLUMNS.get(column_name(text))
    if column is not None and (signal is None or unit == unit_of_heading(text) == column.unit):
        return Heading(column.signal, unit or column.unit, is_exact=True, rank=column.rank)
    is_vague = meanings <= (_VAGUE - {"load"} if has_devices else _VAGUE)
    # Hosts have a memory and a load in each row, too, but hardly ever a power.
    may_be_of_host = is_of_host and not (has_devices and signal in _OF_ROWS)
    if signal is None or not (names_gpu or not (may_be_of_host or is_vague)):
        return None
    if signal is Signal.MEMORY_USED_BYTES and unit in ("%", "ratio"):
        signal = Signal.MEMORY_USED
    unit = unit or usual or None
    # Power in percent is of a limit that only its logger knows.
    is_of_kind = unit is None or convert(unit)[0] is signal.unit
    return Heading(signal, unit, device, facts) if is_of_kind else None


def _tracker_heading(match: re.Match[str]) -> Heading | None:
    column = _TRACKER.get(match["metric"] or match["collected"])
    if column is None:
        return None
    index = int(match["index"] or match["physical"])
    device = on_node(f"{BY_INDEX}{index}", match["node"] or match["run"] or "")
    facts = DeviceDescription(index=index)
    return Heading(column.signal, column.unit or None, device, facts, is_exact=True)


def _number_place(words: Sequence[str]) -> int | None:
    """Return the place of a GPU's number: behind its word, or last in a heading about a GPU."""
    pairs = enumerate(pairwise(words), 1)
    numbers = (at for at, (_, number) in pairs if number.isdecimal())
    places = (
        at
        for at in numbers
        if words[at - 1] in _DEVICE_WORDS
        or (words[at - 1] in _IDS and not _DEVICE_WORDS.isdisjoint(words[at - 2 : at - 1]))
    )
    if (at := next(places, None)) is not None:
        return at
    is_last = bool(words) and words[-1].isdecimal() and not _OF_GPUS.isdisjoint(words)
    return len(words) - 1 if is_last else None


def series_heading(text: str) -> Heading | None:
    """Parse name and labels of a series, as in Grafana's exports; without labels, of any GPU."""
    if not ("{" in text or wanted(text)):
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
        return Heading(series.signal, unit, is_exact=True)
    return Heading(series.signal, unit, series.device, series.facts, is_exact=True)


def read_headings(headings: Sequence[str]) -> dict[int, Heading]:
    """Return the content of columns by position, less preferred ones first.

    Of several for a signal the first counts; exact names stand in for each other.
    """
    is_of_host = any(names_host(text) for text in headings)
    has_devices = place_of(headings, DEVICES | UUIDS) is not None
    # A cell of a row, as in a log without headings, names nothing.
    named = ["" if QUANTITY.fullmatch(text.strip()) else text for text in headings]
    texts = _without_run(named)
    if not (is_of_host or has_devices):
        texts = _with_numbered_gpus(texts)
    chosen: dict[tuple[str | None, Signal, int], tuple[int, Heading]] = {}
    read = (
        (at, heading)
        for at, text in enumerate(texts)
        if (
            heading := series_heading(text)
            or heading_of(text, is_of_host=is_of_host, has_devices=has_devices)
        )
    )
    for at, heading in sorted(read, key=lambda column: column[1].is_bare):
        chosen.setdefault((heading.device, heading.signal, heading.rank), (at, heading))
    return dict(sorted(chosen.values(), key=lambda column: (column[1].rank, column[0])))


def _without_run(headings: Sequence[str]) -> Sequence[str]:
    """Return headings without the name of a run, if they have only one."""
    runs = {match["run"] for match in map(_TRACKER_KEY.fullmatch, headings) if match}
    if len(runs) != 1:
        return headings
    return [text.removeprefix(f"{run} - ") for run in runs for text in headings]


def _with_numbered_gpus(headings: Sequence[str]) -> Sequence[str]:
    """Return headings such as `util0` and `util1` with their numbers as those of GPUs.

    Two of them count from 0 or 1 on; what else has a number, like `load15`, is as it was.
    """
    stems: dict[str, dict[int, int]] = {}
    for at, text in enumerate(headings):
        words = words_of(text)
        of_text = [word for word in words if word.isdecimal()]
        if len(of_text) == 1 and _number_place(words) is None:
            stem = " ".join(word for word in words if not word.isdecimal())
            stems.setdefault(stem, {})[int(of_text[0])] = at
    gpus = [*headings]
    for stem, places in stems.items():
        numbers = sorted(places)
        if len(numbers) > 1 and numbers in ([*range(len(numbers))], [*range(1, len(numbers) + 1)]):
            for number, at in places.items():
                gpus[at] = f"gpu {number} {stem}"
    return gpus


def places_of(headings: Sequence[str], names: AbstractSet[str]) -> list[int]:
    """Return the positions of all headings with one of the names."""
    return [at for at, text in enumerate(headings) if " ".join(words_of(text)) in names]


def place_of(headings: Sequence[str], names: AbstractSet[str]) -> int | None:
    """Return the position of the first heading with one of the names, or `None`."""
    return next((at for at, text in enumerate(headings) if " ".join(words_of(text)) in names), None)


def time_places(headings: Sequence[str]) -> Sequence[int]:
    """Return the positions of the time, or of date and time of day; empty without one."""
    return next(iter(clock_places(headings)), [])


def clock_places(headings: Sequence[str]) -> list[Sequence[int]]:
    """Return the positions of each clock, or of date and time of day, by preference."""
    apart = [at for of in (_DATES, _TIMES_OF_DAY) if (at := place_of(headings, of)) is not None]
    if len(apart) > 1:
        return [apart]
    places = dict.fromkeys(
        at
        for words in (_TIMES, _ELAPSED, _STAMPED)
        for at, text in enumerate(headings)
        if is_time(text, words)
    )
    # A training counts its epochs, too.
    return [[at] for at in sorted(places, key=lambda at: words_of(headings[at]) == [EPOCH])]


def is_time(heading: str, telling: AbstractSet[str] = _TIMES) -> bool:
    """Whether a heading is of a time: by default, of a date."""
    words = {*words_of(heading.rpartition("/")[2])}
    return not telling.isdisjoint(words) and words <= telling | _QUALIFIERS


def unread_headings(headings: Sequence[str], read: Collection[int]) -> list[str]:
    """Return headings with a unit or a meaning that are not read, without those of the host."""
    return [
        text
        for at, text in enumerate(headings)
        if at not in read
        and not names_host(text)
        and (UNITS.keys() & {*words_of(text)} or heading_of(text) is not None)
    ]


def memory_names(headings: Sequence[str], unread: Collection[str]) -> dict[int, str]:
    """Return names that read memory among unread headings, by place; a device has one."""
    place_of_name: dict[str, int] = {}
    for at, text in enumerate(headings):
        words = words_of(text)
        unit = next((UNITS[word] for word in words if word in UNITS), "")
        meanings = {_SYNONYMS.get(word, word) for word in words}
        if text not in unread or "memory" not in meanings or "free" in meanings:
            continue
        number = _number_place(words)
        if unit in _ENDINGS and not (number is None and _OF_GPUS.isdisjoint(words)):
            name = "" if number is None else f"gpu{words[number]}_"
            place_of_name.setdefault(f"{name}memory_used_{_ENDINGS[unit]}", at)
    return {at: name for name, at in place_of_name.items()}
