"""Site residuals: what measurements change of other predictions, and what they do not."""

import math
from typing import Final

import pytest
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.serving import Server
from rightsizer.sizing.serving_memory import ServingMemory
from rightsizer.sizing.site import (
    SiteCorrection,
    SiteFigure,
    SiteLoad,
    SiteResidual,
    SiteResiduals,
    SiteSubject,
    time_between_boards,
)

CHAT: Final = SiteSubject("Llama-3.1-8B", "vllm", "H100-SXM5-80GB", "", "bf16")
LOAD: Final = SiteLoad.of(8.0, 1500.0, 300.0)
SLOW: Final = SiteResidual(CHAT, LOAD, SiteFigure.TPOT, math.log(1.2), 0.1)
REQUIREMENT: Final = Requirement(
    Transformer(
        name="Llama-3.1-8B",
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=8,
        ffn=14336,
        vocab=128256,
    ),
    load=RequestLoad(1500.0, 300.0),
)


def correction(residuals: tuple[SiteResidual, ...], subject: SiteSubject = CHAT) -> SiteCorrection:
    """The correction of the time between tokens."""
    found = SiteResiduals(residuals).correction(subject, SiteFigure.TPOT)
    assert found is not None
    return found


def server(site: SiteResiduals | None) -> Server:
    """One H100."""
    board = built_in().boards["H100-SXM5-80GB"]
    return Server(ServingMemory(REQUIREMENT, Parallelism()), board, site=site)


def test_board_that_is_slower_here_is_slower_beside_others() -> None:
    """By a part of what engines show, the more of them; whichever engine, unless one is named."""
    times = EstimateInterval(2.0, 1.5, 2.6)
    slow = replace(SLOW, log_ratio=0.08)
    models = (replace(slow, subject=replace(CHAT, model=name)) for name in "abcdefgh")
    site = SiteResiduals(tuple(models))
    boards = (CHAT.board, "L40S")
    adjusted, note = time_between_boards(times, boards, site)
    assert 1.8 < adjusted.value < 2.0
    assert adjusted.high / adjusted.low < times.high / times.low
    assert note.startswith("adjusted by 8 measurements of this site: x0.9")
    assert time_between_boards(times, boards[::-1], site)[0].value > 2.0
    assert time_between_boards(times, boards, site, "vllm")[0] == adjusted
    assert time_between_boards(times, boards, site, "sglang") == (times, "")
    assert time_between_boards(times, boards, None) == (times, "")


def test_nothing_measured_corrects_nothing() -> None:
    """Neither without a file, nor by one of another figure."""
    assert not SiteResiduals()
    assert SiteResiduals().correction(CHAT, SiteFigure.TPOT) is None
    assert SiteResiduals((SLOW,)).correction(CHAT, SiteFigure.TTFT) is None


def test_measurement_shifts_the_same_most_and_others_less() -> None:
    """By what they have in common: subject, model, engine and board, site."""
    others = [
        CHAT,
        replace(CHAT, layout="tensor 2"),
        replace(CHAT, model="Qwen3-32B"),
        SiteSubject("Qwen3-32B", "sglang", "L40S", "", "fp8"),
    ]
    shifts = [correction((SLOW,), subject).shift for subject in others]
    assert shifts == sorted(shifts, reverse=True)
    assert shifts[-2] > shifts[-1] >= 0.0
    assert correction((SLOW,)).factor(0.1) < 1.2


def test_unnamed_models_have_nothing_in_common() -> None:
    """What is known by its size alone is not one model."""
    unnamed = replace(CHAT, model="")
    same_board = SiteSubject("", "vllm", "H100-SXM5-80GB", "tensor 2", "bf16")
    other = replace(same_board, model="Qwen3-32B")
    residuals = (replace(SLOW, subject=unnamed),)
    assert correction(residuals, same_board).shift == correction(residuals, other).shift


def test_interval_narrows_with_measurements_and_never_below_a_load_of_its_own() -> None:
    """However many there are."""
    loads = [SiteLoad(number, 10, 8) for number in range(60)]
    right = replace(SLOW, log_ratio=0.0)
    one = correction((right,))
    many = correction(tuple(replace(right, load=load) for load in loads))
    assert 1.0 > one.deviation_ratio > many.deviation_ratio >= math.sqrt(0.2)


