"""Columns of the export: unique, documented, and true to the window."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from export_document import export_document
from readings import EPOCH, MINUTE, gpu
from rightsizer.model.block import Blocks, Measure
from rightsizer.model.device import MigInstance
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import (
    Cause,
    Condition,
    Observation,
    Resource,
    State,
    Tier,
    UnknownReason,
)
from rightsizer.model.units import seconds
from rightsizer.model.window import Window
from rightsizer.report.export import COLUMNS, ExportRow
from rightsizer.report.table_file import TableColumnKind

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "export.md"
TYPES: Final = {
    TableColumnKind.TEXT: str,
    TableColumnKind.TEXTS: tuple,
    TableColumnKind.INTEGER: int,
    TableColumnKind.NUMBER: float,
}


def full_row() -> ExportRow:
    """A row without missing values, all of them different."""
    times = iter(range(1, 10_000))
    halves = {measure: next(times) / 1024 for measure in Measure}
    histogram = Histogram({17: 1.0, 40: 1.0})
    window = Window(
        "MIG-1",
        EPOCH,
        EPOCH + 5 * MINUTE,
        states={state: next(times) * 10**9 for state in State},
        second_causes={state: next(times) * 10**9 for state in State},
        unknown_reasons={reason: next(times) * 10**9 for reason in UnknownReason},
        observed={observation: next(times) * 10**9 for observation in Observation},
        conditions={condition: next(times) * 10**9 for condition in Condition},
        tiers={tier: next(times) * 10**9 for tier in Tier},
        saturated={resource: next(times) * 10**9 for resource in Resource},
        pressed={resource: next(times) * 10**9 for resource in Resource},
        waste_seconds={cause: float(next(times)) for cause in Cause},
        waste_joules={cause: float(next(times)) for cause in Cause},
        used_seconds=float(next(times)),
        used_joules=float(next(times)),
        energy_joules=float(next(times)),
        cycles=float(next(times)),
        cycle_seconds=float(next(times)),
        cycle_busy_seconds=float(next(times)),
        demands=dict.fromkeys(Resource, histogram),
        blocks=Blocks.of_one(EPOCH, 300.0, halves, {key: 2 * halves[key] for key in halves}),
    )
    device = gpu(3, uuid="MIG-1", mig=MigInstance("GPU-1", "1g.10gb", 7, 0, 1 / 7, 1 / 8))
    return ExportRow(window, device, ("slurm/a", "slurm/b"))


def test_the_document_is_the_tables_own(golden: Callable[[str | Path, str], None]) -> None:
    """docs/export.md is generated from the columns; `make golden` writes it."""
    golden(DOCUMENT, export_document())


def test_every_column_has_a_name_of_its_own_and_an_explanation() -> None:
    """Numbers have their unit in the name."""
    names = [column.name for column in COLUMNS]

    assert len(names) == len(set(names))
    assert all(column.help.endswith(".") for column in COLUMNS)
    assert not [
        column.name
        for column in COLUMNS
        if column.kind is TableColumnKind.NUMBER
        and not column.name.endswith(("_seconds", "_joules", "_ratio", "_bytes"))
    ]


def test_every_column_holds_what_it_says() -> None:
    """In a row without missing values, each has a value of its kind."""
    row = full_row()
    values = {column.name: (column.kind, column.value(row)) for column in COLUMNS}

    assert [name for name, (kind, value) in values.items() if type(value) is not TYPES[kind]] == []


def test_every_word_of_a_window_has_its_columns() -> None:
    """No sum of a window is missing, and each has a name of its own."""
    row = full_row()
    found = {column.name: column.value(row) for column in COLUMNS}
    window = row.window

    for group, name in (
        (window.states, "{}_seconds"),
        (window.second_causes, "second_cause_{}_seconds"),
        (window.unknown_reasons, "unknown_{}_seconds"),
        (window.conditions, "{}_seconds"),
        (window.observed, "{}_observed_seconds"),
        (window.tiers, "{}_tier_seconds"),
        (window.saturated, "{}_saturated_seconds"),
        (window.pressed, "{}_pressed_seconds"),
    ):
        assert {key: found[name.format(key)] for key in group} == {
            key: seconds(time) for key, time in group.items()
        }
    assert {cause: found[f"waste_{cause}_seconds"] for cause in Cause} == window.waste_seconds
    assert {cause: found[f"waste_{cause}_joules"] for cause in Cause} == window.waste_joules
    assert found["used_seconds"] == window.used_seconds
    assert (found["used_joules"], found["energy_joules"]) == (
        window.used_joules,
        window.energy_joules,
    )
    assert [found[name] for name in ("cycles", "cycle_seconds", "cycle_busy_seconds")] == [
        window.cycles,
        window.cycle_seconds,
        window.cycle_busy_seconds,
    ]
    assert {found[f"{resource}_max_ratio"] for resource in Resource} == {0.4}
    assert {found[f"{resource}_p50_ratio"] for resource in Resource} == {0.17}
    assert (found["busy_mean_ratio"], found["busy_peak_ratio"]) == (1 / 1024, 2 / 1024)
    sums = set(Window.__struct_fields__) - {
        "uuid",
        "start",
        "end",
        "compute_at_least",
    }
    assert sums == {
        "states",
        "conditions",
        "observed",
        "tiers",
        "saturated",
        "pressed",
        "waste_seconds",
        "waste_joules",
        "used_seconds",
        "used_joules",
        "energy_joules",
        "demands",
        "blocks",
        "second_causes",
        "unknown_reasons",
        "cycles",
        "cycle_seconds",
        "cycle_busy_seconds",
    }


def test_unknown_value_is_an_empty_cell() -> None:
    """It is never 0: no device, no energy, no use, no holder."""
    row = ExportRow(Window("GPU-0", EPOCH, EPOCH + MINUTE, {State.UNKNOWN: MINUTE}), None)
    found = {column.name: column.value(row) for column in COLUMNS}
    missing = {name for name, value in found.items() if value is None}

    assert {"gpu", "model", "energy_joules", "used_joules", "waste_idle_joules"} <= missing
    assert {"compute_p50_ratio", "busy_mean_ratio", "memory_peak_bytes"} <= missing
    assert found["holders"] == ()
    assert (found["unknown_seconds"], found["productive_seconds"]) == (60.0, 0.0)
