"""Planted GPUs that are idle, empty or of another size than is needed."""

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
    in_turns,
    office_hours,
    ramp,
    steady,
    until,
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
    TOO_LARGE,
    TRAIN,
    Abstention,
    Holder,
    job,
    plant,
    service,
)
from rightsizer.model.finding import Reason

__all__ = ["IDLE", "SIZE"]

IDLE: Final = (
    plant(
        "a pod that holds its GPU and never works", KUBE, H100, Reason.IDLE_HELD,
        load=HELD, holder=Holder("Pod", "sandbox", "people"),
    ),
    plant(
        "a notebook left three days ago", KUBE, L40S, Reason.IDLE_HELD,
        load=replace(SERVE, memory=0.3, course=until(-70, bursts(0.4, 12))),
        holder=Holder("StatefulSet", "nb-ana", "notebooks"),
    ),
    plant(
        "a CronJob whose last pod hangs", KUBE, A100, Reason.IDLE_HELD,
        load=HELD, holder=Holder("CronJob", "nightly-report", "reports"),
        held_hours=((13.0, 0.0),), says="nightly-report", also=EMPTY,
    ),
    plant(
        "replicas that nobody calls, of a service that works in the other cluster",
        PARIS, A100, Reason.IDLE_HELD,
        load=HELD, gpus=3, holder=service("chat"), also=TOO_LARGE,
    ),
    plant(
        "a Slurm job that has done nothing for two days", HALL, A100, Reason.IDLE_HELD,
        load=replace(TRAIN, course=until(-48, steady(0.97))), gpus=4,
        holder=Holder("Slurm", "41230"),
    ),
    plant(
        "an empty node", ANY, H100, *EMPTY, gpus=4, on_own_nodes=True,
    ),
    plant(
        "a node that nobody has used for four days", PARIS | HALL, A100, *EMPTY,
        load=replace(
            TRAIN,
            memory_course=lambda hours, _: np.where(hours < -96, 0.8 + 0.001, 0.001),
            course=until(-96, steady(0.98)),
        ),
        gpus=2, holder=job("finished"), held_hours=((1e9, 96.0),), on_own_nodes=True,
    ),
)  # fmt: skip
SIZE: Final = (
    plant(
        "a small service on an H100", KUBE, H100, *TOO_LARGE,
        load=Load(0.3, 0.07, 0.03, 0.02, 0.05, 0.1, 0.06, course=bursts(0.5, 4, 1.0, 0.4)),
        holder=service("embed"),
    ),
    plant(
        "six replicas for the load of two", KUBE, L4, Reason.GPU_COUNT_OVERPROVISIONED,
        load=replace(SERVE, busy=0.8, course=in_turns(0.08, 0.3)), gpus=6,
        holder=service("rank"), also=TOO_LARGE,
    ),
    plant(
        "eight replicas at a fifth of their load", OSLO, A100, Reason.GPU_COUNT_OVERPROVISIONED,
        load=replace(SERVE, busy=0.4, course=in_turns(0.2, 0.8)), gpus=8,
        holder=service("recommend"), also=TOO_LARGE,
    ),
    plant(
        "eight replicas that only the day needs", PARIS, L40S, Reason.DIURNAL_AUTOSCALE,
        load=replace(SERVE, course=office_hours(0.02, 0.9)), gpus=8, holder=service("assist"),
    ),
    plant(
        "four transcoders for the load of one", OSLO, L4, Reason.GPU_COUNT_OVERPROVISIONED,
        load=Load(0.08, 0.05, 0, 0.01, 0.05, 0.2, 0.1, encoder=0.16, decoder=0.1,
                  course=steady(0.9)),
        gpus=4, holder=service("thumbnails", "media"),
    ),
    *(
        plant(
            f"a service that fills a tenth of its GPU: {name}", KUBE, L4, *TOO_LARGE,
            load=Load(0.2, 0.1, 0.05, 0.02, 0.08, 0.15, 0.12, course=bursts(0.4, 3, 1.0, 0.3)),
            holder=service(name, "speech"),
        )
        for name in ("ocr", "tts", "asr")
    ),
    plant(
        "memory that grows by a twentieth a day", PARIS, A100, Reason.EXHAUSTION_FORECAST,
        load=replace(SERVE, memory_course=ramp(0.42, 0.82), course=steady(0.75)),
        holder=service("sessions"),
        also=frozenset({Reason.MEMORY_BANDWIDTH_BOUND}),
    ),
    plant(
        "memory nearly full, and changing", OSLO, A100, Reason.GPU_MEMORY_UNDERPROVISIONED,
        load=replace(TRAIN, memory_course=in_turns(0.93, 0.995)), holder=job("longseq"),
        gpus=1,
    ),
    plant(
        "a service whose users wait", OSLO, H100,
        Reason.COMPUTE_SATURATED, Reason.GPU_UNDERPROVISIONED,
        load=replace(SERVE, busy=1.0, sm=0.98, tensor=0.6, dram=0.5, power=0.95, memory=0.9,
                     course=steady(0.99)),
        gpus=2, holder=service("vllm-large"),
        engine={
            "vllm:num_requests_waiting": in_turns(20, 60),
            "vllm:num_requests_running": in_turns(200, 256),
            "vllm:kv_cache_usage_perc": in_turns(0.95, 1.0),
        },
    ),
    plant(
        "memory reserved by an engine whose cache stays empty", PARIS, H100,
        load=replace(SERVE, busy=0.4, sm=0.3, dram=0.25, tensor=0.1, power=0.35, memory=0.9,
                     course=bursts(0.5, 4, 1.0, 0.3)),
        holder=service("vllm-quiet"),
        engine={
            "vllm:num_requests_waiting": constant(0),
            "vllm:num_requests_running": in_turns(0, 2),
            "vllm:kv_cache_usage_perc": in_turns(0.0, 0.02),
        },
        abstains=(Abstention("memory_overprovisioned", "preallocated"),),
        also=TOO_LARGE | {Reason.MEMORY_BANDWIDTH_BOUND},
    ),
)  # fmt: skip
