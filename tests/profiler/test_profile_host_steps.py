"""Host steps without a device: what operators show of a GPU, and what they do not."""

from pathlib import Path
from typing import Final

import pytest

from profile_traces import KinetoTrace
from profiler_environment import recorded
from rightsizer.model.finding import Finding, Reason
from rightsizer.model.profile import Profile, SpanKind
from rightsizer.profiler.workload import judged_workloads
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import open_profile

_PROCESSES: Final = 6
_AGAIN: Final = 5
_STEPS: Final = 8
_STEP: Final = 10_000.0
_OPERATORS: Final = 60


class _Loop:
    """Steps of 10 ms; operators of each step follow each other from its start."""

    def __init__(self, **top: object) -> None:
        self.trace = KinetoTrace(**top)

    def step(self, number: int, *calls: tuple[str, float, float]) -> None:
        """Category or operator name, with time after the start and duration."""
        begin = 1_000_000.0 + number * _STEP
        self.trace.annotation(f"ProfilerStep#{number}", begin, _STEP)
        for name, after, duration in calls:
            is_operator = name.startswith("aten::")
            category = "cpu_op" if is_operator else "python_function"
            self.trace.complete(category, name, begin + after, duration)

    def all_steps(self, *calls: tuple[str, float, float]) -> "_Loop":
        """The same step repeated."""
        for number in range(_STEPS):
            self.step(number, *calls)
        return self

    def read(self, folder: Path, name: str = "host.json") -> Profile:
        """The trace after reading."""
        return open_profile(self.trace.write(folder, name), ReadLimits())


def _short(count: int = _OPERATORS) -> list[tuple[str, float, float]]:
    """Operators that fill a step, each shorter than a launch."""
    apart = _STEP / count
    return [("aten::mul", place * apart, 15.0) for place in range(count)]


def _complaints(*profiles: Profile) -> dict[Reason, Finding]:
    (workload,) = judged_workloads(profiles)
    return {finding.reasons[0]: finding for finding in workload.findings if finding.is_actionable}


def test_short_operators_are_bound_by_launches(tmp_path: Path) -> None:
    """It is a bound, with less confidence than a finding on a GPU."""
    found = _complaints(_Loop().all_steps(*_short()).read(tmp_path))

    assert found.keys() == {Reason.LAUNCH_BOUND}
    finding = found[Reason.LAUNCH_BOUND]
    assert "100.0% of a step of the host on 60 operators" in finding.summary
    assert "no GPU is in it" in finding.summary
    assert finding.confidence <= 0.7
    assert finding.options[0].time_ratio_high == 1.0


def test_few_or_long_operators_are_not(tmp_path: Path) -> None:
    """There are fewer than a network has, or they compute for most of the time."""
    few = _short(_OPERATORS - 11)
    long = [("aten::mm", after, 90.0) for _, after, _ in _short()]
    for name, calls in (("few.json", few), ("long.json", long)):
        assert not _complaints(_Loop().all_steps(*calls).read(tmp_path, name)), name


def test_self_time_of_an_operator_counts(tmp_path: Path) -> None:
    """A convolution contains short operators that allocate, and computes between them."""
    calls = [("aten::mkldnn_convolution", 0.0, _STEP), *_short()]
    profile = _Loop().all_steps(*calls).read(tmp_path)

    assert profile.host_steps[0].dispatch_seconds < 0.1 * _STEP * 1e-6 * _OPERATORS
    assert not _complaints(profile)


def test_pauses_are_the_programs_own(tmp_path: Path) -> None:
    """The innermost frame names a pause; operators precede and follow it."""
    frames = [("train.py(3): step", 0.0, 9_990.0), ("train.py(9): tokenized", 120.0, 4_000.0)]
    operators = [("aten::mm", 0.0, 100.0), ("aten::mm", 5_000.0, 5_000.0)]
    profile = _Loop().all_steps(*frames, *operators).read(tmp_path)
    found = _complaints(profile)[Reason.HOST_BOUND]

    assert "runs no operator 49.0% of the time, 4.9 ms of a step" in found.summary
    assert "4.0 ms in train.py(9): tokenized" in found.summary
    assert found.options[0].time_ratio_low == pytest.approx(0.51)
    held = {span.name: span.count for span in profile.host_spans if span.kind is SpanKind.PAUSE}
    assert held == {"train.py(9): tokenized": _STEPS, "train.py(3): step": _STEPS}


def test_one_long_step_of_many_is_no_rate(tmp_path: Path) -> None:
    """The usual step decides, not the mean."""
    loop = _Loop()
    for number in range(_STEPS):
        loop.step(number, ("aten::mm", 0.0, 100.0 if number == 5 else 9_950.0))
    assert not _complaints(loop.read(tmp_path))


def test_values_read_back_are_counted(tmp_path: Path) -> None:
    """One for each that follows an operator, including `nonzero` in an index, and `.cpu()`."""
    cpu = "<built-in method cpu of Tensor object at 0x7f00>"
    calls = [
        ("train.py(3): step", 0.0, 9_990.0),
        ("aten::mm", 0.0, 4_000.0),
        ("aten::item", 4_000.0, 10.0),
        ("aten::_local_scalar_dense", 4_002.0, 5.0),
        ("aten::item", 4_020.0, 10.0),
        ("aten::_local_scalar_dense", 4_022.0, 5.0),
        ("aten::gt", 4_040.0, 15.0),
        ("aten::index", 4_100.0, 900.0),
        ("aten::nonzero", 4_110.0, 50.0),
        ("aten::mm", 5_000.0, 4_900.0),
        (cpu, 9_910.0, 20.0),
    ]
    profile = _Loop().all_steps(*calls).read(tmp_path)
    found = _complaints(profile)[Reason.HOST_BOUND]

    assert {step.read_backs for step in profile.host_steps} == {3}
    assert "reads values back 3 times a step" in found.summary
    for name in ("aten::item", "aten::nonzero", "Tensor.cpu"):
        assert f"{_STEPS} x {name} in train.py(3): step" in found.summary
    assert "what that costs is not known" in found.summary
    assert found.options[0].time_ratio_low == 0.5


