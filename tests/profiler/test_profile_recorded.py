"""Profiles recorded here by current profilers, against what the programs did."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

from profiler_environment import recorded
from rightsizer.cli.main import main
from rightsizer.model.finding import Action, Reason
from rightsizer.model.profile import Profile, ProfileFormat, SpanKind
from rightsizer.profiler.workload import judged_workloads
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import open_profile, read_all

pytestmark = pytest.mark.timeout(600)

LIMITS: Final = ReadLimits()
TORCH_STEPS = 4
TORCH_LOADER = 0.05
TORCH_LATE = 0.1
JAX_STEPS = 5
JAX_LOADER = 0.03


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Folder of recordings, shared by all tests."""
    with TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(scope="module")
def torch_alone(folder: Path) -> Path:
    """The trace of one process."""
    return recorded("record_torch", folder)[0] / "alone" / "rank0.json"


@pytest.fixture(scope="module")
def torch_ranks(folder: Path) -> Path:
    """The traces of two ranks over gloo."""
    return recorded("record_torch", folder)[0] / "ranks"


@pytest.fixture(scope="module")
def jax_run(folder: Path) -> Path:
    """The log folder of JAX."""
    return recorded("record_jax", folder)[0]


def raw(path: Path) -> list[dict[str, Any]]:
    """Events as the standard library reads them."""
    data = path.read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return [each for each in json.loads(text)["traceEvents"] if each]


def spans(profile: Profile, kind: SpanKind) -> dict[str, tuple[int, float]]:
    """Count and duration of spans, by name."""
    return {
        span.name: (span.count, span.seconds) for span in profile.host_spans if span.kind is kind
    }


def assert_steps(profile: Profile, count: int, loader_seconds: float) -> None:
    """Check that all steps are there, each with the planted wait."""
    assert len(profile.host_steps) == count
    for step in profile.host_steps:
        # Sleep takes at least the given time; the machine decides how much longer.
        assert loader_seconds <= step.loader_seconds <= (step.end - step.start) / 1e9
    ends = [step.end for step in profile.host_steps]
    assert all(step.start >= end for step, end in zip(profile.host_steps[1:], ends, strict=False))


def test_a_torch_trace_of_the_cpu_says_so_and_tells_its_steps(torch_alone: Path) -> None:
    """It has no GPU at 0%; its steps have the planted loader wait and the annotations."""
    profile = open_profile(torch_alone, LIMITS)

    assert profile.format is ProfileFormat.PYTORCH
    assert profile.devices == ()
    assert profile.notes[0].startswith("No kernel in it: it was recorded without a GPU")
    assert_steps(profile, TORCH_STEPS, TORCH_LOADER)
    assert spans(profile, SpanKind.ANNOTATION)["my_forward"][0] == TORCH_STEPS
    assert spans(profile, SpanKind.CHECKPOINT)["save_checkpoint"][0] == TORCH_STEPS


def test_a_planted_loader_is_found_without_a_gpu(torch_alone: Path, jax_run: Path) -> None:
    """It is a bound: the queue of an unrecorded GPU may have hidden the wait."""
    (_, jax) = jax_forms(jax_run)[ProfileFormat.XPLANE]
    for profile in (open_profile(torch_alone, LIMITS), jax):
        (workload,) = judged_workloads([profile])
        (found,) = [finding for finding in workload.findings if finding.is_actionable]
        (option,) = found.options
        assert found.action is Action.FIX_INPUT_PIPELINE
        assert "no GPU is in it, whose queue may hide a part" in found.summary
        lengths = sum((step.end - step.start) / 1e9 for step in profile.host_steps)
        loaded = sum(step.loader_seconds for step in profile.host_steps)
        assert option.time_ratio_low == pytest.approx(1 - loaded / lengths, abs=0.001)
        assert option.time_ratio_high == 1.0


def test_a_torch_trace_is_read_to_the_last_event(torch_alone: Path) -> None:
    """Spans sum to those of the raw events; unused events are counted by category."""
    profile = open_profile(torch_alone, LIMITS)
    events = raw(torch_alone)
    loads = [event for event in events if "DataLoader" in event["name"] and event.get("ph") == "X"]
    ((count, seconds),) = spans(profile, SpanKind.LOADER).values()

    assert profile.events == len(events)
    assert count == len(loads)
    assert seconds == pytest.approx(sum(load["dur"] for load in loads) / 1e6, abs=1e-6)
    categories = Counter(event.get("cat", f"phase {event.get('ph')}") for event in events)
    unread = {what: count for what, count in profile.unread.items() if what != "[memory]"}
    assert all(count <= categories[what] for what, count in unread.items())
    kept = [span for span in profile.host_spans if span.kind is not SpanKind.PAUSE]
    used = sum(each.count for each in kept) + len(profile.host_steps)
    used += categories["cpu_op"] + categories["python_function"] - unread.get("python_function", 0)
    assert used + sum(profile.unread.values()) == len(events)


def test_a_torch_trace_is_placed_in_wall_time(folder: Path) -> None:
    """Its steps lie within the program's run."""
    into, before, after = recorded("record_torch", folder)
    profile = open_profile(into / "alone" / "rank0.json", LIMITS)

    assert profile.start is not None
    times = [
        (profile.start + each) / 1e9
        for step in profile.host_steps
        for each in (step.start, step.end)
    ]
    assert before <= min(times) <= max(times) <= after


