"""A case of stored days sums up its windows only when a rule reads them."""

from msgspec.structs import replace

from cases import case, window
from rightsizer.model.finding import Node
from rightsizer.model.lazy import LazySequence
from rightsizer.model.state import State
from rightsizer.model.window import Provisioning, Window

GIVEN = case([window({State.PRODUCTIVE: 1.0})])


class Counted:
    """Makes the parts of a case, and counts how often."""

    def __init__(self) -> None:
        self.windows, self.provisioning = 0, 0
        self.case = replace(
            GIVEN,
            windows=LazySequence(self._windows),
            provisioning=LazySequence(self._provisioning),
        )

    def _windows(self) -> tuple[Window, ...]:
        self.windows += 1
        return GIVEN.windows

    def _provisioning(self) -> tuple[Provisioning, ...]:
        self.provisioning += 1
        return GIVEN.provisioning


def test_windows_are_summed_only_when_read() -> None:
    """Key, workload and devices are known without."""
    counted = Counted()
    found = replace(counted.case, node=Node())
    assert (found.key, found.workload, found.devices) == (
        GIVEN.key,
        GIVEN.workload,
        GIVEN.devices,
    )
    assert (counted.windows, counted.provisioning) == (0, 0)
    assert found.windows == GIVEN.windows
    assert (counted.windows, counted.provisioning) == (1, 0)


def test_a_case_on_its_node_shares_what_was_summed_up() -> None:
    """The sum is computed once for both."""
    counted = Counted()
    on_node = replace(counted.case, node=Node())
    for each in (counted.case, on_node, on_node):
        assert each.provisioning == GIVEN.provisioning
        assert each.windows == GIVEN.windows
    assert (counted.windows, counted.provisioning) == (1, 1)
    assert on_node.node == Node()
    assert counted.case.node is None


def test_a_lazy_case_equals_one_that_was_computed() -> None:
    """Rules cannot tell the difference."""
    assert Counted().case == GIVEN
