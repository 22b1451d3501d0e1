"""Findings of profiles become advice beside those of telemetry, without duplicates."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import NOW, after, finding, judgement
from profile_beside import KEY, long_profile, telemetry_of, waiting_profile
from profiles_built import device, kernel, profile, time_use
from readings import DAY, HOUR, SECOND, gpu, workload
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.lookup import open_places
from rightsizer.advice.rules.rule import Judgement
from rightsizer.advice.verdict import finding_id
from rightsizer.model.advice import Advice, AdviceState, Measurement
from rightsizer.model.finding import Action, FindingKind, Reason
from rightsizer.model.profile import Profile
from rightsizer.model.state import Condition, State
from rightsizer.model.units import Nanoseconds
from rightsizer.profiler.advice import judgements_of, with_profiles
from rightsizer.profiler.join import join
from rightsizer.profiler.settings import ProfileComparisonSettings
from rightsizer.profiler.taken_profile import TakenProfile, taken
from rightsizer.profiler.workload import judged_workloads

SHORT = kernel("tiny", count=40_000, seconds=0.2)
SETTINGS = ProfileComparisonSettings()
PRESENT = {KEY: workload("llama")}
HELD_UP = {State.HOST_BOUND: 240.0, State.PRODUCTIVE: 60.0}


def took(found: Profile, now: Nanoseconds = NOW, **telemetry: Any) -> TakenProfile:
    """A judged and stored profile of the workload's only GPU."""
    beside = telemetry_of(telemetry.pop("states", HELD_UP), **telemetry)
    joined = join((found,), (gpu(0),), lambda *_: beside, SETTINGS)
    (judged,) = judged_workloads((found,))
    return taken(judged, joined, SETTINGS, now)


def at(time: Nanoseconds) -> Profile:
    """A GPU that waits for its host for a second from the given time."""
    return replace(waiting_profile(time), source=f"{time}.json")


def fine(time: Nanoseconds) -> Profile:
    """The same once it was fixed."""
    return replace(at(time), devices=(device(time=time_use(0.99, 0.01), start=0),))


def short(time: Nanoseconds) -> Profile:
    """A GPU that waits for launches of tiny kernels."""
    times = time_use(kernel=0.2, host=0.8, dispatch_wait_seconds=0.8)
    return profile(device(time=times, kernels=(SHORT,), start=0), start=time)


def said(
    profiles: Sequence[TakenProfile], advice: Sequence[Advice] = (), since: Nanoseconds = 0
) -> dict[str, Judgement]:
    """Judgements of the current workload, by rule."""
    found = judgements_of(profiles, PRESENT, advice, since)
    return {each.finding.rule: each for each in found}


def launch_bound(**facts: Any) -> Judgement:
    """Telemetry's finding of the same trouble."""
    usual: dict[str, Any] = {
        "id": finding_id(KEY, Reason.LAUNCH_BOUND, Action.ENABLE_CUDA_GRAPHS, ""),
        "rule": "launch_bound",
        "kind": FindingKind.INEFFICIENT,
        "reasons": (Reason.LAUNCH_BOUND,),
        "action": Action.ENABLE_CUDA_GRAPHS,
    }
    return judgement(**usual | facts)


def quiet(rule: str = "launch_bound", **facts: Any) -> Judgement:
    """Telemetry without findings."""
    return judgement(
        may_open=False,
        still_holds=False,
        rule=rule,
        kind=FindingKind.OPTIMIZED,
        reasons=(),
        action=Action.NONE,
        **facts,
    )


def test_a_complaint_is_of_the_workload_and_its_gpus() -> None:
    """It has the wording and id of all advice, and the profile in its evidence."""
    found = said([took(at(NOW - HOUR))])["profile_host_bound"]

    assert (found.key, found.finding.workload, found.may_open) == (KEY, KEY, True)
    assert found.finding.id == finding_id(KEY, Reason.HOST_BOUND, Action.NONE, "")
    assert found.finding.devices == found.finding.culprits == ("GPU-0",)
    profiled = found.finding.evidence["profile"]
    assert profiled["format"] == "pytorch"  # type: ignore[index] # A mapping, as JSON is.
    assert profiled["seconds"] == 1.0  # type: ignore[index] # A mapping, as JSON is.


