"""Logs in the shapes that people write, each with its manifest: read right, refused, or wrong.

Shapes are drawn: layout, separator, decimals, times, headings, units, and what befalls a file.
"""

import json
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from evaluation.options import Options
from measured import table
from rightsizer.agent.replay import Replay, replay
from rightsizer.agent.settings import Settings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.errors import RecordingError, UsageError
from rightsizer.model.state import State
from rightsizer.model.units import seconds
from rightsizer.recordings.source import open_recording
from rightsizer.recordings.unnamed_devices import StatedDevices

LOGS: Final = 100
_READINGS: Final = 240
_MIB: Final = 1 << 20
_IDLE: Final = frozenset({State.IDLE_EMPTY, State.IDLE_HELD})
_TOLERANCE: Final = 0.02
"""Of span and energy, and of the share that a GPU was idle: two edges of 240 readings."""
_TIMES: Final[Mapping[str, Callable[[datetime], str]]] = {
    "nvidia-smi": lambda time: f"{time:%Y/%m/%d %H:%M:%S}.{time.microsecond // 1000:03}",
    "ISO": lambda time: f"{time:%Y-%m-%dT%H:%M:%S}Z",
    "database": lambda time: f"{time:%Y-%m-%d %H:%M:%S}",
    "logging": lambda time: f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond:06}",
    "epoch": lambda time: f"{time.timestamp():.3f}",
    "epoch in ms": lambda time: f"{time.timestamp() * 1000:.0f}",
    "epoch in us": lambda time: f"{time.timestamp() * 1e6:.0f}",
    "epoch in ns": lambda time: f"{int(time.timestamp() * 1000)}000000",
    "European": lambda time: f"{time:%d.%m.%Y %H:%M:%S}",
    "American": lambda time: f"{time:%m/%d/%Y %I:%M:%S %p}",
}
_CLOCKS: Final = (
    "timestamp",
    "time",
    "Timestamp",
    "datetime",
    "ts",
    "date_time",
    "wall",
    "when",
    "Zeitstempel",
    "fecha",
)
_DEVICES: Final = (
    ("gpu", "{}"),
    ("index", "{}"),
    ("gpu_id", "gpu{}"),
    ("Device", "cuda:{}"),
    ("GPU", "GPU {}"),
    ("uuid", "GPU-{}aaaaaaa-1111-2222-3333-444444444444"),
)
_LOADS: Final = (
    ("utilization.gpu [%]", "{:.0f} %"),
    ("gpu_util", "{:.0f}"),
    ("GPU Util (%)", "{:.1f}"),
    ("util_pct", "{:.0f}"),
    ("gpu utilization", "{:.0f}%"),
    ("gpu_load", "{:.0f}"),
    ("GPU-Auslastung (%)", "{:.0f}"),
    ("Utilisation GPU (%)", "{:.1f}"),
    ("利用率(%)", "{:.0f}"),
)
_MEMORIES: Final = (
    ("memory.used [MiB]", "{:.0f} MiB", 1.0),
    ("mem_used_mb", "{:.0f}", 1.0),
    ("gpu_mem_gb", "{:.3f}", 1 / 1024),
    ("memory_used_bytes", "{:.0f}", float(_MIB)),
    ("GPU Memory Used (MB)", "{:.0f}", 1.0),
    ("Mémoire utilisée (Mo)", "{:.0f}", 1.0),
    ("GPU-Speicher belegt (MiB)", "{:.0f}", 1.0),
    ("", "", 0.0),
)
_POWERS: Final = (
    ("power.draw [W]", "{:.2f} W", 1.0),
    ("power_w", "{:.1f}", 1.0),
    ("gpu_power_mw", "{:.0f}", 1000.0),
    ("Power (W)", "{:.2f}", 1.0),
    ("GPU-Leistung (W)", "{:.1f}", 1.0),
    ("", "", 0.0),
)
_BEFALLS: Final = (
    "",
    "",
    "blank lines",
    "torn end",
    "restart",
    "comment",
    "CRLF",
    "BOM",
    "prefix",
    "UTF-16",
    "grep -n",
    "docker",
    "shuffled",
    "other lines",
)
_LAYOUTS: Final = (
    "row per GPU",
    "row per GPU",
    "row per GPU",
    "GPUs in a row",
    "JSON lines",
    "JSON list",
    "key=value",
    "text table",
    "no heading",
    "pandas index",
    "two nodes",
    "MIG instances",
    "JSON by node",
)
_HEADED: Final = ("row per GPU", "GPUs in a row", "pandas index", "two nodes", "MIG instances")
_KEPT: Final = "2026-03-01T09:00:00.000000001Z"
_COMMAND: Final = re.compile(
    r"--fields (?:(?P<mark>['\"])(?P<quoted>[^'\"]+)(?P=mark)|(?P<fields>[^' ;]+))"
    r"(?: --device (?P<device>\d+))?"
)
"""Of a refusal, that reads the log."""
_HOW: Final = """\
{count} logs of drawn shapes, each with the manifest that made it: GPUs, span, share of idle time
and energy. Right: all that is told agrees within {tolerance:.0%}; with the command: refused, and
the command that the refusal prints reads it right; wrong: anything that is told differs.
"""


