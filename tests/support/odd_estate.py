"""A small fleet with common defects of stores: scraped twice, gaps, renames, lost nodes.

A notebook that idles and a service that hardly works on one node, and two nodes of a free board
each. All variants are in one store, distinguished by the label `estate`.
"""

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from prometheus_server import ON_DISK, prometheus_server, promtool, scrape_config
from rightsizer.simulator.source import DEFAULT_START

__all__ = ["DAYS", "END", "GONE", "SKEW_SECONDS", "VARIANTS", "gpu", "odd_estate"]

DAYS: Final = 4
"""Of samples, fewer than are looked back over."""
SKEW_SECONDS: Final = 600
GONE: Final = "dev-1"
"""The node that left eight days ago, in one variant."""
END: Final = DEFAULT_START // 10**9 + 12 * 86400
"""When all of it ends; whole days before it, by UTC."""
_STEP: Final = 300
_DAY: Final = 86400
_LEFT_DAYS: Final = 8
_RESETS_EVERY: Final = 6 * 3600
_LARGE_BLOCKS: Final = "--max-block-duration=162h"
"""Few blocks are written in a tenth of the time."""
_OLD: Final = (
    "rightsizer_device_info",
    "rightsizer_device_up",
    "rightsizer_state_seconds_total",
    "rightsizer_workload_share_ratio",
)
"""What agents had before they knew of figures of use, and of who workloads are."""


class _Series(Struct, frozen=True):
    """A series over some time, in seconds since the epoch."""

    name: str
    labels: Mapping[str, str]
    value: float = 1.0
    """What it is, or by how much it grows in a second."""
    first: int = END - DAYS * _DAY
    last: int = END
    every: int = _STEP
    """Seconds between two samples."""
    resets_every: int = 0
    is_clock: bool = False
    """Whether its value is its time, and `value` how far that is off."""

    def labelled(self, **labels: str) -> "_Series":
        return replace(self, labels={**self.labels, **labels})

    def lines(self, later: int) -> Iterator[str]:
        inside = ",".join(f'{name}="{text}"' for name, text in self.labels.items())
        for time in range(self.first + self.every, self.last + 1, self.every):
            yield f"{self.name}{{{inside}}} {self._at(time)!r} {time + later}\n"

    def _at(self, time: int) -> float:
        if self.is_clock:
            return time + self.value
        if not self.name.endswith("_total"):
            return self.value
        since = time - self.first
        return self.value * (since % self.resets_every if self.resets_every else since)


_Change = Callable[[_Series], Iterable[_Series]]


def gpu(number: int) -> str:
    """The uuid of a GPU."""
    return f"GPU-{number:08x}-2222-4333-8444-555566667777"


class _Gpu(Struct, frozen=True):
    """What is always so of a GPU."""

    node: str
    model: str
    gib: int
    watts: float
    states: Mapping[str, float]
    used: float = 0.0
    workload: str = ""


_GPUS: Final = (
    _Gpu(GONE, "NVIDIA L4", 24, 15.0, {"idle_held": 1.0}, workload="notebooks/ana"),
    _Gpu(GONE, "NVIDIA L4", 24, 20.0, {"productive": 1.0}, 0.05, "media/asr"),
    _Gpu("spare-1", "NVIDIA A100-SXM4-40GB", 40, 60.0, {"idle_empty": 1.0}),
    _Gpu("spare-2", "NVIDIA A100-SXM4-40GB", 40, 60.0, {"idle_empty": 1.0}),
)
_STATES: Final = ("idle_empty", "idle_held", "productive", "hidden_stall", "unknown")


def _all_series() -> Iterator[_Series]:
    for number, each in enumerate(_GPUS):
        uuid = gpu(number)
        of_agent = {"instance": f"{each.node}:19400", "job": "rightsizer", "uuid": uuid}
        facts = {
            "gpu": str(number % 2),
            "model": each.model,
            "architecture": "ada" if "L4" in each.model else "ampere",
        }
        make = partial(_Series, labels=of_agent)
        yield make("rightsizer_device_info").labelled(**facts)
        yield make("rightsizer_device_up")
        yield make("rightsizer_device_capacity_ratio")
        yield make("rightsizer_device_telemetry_info").labelled(tier="power", source="nvml")
        for state in _STATES:
            share = each.states.get(state, 0.0)
            yield make("rightsizer_state_seconds_total", value=share).labelled(state=state)
        yield make("rightsizer_used_seconds_total", value=each.used)
        yield make("rightsizer_energy_joules_total", value=each.watts)
        yield make("rightsizer_gpu_busy_ratio", value=each.used)
        yield make("rightsizer_power_watts", value=each.watts)
        yield make("rightsizer_memory_used_bytes", value=2.0**30)
        yield make("rightsizer_memory_total_bytes", value=each.gib * 2.0**30)
        if each.workload:
            yield from _held(make, each.workload)


