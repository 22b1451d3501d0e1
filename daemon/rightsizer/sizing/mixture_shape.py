"""The experts of a Hugging Face model: how many, how wide, in which layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.configuration import Configuration
from rightsizer.sizing.family import Family

__all__ = ["MixtureShape"]

_CHOSEN: Final = (
    "num_experts_per_tok",
    "experts_per_token",
    "num_experts_per_token",
    "moe_top_k",
    "moe_topk",
    "moe_k",
)
_SHARED: Final = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
_DENSE_FIRST: Final = ("first_k_dense_replace", "moe_layer_start_index")
_EXPANSION: Final = 4
_MOST_LAYERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class MixtureShape:
    """The feed-forward parts of all layers; a dense model has one expert."""

    experts: int
    experts_per_token: int
    shared_experts: int
    expert_ffn: int
    dense_layers: int
    dense_ffn: int

    @classmethod
    def of(cls, config: Configuration, family: Family, layers: int, hidden: int) -> Self:
        """That of a configuration.

        Raises:
            RequirementError: it does not tell how many experts a token passes, or has more layers
                than can be.
        """
        dense = config.whole(family.ffn) or (config.whole("expansion_ratio") or _EXPANSION) * hidden
        experts = (config.whole(family.experts) or 1) if family.experts else 1
        if experts == 1:
            return cls(1, 1, 0, dense, 0, dense)
        if layers > _MOST_LAYERS:
            raise RequirementError(
                f"config.json: {family.layers}: {layers} is more than any model has; take the file"
                " as published with the model"
            )
        width = (config.whole(family.expert_ffn) if family.expert_ffn else None) or dense
        return cls(
            experts=experts,
            experts_per_token=_chosen(config),
            shared_experts=_shared(config, family, width),
            expert_ffn=width,
            dense_layers=layers - sum(_is_mixed(config, layer) for layer in range(layers)),
            dense_ffn=dense,
        )


def _chosen(config: Configuration) -> int:
    count = next((value for key in _CHOSEN if (value := config.whole(key))), None)
    if count is None:
        raise RequirementError(
            f"config.json: {_CHOSEN[0]}: is missing; take the file as published with the model"
        )
    return count


def _shared(config: Configuration, family: Family, width: int) -> int:
    """How many experts wide the part is that every token passes."""
    counted = next((value for key in _SHARED if (value := config.whole(key)) is not None), None)
    if counted is not None:
        return counted
    return (config.whole("shared_expert_intermediate_size") or 0) // width or family.shared_experts


def _is_mixed(config: Configuration, layer: int) -> bool:
    """Whether a layer has experts; each family's key says so in its own way."""
    listed = _numbers(config.values, "moe_layers")
    if listed:
        return layer in listed
    if layer in _numbers(config.values, "mlp_only_layers"):
        return False
    if layer < next((first for key in _DENSE_FIRST if (first := config.whole(key))), 0):
        return False
    every = config.whole("moe_layer_freq") or 1
    step = config.whole("decoder_sparse_step") or config.whole("interleave_moe_layer_step") or 1
    return layer % every == 0 and (layer + 1) % step == 0


def _numbers(values: Mapping[str, object], key: str) -> Sequence[object]:
    value = values.get(key)
    return value if isinstance(value, list | tuple) else ()
