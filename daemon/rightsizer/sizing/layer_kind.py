"""One kind of layers of a model whose layers are not all alike."""

from dataclasses import dataclass

__all__ = ["LayerKind"]


@dataclass(frozen=True, slots=True)
class LayerKind:
    """Layers that are made of the same parts."""

    layers: int
    has_attention: bool = False
    has_feed_forward: bool = True
    recurrent_inputs: int = 0
    """Elements of one token that a recurrent mixer projects to; 0 where there is no such mixer."""
    recurrent_width: int = 0
    """Elements of one token that the recurrence makes of them."""
    parts: int = 2
    """One after the other, each with a norm and a residual; what runs side by side is one."""

    @property
    def is_recurrent(self) -> bool:
        """Whether these layers keep a state of a request."""
        return self.recurrent_inputs > 0