def test_an_optimizers_own_numbers_are_not_read_back(tmp_path: Path) -> None:
    """Adam counts steps in host tensors; a loader draws its seeds there."""
    loop = _Loop()
    for number in range(_STEPS):
        begin = 1_000_000.0 + number * _STEP
        loop.trace.annotation("Optimizer.step#Adam.step", begin + 5_000.0, 100.0)
        loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        loop.trace.annotation(loader, begin + 8_000.0, 100.0)
        reads = (("aten::item", 5_020.0, 5.0), ("aten::item", 8_020.0, 5.0))
        loop.step(number, ("aten::mm", 0.0, 4_990.0), *reads, ("aten::mm", 8_100.0, 1_900.0))
    profile = loop.read(tmp_path)

    assert {step.read_backs for step in profile.host_steps} == {0}


def test_a_value_read_in_a_few_steps_is_none(tmp_path: Path) -> None:
    """Each fourth step reads its loss."""
    loop = _Loop()
    for number in range(_STEPS):
        read = [("aten::item", 9_960.0, 5.0)] if number % 4 == 0 else []
        loop.step(number, ("aten::mm", 0.0, 9_950.0), *read)
    assert not _complaints(loop.read(tmp_path))


def test_operators_of_a_gpu_that_was_not_recorded_tell_nothing(tmp_path: Path) -> None:
    """Covers a listed board, a call of its runtime, and an operator that only runs there."""
    listed = _Loop(deviceProperties=[{"id": 0, "name": "NVIDIA A100"}]).all_steps(*_short())
    called = _Loop().all_steps(*_short())
    called.trace.launch(1, 1_000_000.0, 5.0)
    fused = _Loop().all_steps(*_short(), ("aten::cudnn_convolution", 5.0, 9.0))
    for name, loop in (("listed.json", listed), ("called.json", called), ("fused.json", fused)):
        profile = loop.read(tmp_path, name)
        assert {step.operators for step in profile.host_steps} == {None}, name
        assert not _complaints(profile), name
    assert any("ProfilerActivity.CUDA" in note for note in profile.notes) is False


def test_the_rank_with_the_longest_pauses_is_named(tmp_path: Path) -> None:
    """Several ranks are evaluated together."""
    ranks = []
    for rank, lasts in ((0, 9_900.0), (1, 2_000.0)):
        top = {"distributedInfo": {"rank": rank, "world_size": 2}}
        loop = _Loop(**top).all_steps(("aten::mm", 0.0, lasts))
        ranks.append(loop.read(tmp_path, f"rank{rank}.json"))
    found = _complaints(*ranks)[Reason.HOST_BOUND]

    assert found.summary.startswith("rank 1 of rank0.json and 1 more runs no operator 80.0%")
    assert found.culprits == ("rank 1 of rank0.json and 1 more",)


def test_long_waits_of_a_gpu_name_where_its_host_was(tmp_path: Path) -> None:
    """The innermost frame is the program's, not that of a library below it."""
    loop = _Loop(deviceProperties=[{"id": 0, "name": "NVIDIA A100"}])
    for number in range(_STEPS):
        begin = 1_000_000.0 + number * _STEP
        loop.step(
            number,
            ("train.py(3): step", 0.0, 9_990.0),
            ("data.py(9): tokenized", 4_050.0, 5_500.0),
            ("torch/nn/functional.py(7): pad", 4_100.0, 3_000.0),
        )
        for place in range(10):
            launch = number * 10 + place + 1
            loop.trace.launch(launch, begin + place * 8.0, 5.0)
            kernel = begin + 100.0 + place * 390.0
            loop.trace.kernel("ampere_bf16_s16816gemm", kernel, 388.0, correlation=launch)
    found = _complaints(loop.read(tmp_path))[Reason.HOST_BOUND]

    assert found.summary.endswith("; in long waits the host is in data.py(9): tokenized.")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", ["plant_torch", "plant_jax"])
def test_planted_faults_are_found_in_what_is_recorded_here(program: str, tmp_path: Path) -> None:
    """Current PyTorch and JAX record; evaluation/profiles/planted/ has recordings of both.

    On a busy machine no operator may be as short as a launch: each fault counts in any recording,
    of which one process makes several.
    """
    due = {
        "sync_points": Reason.HOST_BOUND,
        "tiny_kernels": Reason.LAUNCH_BOUND,
        "host_bound_step": Reason.HOST_BOUND,
    }
    again = ["tiny_kernels"] * _AGAIN if program == "plant_torch" else ()
    for attempt in range(_PROCESSES):
        (folder := tmp_path / str(attempt)).mkdir()
        into, _, _ = recorded(program, folder, *due, *again)
        paths = [*into.glob("*.json"), *into.rglob("*.xplane.pb")]
        for loop, reason in tuple(due.items()):
            of_loop = [path for path in paths if loop in str(path.relative_to(into))]
            if any(reason in _complaints(open_profile(path, ReadLimits())) for path in of_loop):
                del due[loop]
        if not due:
            return
    pytest.fail(f"not found in {_PROCESSES} times {1 + _AGAIN} recordings: {', '.join(due)}")
