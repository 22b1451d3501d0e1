"""An estate in a store whose engines serve the models of a site, as their exporters tell it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dcgm_estate import EstatePast, Phase
from rightsizer.model.served_load import ServedLoad
from served_models import LEVEL, ServedModel

__all__ = ["policies_of", "served_past"]

_INTERVAL_SECONDS: Final = 300
"""Between two scrapes, at most what a store takes as present."""
_NAMESPACE: Final = "serving"
_BUSY: Final = {
    "DCGM_FI_DEV_GPU_UTIL": 98,
    "DCGM_FI_DEV_FB_USED": 40_000,
}
_PEAK_HOURS: Final = (8.0, 16.0)
"""Those in which requests come at the peak."""
_DAY_HOURS: Final = 24.0


def served_past(models: Iterable[ServedModel]) -> EstatePast:
    """Yesterday of all engines: pods of deployments, GPUs by pod, counters by five minutes."""
    past = EstatePast(_INTERVAL_SECONDS)
    for model in models:
        load = model.load
        size = len(load.devices) // load.engines
        for number in range(load.engines):
            # A deployment's pods, of one replica set.
            pod = f"{load.workload}-7d4b9cf5f6-{_suffix(number)}"
            devices = load.devices[number * size : (number + 1) * size]
            _gpus(past, pod, devices, load.board)
            _engine(past, pod, load)
    return past


def _suffix(number: int) -> str:
    letters = "bcdfghjklmnpqrstvwxz"
    return "".join(letters[number // len(letters) ** place % len(letters)] for place in range(5))


def _gpus(past: EstatePast, pod: str, devices: Sequence[str], board: str) -> None:
    for index, uuid in enumerate(devices):
        labels = {"Hostname": f"node-{pod}", "modelName": board, "gpu": str(index)}
        held = {"pod": pod, "namespace": _NAMESPACE}
        past.device([Phase(0.0, _DAY_HOURS, _BUSY, held)], UUID=uuid, **labels)


def _engine(past: EstatePast, pod: str, load: ServedLoad) -> None:
    """A vLLM, one of the equal replicas of a load."""
    labels = {"pod": pod, "namespace": _NAMESPACE, "engine": "0"}
    held = {**labels, "model_name": load.model}
    mean = (load.requests_per_second or 0.0) / load.engines
    peak = (load.requests_per_second_peak or 0.0) / load.engines
    first, last = _PEAK_HOURS
    quiet = (_DAY_HOURS * mean - (last - first) * peak) / (_DAY_HOURS - last + first)
    phases = ((0.0, first, quiet), (first, last, peak), (last, _DAY_HOURS, quiet))

    def counter(name: str, amount: float | None, **more: str) -> None:
        """A counter that grows by an amount with each request."""
        value = 0.0
        for begin, end, rate in phases:
            grows_by = rate * _INTERVAL_SECONDS * (amount or 0.0)
            past.series(f"vllm:{name}", {**held, **more}, value, begin, end, grows_by=grows_by)
            value += grows_by * (end - begin) * 3600.0 / _INTERVAL_SECONDS

    counter("request_success_total", 1.0, finished_reason="stop")
    counter("prompt_tokens_total", load.prompt_tokens)
    counter("generation_tokens_total", load.output_tokens)
    for name, latency in (
        ("time_to_first_token", load.time_to_first_token),
        ("inter_token_latency", load.time_per_output_token),
    ):
        assert latency is not None
        counter(f"{name}_seconds_sum", latency.mean_seconds)
        counter(f"{name}_seconds_count", 1.0)
    running = (load.requests_running or 0.0) / load.engines
    past.series("vllm:num_requests_running", held, running)
    past.series("vllm:num_requests_waiting", held, (load.requests_waiting or 0.0) / load.engines)


def policies_of(models: Iterable[ServedModel]) -> list[Mapping[str, Any]]:
    """The policies that state the level of all, and the models of aliases."""
    aliases = [model for model in models if model.alias]
    stated = [
        {"match": {"owner": model.load.workload}, "model": model.alias, **LEVEL}
        for model in aliases
    ]
    return [*stated, {"match": {"namespace": _NAMESPACE}, **LEVEL}]
