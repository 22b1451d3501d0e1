"""Planted limits of jobs, and broken or silent hardware."""

from typing import Final

from msgspec.structs import replace

from planted_fleet.activity import (
    A100,
    H100,
    L40S,
    Load,
    bursts,
    constant,
    dips,
    grown,
    in_turns,
    steady,
)
from planted_fleet.plant import (
    ANY,
    HALL,
    OSLO,
    PARIS,
    SERVE,
    TRAIN,
    UNHEALTHY,
    Abstention,
    job,
    plant,
    service,
)
from rightsizer.model.finding import Reason

__all__ = ["CAUSES", "HEALTH"]

CAUSES: Final = (
    plant(
        "a job that waits for its loader", OSLO | HALL, A100,
        load=replace(TRAIN, course=in_turns(0.1, 0.5), power=0.7), gpus=1,
        holder=job("starved"),
        abstains=(
            Abstention("host_bound", "rightsizer_cpu_ratio"),
            Abstention("storage_bound", "rightsizer_io_pressure_ratio"),
        ),
    ),
    plant(
        "a job that pauses every ten minutes", PARIS, A100,
        load=replace(TRAIN, course=dips(1 / 6, 4.0, 0.97)), gpus=1, holder=job("periodic"),
        abstains=(Abstention("periodic_starvation", "rightsizer_gpu_busy_ratio"),),
    ),
    plant(
        "a job that waits for copies over PCIe", OSLO | HALL, A100, Reason.PCIE_BOUND,
        load=replace(TRAIN, busy=0.4, sm=0.3, tensor=0.1, dram=0.2, power=0.4,
                     pcie_bytes_per_second=2.3e10, course=steady(0.95)),
        holder=job("tables"),
    ),
    plant(
        "a hung job", PARIS | HALL, H100, Reason.HIDDEN_STALL,
        load=Load(1.0, 0.12, 0.0, 0.0, 0.002, 0.19, 0.8, course=steady(1.0),
                  pcie_bytes_per_second=2e6),
        gpus=2, holder=job("hung"),
    ),
    plant(
        "a rank that the others wait for", OSLO | HALL, H100,
        Reason.RANK_IMBALANCE, Reason.HIDDEN_STALL,
        load=Load(1.0, 0.12, 0.0, 0.0, 0.004, 0.2, 0.8, pcie_bytes_per_second=2e6,
                  course=steady(1.0)),
        ranks={2: TRAIN}, gpus=4, holder=job("dpo"),
    ),
    plant(
        "a rank with less than half of the work", OSLO, A100, Reason.RANK_IMBALANCE,
        load=replace(TRAIN, busy=0.97),
        ranks={1: replace(TRAIN, busy=0.42, sm=0.4, tensor=0.2, dram=0.15, power=0.4)},
        gpus=4, holder=job("skewed"),
    ),
    plant(
        "tiny kernels", OSLO, A100, Reason.LAUNCH_BOUND,
        load=replace(TRAIN, busy=0.96, sm=0.11, tensor=0.02, fp32=0.04, dram=0.07, power=0.22),
        holder=job("rnn"),
    ),
    plant(
        "tiny kernels, without profiling", PARIS, A100,
        load=replace(TRAIN, busy=0.96, sm=0.11, tensor=0.02, fp32=0.04, dram=0.07, power=0.22),
        holder=job("lstm"), has_profiling=False, on_own_nodes=True,
        abstains=(Abstention("launch_bound", "DCGM_FI_PROF_SM_ACTIVE"),),
    ),
    plant(
        "FP32 beside idle tensor cores", PARIS, A100, Reason.TENSOR_CORES_UNUSED,
        load=replace(TRAIN, tensor=0.0, fp32=0.72), gpus=1, holder=job("legacy"),
    ),
    plant(
        "a service bound by memory traffic", OSLO, H100, Reason.MEMORY_BANDWIDTH_BOUND,
        load=replace(SERVE, sm=0.3, tensor=0.07, dram=0.9, memory=0.7, course=steady(0.97)),
        holder=service("longctx"),
    ),
)  # fmt: skip
_THERMAL: Final = {
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": bursts(0.7, 6, float(0x20 | 0x40), 0.0),
    "DCGM_FI_DEV_GPU_TEMP": in_turns(86, 90),
}
HEALTH: Final = (
    plant(
        "a GPU slowed down by heat", PARIS | HALL, H100, Reason.THERMAL_THROTTLED,
        load=replace(TRAIN, clock=0.62), gpus=1, holder=job("hot"), fields=_THERMAL,
    ),
    plant(
        "heat, by the older name of the field", HALL, L40S, Reason.THERMAL_THROTTLED,
        load=replace(TRAIN, clock=0.6), holder=job("hotter"), has_profiling=False,
        on_own_nodes=True,
        fields={"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": bursts(0.6, 9, float(0x40), 0.0)},
    ),
    plant(
        "a GPU slowed down by the power brake", OSLO, A100, Reason.THERMAL_THROTTLED,
        load=replace(TRAIN, clock=0.5, power=0.5), holder=job("brake"),
        fields={"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": constant(0x88)},
    ),
    plant(
        "a power limit below the board's", OSLO | HALL, H100, Reason.POWER_THROTTLED,
        load=replace(TRAIN, clock=0.6, power=0.52), gpus=1, holder=job("capped"),
        fields={
            "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": bursts(0.97, 30, 4.0, 0.0),
            "DCGM_FI_DEV_POWER_MGMT_LIMIT": constant(400),
        },
        fields_of_all=True,
    ),
    plant(
        "heat on a node that exports no reasons of low clocks", PARIS, A100,
        load=replace(TRAIN, clock=0.6), holder=job("warm"), has_profiling=False,
        on_own_nodes=True,
        abstains=(Abstention("thermal_throttled", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"),),
    ),
    plant(
        "a GPU that fell off the bus (Xid 79)", OSLO | HALL, H100, *UNHEALTHY,
        load=TRAIN, holder=job("bus"),
        fields={"DCGM_FI_DEV_XID_ERRORS": lambda hours, _: (hours > -6) * 79.0},
    ),
    plant(
        "uncorrectable errors of memory (Xid 48)", PARIS, A100, *UNHEALTHY,
        load=TRAIN, holder=job("flips"),
        fields={
            "DCGM_FI_DEV_XID_ERRORS": lambda hours, _: (hours > -9) * 48.0,
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": lambda hours, _: (hours > -9) * 2.0,
        },
    ),
    plant(
        "remapping of a memory row failed", OSLO, A100, *UNHEALTHY,
        load=TRAIN, holder=job("rows"),
        fields={
            "DCGM_FI_DEV_ROW_REMAP_FAILURE": lambda hours, _: (hours > -30) * 1.0,
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": lambda hours, _: (hours > -30) * 8.0,
        },
    ),
    plant(
        "a PCIe link that repeats its packets", PARIS | HALL, A100, *UNHEALTHY,
        load=TRAIN, holder=job("link"),
        fields={"DCGM_FI_DEV_PCIE_REPLAY_COUNTER": grown(4.0, 90)},
    ),
    plant(
        "a GPU that disappeared from its node", ANY, H100, *UNHEALTHY,
        load=TRAIN, gpus=4, holder=job("seven"), gone_hours=31.0, on_own_nodes=True,
        also=frozenset({Reason.RANK_IMBALANCE}),
    ),
    plant(
        "a node silent for two days", ANY, A100, Reason.TELEMETRY_LOST,
        load=TRAIN, gpus=2, holder=job("silent"), gone_hours=49.0, are_all_gone=True,
        on_own_nodes=True,
    ),
    plant(
        "an exporter that lost its profiling fields", ANY, L40S, Reason.TELEMETRY_LOST,
        load=TRAIN, gpus=2, holder=job("blind"), unprofiled_hours=40.0, on_own_nodes=True,
    ),
)  # fmt: skip
