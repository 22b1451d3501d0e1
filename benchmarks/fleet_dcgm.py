"""Answers of a store on loopback that scrapes dcgm-exporters alone, every thirty seconds."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

_NAMES: Final = re.compile(r"DCGM_FI_[A-Z_0-9]+")
_RECORDED: Final = re.compile(r"uuid(?:_pod)?:(DCGM_FI_[A-Z_0-9]+):[a-z0-9]+")
_RECORDED_SECONDS: Final = 300
_GPUS_A_NODE: Final = 8
_VARIANTS: Final = 8
"""Jobs of different variants differ in their values; the GPUs of one do the same."""
_SCRAPE_SECONDS: Final = 30
_LEVELS: Final = {
    "DCGM_FI_DEV_GPU_UTIL": 100.0,
    "DCGM_FI_DEV_MEM_COPY_UTIL": 60.0,
    "DCGM_FI_DEV_ENC_UTIL": 0.0,
    "DCGM_FI_DEV_DEC_UTIL": 0.0,
    "DCGM_FI_DEV_FB_USED": 60_000.0,
    "DCGM_FI_DEV_FB_FREE": 20_000.0,
    "DCGM_FI_DEV_SM_CLOCK": 1980.0,
    "DCGM_FI_DEV_POWER_USAGE": 600.0,
    "DCGM_FI_DEV_POWER_MGMT_LIMIT": 700.0,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 600_000.0,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0.0,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1.0,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.6,
    "DCGM_FI_PROF_DRAM_ACTIVE": 0.5,
    "DCGM_FI_PROF_PCIE_TX_BYTES": 5e9,
    "DCGM_FI_PROF_PCIE_RX_BYTES": 5e9,
}
"""The largest value of each metric that is there; of a counter what it gains in a second."""
_STEADY: Final = ("LIMIT", "CLOCK", "FB_", "REMAP")


class Gpu(NamedTuple):
    """Numbers of a GPU and of the job that holds it."""

    number: int
    job: int


def value_of(name: str, moment: int, variant: int) -> float:
    """Every eighth job rests, and the others change from one interval to the next."""
    if any(part in name for part in _STEADY):
        return _LEVELS[name] if variant or "USED" not in name else 500.0
    part = 0.3 + 0.05 * ((moment * 7 + variant) % 11) if variant else 0.0
    if "POWER" in name or "ENERGY" in name:
        part = 0.1 + 0.9 * part
    return _LEVELS[name] * part


MetricValue = Callable[[str, int, int], float]
"""Returns a metric's value by its name, the interval's number and the job's variant."""


def ranges(
    gpus: Mapping[str, Gpu],
    promql: str,
    times: tuple[int, ...],
    step: float,
    metric_value: MetricValue,
) -> Iterator[str]:
    """Series of a range query for some devices."""
    if promql.startswith("count by (__name__)"):
        return _counts_by_name(promql, _always(len(gpus), times))
    return _ranges(gpus, promql, times, step, metric_value)


def _counts_by_name(promql: str, samples: str) -> Iterator[str]:
    """Series of the metrics in a query that there are any of, recorded ones included."""
    recorded = [each[0] for each in _RECORDED.finditer(promql) if each[1] in _LEVELS]
    names = recorded or [each for each in _NAMES.findall(promql) if each in _LEVELS]
    for name in dict.fromkeys(names):
        yield f'{{"metric":{{"__name__":"{name}"}},{samples}}}'


