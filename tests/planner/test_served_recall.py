"""Forty served models: what is found of those that are wrong, and nothing of those that are not."""

from functools import cache
from typing import Final

from msgspec.structs import asdict, replace

from rightsizer.planner.served.answer_blocks import ServedAnswer
from rightsizer.planner.served.answers import PredictedLoads, predicted_loads, served_answers
from rightsizer.planner.served.engine import requirement_of
from rightsizer.planner.served.finding import ServedFinding, ServedFindingKind
from rightsizer.sizing.site import SiteResiduals
from served_look import is_missed
from served_models import BOARDS, PLANNER, ServedModel, served_models, statement_of

_SEED: Final = 11
_RECALL: Final = 0.9


@cache
def site() -> tuple[ServedModel, ...]:
    """The forty models."""
    return tuple(served_models(_SEED))


@cache
def predicted() -> PredictedLoads:
    """Their predictions."""
    models = list(site())
    return predicted_loads([model.load for model in models], PLANNER, statement_of(models))


@cache
def answers() -> dict[str, ServedAnswer]:
    """The answer about each, by its name."""
    return {answer.name: answer for answer in served_answers(predicted(), PLANNER, BOARDS)}


def advised(model: ServedModel) -> list[ServedFinding]:
    """What is advised about one."""
    findings = answers()[model.load.workload].findings
    return [finding for finding in findings if finding.options and not finding.abstained]


def test_there_are_forty_and_all_are_predicted() -> None:
    """Of each kind several."""
    kinds = [model.kind for model in site()]
    assert len(kinds) == 40
    assert {kinds.count(kind) for kind in set(kinds)} == {4, 5, 8, 11}
    assert not predicted().failed


def test_what_is_wrong_is_found() -> None:
    """Nine in ten of those that are too large, too small, misplaced or aliased."""
    wrong = [model for model in site() if model.finding is not None]
    missed = [
        (model.kind, model.load.workload)
        for model in wrong
        if model.finding not in {finding.kind for finding in advised(model)}
    ]
    assert 1.0 - len(missed) / len(wrong) >= _RECALL, missed


def test_nothing_is_advised_of_what_is_unknown() -> None:
    """Its size is a guess."""
    unknown = [model for model in site() if model.kind == "unknown"]
    assert not [finding.summary for model in unknown for finding in advised(model)]


def test_nothing_is_advised_that_misses_the_level() -> None:
    """By the times that the engines really have, which the planner does not know."""
    false = [
        (model.load.workload, option.change)
        for model in site()
        for finding in advised(model)
        if finding.kind is not ServedFindingKind.TRADE
        for option in finding.options
        if is_missed(model, option.question, asdict(option.candidate.layout))
    ]
    assert not false


def test_format_of_what_is_right_is_told_with_what_it_changes() -> None:
    """Nothing else is advised of most of what is right: a fast engine may need less."""
    right = [model for model in site() if model.kind == "right"]
    findings = [finding for model in right for finding in advised(model)]
    wide = [finding for finding in findings if finding.kind is ServedFindingKind.WIDE]
    assert all(option.caution for finding in wide for option in finding.options)
    assert len(findings) - len(wide) <= 1


def test_nothing_smaller_is_advised_of_what_is_short() -> None:
    """Whatever it would save."""
    short = [model for model in site() if model.load.requests_waiting]
    kinds = {finding.kind for model in short for finding in advised(model)}
    assert kinds <= {ServedFindingKind.TOO_SMALL, ServedFindingKind.TRADE}


def test_every_alternative_is_the_first_of_its_own_plan() -> None:
    """Asked of the planner by itself, with the same measurements."""
    planner = replace(PLANNER, site=SiteResiduals().with_(predicted().residuals))
    options = [
        option
        for model in site()
        for finding in advised(model)
        if finding.kind is not ServedFindingKind.BY_HOUR
        for option in finding.options
    ]
    assert options
    for option in options:
        best = planner.plan(requirement_of(option.question)).best
        assert best is not None, option.change
        found = (best.gpu, best.layout, best.dollars_per_hour, best.certainty)
        candidate = option.candidate
        asked = (candidate.gpu, candidate.layout, candidate.dollars_per_hour, option.probability)
        assert found == asked


def test_every_alternative_costs_less_than_what_runs() -> None:
    """By its expected price, where less is advised."""
    for model in site():
        for finding in advised(model):
            if finding.kind is ServedFindingKind.TOO_LARGE:
                assert all(option.savings.dollars_per_hour > 0.0 for option in finding.options)
