"""Fast store on loopback with a given number of GPUs, and answers of the real shape.

It keeps nothing: each answer is put together from pieces of text that were made once. What that
takes is counted, so that a benchmark can tell the store's work from its client's. It knows the
questions that the source of our own agents asks, or with `--dcgm` those of the other source
(`fleet_dcgm.py`), with `--recorded` about recorded series too, and has no samples of anything else.
"""

import argparse
import math
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import fleet_dcgm

_UUIDS: Final = re.compile(r'(?:uuid|UUID)=~?"([^"]+)"')
_SPREAD: Final = 2654435761
"""Odd, near the golden part of 2**32 (Knuth's multiplicative hashing)."""
_BEGUN: Final = re.compile(r"\(GPU\|MIG\)-([0-9a-f]+)\.\*")
_NAME: Final = re.compile(r"(?:[a-z_]+:)?rightsizer_[a-z_0-9]+(?::[a-z0-9]+)?")
_FIGURE: Final = re.compile(r'"figure", "([^"]*)"')
_FIGURES: Final = re.compile(r" or label_replace\((?=round|max)")
"""Between the figures of one question."""
_BY: Final = re.compile(r"max by \(([^)]*)\)")
_GPUS_A_NODE: Final = 8
_VARIANTS: Final = 8
"""Devices of different variants differ in their values."""
_EDGES: Final = ("0.0", "0.02", "0.05", "0.1", "0.25", "0.5", "0.65", "0.8", "0.9", "0.95", "1.0")
_PARTS: Final = {
    "state": ("productive", "idle_held", "compute_bound"),
    "cause": ("idle", "headroom"),
    "condition": ("power_throttled",),
    "resource": ("compute", "memory", "memory_bandwidth"),
    "le": (*_EDGES, "+Inf"),
    "tier": ("profiling",),
}
"""What tells the series of one device apart."""
_NAMES: Final = (
    "rightsizer_device_info",
    "rightsizer_device_up",
    "rightsizer_device_capacity_ratio",
    "rightsizer_device_telemetry_info",
    "rightsizer_workload_info",
    "rightsizer_workload_share_ratio",
    "rightsizer_memory_total_bytes",
    "rightsizer_power_limit_watts",
    "rightsizer_need_ratio",
    "rightsizer_saturated_ratio",
    "rightsizer_underprovisioned_ratio",
    "rightsizer_state_seconds_total",
    "rightsizer_condition_seconds_total",
    "rightsizer_waste_seconds_total",
    "rightsizer_waste_joules_total",
    "rightsizer_used_seconds_total",
    "rightsizer_used_joules_total",
    "rightsizer_energy_joules_total",
    "rightsizer_memory_used_bytes",
    "rightsizer_gpu_busy_ratio",
    "rightsizer_sm_active_ratio",
    "rightsizer_sm_work_ratio",
    "rightsizer_tensor_active_ratio",
    "rightsizer_dram_active_ratio",
    "rightsizer_pcie_receive_bytes_per_second",
    "rightsizer_pcie_transmit_bytes_per_second",
    *(
        f"rightsizer_{signal}_distribution_ratio_{end}"
        for signal in ("gpu_busy", "sm_work", "dram_active")
        for end in ("bucket", "sum", "count")
    ),
)
"""What the store has; scrapes alone, for that is what costs a client no less than rules do."""


