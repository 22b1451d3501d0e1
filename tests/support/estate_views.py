"""Views of a fleet made by hand: pools by their holders, workloads by their use."""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from block_cases import past_of, summed
from cases import case, histogram, window
from readings import DAY, EPOCH, GIBIBYTE, HOUR, SECOND, gpu
from rightsizer.advice.market import Market
from rightsizer.catalogue.prices import OnDemand, Price, Prices
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.fleet.model import (
    FleetDevice,
    FleetPool,
    FleetView,
    FleetWorkload,
    HourlySeries,
    WaitingWork,
)
from rightsizer.fleet.rules import FLEET_RULES
from rightsizer.fleet.rules.rule import FleetRule
from rightsizer.model.block import BLOCK_SPAN, Blocks, Measure
from rightsizer.model.device import Device
from rightsizer.model.finding import Finding
from rightsizer.model.state import Resource, State
from rightsizer.model.window import Window
from rightsizer.model.workload import Allocator, Workload, WorkloadClass, WorkloadKind

DAYS: Final = 14
H100: Final = "H100-SXM5-80GB"
L4: Final = "L4"
L40S: Final = "L40S"
Course = Callable[[int], float | None]
"""Value by hour since the start, a Thursday's midnight; `None` if unknown."""


def prices(dollars: Mapping[str, float]) -> Prices:
    """Verified list prices, by board."""
    usual = built_in_prices()
    return Prices(
        {
            key: Price(
                key,
                on_demand=OnDemand(dollar, dollar * 0.9, dollar * 1.1),
                dates=("2026-08",),
                sources=("our contract",),
            )
            for key, dollar in dollars.items()
        },
        usual.on_premises,
        usual.reserved_terms,
    )


MARKET: Final = Market(prices=prices({H100: 4.0, L40S: 1.5, L4: 0.5}))


def steady(value: float | None) -> Course:
    """Constant."""
    return lambda _: value


def by_day(high: float, low: float, first: int = 8, last: int = 20) -> Course:
    """High between two hours of each day, and low otherwise."""
    return lambda hour: high if first <= hour % 24 < last else low


