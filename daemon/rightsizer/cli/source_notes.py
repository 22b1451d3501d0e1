"""Sources under numbers, so that a table tells each of them once."""

__all__ = ["SourceNotes"]


class SourceNotes:
    """The sources that a text refers to, in the order of its first references."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, source: str) -> str:
        """How to refer to a source: `[2]`; nothing for none."""
        if not source:
            return ""
        return f"[{self._numbers.setdefault(source, len(self._numbers) + 1)}]"

    def lines(self) -> list[str]:
        """All of them, a line each."""
        return [f"[{number}] {source}" for source, number in self._numbers.items()]
