"""Money of a fleet: nothing saves more than its GPUs lose, and no GPU is given back twice."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import judgement
from estate_views import H100, L4, MARKET, pool, steady, view
from fleet_answers import END
from fleet_money import money_faults
from rightsizer.advice.rules.rule import Judgement
from rightsizer.fleet.encoder import FleetAnswer, encode_answer
from rightsizer.fleet.losses import Losses
from rightsizer.fleet.model import FleetPool, FleetView
from rightsizer.fleet.summary import summary_of
from rightsizer.fleet.usage import FREE, HeldGpu, UseKey, UseRow, UseSum, usage_of
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.finding import Action, FindingKind, Reason, Savings
from rightsizer.sizing.estimate import EstimateInterval

POOLS: Final = (
    pool("train", steady(0.0), nodes=1, each=4, board=H100),
    pool("serve", steady(0.0), nodes=1, each=3, board=L4),
)
DEVICES: Final = {device.device.uuid: device for some in POOLS for device in some.devices}
VIEW: Final = view(POOLS)
HOLDERS: Final = ("", "kubernetes:web/chat", "kubernetes:ml/label", "slurm:7")
_HOURS: Final = 336.0
_SHARES: Final = st.integers(0, 10).map(lambda tenths: tenths / 10)


@st.composite
def holdings(draw: st.DrawFn) -> tuple[HeldGpu, ...]:
    """Who has the GPUs, some of them shared, and how much of their time they used."""
    found = []
    for uuid in DEVICES:
        holders = draw(st.lists(st.sampled_from(HOLDERS), min_size=1, max_size=2, unique=True))
        for holder in holders:
            held = draw(_SHARES) * _HOURS / len(holders)
            used = draw(_SHARES) * held
            idle = draw(_SHARES) * (held - used)
            free = 0.0 if holder else held
            found.append(
                HeldGpu(
                    uuid=uuid,
                    workload=holder,
                    team=holder.partition(":")[2].partition("/")[0],
                    gpus=1.0 / len(holders),
                    held=held,
                    unknown=_HOURS / len(holders) - held,
                    used=used if holder else 0.0,
                    idle=idle if holder else 0.0,
                    stalled=0.0,
                    lost=0.0,
                    free=free,
                )
            )
    return tuple(found)


_KINDS: Final = {
    FindingKind.IDLE: Reason.IDLE_HELD,
    FindingKind.OVERPROVISIONED: Reason.GPU_COUNT_OVERPROVISIONED,
    FindingKind.INEFFICIENT: Reason.PCIE_BOUND,
}


@st.composite
def promises(draw: st.DrawFn) -> list[Judgement]:
    """Verdicts that promise anything of any GPUs."""
    found = []
    for place in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(tuple(_KINDS)))
        workload = draw(st.sampled_from(HOLDERS)) or None
        uuids = draw(st.lists(st.sampled_from(tuple(DEVICES)), min_size=1, max_size=5, unique=True))
        low, high = sorted(draw(st.tuples(st.floats(0.0, 40.0), st.floats(0.0, 40.0))))
        found.append(
            judgement(
                key=workload or f"node/n{place}",
                id=f"promise-{place:04d}",
                kind=kind,
                reasons=(_KINDS[kind],),
                workload=workload,
                devices=tuple(uuids),
                action=draw(st.sampled_from((Action.RELEASE, Action.REDUCE_REPLICAS))),
                savings=Savings(low, high, low, high, price_source="our contract"),
            )
        )
    return found


def answer_of(held: tuple[HeldGpu, ...], judgements: list[Judgement]) -> Mapping[str, Any]:
    """An answer whose hours are those of its GPUs, and whose advice is open."""
    uses = defaultdict[UseKey, UseSum](UseSum)
    for each in held:
        place = DEVICES[each.uuid]
        kind = "kubernetes" if each.workload else FREE
        key = UseKey("", each.team, place.pool, kind, place.device.board)
        wasted = each.idle + each.free
        uses[key].add(
            UseSum(
                held=each.held,
                unknown=each.unknown,
                used=each.used,
                wasted=wasted,
                idle=each.idle,
                free=each.free,
            )
        )
    return encoded(VIEW, held, judgements, usage_of(uses, MARKET))


def encoded(
    of: FleetView,
    held: tuple[HeldGpu, ...],
    judgements: list[Judgement],
    usage: tuple[UseRow, ...] = (),
) -> Mapping[str, Any]:
    """An answer in which all verdicts are open advice."""
    answer = FleetAnswer(
        time=END,
        lookback_seconds=_HOURS * 3600.0,
        sources=(),
        view=of,
        judgements=tuple(judgements),
        holdings=held,
        advice=tuple(Advice(each.finding, AdviceState.ACTIVE, END, END) for each in judgements),
        usage=usage,
        market=MARKET,
    )
    return encode_answer(answer)


@settings(max_examples=60, deadline=None)
@given(holdings(), promises())
def test_nothing_saves_more_than_is_lost(
    held: tuple[HeldGpu, ...], judgements: list[Judgement]
) -> None:
    """Neither one recommendation, nor a group, nor all together, whatever rules promise."""
    losses = Losses(held, DEVICES, MARKET)
    limited = [losses.limited(each) for each in judgements]
    assert list(money_faults(answer_of(held, limited))) == []


def one(savings: Savings, **facts: Any) -> Savings:
    """What is left of savings on a GPU that used a quarter of its time."""
    (uuid, *_) = DEVICES
    held = HeldGpu(uuid, "slurm:7", "", 1.0, 100.0, 0.0, 25.0, 75.0, 0.0, 0.0, 0.0)
    given_one = judgement(
        key="slurm:7", workload="slurm:7", devices=(uuid,), savings=savings, **facts
    )
    return Losses([held], DEVICES, MARKET).limited(given_one).finding.savings


def test_work_saves_what_it_lost_and_idle_gpus_what_they_cost() -> None:
    """An hour of the board costs $4, within a tenth."""
    promised = Savings(1.0, 1.0, 3.6, 4.4, dollars_per_hour_typical=4.0)
    busy = one(promised, kind=FindingKind.INEFFICIENT, reasons=(Reason.PCIE_BOUND,))
    assert (busy.gpus_low, busy.gpus_high, busy.dollars_per_hour) == (0.75, 0.75, 3.0)
    idle = one(promised, kind=FindingKind.IDLE, reasons=(Reason.IDLE_HELD,))
    assert (idle.gpus_high, idle.dollars_per_hour) == (1.0, 4.0)
    small = one(Savings(0.1, 0.2, 0.4, 0.8), kind=FindingKind.INEFFICIENT)
    assert (small.gpus_high, small.dollars_per_hour) == (0.2, pytest.approx(0.6))
    assert one(Savings(reason="healthy hardware")) == Savings(reason="healthy hardware")


def large_pool() -> FleetPool:
    """A pool of more GPUs than a verdict names."""
    return pool("large", steady(0.0), nodes=9, each=8, board=H100)


def test_a_pool_that_is_named_in_part_is_given_back_once() -> None:
    """Its verdict names 64 GPUs; a node beyond them is a part of the same pool."""
    some = large_pool()
    uuids = sorted(device.device.uuid for device in some.devices)
    held = tuple(
        HeldGpu(uuid, "", "", 1.0, 336.0, 0.0, 0.0, 0.0, 0.0, 0.0, 336.0) for uuid in uuids
    )
    whole = Savings(72.0, 72.0, 288.0, 288.0)
    part = Savings(8.0, 8.0, 32.0, 32.0)
    pieces = [
        judgement(key="pool/large", id="whole-pool--", workload=None, savings=whole,
                  devices=tuple(uuids[:64])),
        judgement(key="node/large-8", id="single-node-", workload=None, savings=part,
                  devices=tuple(uuids[64:])),
    ]  # fmt: skip
    document = encoded(view((some,)), held, pieces)
    assert summary_of(document).reclaimable == EstimateInterval(6912.0, 6912.0, 6912.0)
    devices = {device.device.uuid: device for device in some.devices}
    losses = Losses(held, devices, MARKET)
    assert losses.limited(pieces[0]).finding.savings.gpus_high == 72.0
    gone = replace(pieces[1], finding=replace(pieces[1].finding, devices=("GPU-gone",)))
    assert losses.limited(gone) == gone
