"""What a model keeps in memory and does not read for a token that it writes."""

from dataclasses import dataclass

__all__ = ["UnreadParameters"]


@dataclass(frozen=True, slots=True)
class UnreadParameters:
    """Parameters beside the layers, all in memory."""

    tables: float = 0.0
    """Of which a token reads a row, beside the embedding: as quantized checkpoints have that."""
    towers: float = 0.0
    """Of what sees or hears, which an image or a sound passes once."""
    are_towers_quantized: bool = False
    """Whether quantized weights have those of the towers too; else they stay in 16 bits."""

    @property
    def total(self) -> float:
        """All of them."""
        return self.tables + self.towers
