"""Kernels that take more time than in an earlier profile, by family and individually."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles_built import device, kernel, profile, step
from rightsizer.io.codec import plain
from rightsizer.model.profile import KernelFamily, KernelUse, ProfiledDevice
from rightsizer.profiler.answer_blocks import profile_blocks
from rightsizer.profiler.changes import differences, kernel_changes
from rightsizer.profiler.figures import family_change_row, kernels_changed_text, pace_text
from rightsizer.profiler.page import profile_document
from rightsizer.profiler.profile_encoder import answer_document
from rightsizer.profiler.workload import ProfileAnswer, ProfiledWorkload
from rightsizer.report.block_text import text_of

A100 = "NVIDIA A100-SXM4-80GB"
PRODUCT = KernelFamily.MATRIX_PRODUCT
COPY = KernelFamily.COPY
STEPS = tuple(step(each) for each in range(4))


def workload(*kernels: KernelUse, steps: int = 4) -> ProfiledWorkload:
    """A GPU with the given kernels."""
    found = profile(device(kernels=kernels, steps=STEPS[:steps]))
    return ProfiledWorkload("training", (found,), ())


BEFORE = workload(
    kernel("gemm_a", seconds=0.4, family=PRODUCT),
    kernel("gemm_b", seconds=0.2, family=PRODUCT),
    kernel("cast", seconds=0.4, family=COPY),
)
AFTER = workload(
    kernel("gemm_a", seconds=0.4, family=PRODUCT),
    kernel("gemm_c", seconds=0.5, family=PRODUCT),
    kernel("cast", seconds=0.04, family=COPY),
    steps=2,
)


def test_families_and_kernels_are_compared_per_step() -> None:
    """The largest changes come first; new ones have no ratio, removed ones a ratio of 0."""
    found = kernel_changes(BEFORE.profiles, AFTER.profiles)
    assert found.per == "step"
    assert [(family.family, family.before, family.after) for family in found.families] == [
        (PRODUCT, pytest.approx(0.15), pytest.approx(0.45)),
        (COPY, pytest.approx(0.1), pytest.approx(0.02)),
    ]
    ratios = {each.name: each.ratio for each in found.kernels}
    assert ratios == {
        "gemm_c": None,
        "gemm_b": 0.0,
        "gemm_a": pytest.approx(2),
        "cast": pytest.approx(0.2),
    }
    assert found.kernels[0].name == "gemm_c"


def test_other_boards_and_counts_are_reported() -> None:
    """They explain part of the change; a missing name is not a difference."""
    kernels = (kernel("gemm_a", seconds=0.4, family=PRODUCT),)
    boards = [
        ProfiledWorkload("training", (profile(*each),), ())
        for each in (
            (device(device=ProfiledDevice("0", 0, A100), kernels=kernels),),
            (device(kernels=kernels), device(kernels=kernels)),
            (device(device=ProfiledDevice("0", 0, ""), kernels=kernels),),
        )
    ]
    before, after, unnamed = boards
    (workload,) = plain(answer_document(ProfileAnswer((after,), (before,))))["workloads"]
    assert workload["against"]["warnings"] == [
        "Recorded on other boards: NVIDIA A100-SXM4-80GB before, NVIDIA H100 80GB HBM3 after.",
        "Recorded on another number of GPUs: 1 before, 2 after.",
    ]
    answer = plain(answer_document(ProfileAnswer((after,), (before,))))
    assert "on other boards" in text_of(profile_blocks(answer))
    assert "on other boards" in profile_document(answer)
    (workload,) = plain(answer_document(ProfileAnswer((unnamed,), (before,))))["workloads"]
    assert workload["against"]["warnings"] == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("NVIDIA A100", "NVIDIA A100-SXM4-80GB", 0),
        ("NVIDIA A10", "NVIDIA A100-SXM4-80GB", 1),
        ("NVIDIA L40S", "NVIDIA L4", 1),
    ],
)
def test_a_name_that_says_more_may_be_of_the_same_board(
    before: str, after: str, expected: int
) -> None:
    """A prefix must end at a word's end, so that an A10 is not taken for an A100."""
    first, second = (
        (profile(device(device=ProfiledDevice("0", 0, name))),) for name in (before, after)
    )
    assert len(differences(first, second)) == expected


