"""Fit of the serving model's constants, cross-validated."""

import math
from collections.abc import Sequence
from typing import Final, Self

from msgspec import Struct
from msgspec.structs import replace

from evaluation.sizing.serving_truth import Row
from rightsizer.sizing.serving import Serving
from rightsizer.sizing.serving_settings import ServingModelSettings
from sized import serve

_PROBE: Final = 10
_STEPS: Final = (-4, -1, 0, 1, 4)
_FINER: Final = 10
_RATIOS: Final = tuple(step / 20 for step in range(4, 31))


class Constants(Struct, frozen=True):
    """Constants fitted to the time between tokens."""

    layer: int = 0
    """Microseconds of a layer."""
    request: int = 0
    """Nanoseconds of a request in a layer."""

    @classmethod
    def of_product(cls) -> Self:
        """Constants of the product."""
        settings = ServingModelSettings()
        beside = settings.request_layer_seconds
        return cls(round(1e6 * settings.layer_seconds), round(1e9 * beside))

    @property
    def settings(self) -> ServingModelSettings:
        """In place of those in use."""
        return replace(
            ServingModelSettings(),
            layer_seconds=self.layer / 1e6,
            request_layer_seconds=self.request / 1e9,
        )


class Linear(Struct, frozen=True):
    """One row's predicted time between tokens, which both constants enter linearly."""

    row: Row
    rest_ms: float
    layer_ms: float
    request_ms: float

    @classmethod
    def of(cls, row: Row) -> Self:
        """By what a change of each constant does."""
        rest = _served(row, Constants().settings).tpot_ms.value
        layer = _served(row, Constants(layer=_PROBE).settings).tpot_ms.value
        request = _served(row, Constants(request=_PROBE).settings).tpot_ms.value
        return cls(row, rest, (layer - rest) / _PROBE, (request - rest) / _PROBE)

    def error(self, constants: Constants) -> float:
        """The logarithm of predicted by measured."""
        predicted = (
            self.rest_ms + self.layer_ms * constants.layer + self.request_ms * constants.request
        )
        return math.log(predicted / self.row.tpot_ms)


def fit(rows: Sequence[Linear]) -> Constants:
    """The constants with the least mean absolute error."""
    found = Constants(30, 300)
    while True:
        better = min(_neighbors(found), key=lambda neighbor: _loss(rows, neighbor))
        if _loss(rows, better) >= _loss(rows, found):
            return found
        found = better


def fit_bunching(rows: Sequence[Row]) -> float:
    """The bunching of prompts with the least mean absolute error of the time to the first token."""

    def loss(ratio: float) -> float:
        settings = replace(ServingModelSettings(), bunching_ratio=ratio)
        return sum(
            abs(math.log(_served(row, settings).ttft_ms.value / row.ttft_ms)) for row in rows
        )

    return min(_RATIOS, key=loss)


def _neighbors(constants: Constants) -> list[Constants]:
    return [
        Constants(constants.layer + across, constants.request + _FINER * along)
        for across in _STEPS
        for along in _STEPS
        if constants.layer + across >= 0 and constants.request + _FINER * along >= 0
    ]


def _loss(rows: Sequence[Linear], constants: Constants) -> float:
    return sum(abs(row.error(constants)) for row in rows)


def _served(row: Row, settings: ServingModelSettings) -> Serving:
    return serve(row.requirement, row.board, row.layout, row.concurrency, settings=settings)
