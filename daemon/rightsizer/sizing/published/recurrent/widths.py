"""Widths of a state space that a configuration tells in several ways."""

import math
from typing import Final

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.published.configuration import Configuration

__all__ = ["head_width", "inner_width", "time_step_rank"]

_AUTOMATIC: Final = (None, "auto")
_RANK_RATIO: Final = 16


def inner_width(config: Configuration, expansion: str) -> int:
    """So many times as wide as the layer, in whole elements."""
    times = config.number(expansion, config.defaults[expansion])
    return max(1, int(times * config.needed("hidden_size")))


def time_step_rank(config: Configuration, key: str, hidden: int) -> int:
    """The rank of the projection to the time steps; a sixteenth of the width where it is `auto`."""
    if config.values.get(key) in _AUTOMATIC:
        return math.ceil(hidden / _RANK_RATIO)
    return config.needed(key)


def head_width(config: Configuration, heads_key: str, key: str, inner: int) -> int:
    """The width of one head: what its number leaves of all, and as it is told.

    Raises:
        RequirementError: heads do not divide the width, or are told to be of another.
    """
    heads = config.needed(heads_key)
    if inner % heads:
        raise RequirementError(
            f"config.json: {heads_key}: {heads} heads do not divide {inner} channels; take the file"
            " as published with the model"
        )
    if config.values.get(key) in _AUTOMATIC:
        return inner // heads
    told = config.needed(key)
    if told * heads != inner:
        raise RequirementError(
            f"config.json: {key}: {heads} heads of {told} are not {inner} channels; correct one of"
            f" {key}, {heads_key}, or what tells how many channels there are"
        )
    return told
