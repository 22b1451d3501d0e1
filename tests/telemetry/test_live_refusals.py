"""Whatever the driver refuses, sampling continues and other values are unchanged."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import cycle, product
from typing import Any

import pynvml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import to_builtins

from garbled_driver import Garbled, shapes_of
from instrumented_library import InstrumentedLibrary
from refusals import CODES, ENUMERATION, asked_of, costs_of, usual, watch
from rightsizer.host.pcie import kernel_address
from rightsizer.model.reading import Missing, Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.telemetry.nvml.collectors import COLLECTORS
from simulated_driver import node_of

# Every function of every board is refused.
pytestmark = pytest.mark.timeout(240)

NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
UNKNOWN = pynvml.NVML_ERROR_UNKNOWN
ONE_OF_EACH = tuple({missing: code for code, missing in reversed(CODES.items())}.values())
"""A code for each reason of a refusal."""
OPENING = frozenset({"nvmlInitWithFlags", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2"})
"""Without these calls nothing can be queried."""
IDENTITY = frozenset({"nvmlDeviceGetUUID"})
"""Without these a device has another identity."""
SCENARIOS = ("eight-gpu-node", "a100-mig", "zoo")
REFUSING_GPUS = {"eight-gpu-node": (1, 2, 3, 4, 5, 6, 7), "a100-mig": (1, 5, 6, 7)}
"""GPUs of a scenario that refuse a function; the others give all."""
FAST = frozenset(
    signal for collector in COLLECTORS if not collector.is_slow for signal in collector.signals
)
"""A device must give at least one of these to be read."""

Refused = Mapping[str, int]
"""Codes by function."""


@cache
def functions(scenario: str) -> tuple[str, ...]:
    """Functions, except those that all others need."""
    return tuple(name for name in asked_of(scenario) if name not in OPENING | IDENTITY)


@cache
def questions(scenario: str) -> tuple[str, ...]:
    """Functions of a device."""
    of_devices = ("nvmlDevice", "nvmlGpmQuery", "nvmlGpmSampleGet", "nvmlGpmMig")
    return tuple(name for name in functions(scenario) if name.startswith(of_devices))


@cache
def family(scenario: str, index: int) -> tuple[str, ...]:
    """UUIDs of a GPU and its instances."""
    unit = node_of(scenario).units[index]
    return unit.device.uuid, *(instance.device.uuid for instance in unit.instances)


def check_rest(before: Reading, after: Reading, refused: Refused) -> None:
    """Check that a reading changes only in values of the refused functions."""
    names = frozenset(refused)
    missing, otherwise = costs_of(names)
    # A GPU taken for lost has no second sample yet, and slow values come later.
    may_begin = pynvml.NVML_ERROR_GPU_IS_LOST in refused.values()
    if may_begin:
        otherwise |= before.values.keys() - FAST
    for signal, value in before.values.items():
        now = after.get(signal)
        if now is None and may_begin and after.why_missing(signal) is Missing.NO_SAMPLE:
            continue
        if now is None:
            assert signal in missing, f"{signal} is missing without {sorted(names)}"
        elif signal not in otherwise:
            assert now == value, f"{signal} is another without {sorted(names)}"
        elif value and signal is not Signal.PROCESS_COUNT:
            assert now, f"{signal} is 0 without {sorted(names)}"
    if before.processes is not None and Signal.PROCESS_COUNT not in missing | otherwise:
        assert after.processes is not None
        assert [process.pid for process in after.processes] == [
            process.pid for process in before.processes
        ]


def check_device(snapshot: Snapshot, before: Reading, refused: Refused) -> None:
    """Check that a device is read as far as possible, or down with the reason that it gave."""
    after = snapshot.readings.get(before.uuid)
    if after is not None:
        check_rest(before, after, refused)
        return
    reasons = {CODES[code] for code in refused.values()}
    down = snapshot.down.get(before.uuid)
    if down is None:
        assert ENUMERATION & refused.keys()
        assert before.uuid.startswith("MIG-")
    else:
        assert down.reason in reasons
        missing, _ = costs_of(refused)
        assert down.reason is Missing.LOST or not before.values.keys() & FAST - missing


def check_node(scenario: str, snapshot: Snapshot, refused: Mapping[int, Refused]) -> None:
    """Check each GPU and its instances by what it refused."""
    before = usual(scenario).last.readings
    for index in range(len(node_of(scenario).units)):
        for uuid in family(scenario, index):
            check_device(snapshot, before[uuid], refused.get(index, {}))


def refusing(
    scenario: str, refused: Mapping[int, Refused]
) -> Callable[[InstrumentedLibrary], None]:
    """A driver that refuses some functions on some GPUs."""

    def prepare(library: InstrumentedLibrary) -> None:
        for index, codes in refused.items():
            for name, code in codes.items():
                library.faults.answer(name, code, family(scenario, index)[0])

    return prepare


def check_alone(scenario: str, pairs: Sequence[tuple[str, int]]) -> None:
    """Check that a GPU which refuses one function gives its other values, and its neighbors all."""
    gpus = REFUSING_GPUS[scenario]
    for start in range(0, len(pairs), len(gpus)):
        dealt = zip(gpus, pairs[start : start + len(gpus)], strict=False)
        refused = {index: {name: code} for index, (name, code) in dealt}
        check_node(scenario, watch(scenario, refusing(scenario, refused)).last, refused)


@pytest.mark.parametrize(("scenario", "times"), [("eight-gpu-node", 2), ("a100-mig", 1)])
def test_each_function_alone_costs_no_more_than_it_tells(scenario: str, times: int) -> None:
    """Reasons come in turn; `make soak` takes each with each."""
    check_alone(scenario, list(zip(questions(scenario) * times, cycle(ONE_OF_EACH), strict=False)))


@pytest.mark.soak
@pytest.mark.parametrize("scenario", REFUSING_GPUS)
def test_each_function_costs_no_more_for_any_reason(scenario: str) -> None:
    """Every function with every reason."""
    check_alone(scenario, list(product(questions(scenario), ONE_OF_EACH)))


@pytest.mark.parametrize("scenario", SCENARIOS)
@settings(max_examples=8)
@given(data=st.data())
def test_any_refusals_of_any_gpus_cost_no_more_than_they_tell(
    scenario: str, data: st.DataObject
) -> None:
    """No refusal on one GPU affects another."""
    codes = st.dictionaries(
        st.sampled_from(questions(scenario)), st.sampled_from(list(CODES)), max_size=20
    )
    indices = st.integers(0, len(node_of(scenario).units) - 1)
    refused = data.draw(st.dictionaries(indices, codes, max_size=4))
    check_node(scenario, watch(scenario, refusing(scenario, refused)).last, refused)


@pytest.mark.parametrize("scenario", SCENARIOS)
@settings(max_examples=4)
@given(data=st.data())
def test_unsupported_query_is_asked_once(scenario: str, data: st.DataObject) -> None:
    """Permanent refusals cost no further call once each GPU is awake."""
    names = st.sets(st.sampled_from(functions(scenario)), max_size=20)
    lacking = data.draw(names)
    refused = data.draw(names)

    def prepare(library: InstrumentedLibrary) -> None:
        for name in lacking:
            library.faults.remove(name)
        for name in refused:
            library.faults.answer(name, NOT_SUPPORTED)

    run = watch(scenario, prepare, ticks=10, slow_interval_seconds=2.0)
    gone = dict.fromkeys(lacking | refused, NOT_SUPPORTED)
    check_node(scenario, run.snapshots[1], dict.fromkeys(range(12), gone))
    if not any(snapshot.down for snapshot in run.snapshots):
        asked = {name for calls in run.calls[4:] for name in calls}
        assert not asked & refused


@pytest.mark.parametrize("name", sorted(OPENING))
def test_without_what_all_rests_on_nothing_is_made_up(name: str) -> None:
    """There is no reading, and the snapshot has the reason."""
    run = watch("eight-gpu-node", lambda library: library.faults.answer(name, NOT_SUPPORTED))
    for snapshot in run.snapshots:
        assert not snapshot.readings
        assert snapshot.trouble or snapshot.down


def test_a_gpu_without_a_name_of_its_own_is_read_all_the_same() -> None:
    """Its identity is its address, and that of its instances their places on it."""
    run = watch("a100-mig", lambda library: library.faults.answer("nvmlDeviceGetUUID", UNKNOWN))
    before = usual("a100-mig").last
    for device, found in zip(before.devices, run.last.devices, strict=True):
        assert found.uuid.startswith(f"pci:{kernel_address(device.pci_bus_id)}")
        check_rest(before.readings[device.uuid], run.last.readings[found.uuid], {})


@pytest.mark.parametrize("garbage", [2**32 - 1, 2**64 - 1])
def test_garbage_is_no_reading(garbage: int) -> None:
    """All ones mean that there is no value, for any function."""
    scenario = "eight-gpu-node"
    gpus = range(1, 8)
    names = questions(scenario)
    before = usual(scenario).last
    impossible = frozenset(shapes_of(garbage))
    for start in range(0, len(names), len(gpus)):
        dealt = dict(zip(gpus, names[start : start + len(gpus)], strict=False))
        run = watch(scenario, garbling(dealt, garbage))
        for device in run.last.devices:
            found = run.last.readings[device.uuid]
            garbled = dealt.get(device.index, "")
            check_garbled(before.readings[device.uuid], found, garbled)
            assert not impossible & set(found.values.values()), garbled
            assert not impossible & set(numbers(to_builtins(device))), garbled


def garbling(dealt: Mapping[int | None, str], garbage: int) -> Callable[[InstrumentedLibrary], Any]:
    """A driver that answers some functions on some GPUs with garbage."""
    return lambda library: Garbled(library, dealt, garbage)


def check_garbled(before: Reading, after: Reading, garbled: str) -> None:
    """Check that a reading changes only in values of the garbled function."""
    missing, otherwise = costs_of([garbled])
    for signal, value in before.values.items():
        now = after.get(signal)
        if signal not in missing | otherwise:
            assert now == value, f"{signal} after garbage from {garbled}"
        assert now != 0 or value == 0, f"{signal} is 0 after garbage from {garbled}"


@pytest.mark.parametrize("number", [2**32 - 1, 4_000_000])
def test_counts_without_end_are_not_followed(number: int) -> None:
    """This covers GPUs, instances and fans."""
    run = watch(
        "zoo",
        garbling({4: "nvmlDeviceGetMaxMigDeviceCount", 7: "nvmlDeviceGetNumFans"}, number),
    )
    assert {device.index for device in run.last.devices if device.mig is None} == set(range(12))
    assert not any(device.mig for device in run.last.devices)
    (uuid,) = family("zoo", 7)
    assert run.last.readings[uuid].get(Signal.FAN_SPEED) is not None
    gpus = watch("zoo", lambda library: Garbled(library, {None: "nvmlDeviceGetCount_v2"}, number))
    assert gpus.last.devices == ()
    assert str(number) in (gpus.last.trouble or "")


def numbers(fields: Mapping[str, Any]) -> list[float]:
    """The numeric ones among some fields."""
    return [value for value in fields.values() if isinstance(value, int | float)]
