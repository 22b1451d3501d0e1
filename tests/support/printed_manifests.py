"""Manifests that advice prints: whole ones to apply, and fragments that say where they go."""

from collections.abc import Iterable

from rightsizer.io.yaml import load_yaml
from rightsizer.model.finding import Instruction

__all__ = ["homeless"]


def homeless(instructions: Iterable[Instruction]) -> list[str]:
    """Manifests that can neither be applied nor name their file in the first line."""
    return [
        instruction.text
        for instruction in instructions
        if instruction.language == "yaml"
        and not _is_whole(instruction.text)
        and not instruction.text.startswith(("# Of the ", "# The "))
    ]


def _is_whole(text: str) -> bool:
    written = load_yaml(text, "advice").data
    return bool({"apiVersion", "kind", "metadata", "spec"} <= written.keys())
