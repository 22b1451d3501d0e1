# ruff: noqa: E501 - a table, one fault a line.
"""Faults of driver and GPUs: the simulated library refuses, hangs, loses, flaps and lies."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from benchmarks.reliability.fault import BEGIN_SECONDS, LENGTH_SECONDS, Fault, Group
from benchmarks.reliability.host_agent import GARBAGE_FILE, REPLACED_FILE
from benchmarks.reliability.host_node import beside_library
from benchmarks.reliability.node import GPUS, Node

_ALL: Final = tuple(range(GPUS))
_DURING: Final = f"after: {BEGIN_SECONDS:g}s, for: {LENGTH_SECONDS:g}s"
_FROM_START: Final = f"after: 0s, for: {LENGTH_SECONDS:g}s"

_OF_ONE_GPU: Final = (
    ("all calls on a GPU hang", "kind: hang"),
    ("one function hangs on a GPU", "kind: hang, function: nvmlDeviceGetPowerUsage"),
    ("the process list of a GPU hangs", "kind: hang, function: nvmlDeviceGetComputeRunningProcesses_v3"),
    ("a GPU falls off the bus", "kind: loss"),
    ("a GPU is not listed", "kind: absence"),
    ("calls on a GPU answer unknown error", "kind: answer, code: unknown"),
    ("calls on a GPU time out", "kind: answer, code: timeout"),
    ("calls on a GPU are of a mismatched version", "kind: answer, code: lib_rm_version_mismatch"),
    ("calls on a GPU lack permission", "kind: answer, code: no_permission"),
    ("calls on a GPU are not supported", "kind: answer, code: not_supported"),
    ("calls on a GPU find nothing", "kind: answer, code: not_found"),
    ("calls on a GPU find no driver", "kind: answer, code: driver_not_loaded"),
    ("calls on a GPU find an invalid argument", "kind: answer, code: invalid_argument"),
    ("calls on a GPU find the library not initialized", "kind: answer, code: uninitialized"),
    ("the utilization of a GPU is unknown", "kind: answer, code: unknown, function: nvmlDeviceGetUtilizationRates"),
    ("the memory of a GPU is unknown", "kind: answer, code: unknown, function: nvmlDeviceGetMemoryInfo_v2"),
    ("the power of a GPU is unknown", "kind: answer, code: unknown, function: nvmlDeviceGetPowerUsage"),
)  # fmt: skip
_GARBLED: Final = (
    ("the power", "nvmlDeviceGetPowerUsage"),
    ("the memory", "nvmlDeviceGetMemoryInfo_v2"),
    ("the utilization", "nvmlDeviceGetUtilizationRates"),
    ("the temperature", "nvmlDeviceGetTemperature"),
    ("the SM clock", "nvmlDeviceGetClockInfo"),
    ("the energy", "nvmlDeviceGetTotalEnergyConsumption"),
    ("the field values", "nvmlDeviceGetFieldValues"),
)


def driver_faults() -> Iterator[Fault]:
    """Of one GPU, each later and from the start; of several; of the driver; of its numbers."""
    for name, keys in _OF_ONE_GPU:
        unread = (3,) if "hang" in keys or "function" not in keys else ()
        for when, period in (("", _DURING), (", as the agent starts", _FROM_START)):
            row = f"{{{keys}, gpus: [3], {period}}}"
            yield Fault(Group.DRIVER, name + when, unread, (row,), is_at_start=bool(when))
    yield from _of_several()
    yield from _flapping()
    yield from _of_hardware()
    yield from _garbled()


def _on(gpus: Sequence[int], keys: str, period: str = _DURING) -> tuple[str, ...]:
    return (f"{{{keys}, gpus: {list(gpus)}, {period}}}",)


def _of_several() -> list[Fault]:
    group = Group.DRIVER
    return [
        Fault(group, "three of four GPUs hang", (1, 2, 3), _on((1, 2, 3), "kind: hang")),
        Fault(group, "three of four GPUs hang, as the agent starts", (1, 2, 3), _on((1, 2, 3), "kind: hang", _FROM_START), is_at_start=True),
        Fault(group, "every GPU hangs", _ALL, _on(_ALL, "kind: hang")),
        Fault(group, "every GPU falls off the bus", _ALL, _on(_ALL, "kind: loss")),
        Fault(group, "no GPU is listed", _ALL, _on(_ALL, "kind: absence")),
        Fault(group, "no GPU is listed, as the agent starts", _ALL, _on(_ALL, "kind: absence", _FROM_START), is_at_start=True),
        Fault(group, "the driver is unloaded", _ALL, (f"{{kind: unload, {_DURING}}}",)),
        Fault(group, "the driver is not loaded, as the agent starts", _ALL, (f"{{kind: unload, {_FROM_START}}}",), is_at_start=True),
        Fault(group, "the driver and its library differ in version", _ALL, (f"{{kind: unload, code: lib_rm_version_mismatch, {_DURING}}}",)),
        Fault(group, "a GPU is cut into MIG instances", (3,), _on((3,), "kind: mig, profiles: [3g.40gb, 2g.20gb]")),
    ]  # fmt: skip


def _flapping() -> list[Fault]:
    group = Group.DRIVER
    return [
        Fault(group, "a GPU comes and goes each 3 s", (3,), _on((3,), "kind: loss", f"after: {BEGIN_SECONDS:g}s, every: 3s, for: 1500ms"), lasts=True),
        Fault(group, "a GPU is not listed for a second of two", (3,), _on((3,), "kind: absence", f"after: {BEGIN_SECONDS:g}s, every: 2s, for: 1s"), lasts=True),
        Fault(group, "a GPU hangs for 2 of 4 s", (3,), _on((3,), "kind: hang", f"after: {BEGIN_SECONDS:g}s, every: 4s, for: 2s"), lasts=True),
        Fault(group, "the driver is unloaded for 2 of 6 s", _ALL, (f"{{kind: unload, after: {BEGIN_SECONDS:g}s, every: 6s, for: 2s}}",), lasts=True, seconds=18.0),
        Fault(group, "all GPUs refuse for a second of 4 s", _ALL, _on(_ALL, "kind: answer, code: unknown", f"after: {BEGIN_SECONDS:g}s, every: 4s, for: 1s"), lasts=True, seconds=16.0),
    ]  # fmt: skip


def _of_hardware() -> list[Fault]:
    group = Group.DRIVER
    return [
        Fault(group, "the profiling counters of all GPUs read 0", (), _on(_ALL, "kind: dead_counters")),
        Fault(group, "an Xid on each GPU every second", (), _on(_ALL, "kind: xid, code: 31", f"after: {BEGIN_SECONDS:g}s, every: 1s"), lasts=True),
        Fault(group, "an uncorrected memory error", (), _on((3,), "kind: ecc, uncorrected: 1, rows_uncorrectable: 1, pending: true"), lasts=True),
        Fault(group, "every NVLink of a GPU is down", (), _on((3,), "kind: nvlink, links: [0, 1, 2, 3, 4, 5], down: true"), lasts=True),
        Fault(group, "the clocks of all GPUs are throttled", (), _on(_ALL, "kind: throttle, reason: hardware_thermal"), lasts=True),
        Fault(group, "all boards are replaced under the agent", (), prepare=beside_library, plant=_replace_boards, lasts=True),
        Fault(group, "all boards are replaced while the agent is down", (), plant=_replace_boards_while_down, lasts=True),
    ]  # fmt: skip


def _garbled() -> Iterator[Fault]:
    for what, function in _GARBLED:
        yield Fault(
            Group.DRIVER,
            f"{what} of a GPU reads all bits set",
            prepare=_garbling(function, 2**64 - 1),
            plant=_begin_garbage,
            lift=_end_garbage,
        )


def _garbling(function: str, number: int) -> Callable[[Node], None]:
    def prepare(node: Node) -> None:
        beside_library(node)
        node.environment["RELIABILITY_GARBAGE"] = f"{function} {number}"

    return prepare


def _begin_garbage(node: Node) -> None:
    (node.folder / GARBAGE_FILE).touch()


def _end_garbage(node: Node) -> None:
    (node.folder / GARBAGE_FILE).unlink()


def _replace_boards(node: Node) -> None:
    (node.folder / REPLACED_FILE).touch()


def _replace_boards_while_down(node: Node) -> None:
    node.end()
    scenario = node.folder / "scenario.yaml"
    scenario.write_text(scenario.read_text("utf-8") + "seed: 2\n", "utf-8")
    node.start()
