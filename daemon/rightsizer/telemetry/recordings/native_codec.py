"""Codec of the native recording format, version 1."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from rightsizer.model.device import Device, MigInstance
from rightsizer.model.reading import Missing, Process, ProcessKind, Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import CollectorOutcome, Down, Snapshot
from rightsizer.model.workload import Allocator, Holding, Workload, WorkloadClass, WorkloadKind

FORMAT: Final = "rightsizer-recording"
VERSION: Final = 1

_NUMBERS: Final = {signal: number for number, signal in enumerate(Signal)}


def header(program: str) -> dict[str, Any]:
    """The first line of a recording by a version of this program."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "program": program,
        "signals": [[str(each), str(each.unit)] for each in Signal],
    }


def encode_sections(snapshot: Snapshot) -> dict[str, Any]:
    """Everything of a snapshot but its times and values, as JSON can hold it."""
    readings = snapshot.readings
    return {
        "interval": snapshot.interval,
        "devices": [_encode_device(device) for device in snapshot.devices],
        "uuids": list(readings),
        "columns": [_encode_columns(reading) for reading in readings.values()],
        "processes": {
            uuid: [_encode_process(process) for process in reading.processes]
            for uuid, reading in readings.items()
            if reading.processes is not None
        },
        "holdings": {
            uuid: [_encode_holding(holding) for holding in holdings]
            for uuid, holdings in snapshot.holdings.items()
        },
        "down": {uuid: [down.reason, down.detail] for uuid, down in snapshot.down.items()},
        "host": {str(signal): value for signal, value in snapshot.host.items()},
        "collectors": {
            name: [outcome.success, outcome.duration_seconds]
            for name, outcome in snapshot.collectors.items()
        },
        "trouble": snapshot.trouble,
    }


def decode_section(name: str, data: Any, signals: list[Signal | None]) -> Any:
    """One of the sections again as values of our own; `signals` is the header's table.

    Raises:
        ValueError, KeyError, TypeError, IndexError: the data is not what was written.
    """
    match name:
        case "devices":
            return tuple(_decode_device(fields) for fields in data)
        case "columns":
            return [_decode_columns(present, missing, signals) for present, missing in data]
        case "processes":
            return {
                uuid: tuple(map(_decode_process, processes)) for uuid, processes in data.items()
            }
        case "holdings":
            return {
                uuid: tuple(Holding(_decode_workload(of), *how) for of, *how in holdings)
                for uuid, holdings in data.items()
            }
        case "down":
            return {uuid: Down(Missing(reason), detail) for uuid, (reason, detail) in data.items()}
        case "host":
            return {Signal(signal): value for signal, value in data.items()}
        case "collectors":
            return {name: CollectorOutcome(*outcome) for name, outcome in data.items()}
        case _:
            return data


def _encode_device(device: Device) -> dict[str, Any]:
    return {name: value for name, value in asdict(device).items() if value is not None}


def _decode_device(fields: Mapping[str, Any]) -> Device:
    mig = fields.get("mig")
    return Device(
        **{
            **fields,
            "mig": None if mig is None else MigInstance(**mig),
            "assumed": tuple(fields.get("assumed", ())),
        }
    )


def _encode_process(process: Process) -> list[Any]:
    """Pid and memory; what else is known only where it is."""
    if process.kind is ProcessKind.COMPUTE and process.gpu_busy is None:
        return [process.pid, process.memory_used_bytes]
    return [process.pid, process.memory_used_bytes, process.kind, process.gpu_busy]


def _decode_process(fields: list[Any]) -> Process:
    pid, memory, *more = fields
    if not more:
        return Process(pid, memory)
    kind, gpu_busy = more
    return Process(pid, memory, ProcessKind(kind), gpu_busy)


def _encode_holding(holding: Holding) -> list[Any]:
    """Workload and share; that there is no process only where there is none."""
    fields = [asdict(holding.workload), holding.share_ratio]
    return fields if holding.has_process else [*fields, False]


def _encode_columns(reading: Reading) -> list[Any]:
    missing: dict[str, list[int]] = {}
    for signal, why in reading.missing.items():
        missing.setdefault(why, []).append(_NUMBERS[signal])
    return [[_NUMBERS[signal] for signal in reading.values], missing]


def _decode_columns(
    present: list[int], missing: Mapping[str, list[int]], signals: list[Signal | None]
) -> tuple[list[Signal | None], dict[Signal, Missing]]:
    reasons = {
        signal: Missing(why)
        for why, numbers in missing.items()
        for number in numbers
        if (signal := signals[number]) is not None
    }
    return [signals[number] for number in present], reasons


def _decode_workload(fields: Mapping[str, Any]) -> Workload:
    return Workload(
        **{
            **fields,
            "kind": WorkloadKind(fields["kind"]),
            "workload_class": WorkloadClass(fields["workload_class"]),
            "allocator": Allocator(fields["allocator"]),
        }
    )
