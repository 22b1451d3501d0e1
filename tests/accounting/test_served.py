"""Loads of served models: minutes, hours, the rhythm of a week, and what a restart keeps."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from readings import gpu, snapshot
from rightsizer.accounting.served import ServedAccounts, ServedHour
from rightsizer.advice.storage import Storage
from rightsizer.model.served_counts import ServedCounts, ServedFigure, ServedSample
from rightsizer.model.served_load import ServedLatency, ServedLoad
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import DAY, HOUR, NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.model.workload import Workload, WorkloadKind

START: Nanoseconds = 1_790_000_000 * NANOSECONDS_PER_SECOND // HOUR * HOUR
MINUTE = 60.0
FIRST = gpu(0, name="NVIDIA H100 80GB HBM3")
SECOND = gpu(1, name="NVIDIA H100 80GB HBM3")


def sample(rate: float | None, endpoint: str = "serving/a", **facts: object) -> ServedSample:
    """A minute of a model."""
    ratios = {str(Signal.REQUESTS_RUNNING): (4 * MINUTE, MINUTE)}
    if rate is not None:
        ratios[ServedFigure.REQUESTS] = (rate * MINUTE, MINUTE)
        ratios[str(Signal.TIME_TO_FIRST_TOKEN_SECONDS)] = (0.2 * rate * MINUTE, rate * MINUTE)
    known = {"model": "llama", "engine": "vllm", "window_seconds": 0.0, **facts}
    load = ServedLoad(**known)  # type: ignore[arg-type]
    return ServedSample(load, ServedCounts(MINUTE, ratios), endpoint)


def tick(minutes: float, *samples: ServedSample, holder: Workload | None = None) -> Snapshot:
    """A snapshot some minutes after the start."""
    known = snapshot(
        minutes * MINUTE,
        (FIRST, SECOND),
        {
            FIRST: {Signal.MEMORY_USED_BYTES: 70e9},
            SECOND: {Signal.MEMORY_USED_BYTES: 60e9},
        },
        holders={} if holder is None else {FIRST: holder, SECOND: holder},
        wall_time=START + nanoseconds(minutes * MINUTE),
    )
    return replace(known, served=samples)


def lived(accounts: ServedAccounts, minutes: int, rate: float, since: int = 0) -> None:
    """Minutes with a constant rate."""
    for minute in range(since, since + minutes):
        accounts.post(tick(minute, sample(rate)))


def test_recent_load_is_of_five_to_ten_minutes() -> None:
    """Earlier ones are in the hours."""
    accounts = ServedAccounts()
    lived(accounts, 20, rate=1.0)
    (recent,) = accounts.post(tick(20, sample(7.0)))

    assert recent.window_seconds == 6 * MINUTE
    assert recent.requests_per_second == pytest.approx((5 * 1.0 + 7.0) / 6)
    assert recent.requests_running == 4.0
    assert recent.time_to_first_token == ServedLatency(pytest.approx(0.2), None)
    (hour,) = accounts.loads(START)
    assert hour.window_seconds == 21 * MINUTE


def test_engine_that_is_gone_leaves_the_recent_loads() -> None:
    """Its hours stay."""
    accounts = ServedAccounts()
    lived(accounts, 5, rate=1.0)

    assert accounts.post(tick(10)) != ()
    assert accounts.post(tick(16)) == ()
    assert len(accounts.loads(START)) == 1


def test_gpus_board_owner_and_tensor_size_are_filled_in() -> None:
    """By the devices of its endpoint, their holder, and the policy that states a model."""
    owner = Workload(
        "kubernetes:chat/llama",
        WorkloadKind.KUBERNETES,
        "llama",
        namespace="chat",
        model="meta-llama/Llama-3.1-8B",
    )
    devices = (FIRST.uuid, SECOND.uuid)
    (load,) = ServedAccounts().post(tick(0, sample(1.0, devices=devices), holder=owner))

    assert load.model == "meta-llama/Llama-3.1-8B"
    assert load.board == "NVIDIA H100 80GB HBM3"
    assert (load.workload, load.namespace) == ("llama", "chat")
    assert load.memory_used_bytes == 70e9
    assert load.tensor == 2

    (load,) = ServedAccounts().post(tick(0, sample(1.0, devices=devices, engines=2), holder=owner))
    assert load.tensor == 1


def test_models_of_one_engine_keep_their_names() -> None:
    """A policy states one; which of them it is, nobody knows."""
    owner = Workload("slurm:1", WorkloadKind.SLURM, "1", model="one")
    devices = (FIRST.uuid,)
    samples = (sample(1.0, devices=devices), sample(2.0, devices=devices, model="bert"))

    loads = ServedAccounts().post(tick(0, *samples, holder=owner))

    assert [load.model for load in loads] == ["llama", "bert"]
    assert [load.tensor for load in loads] == [None, None]


def test_rhythm_of_the_day_and_peak_are_of_a_week() -> None:
    """Rates by the hour of the day, and the 95th percentile of five minutes."""
    accounts = ServedAccounts()
    for day in range(9):
        since = day * 24 * 60
        lived(accounts, 60, rate=1.0, since=since)
        lived(accounts, 60, rate=4.0 + day, since=since + 60)
    (load,) = accounts.loads(START)

    hours = load.requests_per_second_by_hour
    assert len(hours) == 24
    first = datetime.fromtimestamp(START / NANOSECONDS_PER_SECOND, UTC).astimezone().hour
    assert hours[first] == pytest.approx(1.0)
    # Days 1 to 8: the first has left.
    assert hours[(first + 1) % 24] == pytest.approx(sum(4.0 + day for day in range(1, 9)) / 8)
    assert sum(rate is None for rate in hours) == 22
    assert load.requests_per_second_peak == pytest.approx(12.0)
    assert len(accounts.hours()) == 7 * 2 + 1


def test_engine_without_a_count_of_requests_has_no_rhythm() -> None:
    """Nothing is known of it, which is not 0."""
    accounts = ServedAccounts()
    accounts.post(tick(0, sample(None)))
    (load,) = accounts.loads(START)

    assert load.requests_per_second is None
    assert load.requests_per_second_by_hour == ()
    assert load.requests_per_second_peak is None


def test_models_are_bounded() -> None:
    """A Triton server may load hundreds; those that are served now stay."""
    accounts = ServedAccounts()
    loads = accounts.post(tick(0, *(sample(1.0, model=f"m{number}") for number in range(100))))

    assert len(loads) == 64


def test_models_that_are_gone_make_place() -> None:
    """Names that changed weeks ago do not keep a new one out, nor does a history after a start."""
    accounts = ServedAccounts()
    accounts.post(tick(0, *(sample(1.0, model=f"m{number}") for number in range(64))))
    assert "new" not in {load.model for load in accounts.post(tick(1, sample(1.0, model="new")))}
    (load,) = accounts.post(tick(200, sample(1.0, model="new")))
    assert load.model == "new"

    again = ServedAccounts()
    again.restore(accounts.hours())
    again.post(tick(210, sample(1.0, model="other")))
    assert {load.model for load in again.loads(0)} >= {"new", "other"}


def test_a_model_is_forgotten_after_its_week() -> None:
    """With its hours, though nothing takes its place."""
    accounts = ServedAccounts()
    accounts.post(tick(0, sample(1.0, model="old")))
    accounts.post(tick(8 * 24 * 60, sample(1.0, model="new")))
    assert [load.model for load in accounts.loads(0)] == ["new"]


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    """A history on disk."""
    opened = Storage(str(tmp_path / "history.db"))
    yield opened
    opened.close()


def test_a_restart_goes_on_with_the_hour(storage: Storage) -> None:
    """What was written is not lost, and the hour is counted once."""
    accounts = ServedAccounts()
    lived(accounts, 70, rate=2.0)
    storage.served.save(accounts.hours())
    storage.served.save(accounts.hours(START + nanoseconds(70 * MINUTE)))

    again = ServedAccounts()
    again.restore(storage.served.load())
    assert again.post(tick(70)) == ()
    again.post(tick(71, sample(2.0)))
    (load,) = again.loads(START)
    assert load.window_seconds == 71 * MINUTE
    assert load.requests_per_second == pytest.approx(2.0)
    assert load.requests_per_second_peak == pytest.approx(2.0)
    restored = ServedAccounts()
    restored.restore(storage.served.load())
    (of_history,) = restored.loads(0)
    assert of_history.window_seconds == 70 * MINUTE

    storage.served.prune(START + HOUR)
    assert [hour.start for hour in storage.served.load()] == [START + HOUR]


def test_hours_that_cannot_be_read_are_skipped(storage: Storage) -> None:
    """As windows are."""
    good = ServedHour("serving/a", "m", START, sample(1.0).facts, ServedCounts())
    storage.served.save([good])
    with storage.database.transaction() as connection:
        connection.execute("INSERT INTO served VALUES ('b', 'm', 0, '{')")

    assert storage.served.load(-DAY) == [good]