def test_profile_advice_survives_storage() -> None:
    """A long name is truncated."""
    named = kernel("x" * 5000, count=40_000, seconds=0.2)
    times = time_use(kernel=0.2, host=0.8, dispatch_wait_seconds=0.8)
    kept = took(profile(device(time=times, kernels=(named,), start=0), start=NOW))

    again = TakenProfile.of(kept.text)
    assert again.findings == kept.findings
    assert (again.id, again.key, again.moment) == (kept.id, kept.key, kept.moment)
    assert len(kept.text) < 20_000


def test_a_newer_profile_without_the_trouble_withdraws_it() -> None:
    """In whatever order they arrive; a profile that cannot judge withdraws nothing."""
    older = took(at(NOW - 2 * HOUR))
    newer = took(fine(NOW - HOUR))
    timeless = profile(device(time=None), start=NOW - 60 * SECOND, source="ncu.csv")
    silent = replace(took(timeless), key=KEY, unmatched="")

    for order in ([older, newer], [newer, older]):
        assert said(order)["profile_host_bound"].still_holds is False
    assert said([older, silent])["profile_host_bound"].still_holds is True


def test_a_profile_counts_for_so_long_and_for_its_workload_alone() -> None:
    """From when it was made, not from when it was taken in."""
    found = took(at(NOW - 10 * DAY))

    assert said([found], since=NOW - 11 * DAY)
    assert not said([found], since=NOW - 9 * DAY)
    assert judgements_of([found], {"slurm/other": None}, (), 0) == ()


def test_a_clock_that_is_ahead_makes_nothing_valid_for_longer() -> None:
    """A profile is dated no later than when it was taken in."""
    assert took(at(NOW + DAY), NOW).moment == NOW


@pytest.mark.parametrize("state", [AdviceState.SUCCEEDED, AdviceState.EXPIRED, AdviceState.FAILED])
def test_settled_advice_is_not_reopened_by_an_old_profile(state: AdviceState) -> None:
    """Only a newer profile may reopen it."""
    old = took(at(NOW - 2 * HOUR))
    closed = Advice(
        finding(reasons=(Reason.HOST_BOUND,), rule="host_bound"),
        state,
        opened=NOW - DAY,
        updated=NOW - HOUR,
        closed=NOW - HOUR,
    )

    assert "profile_host_bound" not in said([old], [closed])
    assert said([old, took(at(NOW - 60 * SECOND))], [closed])["profile_host_bound"].may_open
    assert said([old], [replace(closed, closed=NOW - DAY)])
    other = replace(closed, finding=replace(closed.finding, workload="slurm/other"))
    assert said([old], [other])


def test_one_reason_is_one_advice_with_the_profile_in_its_evidence() -> None:
    """Telemetry's advice, with the profile's kernels added to its instructions."""
    (profiled,) = (each for each in said([took(short(NOW - HOUR))]).values() if each.may_open)
    found = with_profiles([launch_bound()], [profiled], frozenset())
    opening = [each for each in found if each.may_open]

    assert [each.finding.rule for each in opening] == ["launch_bound"]
    evidence = opening[0].finding.evidence["profile"]
    assert evidence["kernels"] == ["tiny"]  # type: ignore[index] # A mapping, as JSON is.
    assert "40000 x tiny" in "".join(
        instruction.text for instruction in opening[0].finding.instructions
    )
    assert profiled.finding.id == opening[0].finding.id
    held = next(each for each in found if each.finding.rule == "profile_launch_bound")
    assert held.finding.evidence["held_back"] == "found by launch_bound (LaunchBound)"


