"""Engines that share GPUs: names of adapters, models of one server, endpoints on one GPU."""

from collections.abc import Sequence

from rightsizer.planner.served.prediction import ServedPrediction


def sharers_of(predictions: Sequence[ServedPrediction]) -> tuple[tuple[str, ...], ...]:
    """Return for each engine what else is served on its GPUs."""
    devices = [set(prediction.engine.load.devices) for prediction in predictions]
    return tuple(
        tuple(
            _title(other)
            for place, other in enumerate(predictions)
            if place != own_place and own_devices & devices[place]
        )
        for own_place, own_devices in enumerate(devices)
    )


def shares_of(predictions: Sequence[ServedPrediction]) -> tuple[float, ...]:
    """Return the part of each engine's GPUs that no engine before it counts already.

    Engines that do not tell their GPUs share none.
    """
    counted: set[str] = set()
    shares = []
    for prediction in predictions:
        devices = set(prediction.engine.load.devices)
        shares.append(len(devices - counted) / len(devices) if devices else 1.0)
        counted |= devices
    return tuple(shares)


def _title(prediction: ServedPrediction) -> str:
    """Name and model of an engine: those of one server have one name."""
    engine = prediction.engine
    model = engine.load.model
    return engine.name if model in {"", engine.name} else f"{engine.name} ({model})"