def test_scatter_beyond_the_intervals_widens_them() -> None:
    """A site whose engines miss their intervals is less sure of others too."""
    subjects = [replace(CHAT, model=f"model-{number}") for number in range(6)]
    scattered = tuple(
        replace(SLOW, subject=subject, log_ratio=sign * 0.5)
        for subject, sign in zip(subjects, (1, -1) * 3, strict=True)
    )
    other = SiteSubject("another", "sglang", "L40S", "", "fp8")
    assert correction(scattered, other).deviation_ratio > 1.0


def test_same_load_again_is_counted_and_not_believed_twice() -> None:
    """A window that is learned each hour tells of one load."""
    site = SiteResiduals((SLOW,))
    later = (replace(SLOW, log_ratio=SLOW.log_ratio + 1e-9 * hour) for hour in range(1, 10))
    again = site.with_(tuple(later))
    assert len(again.residuals) == 1
    assert again.residuals[0].count == 10
    first = site.correction(CHAT, SiteFigure.TPOT)
    last = again.correction(CHAT, SiteFigure.TPOT)
    assert first is not None
    assert last is not None
    assert last.deviation_ratio == pytest.approx(first.deviation_ratio)
    assert (first.count, last.count) == (1, 10)


def test_later_measurements_replace_old_ones() -> None:
    """After an upgrade the mean follows."""
    later = (replace(SLOW, log_ratio=1e-6 * hour) for hour in range(200))
    site = SiteResiduals((SLOW,)).with_(tuple(later))
    assert site.residuals[0].log_ratio == pytest.approx(0.0, abs=0.01)


def test_server_is_slower_by_the_factor_and_surer() -> None:
    """Times, rate, and the interval of both."""
    site = SiteResiduals((SLOW,))
    plain = server(None)
    corrected = server(site)
    factor = plain.at(8.0).tpot_ms.value / corrected.at(8.0).tpot_ms.value
    assert corrected.adjustment is not None
    assert 1.0 / factor == pytest.approx(corrected.adjustment.tpot_factor)
    assert plain.adjustment is None
    rates = [each.at(8.0).tokens_per_second.value for each in (plain, corrected)]
    assert rates[1] / rates[0] == pytest.approx(factor)
    assert corrected.errors.above < plain.errors.above
    assert corrected.errors.first_above == plain.errors.first_above


def test_first_token_has_a_factor_of_its_own() -> None:
    """It is told apart from the pace of steps."""
    late = replace(SLOW, figure=SiteFigure.TTFT, log_ratio=0.4, log_deviation=0.4)
    plain = server(None).busy_with(4.0)
    corrected = server(SiteResiduals((late,)))
    assert corrected.adjustment is not None
    first = corrected.busy_with(4.0)
    assert first.tpot_ms == plain.tpot_ms
    factor = first.ttft_ms.value / plain.ttft_ms.value
    assert factor == pytest.approx(corrected.adjustment.ttft_factor)
    assert factor > 1.1


def test_adjustment_says_what_it_rests_on() -> None:
    """In the words of an answer."""
    text = str(server(SiteResiduals((SLOW,))).adjustment)
    assert text.startswith("adjusted by 1 measurement of this site: TPOT x1.1")


def test_oldest_measurements_make_place_for_later_ones() -> None:
    """A file that grew for ever could not be read any more; what is seen again is kept."""
    others = [replace(SLOW, subject=replace(SLOW.subject, model=f"{n}")) for n in range(499)]
    site = SiteResiduals((SLOW,)).with_(others)
    assert len(site.residuals) == 500
    again = replace(SLOW, log_ratio=0.1)
    newer = replace(SLOW, subject=replace(SLOW.subject, model="newer"))
    kept = site.with_((again, newer)).residuals
    assert len(kept) == 500
    assert others[0] not in kept
    assert {SLOW.subject, newer.subject} <= {residual.subject for residual in kept}
