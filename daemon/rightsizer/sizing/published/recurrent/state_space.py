"""Selective state spaces: the mixers of Mamba and Mamba 2."""

from dataclasses import dataclass

from rightsizer.sizing.published.recurrent.mixer import Mixer

__all__ = ["Mamba", "Mamba2"]


@dataclass(frozen=True, slots=True)
class Mamba:
    """A state of its own for each channel (arXiv:2312.00752, section 3.4)."""

    hidden: int
    inner: int
    """Channels."""
    state: int
    rank: int
    """Of the projection to the time steps."""
    reach: int
    """Tokens that the convolution sees."""
    has_bias: bool
    has_convolution_bias: bool
    has_norms: bool = False
    """Of time steps and of what goes in and out of the state, as Jamba has them."""

    @property
    def mixer(self) -> Mixer:
        """In parameters and widths."""
        inner, state, rank = self.inner, self.state, self.rank
        projections = 3 * self.hidden * inner + inner * (rank + 2 * state) + rank * inner
        convolution = inner * (self.reach + (1 if self.has_convolution_bias else 0))
        # The time step's bias, the decay of each element, and what passes by.
        vectors = inner * (state + 2)
        bias = 2 * inner + self.hidden if self.has_bias else 0
        norms = rank + 2 * state if self.has_norms else 0
        return Mixer(
            parameters=projections + convolution + vectors + bias + norms,
            state_elements=inner * (state + self.reach - 1),
            inputs=2 * inner,
            width=inner,
        )


@dataclass(frozen=True, slots=True)
class Mamba2:
    """A state for each head, of its width by the state's (arXiv:2405.21060, section 7)."""

    hidden: int
    heads: int
    head_dim: int
    groups: int
    """Of heads that share what goes in and out of the state."""
    state: int
    reach: int
    """Tokens that the convolution sees."""
    has_input_bias: bool
    has_output_bias: bool
    has_convolution_bias: bool
    has_norm: bool = True
    state_scale: int = 1
    """Numbers of 16 bits that one of the state takes."""

    @property
    def mixer(self) -> Mixer:
        """In parameters and widths."""
        inner = self.heads * self.head_dim
        convolved = inner + 2 * self.groups * self.state
        inputs = inner + convolved + self.heads
        count = self.hidden * (inputs + inner)
        count += convolved * (self.reach + (1 if self.has_convolution_bias else 0))
        # The time step's bias, the decay, and what passes by.
        count += 3 * self.heads + (inner if self.has_norm else 0)
        count += inputs if self.has_input_bias else 0
        count += self.hidden if self.has_output_bias else 0
        return Mixer(
            parameters=count,
            state_elements=self.state_scale * inner * self.state + convolved * (self.reach - 1),
            inputs=inputs,
            width=inner,
        )
