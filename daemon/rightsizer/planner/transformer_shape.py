"""Transformer from partial information; the rest is estimated from its size.

Given values are kept. The number of layers is hidden width / 128, and each layer has 12 x hidden
width squared parameters (GPT-3, Llama: 102 to 130). Heads are 128 wide, in multiples of eight, with
8 KV heads. The feed-forward width follows from the remaining parameters if layers and hidden width
are given. Whether the feed-forward part is gated and the embedding tied is chosen by the best fit
to the parameters.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from rightsizer.model.errors import RequirementError
from rightsizer.planner.requirement_checks import check_model, not_above_zero
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import count_parameters

_ASPECT: Final = 128
_WIDTH_STEP: Final = 128
_HEAD_DIM: Final = 128
_GROUPED_HEADS: Final = 8
_LAYER_SQUARES: Final = 12.0
_GATED_WIDTHS: Final = 3.2
"""Ratio to hidden width: the rest of 12 squares, for three matrices beside grouped attention."""
_VOCAB: Final = 32000
_ROTATED: Final = 64
"""Of all models with latent attention (DeepSeek V2 to V3.2, Kimi K2, GLM-4.7-Flash)."""
_CONTRADICTION: Final = 2.0
"""Factor between given and computed parameters beyond which the shape is contradictory."""


class TransformerDescription(Struct, frozen=True):
    """Transformer as described in a plan; every key is optional."""

    name: str = ""
    parameters: float | None = None
    active_parameters: float | None = None
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    ffn: int | None = None
    vocab: int | None = None
    tied_embeddings: bool | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    sliding_window: int | None = None
    kv_lora_rank: int | None = None
    rope_head_dim: int | None = None


def completed_shape(described: TransformerDescription) -> Transformer:
    """Complete a transformer; assumed values are named in its `assumed`."""
    _check_given(described)
    given = {key: value for key, value in asdict(described).items() if value is not None}
    layers, hidden = _depth_and_width(described)
    usual = {"vocab": _VOCAB, "rope_head_dim": _ROTATED if described.kv_lora_rank else 0}
    usual |= {"layers": layers, "hidden": hidden, **_heads(described, hidden)}
    keys = ("layers", "hidden", "heads", "vocab")
    whole = Transformer(**{**usual, **given}, assumed=frozenset(keys).difference(given))
    check_model(whole)
    resolved = _resolved(whole, described)
    by_shape = _shape_parameters(resolved)
    stated = resolved.parameters
    if stated is not None and by_shape > _CONTRADICTION * stated:
        fault = f"{stated:g}, but the shape given makes {by_shape:.3g}"
        remedy = "correct one of them, or leave parameters out"
        raise RequirementError(f"model.parameters: {fault}; {remedy}")
    return resolved


def _check_given(described: TransformerDescription) -> None:
    """Reject zeros, which do not mean absent values."""
    no_sizes = {"name", "tied_embeddings", "rope_head_dim"}
    sizes = (field for field in described.__struct_fields__ if field not in no_sizes)
    faults = [*not_above_zero(described, "model", sizes, "give it as published, or leave it out")]
    if (described.rope_head_dim or 0) < 0:
        faults.append("model.rope_head_dim: is negative; give 0 or more, or leave it out")
    if faults:
        raise RequirementError("\n".join(faults))


def _depth_and_width(described: TransformerDescription) -> tuple[int, int]:
    if described.layers is not None and described.hidden is not None:
        return described.layers, described.hidden
    dense = described.active_parameters or described.parameters
    if dense is None:
        remedy = "give it, or layers and hidden, or config"
        raise RequirementError(f"model.parameters: is missing; {remedy}")
    if described.hidden is not None:
        layers = round(dense / (_LAYER_SQUARES * described.hidden**2))
        return max(1, layers), described.hidden
    if described.layers is not None:
        width = (dense / (_LAYER_SQUARES * described.layers)) ** 0.5
    else:
        width = (dense * _ASPECT / _LAYER_SQUARES) ** (1 / 3)
    step = described.heads or _WIDTH_STEP  # Rounded so that the heads given divide it.
    hidden = max(1, round(width / step)) * step
    return described.layers or max(1, round(hidden / _ASPECT)), hidden


def _heads(described: TransformerDescription, hidden: int) -> dict[str, int]:
    """Return the numbers of heads and KV heads, and head width, if not given."""
    if described.heads is not None:
        return {}
    step = described.kv_heads or _GROUPED_HEADS
    width = described.head_dim or min(_HEAD_DIM, max(1, hidden // step))
    heads = step * max(1, round(hidden / (width * step)))
    return {"heads": heads, "kv_heads": step, "head_dim": width}


def _resolved(model: Transformer, described: TransformerDescription) -> Transformer:
    """Decide the feed-forward part and the embedding."""
    ties = [described.tied_embeddings] if described.tied_embeddings is not None else [False, True]
    gated = replace(model, tied_embeddings=ties[0])
    is_gated = _is_usually_gated(model)
    parameters = described.parameters
    if parameters is None:
        return replace(gated, gated_ffn=is_gated)
    if described.ffn is None and {"layers", "hidden"} & model.assumed:
        return replace(gated, ffn=round(_GATED_WIDTHS * model.hidden))
    if described.ffn is None:  # Parts of the parameters.
        narrow = _shape_parameters(replace(gated, ffn=1))
        step = _shape_parameters(replace(gated, ffn=2)) - narrow
        return replace(gated, ffn=max(1, round(1 + (parameters - narrow) / step)))
    shapes = [
        replace(model, gated_ffn=gate, tied_embeddings=tie)
        for gate in (is_gated, not is_gated)
        for tie in ties
    ]
    return min(shapes, key=lambda shape: abs(_shape_parameters(shape) - parameters))


def _is_usually_gated(model: Transformer) -> bool:
    """Two matrices are usual if four times as wide, without grouped heads."""
    is_grouped = (model.kv_heads or model.heads) not in {1, model.heads}
    return is_grouped or model.ffn_width != 4 * model.hidden


def _shape_parameters(model: Transformer) -> float:
    return count_parameters(replace(model, parameters=None, active_parameters=None)).total


def shape_notes(model: Transformer) -> Iterator[str]:
    """Yield a note if the shape is of a far smaller model, such as one expert of many."""
    if model.active_parameters or {"layers", "hidden"} & model.assumed:
        return
    by_shape = _shape_parameters(model)
    if model.parameters and by_shape * _CONTRADICTION < model.parameters:
        given = f"{model.parameters:.3g} parameters are given"
        remedy = "give the experts of a mixture, or correct one of them"
        yield f"{given}, and the shape given makes {by_shape:.3g}: the former stand; {remedy}"
