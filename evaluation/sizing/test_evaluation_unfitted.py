"""Published results outside the fit: each is predicted, and intervals cover most."""

from evaluation.sizing.unfitted import Prediction, UnfittedFigure, predictions, unfitted_figures
from rightsizer.sizing.estimate import EstimateInterval


def test_every_figure_is_predicted_and_has_a_source() -> None:
    """Rows are questions that the planner reads; each names its source."""
    figures = unfitted_figures()

    assert len(figures) == len(list(predictions()))
    assert all(figure.source and figure.published > 0.0 for figure in figures)
    assert {figure.part for figure in figures} == {"seen", "opened", "kept"}


def test_intervals_hold_most_of_them() -> None:
    """Coverage is 85 to 97% of all, and of those that did not set a width."""
    found = list(predictions())
    kept = [each for each in found if each.figure.part == "kept"]

    for rows in (found, kept):
        assert 0.85 <= sum(row.is_covered for row in rows) / len(rows) <= 0.97


def test_an_error_is_the_logarithm_of_predicted_by_published() -> None:
    """Too fast is above 0; the width is that of half an interval."""
    figure = UnfittedFigure("serving", "seen", "{}", "tokens_per_second", 100.0, "a page")
    prediction = Prediction(figure, EstimateInterval.around(200.0, 1.5))

    assert f"{prediction.error:.3f}, {prediction.width:.3f}" == "0.693, 0.405"
    assert not prediction.is_covered