def _held(make: Callable[..., _Series], workload: str) -> Iterator[_Series]:
    key, (namespace, _, name) = f"kubernetes:{workload}", workload.partition("/")
    yield make("rightsizer_workload_share_ratio").labelled(workload=key)
    yield make("rightsizer_workload_info").labelled(
        workload=key,
        kind="kubernetes",
        namespace=namespace,
        name=name,
        pod=f"{name}-5f7c9-x2x4z",
        container="main",
        allocator="growing",
        **{"class": "interactive" if name == "ana" else "serving"},
    )


def _plain(series: _Series) -> Iterator[_Series]:
    yield series


def _dense(series: _Series) -> Iterator[_Series]:
    """Scraped so often that days are read by five minutes."""
    yield replace(series, every=_STEP // 3)


def _renamed(series: _Series) -> Iterator[_Series]:
    """Each day under another instance, job and pod."""
    for day in range(DAYS):
        first = series.first + day * _DAY
        labels = series.labels
        fresh = {"job": f"agents-{day}", "instance": f"10.0.{day}.7:19400", "node": ""}
        fresh["node"] = labels["instance"].partition(":")[0]
        if "pod" in labels:
            fresh["pod"] = f"{labels['name']}-{day}abc9-x2x4z"
        yield replace(series, first=first, last=first + _DAY).labelled(**fresh)


def _twice(series: _Series) -> Iterator[_Series]:
    """By two jobs."""
    yield series
    yield series.labelled(job="monitoring/agents", endpoint="metrics")


def _with_a_gap(series: _Series) -> Iterator[_Series]:
    """Two days were lost, and the last minutes before them."""
    yield replace(series, last=series.first + _DAY - 4 * _STEP)
    yield replace(series, first=series.last - _DAY)


def _reset(series: _Series) -> Iterator[_Series]:
    """Agents begin again all the time."""
    yield replace(series, resets_every=_RESETS_EVERY)


def _left(series: _Series) -> Iterator[_Series]:
    """A node was there until eight days ago."""
    if series.labels["instance"].startswith(GONE):
        until = END - _LEFT_DAYS * _DAY
        yield replace(series, first=until - _DAY, last=until)
    else:
        yield series


def _old(series: _Series) -> Iterator[_Series]:
    if series.name in _OLD:
        yield series


def _bare(series: _Series) -> Iterator[_Series]:
    """That there are devices, and nothing more."""
    if series.name.startswith("rightsizer_device_"):
        yield series


def _skewed(seconds: int, series: _Series) -> Iterator[_Series]:
    """With agents' clocks apart from the store's."""
    yield series
    if series.name == "rightsizer_device_up":
        name = "rightsizer_device_last_sample_timestamp_seconds"
        yield replace(series, name=name, value=float(seconds), is_clock=True)


VARIANTS: Final[Mapping[str, _Change]] = {
    "plain": _plain,
    "dense": _dense,
    "renamed": _renamed,
    "twice": _twice,
    "gap": _with_a_gap,
    "reset": _reset,
    "left": _left,
    "old": _old,
    "bare": _bare,
    "ahead": partial(_skewed, SKEW_SECONDS),
    "behind": partial(_skewed, -SKEW_SECONDS),
}
"""By the value of `estate`, how it differs from what is plain."""


@contextmanager
def odd_estate(
    names: Collection[str] = VARIANTS, end: int = END, targets: Sequence[str] = ()
) -> Iterator[str]:
    """The address of a real Prometheus with some variants.

    Args:
        names: Which.
        end: When they end, in seconds since the epoch.
        targets: What it scrapes on, as host:port.
    """
    with tempfile.TemporaryDirectory(prefix="odd-", dir=ON_DISK) as name:
        text = Path(name) / "past"
        data = Path(name) / "data"
        text.write_text(_past(names, end - END), encoding="ascii")
        command = ("tsdb", "create-blocks-from", "openmetrics", "--quiet", _LARGE_BLOCKS)
        filled = promtool(*command, text, data)
        if filled.returncode:
            raise AssertionError(f"promtool did not take the past: {filled.stderr}")
        with prometheus_server(scrape_config(*targets), data=data) as server:
            yield server.url


def _past(names: Collection[str], later: int) -> str:
    lines: dict[str, list[str]] = {}
    for name in names:
        for plain in _all_series():
            for series in VARIANTS[name](plain):
                of_name = lines.setdefault(series.name, [])
                of_name.extend(series.labelled(estate=name).lines(later))
    return "".join([*("".join(line) for line in lines.values()), "# EOF\n"])
