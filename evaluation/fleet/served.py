"""Looks at estates of forty served models: what is found of those that are wrong, seed by seed.

Each estate is in a real Prometheus, as dcgm-exporter and vLLM tell it, and is asked as operators
ask. Models are right, too large, too small, misplaced, aliased or unknown; what their engines are
measured to do is off from what is predicted by an error that the product does not know.
"""

from collections.abc import Iterator
from typing import Final

from evaluation.options import FIRST_SCORED_SEED, Options
from measured import table
from rightsizer.io.codec import decode
from served_look import ServedLook, looked_at, served_store
from served_models import served_models

_SEEDS: Final = range(FIRST_SCORED_SEED, FIRST_SCORED_SEED + 10)
_HEADINGS: Final = ("estate", "models", "wrong", "found", "recall", "false", "missed")


def evaluate(_: Options) -> Iterator[str]:
    """Each estate, and all of them."""
    looks = [_look(seed) for seed in _SEEDS]
    rows = [_row(str(seed), [look]) for seed, look in zip(_SEEDS, looks, strict=True)]
    yield table([*rows, _row("all", looks)], _HEADINGS)
    yield (
        "\nWrong: too large, too small, misplaced or aliased. False: advice about an unknown "
        "model, or that misses the level by the times that its engine truly has.\n"
    )
    false = [text for look in looks for text in look.false]
    yield "".join(f"- {text}\n" for text in false)


def _look(seed: int) -> ServedLook:
    models = tuple(served_models(seed))
    with served_store(models) as config:
        return ServedLook(models, decode(looked_at(config, "--json"), dict))


def _row(name: str, looks: list[ServedLook]) -> tuple[str, ...]:
    models = str(sum(len(look.models) for look in looks))
    wrong = sum(model.finding is not None for look in looks for model in look.models)
    missed = sum(len(look.missed) for look in looks)
    kinds = sorted({text.partition(":")[0] for look in looks for text in look.missed})
    false = str(sum(len(look.false) for look in looks))
    found = wrong - missed
    return name, models, str(wrong), str(found), f"{found / wrong:.2f}", false, ", ".join(kinds)
