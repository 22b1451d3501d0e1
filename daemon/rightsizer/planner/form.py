"""Form of a plan for a browser: its fields, and the page with its results."""

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from rightsizer.model.errors import RequirementError, UsageError
from rightsizer.model.table import table_rows
from rightsizer.planner.models.known_models import known_names
from rightsizer.planner.plan_file import flag_lines, plan_of_keys
from rightsizer.planner.planner import PlanAnswer, Planner, plan_answers
from rightsizer.planner.summary_blocks import page_blocks
from rightsizer.report.blocks import Block
from rightsizer.report.template import page_of

_MODEL: Final = re.compile(r"[\w.+: -]+(?:/[\w.+: -]+)?", re.ASCII)
"""A hub name, or a size; never a path."""
_NOWHERE: Final = Path("/dev/null")
"""No file exists below it."""


class FormField(NamedTuple):
    """Field of the form: its word on the command line, its label, and its values."""

    word: str
    label: str
    example: str = ""
    choices: tuple[str, ...] = ()
    """Empty for a field of free text."""


FIELDS: Final[Mapping[str, tuple[FormField, ...]]] = {
    group: tuple(
        FormField(row["word"], row["label"], row["example"], tuple(row["choices"].split()))
        for row in rows
    )
    for group, rows in groupby(table_rows(__file__, "form.csv"), itemgetter("group"))
}
"""By group, in display order; the model comes before them."""
_LABELS: Final = {field.word: field.label for fields in FIELDS.values() for field in fields}


def form_document(query: str, planner: Planner) -> str:
    """Return the form with the entered values, followed by the plan or the errors.

    Args:
        query: Fields as sent by a browser: `model=sdxl&rps=5`; empty ones count as absent.
        planner: Catalogue, prices and settings.
    """
    fields = {word: text.strip() for word, text in parse_qsl(query)}
    given = {word: text for word, text in fields.items() if text}
    title = ""
    blocks: Iterable[Block] = ()
    fault = ""
    if given:
        try:
            blocks = page_blocks(_answer(given, planner))
            title = f"GPU plan: {given['model']}"
        except (RequirementError, UsageError) as error:
            fault = "\n".join(map(_by_label, str(error).splitlines()))
    form = {"fields": FIELDS, "given": given, "models": known_names(), "fault": fault}
    return page_of(title, blocks, "plan_form.html", **form)


def _by_label(fault: str) -> str:
    """Name the field of a fault as the form does."""
    word, colon, rest = fault.partition(":")
    return f"{_LABELS.get(word, word)}{colon}{rest}"


def _answer(given: Mapping[str, str], planner: Planner) -> PlanAnswer:
    words = {"model", *(field.word for fields in FIELDS.values() for field in fields)}
    if unknown := [word for word in given if word not in words]:
        raise UsageError(f"{unknown[0]}: is no field; there are {', '.join(sorted(words))}")
    if not _MODEL.fullmatch(given.get("model", "")):
        raise UsageError("model: give a name as on the hubs, such as llama-3.1-70b, or a size: 70B")
    try:
        (answer,) = plan_answers(plan_of_keys(given, _NOWHERE), planner, has_curve=True)
    except RequirementError as error:
        raise UsageError(flag_lines(str(error), given, "")) from None
    if answer.plan is None:
        raise UsageError(answer.error)
    return answer