def test_advice_that_is_open_by_a_profile_takes_telemetry_in() -> None:
    """It is not closed and reopened under another rule, since nothing changed."""
    (profiled,) = (each for each in said([took(short(NOW - HOUR))]).values() if each.may_open)
    open_now = frozenset({(KEY, "profile_launch_bound")})
    found = {
        with_profile.finding.rule: with_profile
        for with_profile in with_profiles([launch_bound()], [profiled], open_now)
    }

    assert not found["launch_bound"].may_open
    assert found["profile_launch_bound"].still_holds
    assert found["profile_launch_bound"].finding.evidence["telemetry"]


def test_profile_and_silent_telemetry_are_both_in_the_evidence() -> None:
    """The profile's finding opens, and telemetry's view is in its evidence."""
    (profiled,) = (each for each in said([took(short(NOW - HOUR))]).values() if each.may_open)
    found = with_profiles([quiet()], [profiled], frozenset())
    (opening,) = (each for each in found if each.may_open)

    beside: Any = opening.finding.evidence["telemetry"]
    assert (beside["rule"], beside["finding"]) == ("launch_bound", "optimized")


def test_an_idle_workload_has_no_bottleneck() -> None:
    """The opening policy holds for profiles as for rules."""
    (profiled,) = (each for each in said([took(short(NOW - HOUR))]).values() if each.may_open)
    found = with_profiles([judgement()], [profiled], frozenset())

    assert [each.finding.rule for each in found if each.may_open] == ["idle"]


def test_a_measured_contradiction_makes_less_sure() -> None:
    """Active tensor cores by telemetry count; a wait that it cannot see weighs nothing."""
    plain = kernel("sgemm", uses_tensor_cores=False, seconds=35.0)
    unused = long_profile(kernel_ratio=0.9, host_ratio=0.1, kernels=(plain,))
    at_work = {Condition.NO_TENSOR_CORES: 0}
    idle = {Condition.NO_TENSOR_CORES: 300 * SECOND}
    working = {State.PRODUCTIVE: 300.0}

    against = took(unused, states=working, conditions=at_work)
    along = took(unused, states=working, conditions=idle)
    unsure, sure = (
        next(each for each in found.findings if each.rule == "profile_tensor_cores_unused")
        for found in (against, along)
    )
    assert unsure.confidence_factors["telemetry"] == SETTINGS.contradicted_ratio
    assert unsure.confidence == pytest.approx(sure.confidence * 0.75, abs=0.01)
    assert len(unsure.evidence["contradictions"]) == 1  # type: ignore[arg-type] # A list, as JSON.
    waits = took(long_profile(), states=working)
    assert waits.contradictions
    assert all("telemetry" not in each.confidence_factors for each in waits.findings)


@pytest.mark.parametrize("found", [at(NOW), fine(NOW)])
def test_finding_unseen_by_telemetry_is_less_sure_and_no_advice(found: Profile) -> None:
    """The same holds for findings and healthy verdicts; an abstention has no verdict."""
    sure = took(found)
    unsure = took(found, states={State.IDLE_HELD: 300.0})
    assert (sure.key, unsure.key, unsure.outcome) == (KEY, None, "unmatched")
    assert "saw no activity" in unsure.unmatched
    assert said([sure])
    assert not said([unsure])
    for one, other in zip(sure.findings, unsure.findings, strict=True):
        assert one.rule == other.rule
        assert ("telemetry" in other.confidence_factors) is (other.abstained is None)
        assert other.confidence == pytest.approx(one.confidence * 0.75, abs=0.01)


def test_outcomes_say_what_came_of_a_profile() -> None:
    """One word for each outcome."""
    unmatched = replace(at(NOW), start=None)
    timeless = replace(took(profile(device(time=None))), key=KEY)

    found = [took(at(NOW)), took(fine(NOW)), took(unmatched), timeless]
    assert [each.outcome for each in found] == ["complaint", "fine", "unmatched", "undecided"]


