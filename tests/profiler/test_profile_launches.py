"""Host call of a correlation number."""

from itertools import permutations

import numpy as np
import pytest

from rightsizer.profiles.time_use import Launches

CALLS = ((5, 10, 30), (5, 10, 20), (5, 40, 45), (6, 0, 9))


@pytest.mark.parametrize("calls", list(permutations(CALLS)))
def test_a_number_used_twice_names_its_first_call(calls: tuple[tuple[int, int, int], ...]) -> None:
    """In any order of writing, the first to begin counts, and of those the first to end."""
    launches = Launches()
    launches.extend(*np.array(calls).T, np.full(len(calls), 1))
    (row,) = launches.rows(np.array([5]))
    assert [column[row] for column in launches.read()] == [5, 10, 20, 1]


def test_an_unknown_number_names_none() -> None:
    """Covers numbers between known ones, and beyond all."""
    launches = Launches()
    launches.extend(*np.array([(5, 0, 1, 1), (7, 0, 1, 1)]).T)
    assert launches.rows(np.array([6, 8])).tolist() == [-1, -1]
