"""Whether the GPUs of one job do unequal work."""

from collections.abc import Mapping, Sequence
from typing import Final

import pytest
from msgspec.structs import replace

from readings import HELD, SECOND, SPINNING, TRAINING, Signals, gpu, snapshot, workload
from rightsizer.accounting.conditions import ImbalanceDetector, job_of
from rightsizer.accounting.entry_builder import EntryBuilder
from rightsizer.accounting.settings import ImbalanceSettings
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition
from rightsizer.model.units import nanoseconds
from rightsizer.model.workload import Holding, Workload, WorkloadClass, WorkloadKind

BUSY: Final = Signal.GPU_BUSY
POWER: Final = Signal.POWER
NODE: Final = tuple(gpu(index) for index in range(4))
JOB: Final = workload("job")
MINUTE_SECONDS: Final = 60.0

Course = Sequence[Mapping[Device, Signals]]
"""The activity of each GPU, minute by minute."""


def judged(course: Course, *, every_seconds: float = 10.0, job: str = "job") -> set[str]:
    """The GPUs out of balance at the end of the course."""
    imbalance = ImbalanceDetector()
    at = 0.0
    while at < len(course) * MINUTE_SECONDS:
        for device, signals in course[int(at // MINUTE_SECONDS)].items():
            end = nanoseconds(at)
            length = nanoseconds(every_seconds)
            imbalance.add(device, job, end, length, signals)
        at += every_seconds
    imbalance.judge(nanoseconds(len(course) * MINUTE_SECONDS))
    return {device.uuid for device in NODE if imbalance.holds(device.uuid)}


def minute(*busy: float) -> dict[Device, Signals]:
    """The busy shares of the GPUs."""
    return {device: {BUSY: share} for device, share in zip(NODE, busy, strict=False)}


ALL: Final = {device.uuid for device in NODE}


@pytest.mark.parametrize(
    ("course", "expected"),
    [
        # A straggler, and a rank that the others wait for.
        ([minute(0.9, 0.9, 0.9, 0.4)] * 10, ALL),
        ([minute(0.0, 1.0, 1.0, 1.0)] * 10, ALL),
        # One that does all the work.
        ([minute(0.9, 0.1, 0.1, 0.1)] * 10, ALL),
        # At the threshold, and just below it.
        ([minute(0.75, 0.5)] * 10, {"GPU-0", "GPU-1"}),
        ([minute(0.75, 0.5001)] * 10, set()),
        # In balance, at rest, and alone.
        ([minute(0.9, 0.85, 0.95, 0.8)] * 10, set()),
        ([minute(0.0, 0.0, 0.0, 0.0)] * 10, set()),
        ([minute(0.9)] * 10, set()),
        # Not for long enough yet, and long over.
        ([minute(0.9, 0.9)] * 8 + [minute(0.9, 0.1)] * 2, set()),
        ([minute(0.9, 0.1)] * 5 + [minute(0.9, 0.9)] * 5, set()),
        # Taking turns is due to scheduling: no GPU lags behind.
        ([minute(0.9, 0.1)] * 5 + [minute(0.1, 0.9)] * 5, set()),
        ([minute(0.9, 0.1), minute(0.1, 0.9)] * 5, set()),
        # Seen for half of the time only, which is not judged.
        ([minute(0.9, 0.1)] * 4, set()),
    ],
)
def test_balance_is_judged_over_ten_minutes(course: Course, expected: set[str]) -> None:
    """By the spread of means in both halves, with the same GPU at one end of it."""
    assert judged(course) == expected


@pytest.mark.parametrize("every_seconds", [0.1, 1.0, 10.0, 57.0, 100.0])
def test_any_interval_of_readings_will_do(every_seconds: float) -> None:
    """A reading covers the time since the previous one, however long."""
    course = [minute(0.9, 0.9, 0.9, 0.4)] * (3 if every_seconds < 1 else 12)
    expected = set() if every_seconds < 1 else ALL
    assert judged(course, every_seconds=every_seconds) == expected


def test_power_tells_what_the_busy_share_hides() -> None:
    """Three GPUs spin at full utilization while the fourth works."""
    spinning = {BUSY: 1.0, POWER: 0.1}
    working = {BUSY: 1.0, POWER: 0.7}
    course = [dict.fromkeys(NODE[:3], spinning) | {NODE[3]: working}] * 10
    assert judged(course) == ALL


def test_power_of_different_boards_is_not_compared() -> None:
    """A small board's limit is a light load of a large one."""
    small = gpu(1, name="NVIDIA L4")
    both = {NODE[0]: {BUSY: 1.0, POWER: 0.4}, small: {BUSY: 1.0, POWER: 0.9}}
    assert judged([both] * 10) == set()


def test_missing_signals_are_no_imbalance() -> None:
    """A GPU with unread activity does not lag behind; the others are still compared."""
    blind: dict[Device, Signals] = {NODE[2]: {}}
    assert judged([minute(0.9, 0.9) | blind] * 10) == set()
    assert judged([minute(0.9, 0.2) | blind] * 10) == {"GPU-0", "GPU-1", "GPU-2"}


def test_next_job_brings_its_own_evidence() -> None:
    """A GPU's activity for another job does not count."""
    imbalance = ImbalanceDetector()

    def run(job: str, first: int, *busy: float) -> None:
        for at in range(first, first + 600, 10):
            for device, share in zip(NODE, busy, strict=False):
                imbalance.add(device, job, at * SECOND, 10 * SECOND, {BUSY: share})

    run("one", 0, 0.9, 0.1)
    imbalance.judge(600 * SECOND)
    assert imbalance.holds("GPU-0")
    run("two", 600, 0.9, 0.9)
    imbalance.judge(1200 * SECOND)
    assert not imbalance.holds("GPU-0")


def test_device_that_went_away_is_forgotten() -> None:
    """Memory is bounded by the GPUs present; entries that are not updated age out."""
    imbalance = ImbalanceDetector(ImbalanceSettings(window_seconds=10))
    for device in NODE[:2]:
        imbalance.add(device, "job", 0, SECOND, {BUSY: 0.5})
    imbalance.forget({"GPU-1"})
    imbalance.judge(SECOND)
    assert len(imbalance) == 1
    imbalance.judge(100 * SECOND)
    assert len(imbalance) == 0


def held(each: Workload, *, share: float = 1.0, has_process: bool = True) -> tuple[Holding, ...]:
    """One holder's part of a device."""
    return (Holding(each, share, has_process),)


SERVICE: Final = replace(JOB, key="svc", workload_class=WorkloadClass.SERVING)
INSTANCE: Final = gpu(0, uuid="MIG-0", mig=MigInstance("GPU-0", "3g.40gb", 1, 0, 3 / 7, 4 / 8))


@pytest.mark.parametrize(
    ("holdings", "expected"),
    [
        (held(JOB), JOB.key),
        (held(replace(JOB, pod="worker-3")), JOB.key),
        (held(replace(JOB, workload_class=WorkloadClass.UNKNOWN)), JOB.key),
        # Replicas are independent of each other, but a pod's GPUs are not.
        (held(SERVICE), None),
        (held(replace(SERVICE, pod="svc-1")), "svc/svc-1"),
        # Interactive use is irregular, and a standby waits.
        (held(replace(JOB, workload_class=WorkloadClass.NOTEBOOK)), None),
        (held(replace(JOB, workload_class=WorkloadClass.STANDBY)), None),
        (held(replace(JOB, kind=WorkloadKind.USER)), None),
        (held(replace(JOB, kind=WorkloadKind.OTHER)), None),
        # Shared, held but idle, and free.
        (held(JOB, share=0.5) + held(SERVICE, share=0.5), None),
        (held(JOB, has_process=False), None),
        ((), None),
    ],
)
def test_job_is_what_has_ranks(holdings: tuple[Holding, ...], expected: str | None) -> None:
    """If ranks cannot be distinguished from replicas, nothing is claimed."""
    assert job_of(gpu(), holdings) == expected
    assert job_of(INSTANCE, holdings) is None


def test_books_tell_it_of_every_gpu_of_the_job() -> None:
    """Rank 0 rests while the others spin; a balanced job beside it is not reported."""
    devices = [gpu(index) for index in range(5)]
    doing = dict(zip(devices, [HELD, SPINNING, SPINNING, TRAINING, TRAINING], strict=True))
    holders = dict(zip(devices, [JOB] * 3 + [workload("other")] * 2, strict=True))
    builder = EntryBuilder()
    found = {}
    for at in range(0, 1300, 10):
        entries = builder.post(snapshot(at, devices, doing, interval_seconds=10, holders=holders))
        found[at] = [Condition.RANK_IMBALANCE in entry.conditions for entry in entries]
    assert found[300] == [False] * 5
    assert found[1290] == [True] * 3 + [False] * 2