class Manifest(Struct, frozen=True):
    """What a log is of."""

    layout: str
    shape: str
    gpus: int
    start: datetime
    span_seconds: float
    idle_ratios: Sequence[float]
    joules: float | None
    text: str
    is_wide: bool = False
    """Whether its text is UTF-16, as PowerShell writes it."""


class _Draw:
    """A drawn log."""

    def __init__(self, seed: int) -> None:
        draw = self.random = random.Random(seed)
        self.layout = draw.choice(_LAYOUTS)
        self.gpus = draw.choice((1, 1, 2, 4))
        self.step = draw.choice((1.0, 1.0, 2.0, 5.0, 30.0))
        self.start = datetime(2026, 3, draw.randint(1, 28), 9, 0, tzinfo=UTC)
        self.clock = draw.choice(_CLOCKS)
        self.time = draw.choice([*_TIMES])
        self.device, self.name = draw.choice(_DEVICES)
        self.load, self.load_format = draw.choice(_LOADS)
        self.memory, self.memory_format, self.memory_factor = draw.choice(_MEMORIES)
        self.power, self.power_format, self.power_factor = draw.choice(_POWERS)
        self.befalls = draw.choice(_BEFALLS)
        self.mark = draw.choice((", ", ",", ";", "\t"))
        self.has_comma = self.mark in ";\t" and draw.random() < 1 / 2
        self.idle = [draw.uniform(0.1, 0.9) for _ in range(self.gpus)]
        self.reads = [[self._reading(gpu, at) for gpu in range(self.gpus)] for at in self.polls]

    @property
    def polls(self) -> range:
        return range(_READINGS)

    def _reading(self, gpu: int, at: int) -> tuple[float, float, float]:
        """Utilization, mebibytes and watts: a GPU rests after its work."""
        if at >= (1 - self.idle[gpu]) * _READINGS:
            return 0.0, 500.0 + at % 3, 62.0
        draw = self.random
        return draw.randint(60, 100), 30_000 + draw.randint(0, 99), draw.randint(2000, 3000) / 10

    def at(self, poll: int) -> str:
        time = self.start + timedelta(seconds=poll * self.step)
        return _TIMES[self.time](time)

    def cells(self, poll: int, gpu: int) -> dict[str, str]:
        """Cells of a GPU by heading, without its name."""
        load, mebibytes, watts = self.reads[poll][gpu]
        found = {self.load: self.load_format.format(load)}
        if self.memory:
            found[self.memory] = self.memory_format.format(mebibytes * self.memory_factor)
        if self.power:
            found[self.power] = self.power_format.format(watts * self.power_factor)
        if self.has_comma:
            found = {name: cell.replace(".", ",") for name, cell in found.items()}
        return found

    def manifest(self) -> Manifest:
        """Return the log with its truth."""
        text = _TEXTS[self.layout](self)
        idle = [
            sum(self.reads[poll][gpu][0] == 0.0 for poll in self.polls) / _READINGS
            for gpu in range(self.gpus)
        ]
        watts = sum(reading[2] for poll in self.reads for reading in poll)
        shape = f"{self.time}, {self.device}, {self.load}, {self.memory}, {self.power}"
        return Manifest(
            layout=self.layout,
            shape=f"{shape}, {self.mark!r}, {self.befalls}",
            gpus=self.gpus,
            start=self.start,
            span_seconds=(_READINGS - 1) * self.step,
            idle_ratios=sorted(idle),
            joules=watts * self.step if self.power else None,
            text=_befallen(self, text),
            is_wide=self.befalls == "UTF-16",
        )


def drawn(seed: int) -> Manifest:
    """Return the log of a seed."""
    return _Draw(seed).manifest()


def _table_lines(draw: _Draw, *, has_heading: bool = True) -> Iterator[str]:
    heading = [draw.clock, draw.device, *draw.cells(0, 0)]
    if has_heading:
        yield draw.mark.join(heading)
    for poll in draw.polls:
        for gpu in range(draw.gpus):
            cells = draw.cells(poll, gpu).values()
            yield draw.mark.join((draw.at(poll), draw.name.format(gpu), *cells))