def test_without_steps_they_are_compared_per_gpu() -> None:
    """This applies to either side."""
    found = kernel_changes(workload(kernel(seconds=0.4), steps=0).profiles, AFTER.profiles)
    assert found.per == "GPU"
    assert found.families[0].after in {0.9, 0.04}


def test_a_regression_is_named_by_its_family() -> None:
    """Text and page name it, even where another family improved more."""
    answer = plain(answer_document(ProfileAnswer((AFTER,), (BEFORE,))))
    against = answer["workloads"][0]["against"]
    sentence = "Matrix product kernels take 300 ms more per step (x3.00), most of it in gemm_c"
    assert kernels_changed_text(against) == f"m{sentence[1:]}"
    assert sentence in text_of(profile_blocks(answer)).replace("\n  ", " ")
    assert f"{sentence}." in profile_document(answer)
    assert family_change_row(against["kernels"][0]) == ("gemm_c", "0 s", "250 ms", "new")
    assert family_change_row(against["families"][0])[0] == "matrix product"


def test_unchanged_kernel_is_not_reported() -> None:
    """It is less than half a percent of all kernels, or zero."""
    for after in (BEFORE, workload(kernel("cast", seconds=1.001, family=COPY))):
        before = BEFORE if after is BEFORE else workload(kernel("cast", seconds=1.0, family=COPY))
        (compared,) = plain(answer_document(ProfileAnswer((after,), (before,))))["workloads"]
        against = compared["against"]
        assert not kernels_changed_text(against)


@given(
    sides=st.tuples(*[st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 9)))] * 2),
)
def test_families_sum_to_their_kernels(
    sides: tuple[list[tuple[str, int]], list[tuple[str, int]]],
) -> None:
    """This holds on both sides, for any kernels."""
    families = dict(zip("abcd", (PRODUCT, COPY, PRODUCT, COPY), strict=True))
    before, after = (
        workload(*(kernel(name, seconds=time, family=families[name]) for name, time in side))
        for side in sides
    )
    found = kernel_changes(before.profiles, after.profiles)
    for family in found.families:
        own = [each for each in found.kernels if each.family is family.family]
        assert family.before == pytest.approx(sum(each.before for each in own))
        assert family.after == pytest.approx(sum(each.after for each in own))


def test_a_renamed_kernel_is_one_row() -> None:
    """Of one family, with as many runs a step: the same work by another library or board."""
    before = workload(
        kernel("ampere_gemm", count=40, seconds=0.4, family=PRODUCT),
        kernel("cast", count=8, seconds=0.1, family=COPY),
    )
    after = workload(
        kernel("hopper_gemm", count=20, seconds=0.1, family=PRODUCT),
        kernel("split_gemm", count=60, seconds=0.1, family=PRODUCT),
        kernel("cat", count=20, seconds=0.01, family=COPY),
        steps=2,
    )
    found = {each.name: each for each in kernel_changes(before.profiles, after.profiles).kernels}
    renamed = found["hopper_gemm"]
    assert (renamed.former_name, renamed.ratio) == ("ampere_gemm", pytest.approx(0.5))
    assert "ampere_gemm" not in found
    assert found["split_gemm"].ratio is None
    assert found["cast"].ratio == 0.0
    row = family_change_row(
        {"name": "b", "former_name": "a", "before": 1.0, "after": 1.0, "ratio": 1.0}
    )
    assert row[0] == "b (was a)"


def _against(*changes: tuple[str, float, float]) -> dict[str, object]:
    rows = [{"figure": name, "before": before, "after": after} for name, before, after in changes]
    return {"changes": rows}


def test_the_pace_comes_first() -> None:
    """With the part of a step that changed most."""
    slower = _against(
        ("step_seconds", 0.1, 0.12), ("kernel_seconds_per_step", 0.06, 0.061),
        ("host_wait_ratio", 0.2, 0.32),
    )  # fmt: skip
    text = "A step takes 20% more time, 100 ms to 120 ms; waiting for the host: 20 ms to 38.4 ms"
    assert pace_text(slower) == text
    assert pace_text(_against(("step_seconds", 0.1, 0.1001))).startswith("A step takes as long")
    assert not pace_text(_against(("kernel_ratio", 0.1, 0.2)))
