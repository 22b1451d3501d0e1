"""Instructions of advice whose texts stand in the table beside this file."""

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from rightsizer.model.finding import Instruction


@cache
def read_table(file: str) -> dict[str, dict[str, Any]]:
    """The entries of a table of texts beside this file, by name."""
    return tomllib.loads((resources.files(__package__) / file).read_text("utf-8"))


def instruction(name: str, uuid: str = "") -> Instruction:
    """The instruction of a name, for the GPU of a uuid where it is about one.

    Raises:
        KeyError: there is none of that name.
    """
    form = read_table("instructions.toml")[name]
    return Instruction(**form | {"text": form["text"].replace("{uuid}", uuid)})


def instructions(*names: str) -> tuple[Instruction, ...]:
    """The instructions of some names."""
    return tuple(map(instruction, names))
