"""docs/planning.md and docs/planning-method.md document every key of a plan."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from measured import table
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.io.codec import plain
from rightsizer.model.table import table_rows
from rightsizer.planner.models.diffusers import RequestedImage
from rightsizer.planner.plan_check import Prediction
from rightsizer.planner.plan_document import check_document, plan_document
from rightsizer.planner.plan_file import CARBON, read_plan_file
from rightsizer.planner.plan_model import KINDS, PublishedRequest
from rightsizer.planner.planner import Planner
from rightsizer.planner.recording_check import compare_recording, read_devices
from rightsizer.recordings.source import open_recording
from rightsizer.sizing import requirement as requirement_module
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import (
    Lora,
    ModelTask,
    Optimizer,
    Parallelism,
    Precisions,
    Recompute,
    Requirement,
    Training,
    TrainingFramework,
)

DOCS: Final = Path(__file__).parents[2] / "docs"
METHOD: Final = DOCS / "planning-method.md"
PAGES: Final = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "planning.md", METHOD))
BEGIN = "<!-- frameworks: begin -->\n"
END = "<!-- frameworks: end -->"
PROSE: Final = re.sub(r"```.*?```", "", PAGES, flags=re.DOTALL)
WORDS: Final = frozenset(
    word for span in re.findall(r"`([^`]+)`", PROSE) for word in re.findall(r"[\w.-]+", span)
)
DOCUMENTED: Final = WORDS | {f"{word}_{end}" for word in WORDS for end in ("low", "high")}
"""Documented keys, with the ends of intervals, which are explained once."""
PLAN: Final = """\
model: {parameters: 8e9}
load: {tokens_per_second: 3000}
growth: {per_month: 0.2, months: 6}
prices: {carbon_grams_per_kwh: 400}
gpus: [L40S, H100-SXM5-80GB]
"""


@pytest.mark.parametrize(
    "kind",
    [RequestLoad, Lora, Parallelism, Precisions, Training, *KINDS.values()],
    ids=lambda each: each.__name__,
)
def test_every_key_that_is_taken_is_reported(kind: type) -> None:
    """Of each part of a requirement; a rate has a key for each unit."""
    keys = set(kind.__struct_fields__) - {"units_per_second"}
    assert keys - DOCUMENTED == set()


def test_every_part_and_every_word_that_is_taken_is_reported() -> None:
    """Keys at the top, and enumerated values; what a checkpoint states is no key."""
    top = set(Requirement.__struct_fields__) - {"checkpoint"}
    top |= {*KINDS, *PublishedRequest.__struct_fields__, "kind"}
    words = {str(each) for kind in (ModelTask, NumberFormat, Recompute, Optimizer) for each in kind}

    top |= set(RequestedImage.__struct_fields__)
    assert (top | words | {"per_month", "months", CARBON}) - DOCUMENTED == set()


def test_every_framework_is_reported(golden: Callable[[str | Path, str], None]) -> None:
    """As planned: kernels, spread experts, split loss; one row of the table each."""
    known = table_rows(requirement_module.__file__, "frameworks.csv")
    assert [row["framework"] for row in known] == [*TrainingFramework]
    rows = [
        (
            f"`{each}`",
            "fused" if each.is_fused else "PyTorch's own" + ", autocast" * each.is_autocast,
            "yes" if each.spreads_experts else "no",
            "yes" if each.splits_loss else "no",
        )
        for each in TrainingFramework
    ]
    text = table(rows, ("framework", "kernels", "spreads experts", "splits the loss"))
    before, _, rest = METHOD.read_text(encoding="utf-8").partition(BEGIN)
    golden(METHOD, f"{before}{BEGIN}\n{text}\n\n{END}{rest.partition(END)[2]}")


def test_every_key_that_is_given_is_reported(tmp_path: Path) -> None:
    """Of a plan with all parts."""
    file = tmp_path / "plan.yaml"
    run = tmp_path / "run.csv"
    file.write_text(PLAN, encoding="utf-8")
    run.write_text("timestamp,device,gpu_busy\n1,GPU-0,0.5\n2,GPU-0,0.5\n", encoding="utf-8")
    planner = Planner(built_in(), built_in_prices())
    requirement = read_plan_file(file).items[0].requirement
    assert requirement is not None
    plan = planner.plan(requirement)
    devices = read_devices(open_recording([run], catalogue=built_in()))
    measured = compare_recording(
        Prediction(requirement, planner, plan.candidates[0], "A30"), devices
    )
    document = {**plain(plan_document(plan)), "measured": plain(check_document(measured))}

    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["growth"]
    assert document["growth_outlook"]
    assert document["alternatives"]
    assert set(keys(document)) - DOCUMENTED == set()


def keys(document: Any) -> Iterator[str]:
    """All keys of a form, nested ones included."""
    if isinstance(document, dict):
        yield from document
    for part in document.values() if isinstance(document, dict) else document:
        if isinstance(part, dict | list):
            yield from keys(part)