def _wide_lines(draw: _Draw) -> Iterator[str]:
    names = [f"gpu{gpu}_{name}" for gpu in range(draw.gpus) for name in draw.cells(0, 0)]
    yield draw.mark.join((draw.clock, *names))
    for poll in draw.polls:
        cells = (cell for gpu in range(draw.gpus) for cell in draw.cells(poll, gpu).values())
        yield draw.mark.join((draw.at(poll), *cells))


def _json_lines(draw: _Draw, *, is_list: bool) -> Iterator[str]:
    for poll in draw.polls:
        gpus: list[dict[str, Any]] = [
            {draw.device: draw.name.format(gpu), **draw.cells(poll, gpu)}
            for gpu in range(draw.gpus)
        ]
        if is_list:
            yield json.dumps({draw.clock: draw.at(poll), "gpus": gpus})
        else:
            yield from (json.dumps({draw.clock: draw.at(poll), **gpu}) for gpu in gpus)


def _pair_lines(draw: _Draw) -> Iterator[str]:
    for poll in draw.polls:
        for gpu in range(draw.gpus):
            cells = {"gpu": str(gpu), **draw.cells(poll, gpu)}
            pairs = (
                f"{re.sub(r'[^a-z0-9]+', '_', name.lower()).strip('_')}={cell.replace(' ', '')}"
                for name, cell in cells.items()
            )
            time = _TIMES["database"](draw.start + timedelta(seconds=poll * draw.step))
            yield f"{time} INFO {' '.join(pairs)}"


def _framed_lines(draw: _Draw) -> Iterator[str]:
    heading = (draw.clock, draw.device, *draw.cells(0, 0))
    yield f"| {' | '.join(heading)} |"
    yield "|" + "---|" * len(heading)
    for poll in draw.polls:
        for gpu in range(draw.gpus):
            cells = (draw.at(poll), draw.name.format(gpu), *draw.cells(poll, gpu).values())
            yield f"| {' | '.join(cells)} |"


def _indexed_lines(draw: _Draw) -> Iterator[str]:
    """As pandas writes a frame with its index."""
    heading, *rows = _table_lines(draw)
    yield f"{draw.mark}{heading}"
    yield from (f"{number}{draw.mark}{row}" for number, row in enumerate(rows))


def _two_of_each(draw: _Draw, heading: str, *, is_outer: bool) -> Iterator[str]:
    """Two nodes with the same GPUs, or GPUs with the same instances: of two GPUs a pair."""
    yield draw.mark.join((draw.clock, heading, "gpu", *draw.cells(0, 0)))
    for poll in draw.polls:
        for gpu in range(draw.gpus):
            outer, inner = divmod(gpu, 2)
            named = (f"node-{outer}", str(inner)) if is_outer else (str(inner), str(outer))
            yield draw.mark.join((draw.at(poll), *named, *draw.cells(poll, gpu).values()))


def _json_by_node(draw: _Draw) -> Iterator[str]:
    for poll in draw.polls:
        for gpu in range(draw.gpus):
            node, index = divmod(gpu, 2)
            cells = {"index": index, **draw.cells(poll, gpu)}
            yield json.dumps({draw.clock: draw.at(poll), "node": f"w{node}", "gpu": cells})


_TEXTS: Final[Mapping[str, Callable[[_Draw], list[str]]]] = {
    "row per GPU": lambda draw: [*_table_lines(draw)],
    "no heading": lambda draw: [*_table_lines(draw, has_heading=False)],
    "GPUs in a row": lambda draw: [*_wide_lines(draw)],
    "JSON lines": lambda draw: [*_json_lines(draw, is_list=False)],
    "JSON list": lambda draw: [*_json_lines(draw, is_list=True)],
    "key=value": lambda draw: [*_pair_lines(draw)],
    "text table": lambda draw: [*_framed_lines(draw)],
    "pandas index": lambda draw: [*_indexed_lines(draw)],
    "two nodes": lambda draw: [*_two_of_each(draw, "hostname", is_outer=True)],
    "MIG instances": lambda draw: [*_two_of_each(draw, "mig", is_outer=False)],
    "JSON by node": lambda draw: [*_json_by_node(draw)],
}