def growing(first: float, per_day: float) -> Course:
    """Growing a little every day."""
    return lambda hour: first + per_day * (hour // 24)


def restless(low: int, high: int, seed: int = 1) -> Course:
    """Varying without a cycle."""
    random = Random(seed)
    values = [float(random.randint(low, high)) for _ in range(90 * 24)]
    return lambda hour: values[hour]


def hours(course: Course, days: float = DAYS) -> HourlySeries:
    """Hourly values."""
    return HourlySeries(EPOCH, [course(hour) for hour in range(round(24 * days))])


def pool(  # noqa: PLR0913 - one for each thing that a test may vary.
    name: str,
    held: Course,
    *,
    nodes: int = 4,
    each: int = 8,
    board: str = H100,
    days: float = DAYS,
    free: Mapping[str, int] | None = None,
) -> FleetPool:
    """A pool with nodes filled in order, or with a constant number of free GPUs."""
    names = [f"{name}-{node}" for node in range(nodes)]
    devices = tuple(
        FleetDevice(device_of(node, at, board), node, name) for node in names for at in range(each)
    )
    peak = hours(held, days)

    def left(place: int) -> Course:
        def course(hour: int) -> float | None:
            value = peak.values[hour]
            return None if value is None else min(each, max(0.0, (place + 1) * each - value))

        return course

    by_hour = {
        node: hours(steady(float(free.get(node, 0))) if free is not None else left(at), days)
        for at, node in enumerate(names)
    }
    now = {node: int(column.values[-1] or 0) for node, column in by_hour.items()}
    return FleetPool(
        name=name,
        board=board,
        devices=devices,
        present=hours(steady(float(nodes * each)), days),
        held=peak,
        held_peak=peak,
        active=peak,
        free_by_node=now,
        size_by_node=dict.fromkeys(names, each),
        node_free=by_hour,
    )


def device_of(node: str, at: int, board: str = H100) -> Device:
    """A GPU of a node."""
    return gpu(at, uuid=f"GPU-{node}-{at}", board=board)


def used(compute: float, memory: float = 0.6, active: float = 0.5, **facts: Any) -> Window:
    """Two weeks, active part of the time, with all resources measured."""
    span = 24.0 * DAYS
    at_work = active * span
    demands: Mapping[Resource, Mapping[float, float]] = {
        Resource.COMPUTE: {compute: at_work},
        Resource.MEMORY: {memory: span},
        Resource.MEMORY_BANDWIDTH: {compute / 2: at_work},
        Resource.PCIE: {0.02: at_work},
        Resource.NVLINK: {0.0: at_work},
    }
    usual = {
        "compute_at_least": histogram({compute / 2: at_work}),
        "energy_joules": 300.0 * span * 3600,
    }
    states = {State.PRODUCTIVE: at_work, State.IDLE_HELD: span - at_work}
    return window(states, demands, **usual | facts)


def window_of(seconds: float) -> Window:
    """A window of work that has just begun."""
    return window({State.PRODUCTIVE: seconds / 3600.0})


def work(  # noqa: PLR0913 - one for each thing that a test may vary.
    name: str,
    where: str,
    nodes: Mapping[str, int],
    workload_class: WorkloadClass = WorkloadClass.SERVING,
    *,
    compute: Course | float = 0.7,
    memory: float = 0.6,
    busy: Course | None = None,
    namespace: str = "web",
    team: str = "",
    board: str = H100,
    days: float = DAYS,
    first: int = 0,
    allocator: Allocator = Allocator.GROWING,
    kind: WorkloadKind = WorkloadKind.KUBERNETES,
    windows: Iterable[Window] | None = None,
) -> FleetWorkload:
    """A workload on some nodes' GPUs from a position on; compute and memory are per GPU."""
    devices = [
        device_of(node, first + at, board) for node, count in nodes.items() for at in range(count)
    ]
    of_each = compute if callable(compute) else steady(compute)
    owner = Workload(
        f"{namespace}/{name}", kind, name, workload_class, allocator, namespace=namespace
    )
    size = float(len(devices))

    def together(hour: int) -> float | None:
        value = of_each(hour)
        return None if value is None else value * size

    most = max((of_each(hour) or 0.0 for hour in range(round(24 * days))), default=0.0)
    given = list(windows) if windows is not None else [used(most, memory)] * len(devices)
    found = case(given, owner, devices)
    idle = sum(window.states.get(State.IDLE_HELD, 0) for window in found.windows)
    return FleetWorkload(
        case=replace(found, past=past_of(found.key, summed([_blocks(of_each, days)] * 2))),
        pool=where,
        nodes=dict(nodes),
        team=team or namespace,
        busy=hours(busy or together, days),
        compute=hours(together, days),
        memory_bytes=hours(steady(memory * size * 80 * GIBIBYTE), days),
        idle_held_seconds=idle / SECOND,
    )


def _blocks(course: Course, days: float) -> Blocks:
    """One block an hour suffices for risks."""
    found = []
    for hour in range(round(24 * days)):
        value = course(hour)
        if value is not None:
            both = {Measure.BUSY: value, Measure.COMPUTE: value, Measure.MEMORY: 0.1}
            start = EPOCH + hour * HOUR // BLOCK_SPAN * BLOCK_SPAN
            found.append(Blocks.of_one(start, 300.0, both, both))
    return Blocks.joined(found)


def view(
    pools: Iterable[FleetPool],
    workloads: Iterable[FleetWorkload] = (),
    waiting: Iterable[WaitingWork] = (),
    days: float = DAYS,
) -> FleetView:
    """The input of the fleet rules."""
    end = EPOCH + round(days * DAY)
    return FleetView(EPOCH, end, tuple(pools), tuple(workloads), tuple(waiting), 1.0)


def findings(
    of: FleetView, rules: Iterable[FleetRule[Any]] = FLEET_RULES
) -> dict[tuple[str, str], Finding]:
    """Every verdict, by rule and key."""
    return {
        (rule.name, finding.key): finding
        for rule in rules
        for finding in rule.in_market(MARKET).judge(of)
    }


def complaints(
    of: FleetView, rules: Iterable[FleetRule[Any]] = FLEET_RULES
) -> dict[tuple[str, str], Finding]:
    """Those with an action."""
    return {at: finding for at, finding in findings(of, rules).items() if finding.is_actionable}


def beside(of: FleetView, more: FleetView) -> FleetView:
    """Two fleets merged."""
    return replace(
        of,
        pools=of.pools + more.pools,
        workloads=of.workloads + more.workloads,
        waiting=of.waiting + more.waiting,
    )


def healthy() -> FleetView:
    """Well-used pools: training, services, notebooks, and a mix."""
    train = pool("train", restless(30, 32), nodes=4)
    serve = pool("serve", steady(4.0), nodes=1, each=4, board=L4)
    labs = pool("labs", steady(8.0), nodes=1)
    mix = pool("mix", restless(10, 16, seed=2), nodes=2)
    batch = WorkloadClass.BATCH
    workloads = (
        work("llama", "train", {"train-0": 8, "train-1": 8}, batch, namespace="ml"),
        work("vision", "train", {"train-2": 8}, batch, namespace="ml"),
        work("chat", "serve", {"serve-0": 4}, board=L4),
        *(
            work(f"lab-{at}", "labs", {"labs-0": 1}, WorkloadClass.NOTEBOOK, first=at)
            for at in range(8)
        ),
        work("batch-a", "mix", {"mix-0": 8}, batch, namespace="ml"),
    )
    return view((train, serve, labs, mix), workloads)
