"""Cases that look like faults and are none."""

from typing import Final

import numpy as np
from msgspec.structs import replace

from planted_fleet.activity import (
    A100,
    H100,
    L4,
    L40S,
    Load,
    bursts,
    constant,
    dips,
    in_turns,
    steady,
)
from planted_fleet.plant import (
    ANY,
    EMPTY,
    HALL,
    HELD,
    KUBE,
    OSLO,
    PARIS,
    SERVE,
    TRAIN,
    Holder,
    job,
    plant,
    service,
)

__all__ = ["DECOYS"]

DECOYS: Final = (
    plant(
        "a service in bursts, at its due size", PARIS, L4,
        load=replace(SERVE, memory=0.7, sm=0.95, tensor=0.6, course=bursts(0.25, 7)), gpus=2,
        holder=service("search"),
    ),
    plant(
        "a transcoder at two thirds of its encoders", KUBE, L4,
        load=Load(0.09, 0.06, 0, 0.02, 0.08, 0.35, 0.3, encoder=0.7, decoder=0.35,
                  course=steady(0.96)),
        gpus=2, holder=service("transcode", "media"),
    ),
    plant(
        "a batch at night", OSLO, A100,
        load=replace(
            TRAIN,
            course=lambda hours, random: (
                ((hours + 10) % 24 < 4) | ((hours + 10) % 24 >= 22)
            ) * steady(0.98)(hours, random),
            memory_course=lambda hours, _: np.where(
                ((hours + 10) % 24 < 4) | ((hours + 10) % 24 >= 22), 0.8 + 0.001, 0.001
            ),
        ),
        holder=Holder("CronJob", "nightly", "reports"),
        held_hours=tuple((12.0 + 24 * day, 6.0 + 24 * day) for day in reversed(range(9))),
    ),
    plant(
        "a warm standby, by policy", OSLO, A100, load=HELD, gpus=1,
        holder=service("failover"),
    ),
    plant(
        "a job that has just started", OSLO | HALL, A100,
        load=replace(
            HELD, memory_course=lambda hours, _: np.where(hours > -0.17, 0.4 + 0.001, 0.001)
        ),
        gpus=1, holder=job("fresh"), held_hours=((0.17, 0.0),), also=EMPTY,
    ),
    plant(
        "a spare node, by policy", PARIS, L40S, gpus=2, pool="reserve",
        on_own_nodes=True,
    ),
    plant(
        "GPUs that pending work of their pool can have", PARIS, L40S,
        gpus=2, pool="waiting", on_own_nodes=True,
    ),
    plant(
        "an engine at its due size, whose cache is full by design", OSLO, H100,
        load=replace(SERVE, sm=0.85, tensor=0.5, dram=0.6, power=0.85, memory=0.93,
                     course=steady(0.9)),
        gpus=1, holder=service("vllm-due"),
        engine={
            "vllm:num_requests_waiting": constant(0),
            "vllm:num_requests_running": in_turns(60, 90),
            "vllm:kv_cache_usage_perc": in_turns(0.55, 0.8),
        },
    ),
    plant(
        "training at its board's own power limit", PARIS, H100,
        load=replace(TRAIN, power=1.0, clock=0.9), gpus=4, holder=job("pretrain"),
        fields={
            "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": bursts(0.9, 9, 4.0, 0.0),
            "DCGM_FI_DEV_POWER_MGMT_LIMIT": constant(700),
        },
        fields_of_all=True,
    ),
    plant(
        "training that writes a checkpoint each hour", HALL, A100,
        load=replace(TRAIN, course=dips(1.0, 3.0, 0.97)), gpus=1, holder=job("saved"),
    ),
    plant(
        "an error of the program itself (Xid 31)", OSLO, A100, load=TRAIN, holder=job("fault"),
        fields={"DCGM_FI_DEV_XID_ERRORS": lambda hours, _: (hours > -5) * 31.0},
    ),
    plant(
        "three PCIe replays and a corrected row", PARIS, A100, load=TRAIN, holder=job("few"),
        fields={
            "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": lambda hours, _: (hours > -50) * 3.0,
            "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": lambda hours, _: (hours > -150) * 1.0,
        },
    ),
    plant(
        "a node that was returned", ANY, A100, load=TRAIN, gpus=2, holder=job("moved"),
        gone_hours=60.0, are_all_gone=True, is_listed=False, on_own_nodes=True,
    ),
    plant(
        "a notebook at work", OSLO, L40S,
        load=replace(SERVE, memory=0.55, sm=0.8, tensor=0.5,
                     course=lambda hours, random: bursts(0.6, 9)(hours, random)
                     * ((hours + 10) % 24 > 8) * ((hours + 10) % 24 < 20)),
        holder=Holder("StatefulSet", "nb-bo", "notebooks"),
    ),
    plant(
        "the same service at work", OSLO, A100,
        load=replace(SERVE, sm=0.9, tensor=0.55, dram=0.5, power=0.85, memory=0.8,
                     course=steady(0.92)),
        gpus=3, holder=service("chat"),
    ),
    plant(
        "training as it should be", OSLO | HALL, H100, load=TRAIN, gpus=4, holder=job("well"),
    ),
)  # fmt: skip
