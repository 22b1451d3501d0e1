"""The comparison with nvidia-smi itself, which needs no GPU."""

import pytest

from nvidia_smi import FIELDS, differences, readings_of

TEXT = (
    "GPU-1, 81559, 1024, 98, 412.31, 700.00, 61, 1980, 2619, 5, 16, 0, 0\n"
    "GPU-2, 81559, 0, [N/A], 71.02, 700.00, 33, 345, 2619, 1, 16, [N/A], [N/A]\n"
)


def test_units_are_those_of_the_metrics() -> None:
    """MiB, per cent, MHz; what nvidia-smi does not know is left out."""
    found = readings_of(TEXT)
    assert found["GPU-1"]["rightsizer_memory_used_bytes"] == 2**30
    assert found["GPU-1"]["rightsizer_gpu_busy_ratio"] == pytest.approx(0.98)
    assert found["GPU-1"]["rightsizer_sm_clock_hertz"] == 1.98e9
    assert "rightsizer_gpu_busy_ratio" not in found["GPU-2"]


def test_agreeing_readings_have_no_difference() -> None:
    """Between two looks and a little beyond."""
    before = readings_of(TEXT)
    after = readings_of(TEXT.replace("412.31", "300.00"))
    between = {uuid: dict(values) for uuid, values in before.items()}
    between["GPU-1"]["rightsizer_power_watts"] = 350.0
    assert differences(before, between, after) == []


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.metric)
def test_each_number_that_is_off_or_missing_is_reported(field: object) -> None:
    """Once, with the GPU, the metric and what nvidia-smi saw."""
    before = readings_of(TEXT)
    metric = getattr(field, "metric", "")
    agent = {uuid: dict(values) for uuid, values in before.items()}
    agent["GPU-1"][metric] += 10 * (1 + before["GPU-1"][metric])
    (difference,) = differences(before, agent, before)
    assert difference.startswith(f"GPU-1: {metric}")
    del agent["GPU-1"][metric]
    (difference,) = differences(before, agent, before)
    assert f"{metric} None" in difference


def test_a_gpu_of_one_side_alone_is_reported() -> None:
    """Whichever side lacks it."""
    both = readings_of(TEXT)
    one = {"GPU-1": both["GPU-1"]}
    assert differences(both, one, both) == ["GPU-2: only one of them has it"]
    assert differences(one, both, one) == ["GPU-2: only one of them has it"]
