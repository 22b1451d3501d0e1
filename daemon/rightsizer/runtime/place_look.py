"""Which GPUs of this node to take right now, where no agent runs: by a few looks of one's own."""

from rightsizer.domain.units import seconds
from rightsizer.edge.clock import Clock
from rightsizer.placement.request import Request
from rightsizer.runtime.look import look_at_node, seats_over
from rightsizer.runtime.place_form import Form, place_form
from rightsizer.runtime.placing import Given, chosen_of
from rightsizer.runtime.settings import Settings

__all__ = ["place_by_look"]


def place_by_look(settings: Settings, request: Request, clock: Clock) -> Form:
    """The answer by a few looks at the driver, a second apart.

    It knows the states of this moment alone: not for how long a GPU has been idle, what was
    measured before, nor what is lent.

    Args:
        settings: Which driver, and all thresholds.
        request: What is asked for.
        clock: The clock to wait by.

    Raises:
        RightsizerError: there is no GPU, or the driver does not answer.
    """
    reports = look_at_node(settings, clock)
    last = reports[-1]
    answer = chosen_of(seats_over(reports, settings), last, request, settings, Given())
    watched = seconds(last.wall_time - reports[0].wall_time)
    return place_form(answer, time=last.wall_time, watched_seconds=watched, source="look")
