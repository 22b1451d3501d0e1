"""GPUs missing from the catalogue: reported with their driver's data."""

import pytest

from readings import gpu
from rightsizer.advice.rules.overprovisioned import unknown_board
from rightsizer.model.device import Device


def test_a_board_that_is_known_needs_no_words() -> None:
    """The catalogue's data is used."""
    assert unknown_board(gpu()) == ""


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (
            gpu(board=None, name="R300", architecture="Rubin", facts={"cores": "20000"}),
            (
                "R300 is unknown to the catalogue (its driver says: Rubin, 80.0 GiB, 700 W, 20000"
                " cores); describe it in catalogue.boards_file"
            ),
        ),
        (
            Device("GPU-0", 0),
            "the GPU is unknown to the catalogue; describe it in catalogue.boards_file",
        ),
    ],
)
def test_board_document_has_only_what_the_driver_reports(device: Device, expected: str) -> None:
    """With the remedy."""
    assert unknown_board(device) == expected