def test_two_ranks_are_distinguished_and_judged_together(
    torch_ranks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gloo's process group identifies them; each has steps and collectives of its own."""
    profiles = read_all([torch_ranks], LIMITS)

    assert [(each.rank, each.world_size) for each in profiles] == [(0, 2), (1, 2)]
    for profile in profiles:
        assert_steps(profile, TORCH_STEPS, TORCH_LOADER)
        assert spans(profile, SpanKind.COLLECTIVE)["gloo:all_reduce"][0] >= TORCH_STEPS
    page = tmp_path / "page.html"
    assert main(["profile", str(torch_ranks), "--report", str(page)]) == 0
    assert "Steps of the host" in page.read_text(encoding="utf-8")
    text = capsys.readouterr().out
    assert text.startswith("rank0.json and 1 more")
    assert text.count("\n  step of the host") == 2
    assert "recorded on the CPU alone" in " ".join(text.split())


def test_a_late_rank_is_found_by_what_the_other_waits(torch_ranks: Path) -> None:
    """It sleeps between operators, and the other waits in the sum."""
    waiting, late = read_all([torch_ranks], LIMITS)
    waits, others = (
        sum(step.collective_seconds for step in each.host_steps) for each in (waiting, late)
    )
    # The other rank is sometimes late too, as to the checkpoint that only it writes.
    assert waits >= TORCH_STEPS * TORCH_LATE / 2
    assert waits > others
    (workload,) = judged_workloads([waiting, late])
    found = {finding.reasons[0]: finding for finding in workload.findings if finding.is_actionable}
    assert found.keys() >= {Reason.HOST_BOUND, Reason.RANK_IMBALANCE}
    imbalance = found[Reason.RANK_IMBALANCE]
    assert imbalance.culprits == ("rank 1 of rank0.json and 1 more",)
    assert "the latest runs no operator" in imbalance.summary


def test_sizing_refuses_a_trace_of_the_cpu(
    torch_alone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says what the trace lacks."""
    question = tmp_path / "question.yaml"
    question.write_text("{to: [L40S]}", encoding="utf-8")

    assert main(["project", str(question), "--profile", str(torch_alone)]) == 1
    assert "recorded on the CPU alone" in capsys.readouterr().err


def jax_forms(run: Path) -> dict[ProfileFormat, tuple[Path, Profile]]:
    """Both files of one run."""
    paths = [*run.rglob("*.xplane.pb"), *run.rglob("*.trace.json.gz")]
    profiles = [open_profile(path, LIMITS) for path in paths]
    return {profile.format: (path, profile) for path, profile in zip(paths, profiles, strict=True)}


def test_a_jax_profile_of_the_cpu_says_so_and_tells_its_steps(jax_run: Path) -> None:
    """Either form has numbered steps, and the annotated loader with its planted wait."""
    forms = jax_forms(jax_run)

    assert set(forms) == {ProfileFormat.XPLANE, ProfileFormat.TRACE_VIEWER}
    for _, profile in forms.values():
        assert profile.devices == ()
        assert any("no kernel of a GPU" in note for note in profile.notes)
        assert [step.name for step in profile.host_steps] == [
            f"train {n}" for n in range(JAX_STEPS)
        ]
        assert_steps(profile, JAX_STEPS, JAX_LOADER)
        assert spans(profile, SpanKind.LOADER)["load_batch"][0] == JAX_STEPS


def test_both_forms_of_a_jax_run_agree(jax_run: Path) -> None:
    """Spans, counts and times agree to the nanosecond: one form was made from the other."""
    (_, plane), (_, viewer) = (
        jax_forms(jax_run)[each] for each in (ProfileFormat.XPLANE, ProfileFormat.TRACE_VIEWER)
    )

    assert viewer.host_spans == plane.host_spans
    assert [step.loader_seconds for step in viewer.host_steps] == pytest.approx(
        [step.loader_seconds for step in plane.host_steps], abs=2e-9
    )
    lengths = [[step.end - step.start for step in of.host_steps] for of in (plane, viewer)]
    assert lengths[0] == pytest.approx(lengths[1], abs=2)


def test_a_jax_profile_is_read_to_the_last_event(jax_run: Path) -> None:
    """All events of the trace viewer count, except the names of its threads."""
    forms = jax_forms(jax_run)
    path, viewer = forms[ProfileFormat.TRACE_VIEWER]
    _, plane = forms[ProfileFormat.XPLANE]
    events = raw(path)
    named = [event for event in events if event["ph"] == "M"]
    loads = [event for event in events if event["name"] == "load_batch"]

    assert viewer.events in {len(events), len(events) + 1}  # The last event is an empty object.
    assert plane.events == len(events) - len(named)
    _, seconds = spans(viewer, SpanKind.LOADER)["load_batch"]
    assert seconds == pytest.approx(sum(load["dur"] for load in loads) / 1e6, abs=1e-8)


def test_the_folder_of_a_jax_run_is_one_profile(jax_run: Path) -> None:
    """Its files hold the same events."""
    (profile,) = read_all([jax_run], LIMITS)

    assert profile.format is ProfileFormat.XPLANE
