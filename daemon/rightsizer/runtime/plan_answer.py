"""Every requirement of a file answered, in one process and in their order."""

from dataclasses import dataclass

from rightsizer.domain.errors import RequirementError
from rightsizer.runtime.plan_file import PlanFile, Planned
from rightsizer.sizing.planner import Plan, Planner, boards_of
from rightsizer.sizing.unit_notes import unit_notes

__all__ = ["Answer", "answers"]


@dataclass(frozen=True, slots=True)
class Answer:
    """A plan, or why there is none."""

    plan: Plan | None
    notes: tuple[str, ...] = ()
    error: str = ""


def answers(file: PlanFile, planner: Planner) -> tuple[Answer, ...]:
    """One for each requirement.

    Raises:
        RequirementError: the only one cannot be met by anything; of a list, that is an answer.
    """
    found = tuple(_answer(each, planner) for each in file.items)
    if not file.is_list and found[0].error:
        raise RequirementError(found[0].error)
    return found


def _answer(planned: Planned, planner: Planner) -> Answer:
    if planned.requirement is None:
        return Answer(None, error=planned.error)
    try:
        plan = planner.plan(planned.requirement)
    except RequirementError as error:
        return Answer(None, error=planned.placed(str(error)))
    boards = boards_of([each.gpu for each in plan.candidates], planner.catalogue)
    units = unit_notes(plan.requirement.precision.weights, boards)
    return Answer(plan, (*planned.notes, *units))