def _befallen(draw: _Draw, lines: list[str]) -> str:
    """Return the text, with what befell the file."""
    lines = _rewritten(draw, lines)
    text = "\n".join(lines) + "\n"
    match draw.befalls:
        case "torn end":
            text += lines[-1][: len(lines[-1]) // 2]
        case "CRLF":
            text = text.replace("\n", "\r\n")
        case "BOM":
            text = f"\ufeff{text}"
    return text


def _rewritten(draw: _Draw, lines: list[str]) -> list[str]:
    is_json = draw.layout.startswith("JSON")
    match draw.befalls:
        case "blank lines":
            return [part for line in lines for part in (line, "")]
        case "comment" if not is_json:
            return ["# host=node-7, started by cron", *lines]
        case "restart" if draw.layout != "no heading":
            half = len(lines) // 2
            return [*lines[:half], *([] if is_json else lines[:1]), *lines[half:]]
        case "prefix" if not is_json:
            return [f"gpu-logger-1  | {line}" for line in lines]
        case "docker":
            kept = ({"log": f"{line}\n", "stream": "stdout", "time": _KEPT} for line in lines)
            return [json.dumps(line, separators=(",", ":")) for line in kept]
    return _mixed(draw, lines) if draw.layout in _HEADED else lines


def _mixed(draw: _Draw, lines: list[str]) -> list[str]:
    match draw.befalls:
        case "shuffled":
            rows = lines[1:]
            draw.random.shuffle(rows)
            return [lines[0], *rows]
        case "other lines":
            return [line for row in lines for line in (row, "step 10 loss 2.31")]
        case "grep -n" if draw.clock == "timestamp":
            return [f"{number}:{line}" for number, line in enumerate(lines, 1)]
    return lines


def _replayed(path: Path, fields: str | None = None, device: str | None = None) -> Replay:
    source = open_recording(
        [path], catalogue=built_in(), fields=fields, stated=StatedDevices(None, device)
    )
    try:
        return replay(source, Settings(), evidence=source.evidence)
    finally:
        source.close()


def difference(manifest: Manifest, result: Replay) -> str:
    """Return what is told and differs from the truth; empty if nothing does."""
    if len(result.devices) != manifest.gpus:
        return f"{len(result.devices)} GPUs, not {manifest.gpus}"
    start, end = map(seconds, result.span)
    if abs(end - start - manifest.span_seconds) > _TOLERANCE * manifest.span_seconds:
        return f"{end - start:.0f} s, not {manifest.span_seconds:.0f}"
    if abs(start - manifest.start.timestamp()) > manifest.span_seconds:
        return f"begins at {start:.0f}, not {manifest.start.timestamp():.0f}"
    idle = sorted(
        sum(seconds(time) for state, time in device.window.states.items() if state in _IDLE)
        / (device.window.known_seconds or 1.0)
        for device in result.devices
    )
    for told, true in zip(idle, manifest.idle_ratios, strict=True):
        if abs(told - true) > _TOLERANCE:
            return f"idle {told:.0%}, not {true:.0%}"
    joules = sum(device.window.energy_joules for device in result.devices)
    if joules and abs(joules - (manifest.joules or 0.0)) > _TOLERANCE * (manifest.joules or joules):
        return f"{joules:.0f} J, not {manifest.joules}"
    return ""


def judged(manifest: Manifest, path: Path) -> tuple[str, str]:
    """Return outcome and reason of a log."""
    path.write_bytes(manifest.text.encode("utf-16" if manifest.is_wide else "utf-8"))
    command = None
    outcome = "right"
    try:
        result = _replayed(path)
    except (RecordingError, UsageError) as error:
        command = _COMMAND.search(str(error))
        outcome = "with the command"
        if command is None:
            return "refused", str(error)
        try:
            result = _replayed(path, command["quoted"] or command["fields"], command["device"])
        except (RecordingError, UsageError) as again:
            return "wrong", f"its command {command[0]}: {again}"
    if fault := difference(manifest, result):
        return "wrong", f"{fault}; {command[0] if command else ''}"
    has_energy = any(device.window.energy_joules for device in result.devices)
    is_partial = manifest.joules is not None and not has_energy
    return ("right without energy" if is_partial and outcome == "right" else outcome), ""


_OUTCOMES: Final = ("right", "right without energy", "with the command", "refused", "wrong")


def evaluate(_: Options) -> Iterator[str]:
    """Yield a table by layout, and what is wrong."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(LOGS):
            manifest = drawn(seed)
            outcome, reason = judged(manifest, Path(folder) / "log.csv")
            for row in (manifest.layout, "all"):
                counts[row][outcome] += 1
            if outcome == "wrong":
                faults.append(f"- {manifest.layout} ({manifest.shape}): {reason}\n")
    yield _HOW.format(count=LOGS, tolerance=_TOLERANCE)
    yield "\n"
    layouts = [*dict.fromkeys(_LAYOUTS), "all"]
    yield table(
        ((name, *(str(counts[name][outcome]) for outcome in _OUTCOMES)) for name in layouts),
        ("layout", *_OUTCOMES),
    )
    yield from faults
