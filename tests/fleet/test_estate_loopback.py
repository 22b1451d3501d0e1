"""The benchmark's loopback store answers in the shape of a real one, for the queried devices."""

import json
from typing import Any, Final

import pytest

from benchmarks.fleet_store import Estate, answer

ESTATE: Final = Estate.of(20)
TWO: Final = "|".join(ESTATE.uuids[3:5])
HOUR: Final = 3600


def ranged(promql: str) -> list[dict[str, Any]]:
    """Hourly series of a day."""
    document = {"query": [promql], "start": ["3600"], "end": ["86400"], "step": [str(HOUR)]}
    found: list[dict[str, Any]] = json.loads(answer(ESTATE, "/api/v1/query_range", document))[
        "data"
    ]["result"]
    return found


def instant(promql: str) -> list[dict[str, Any]]:
    """Series at one moment."""
    document = {"query": [promql], "time": ["86400"]}
    found: list[dict[str, Any]] = json.loads(answer(ESTATE, "/api/v1/query", document))["data"][
        "result"
    ]
    return found


def test_states_of_an_hour_sum_to_it() -> None:
    """Only queried devices are answered, and their states sum to the hour at each step."""
    increase = f'increase(rightsizer_state_seconds_total{{uuid=~"{TWO}"}}[3600000ms])'
    series = ranged(f"round(max by (uuid, state) ({increase}), 0.001) > 0")
    assert {each["metric"]["uuid"] for each in series} == set(ESTATE.uuids[3:5])
    for uuid in ESTATE.uuids[3:5]:
        own = [each["values"] for each in series if each["metric"]["uuid"] == uuid]
        for moments in zip(*own, strict=True):
            assert {time for time, _ in moments} == {moments[0][0]}
            assert sum(float(value) for _, value in moments) == pytest.approx(HOUR, abs=0.01)
        assert [time for time, _ in own[0]] == [HOUR * at for at in range(1, 25)]


def test_figures_of_one_question_are_distinguished() -> None:
    """Several metrics in one query are returned with their names."""
    parts = (
        f'label_replace(round(max by (uuid) (avg_over_time({name}{{uuid=~"{TWO}"}}[1h])), 1), '
        f'"figure", "{figure}", "", "")'
        for name, figure in (
            ("rightsizer_gpu_busy_ratio", "busy"),
            ("rightsizer_power_ratio", "power"),
            ("rightsizer_sm_work_ratio", "sm_work"),
        )
    )
    series = ranged(" or ".join(parts))
    assert {each["metric"]["figure"] for each in series} == {"busy", "sm_work"}


def test_devices_and_their_holders_are_known() -> None:
    """A query without names returns all devices; four GPUs make a job."""
    devices = instant("max by (uuid, gpu, model) (rightsizer_device_info)")
    assert [device["metric"]["uuid"] for device in devices] == list(ESTATE.uuids)
    assert len(instant("max by (workload) (rightsizer_workload_info)")) == 5
    shares = ranged(f'max by (uuid, workload) (rightsizer_workload_share_ratio{{uuid=~"{TWO}"}})')
    assert [share["metric"]["workload"].rpartition("-")[2] for share in shares] == ["0", "1"]


def test_samples_are_as_far_apart_in_every_hour() -> None:
    """The probe then reads days at five-minute steps."""
    (found,) = ranged('max(count_over_time(rightsizer_device_up{uuid="x"}[3600s]))')
    assert {value for _, value in found["values"]} == {"240"}


def test_it_has_nothing_else() -> None:
    """Queries of other sources are answered with an empty result."""
    assert not instant("max by (UUID) (DCGM_FI_DEV_GPU_UTIL)")
    assert not ranged("max by (uuid) (uuid:rightsizer_used_seconds:increase5m)")
