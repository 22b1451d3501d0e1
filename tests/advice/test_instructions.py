"""The table of instructions, against the rules that name its entries."""

from pathlib import Path

import pytest

from rightsizer.advice import instructions
from rightsizer.advice.rules import hardware_unhealthy
from rightsizer.io.yaml import load_beside

_PACKAGE = Path(instructions.__file__).parent
NAMES = tuple(load_beside(instructions.__file__, "instructions.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_instruction_of_the_table_is_complete_and_used(name: str) -> None:
    """It has a title of one line and a text, and some rule or fault uses it."""
    found = instructions.instruction(name, "GPU-0")
    assert found.title
    assert "\n" not in found.title
    assert found.text.strip()
    assert "{uuid}" not in found.text
    sources = (file.read_text(encoding="utf-8") for file in _PACKAGE.rglob("*.py"))
    faults = load_beside(hardware_unhealthy.__file__, "hardware_faults.yaml").values()
    assert any(f'"{name}"' in source for source in sources) or any(
        fault["remedy"] == name for fault in faults
    )


def test_instruction_about_a_gpu_names_it() -> None:
    """The uuid is inserted wherever the text needs one."""
    assert "--gpu-reset -i GPU-7" in instructions.instruction("reset_gpu", "GPU-7").text