class Estate(Struct, frozen=True):
    """A fleet in jobs of equal size on nodes of eight GPUs."""

    gpus: int
    until: float = math.inf
    """Time of the last sample, in seconds since the epoch."""
    uuids: tuple[str, ...] = ()
    numbers: dict[str, fleet_dcgm.Gpu] = {}
    gpus_a_job: int = 4

    is_dcgm: bool = False
    """Whether dcgm-exporters are there in place of our agents."""
    is_recorded: bool = False
    """Whether their metrics were recorded, too."""
    metric_value: fleet_dcgm.MetricValue = fleet_dcgm.value_of

    @classmethod
    def of(
        cls,
        gpus: int,
        until: float = math.inf,
        *,
        is_dcgm: bool = False,
        is_recorded: bool = False,
        gpus_a_job: int = 4,
    ) -> "Estate":
        """A fleet of the given size."""
        # A part of a fleet is chosen by the first digits, which real ones share out evenly.
        starts = (number * _SPREAD % 2**32 for number in range(gpus))
        uuids = tuple(f"GPU-{e:08x}-0000-4000-8000-{n:012d}" for n, e in enumerate(starts))
        numbers = {
            uuid: fleet_dcgm.Gpu(number, number // gpus_a_job) for number, uuid in enumerate(uuids)
        }
        return cls(gpus, until, uuids, numbers, gpus_a_job, is_dcgm, is_recorded)

    def asked(self, promql: str) -> Sequence[str]:
        """Devices that a query names, by UUID or prefix; all where it names none."""
        found = _UUIDS.search(promql)
        if found is None:
            return self.uuids
        if begun := _BEGUN.fullmatch(found[1]):
            # dcgm-exporter's devices have the one label, and never the other.
            is_asked = 'UUID=""' not in promql
            return [e for e in self.uuids if is_asked and e.startswith(f"GPU-{begun[1]}")]
        return [uuid for uuid in found[1].split("|") if uuid in self.numbers]

    def matrix(self, promql: str, times: tuple[int, ...], step: float) -> Iterator[str]:
        """The series of a range query."""
        if not self.is_dcgm:
            return _matrix(self, promql, times, step)
        if self._lacks(promql):
            return iter(())
        return fleet_dcgm.ranges(self._numbered(promql), promql, times, step, self.metric_value)

    def vector(self, promql: str, time: str) -> Iterator[str]:
        """The series of an instant query."""
        if not self.is_dcgm:
            return _vector(self, promql, time)
        if self._lacks(promql):
            return iter(())
        return fleet_dcgm.instants(self._numbered(promql), promql, time, self.metric_value)

    def _lacks(self, promql: str) -> bool:
        """Whether a query is for recorded series, of which there are none."""
        return ":" in promql.partition("__name__")[2] and not self.is_recorded

    def _numbered(self, promql: str) -> dict[str, fleet_dcgm.Gpu]:
        return {uuid: self.numbers[uuid] for uuid in self.asked(promql)}


def answer(estate: Estate, path: str, parameters: dict[str, list[str]]) -> str:
    """The body of an answer."""
    promql = parameters.get("query", [""])[0]
    if path.endswith("/query_range"):
        start, end, step = (float(parameters[name][0]) for name in ("start", "end", "step"))
        end = min(end, estate.until)
        times = tuple(int(start + step * at) for at in range(int((end - start) // step) + 1))
        series = estate.matrix(promql, times, step) if times else iter(())
        kind = "matrix"
    elif path.endswith("/query"):
        series = estate.vector(promql, parameters.get("time", ["0"])[0])
        kind = "vector"
    else:
        return '{"status":"success","data":{"version":"2.50.0","application":"Prometheus"}}'
    inside = ",".join(series)
    return f'{{"status":"success","data":{{"resultType":"{kind}","result":[{inside}]}}}}'


def _matrix(estate: Estate, promql: str, times: tuple[int, ...], step: float) -> Iterator[str]:
    if promql.startswith("max(count_over_time("):
        # As many samples in every hour.
        yield f'{{"metric":{{}},{_always("240", times)}}}'
        return
    if "rightsizer_workload_info" in promql:
        yield from _workloads(estate, promql, _always("1", times))
        return
    uuids = estate.asked(promql)
    for part in _FIGURES.split(promql):
        name = _known(part)
        if name is None:
            continue
        for uuid in uuids:
            gpu = estate.numbers[uuid]
            all_labels = list(_labels(part, name, gpu))
            for place, labels in enumerate(all_labels):
                key = gpu.number % _VARIANTS, place, len(all_labels)
                yield f'{{"metric":{{"uuid":"{uuid}"{labels}}},{_values(name, times, step, *key)}}}'


def _vector(estate: Estate, promql: str, time: str) -> Iterator[str]:
    if promql.startswith("count by (__name__)"):
        for name in _NAMES if "uuid=" in promql else ("rightsizer_workload_info",):
            yield f'{{"metric":{{"__name__":"{name}"}},"value":[{time},"1"]}}'
    elif promql.startswith(("count(last_over_time(rightsizer", "count(max by (uuid) (rights")):
        if _known(promql) and "==" not in promql:
            yield f'{{"metric":{{}},"value":[{time},"{estate.gpus}"]}}'
    elif promql.startswith("quantile("):
        yield f'{{"metric":{{}},"value":[{time},"240"]}}'
    elif promql.startswith("count by (tier)"):
        yield f'{{"metric":{{"tier":"profiling"}},"value":[{time},"{estate.gpus}"]}}'
    elif promql.startswith(("max by", "label_replace(", "topk(2", "topk by")):
        yield from _instants(estate, promql, time)


def _instants(estate: Estate, promql: str, time: str) -> Iterator[str]:
    """Of each device, or each workload, one sample a series."""
    if "rightsizer_workload_info" in promql:
        yield from _workloads(estate, promql, f'"value":[{time},"1"]')
        return
    uuids = estate.asked(promql)
    for part in _FIGURES.split(promql):
        name = _known(part)
        for uuid in () if name is None else uuids[: 2 if promql.startswith("topk") else None]:
            gpu = estate.numbers[uuid]
            for place, labels in enumerate(_labels(part, name or "", gpu)):
                value = _instant(name or "", place, gpu.number)
                yield f'{{"metric":{{"uuid":"{uuid}"{labels}}},"value":[{time},"{value}"]}}'


def _workloads(estate: Estate, promql: str, samples: str) -> Iterator[str]:
    asked = re.search(r'workload=~?"([^"]*)"', promql)
    keys = asked[1].split("|") if asked else None
    every = range(-(-estate.gpus // estate.gpus_a_job))
    for job in every if keys is None else (int(key.rpartition("-")[2]) for key in keys):
        yield (
            f'{{"metric":{{"workload":"kubernetes:team/job-{job}","kind":"kubernetes",'
            f'"class":"{_class(job)}","namespace":"team-{job % 20}","name":"job-{job}",'
            f'"pod":"job-{job}-0"}},{samples}}}'
        )


def _class(job: int) -> str:
    return ("batch", "serving", "batch", "notebook")[job % 4]


def _known(part: str) -> str | None:
    """The first metric that a part of a question is about, if the store has it."""
    found = _NAME.search(part)
    return found[0] if found and found[0] in _NAMES else None


def _labels(part: str, name: str, gpu: fleet_dcgm.Gpu) -> Iterator[str]:
    """Labels of a device's series beside the device, as JSON."""
    if name == "rightsizer_device_info":
        yield _facts(gpu.number)
        return
    figure = _FIGURE.search(part)
    ending = f',"figure":"{figure[1]}"' if figure else ""
    if name == "rightsizer_workload_share_ratio":
        yield f',"workload":"kubernetes:team/job-{gpu.job}"{ending}'
        return
    by = _BY.search(part)
    label = next((each for each in (by[1].split(", ") if by else ()) if each in _PARTS), None)
    only = re.search(rf'[{{,]{label}="([^"]*)"', part)
    for value in (only[1],) if only else _PARTS[label] if label else ("",):
        yield f',"{label}":"{value}"{ending}' if label else ending


def _facts(number: int) -> str:
    node = number // _GPUS_A_NODE
    return (
        f',"gpu":"{number % _GPUS_A_NODE}","pci_bus_id":"00000000:{number % 8:02X}:00.0",'
        f'"model":"NVIDIA H100 80GB HBM3","architecture":"Hopper","instance":"node-{node}:19400",'
        f'"pool":"pool-{node // 16}"'
    )


def _always(value: str, times: tuple[int, ...]) -> str:
    samples = ",".join(f'[{time},"{value}"]' for time in times)
    return f'"values":[{samples}]'


@lru_cache(maxsize=10_000)
def _values(  # noqa: PLR0913, PLR0917 # What tells series apart.
    name: str, times: tuple[int, ...], step: float, variant: int, place: int, places: int
) -> str:
    """The samples of a series, all but their labels; its place is that of so many."""
    if name.endswith(("_bucket", "saturated_ratio", "underprovisioned_ratio")):
        return _always(_instant(name, place, variant), times)
    high = _scale(name, step)
    digits = 0 if "bytes" in name else 3
    pairs = (
        f'[{time},"{high * _part(name, int(time // step) + variant, place, places):.{digits}f}"]'
        for time in times
    )
    return f'"values":[{",".join(pairs)}]'


def _part(name: str, moment: int, place: int, places: int) -> float:
    """Share of an interval; those of one device sum to 1."""
    if name in ("rightsizer_workload_share_ratio", "rightsizer_energy_joules_total"):
        return 1.0
    first = 0.2 + 0.05 * (moment * 7 % 11)
    if places == 1 or place == 0:
        return first
    return (1.0 - first) / (places - 1)


def _scale(name: str, step: float) -> float:
    if "state_seconds" in name:
        return step
    if name.endswith("_seconds_total"):
        return step / 2
    if "joules" in name:
        return step * (400 if "energy" in name else 200)
    return 80e9 if "memory_used_bytes" in name else 2e9 if "per_second" in name else 1.0


def _instant(name: str, place: int, number: int) -> str:
    if name == "rightsizer_memory_total_bytes":
        return "85520809984"
    if name == "rightsizer_power_limit_watts":
        return "700"
    if name.endswith("_bucket"):
        return str(7000 * (place + 1) + number % _VARIANTS)
    if name in ("rightsizer_need_ratio", "rightsizer_saturated_ratio"):
        return f"{0.2 + 0.05 * (number % _VARIANTS):.2f}"
    return "0" if name == "rightsizer_underprovisioned_ratio" else "1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # As stores do it: an answer's head would wait 40 ms for its body to be let through.
    disable_nagle_algorithm = True
    estate: Estate

    def do_GET(self) -> None:
        """A question in the address."""
        self._reply(urlsplit(self.path).path, parse_qs(urlsplit(self.path).query))

    def do_POST(self) -> None:
        """A question in a form."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self._reply(urlsplit(self.path).path, parse_qs(body))

    def log_message(self, *arguments: object) -> None:
        """Keep quiet."""

    def _reply(self, path: str, parameters: dict[str, list[str]]) -> None:
        raw = answer(self.estate, path, parameters).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def main(arguments: Sequence[str]) -> int:
    """Serve until standard input ends; the address is the first line of standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gpus", type=int)
    parser.add_argument("--until", type=float, default=math.inf, help="time of the last sample")
    parser.add_argument("--dcgm", action="store_true", dest="is_dcgm", help="no agents")
    parser.add_argument("--recorded", action="store_true", dest="is_recorded", help="by rules")
    parser.add_argument("--gpus-a-job", type=int, default=4, help="GPUs that one pod holds")
    estate = Estate.of(**vars(parser.parse_args(arguments)))
    handler = type("Handler", (_Handler,), {"estate": estate})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
        thread.start()
        print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
        sys.stdin.read()
        server.shutdown()
        thread.join()
    used = os.times()
    print(f"{used.user + used.system:.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