def _ranges(
    gpus: Mapping[str, Gpu],
    promql: str,
    times: tuple[int, ...],
    step: float,
    metric_value: MetricValue,
) -> Iterator[str]:
    if promql.startswith("max(count_over_time("):
        yield f'{{"metric":{{}},{_always(3600 // _SCRAPE_SECONDS, times)}}}'
    elif promql.startswith(("count(", "group by (__tenant_id__", "label_replace(")):
        # Scrapes honor the labels of holders.
        if "uuid!=" not in promql and "exported_pod" not in promql:
            yield f'{{"metric":{{}},{_always(len(gpus), times)}}}'
    elif promql.startswith("group by (job, instance"):
        for node in sorted({gpu.number // _GPUS_A_NODE for gpu in gpus.values()}):
            pod = f',"pod":"dcgm-exporter-{node}"' if "pod_name" in promql else ""
            yield f'{{"metric":{{{_target(f"node-{node}")}{pod}}},{_always(1, times)}}}'
    elif promql.startswith("group by (UUID"):
        for uuid, gpu in gpus.items():
            yield f'{{"metric":{{{_facts(uuid, gpu)},{_pod(gpu)}}},{_always(1, times)}}}'
    elif "(count_over_time(uuid_pod:" in promql:
        for uuid in gpus:
            recorded = _always(int(step) // _RECORDED_SECONDS, times)
            yield f'{{"metric":{{"UUID":"{uuid}"}},{recorded}}}'
    else:
        yield from _metrics(gpus, promql, times, step, metric_value)


def _metrics(
    gpus: Mapping[str, Gpu],
    promql: str,
    times: tuple[int, ...],
    step: float,
    metric_value: MetricValue,
) -> Iterator[str]:
    """The series of a metric, or the samples by holder."""
    is_counted = "(count_over_time(" in promql and "sum_over_time" not in promql
    if is_counted or "uuid_pod:" in promql:
        counts = _always(int(step) // _SCRAPE_SECONDS, times)
        for uuid, gpu in gpus.items():
            yield f'{{"metric":{{"UUID":"{uuid}",{_pod(gpu)}}},{counts}}}'
    elif (found := _NAMES.search(promql)) and found[0] in _LEVELS:
        for uuid, gpu in gpus.items():
            values = _values(found[0], times, step, _variant(gpu), metric_value)
            yield f'{{"metric":{{"UUID":"{uuid}"}},{values}}}'


def instants(
    gpus: Mapping[str, Gpu], promql: str, time: str, metric_value: MetricValue
) -> Iterator[str]:
    """Series of an instant query."""
    names = [name for name in dict.fromkeys(_NAMES.findall(promql)) if name in _LEVELS]
    if promql.startswith("count by (__name__)"):
        yield from _counts_by_name(promql, f'"value":[{time},"{len(gpus)}"]')
    elif promql.startswith("quantile("):
        yield f'{{"metric":{{}},"value":[{time},"{600 // _SCRAPE_SECONDS}"]}}'
    elif " unless " in promql:
        return  # Each GPU has all metrics.
    elif names and promql.startswith(("count(group by", "count({")):
        if 'UUID="",' not in promql:
            yield f'{{"metric":{{}},"value":[{time},"{len(gpus)}"]}}'
    elif names and promql.startswith(("topk(", "max by (UUID")):
        for uuid, gpu in list(gpus.items())[: 5 if promql.startswith("topk(") else None]:
            value = metric_value(names[0], 0, _variant(gpu))
            yield f'{{"metric":{{"UUID":"{uuid}"}},"value":[{time},"{value:g}"]}}'


def _facts(uuid: str, gpu: Gpu) -> str:
    node = f"node-{gpu.number // _GPUS_A_NODE}"
    return (
        f'"UUID":"{uuid}","gpu":"{gpu.number % _GPUS_A_NODE}","modelName":"NVIDIA H100 80GB HBM3",'
        f'"Hostname":"{node}",{_target(node)}'
    )


def _target(node: str) -> str:
    return f'"instance":"{node}:9400","job":"dcgm-exporter"'


def _pod(gpu: Gpu) -> str:
    job = gpu.job
    return f'"pod":"job-{job}-0","namespace":"team-{job % 20}","container":"main"'


def _variant(gpu: Gpu) -> int:
    return gpu.job % _VARIANTS


def _always(value: int, times: tuple[int, ...]) -> str:
    samples = ",".join(f'[{time},"{value}"]' for time in times)
    return f'"values":[{samples}]'


@lru_cache(maxsize=2_000)
def _values(
    name: str, times: tuple[int, ...], step: float, variant: int, metric_value: MetricValue
) -> str:
    scale = step if "ENERGY" in name else 1.0
    pairs = (f'[{at},"{scale * metric_value(name, int(at // step), variant):.6g}"]' for at in times)
    return f'"values":[{",".join(pairs)}]'