class Life:
    """A workload's advice, run after run."""

    def __init__(self) -> None:
        self.ledger = Ledger()

    def run(self, minutes: float, telemetry: Judgement, *profiles: TakenProfile) -> None:
        """One run of the recommender."""
        open_now = open_places(self.ledger.advice())
        profiled = judgements_of(profiles, PRESENT, self.ledger.advice(), 0)
        self.ledger.update(with_profiles([telemetry], profiled, open_now), after(minutes))

    @property
    def open(self) -> list[str]:
        """The rules of the open advice."""
        return [each.finding.rule for each in self.ledger.advice() if each.is_open]


def test_advice_stays_one_through_its_life() -> None:
    """Opened by a profile, kept by it, closed by a newer one, and not opened again."""
    life = Life()
    old = took(short(NOW - HOUR))
    life.run(0, quiet(), old)
    assert life.open == ["profile_launch_bound"]
    life.run(10, launch_bound(), old)
    assert life.open == ["profile_launch_bound"]
    better = took(replace(fine(NOW + 20 * 60 * SECOND), source="b"), now=after(30))
    life.run(40, quiet(), old, better)
    assert life.open == []
    life.run(50, quiet(), old, better)
    assert life.open == []
    assert len(life.ledger.advice()) == 1


def test_older_profile_does_not_open_a_finding_that_ended() -> None:
    """The loader was fixed, and no profile was made of that."""
    life = Life()
    old = took(short(NOW - HOUR))
    life.run(0, launch_bound(), old)
    assert life.open == ["launch_bound"]
    for minutes in (10, 20, 30, 40):
        life.run(minutes, quiet(), old)
    assert life.open == []
    assert len(life.ledger.advice()) == 1


def test_claimed_advice_of_a_profile_is_verified_by_telemetry() -> None:
    """The workload's waste before and after someone acted."""
    ledger = Ledger()
    old = took(short(NOW - HOUR))
    wastes = {"wasted": 0.6}

    def measured(_: Nanoseconds) -> dict[str, Measurement]:
        return {KEY: Measurement(gpus=1.0, waste_ratio=wastes["wasted"], watts=None)}

    def run(minutes: float) -> None:
        profiled = judgements_of([old], PRESENT, ledger.advice(), 0)
        found = with_profiles([quiet()], profiled, open_places(ledger.advice()))
        ledger.update(found, after(minutes), measured)

    run(0)
    (advice,) = ledger.advice()
    ledger.act(advice.id, AdviceState.CLAIMED, "ana", after(5))
    run(10)
    wastes["wasted"] = 0.1
    run(60)
    assert [each.state for each in ledger.advice()] == [AdviceState.CLAIMED]
    run(13 * 60)

    (advice,) = ledger.advice()
    assert advice.state is AdviceState.SUCCEEDED
    assert advice.why == "0.60 GPUs wasted before, 0.10 after"
    run(8 * 24 * 60)
    assert [each.state for each in ledger.advice()] == [AdviceState.SUCCEEDED]


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["complains", "quiet", "idle"]), st.booleans(), st.booleans()),
        max_size=8,
    )
)
def test_no_reason_is_ever_open_twice(steps: list[tuple[str, bool, bool]]) -> None:
    """For any sequence of telemetry and profile findings."""
    life = Life()
    profiles = list[TakenProfile]()
    for number, (what, has_profile, is_fine) in enumerate(steps):
        minutes = 10.0 * number
        if has_profile:
            made = after(minutes) - 60 * SECOND
            profiles.append(took(fine(made) if is_fine else short(made), now=after(minutes)))
        telemetry = {"complains": launch_bound(), "quiet": quiet(), "idle": judgement()}[what]
        life.run(minutes, telemetry, *profiles)
        reasons = [each.finding.reasons for each in life.ledger.advice() if each.is_open]
        assert len(reasons) == len(set(reasons))
