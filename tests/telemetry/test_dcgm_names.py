"""Table of dcgm-exporter's names."""

from typing import Final

from rightsizer.model.dcgm_fields import DCGM_FIELDS, FORMER_DCGM_NAMES, DcgmType
from rightsizer.model.metric_family import Export
from rightsizer.model.signal import Signal
from rightsizer.model.units import convert

DEFAULT: Final = (
    "DEV_SM_CLOCK DEV_MEM_CLOCK DEV_GPU_TEMP DEV_MEMORY_TEMP DEV_POWER_USAGE"
    " DEV_TOTAL_ENERGY_CONSUMPTION DEV_PCIE_REPLAY_COUNTER DEV_GPU_UTIL DEV_MEM_COPY_UTIL"
    " DEV_ENC_UTIL DEV_DEC_UTIL DEV_XID_ERRORS DEV_FB_FREE DEV_FB_USED DEV_FB_RESERVED"
    " DEV_NVLINK_BANDWIDTH_TOTAL DEV_VGPU_LICENSE_STATUS DEV_UNCORRECTABLE_REMAPPED_ROWS"
    " DEV_CORRECTABLE_REMAPPED_ROWS DEV_ROW_REMAP_FAILURE DRIVER_VERSION PROF_GR_ENGINE_ACTIVE"
    " PROF_PIPE_TENSOR_ACTIVE PROF_DRAM_ACTIVE PROF_PCIE_TX_BYTES PROF_PCIE_RX_BYTES"
)
COMMENTED_OUT: Final = (
    "FI_PROF_SM_ACTIVE FI_PROF_SM_OCCUPANCY FI_PROF_PIPE_FP64_ACTIVE FI_PROF_PIPE_FP32_ACTIVE"
    " FI_PROF_PIPE_FP16_ACTIVE FI_DEV_POWER_VIOLATION FI_DEV_THERMAL_VIOLATION"
    " FI_DEV_SYNC_BOOST_VIOLATION FI_DEV_BOARD_LIMIT_VIOLATION FI_DEV_LOW_UTIL_VIOLATION"
    " FI_DEV_RELIABILITY_VIOLATION EXP_CLOCK_EVENTS_COUNT EXP_XID_ERRORS_COUNT"
    " EXP_GPU_HEALTH_STATUS EXP_P2P_STATUS FI_DEV_ECC_SBE_VOL_TOTAL FI_DEV_ECC_DBE_VOL_TOTAL"
    " FI_DEV_ECC_SBE_AGG_TOTAL FI_DEV_ECC_DBE_AGG_TOTAL FI_DEV_RETIRED_SBE FI_DEV_RETIRED_DBE"
    " FI_DEV_RETIRED_PENDING FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"
    " FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"
    " FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL FI_DEV_NVLINK_BANDWIDTH_L0 FI_NVML_VERSION"
    " FI_DEV_BRAND FI_DEV_SERIAL FI_DEV_OEM_INFOROM_VER FI_DEV_ECC_INFOROM_VER"
    " FI_DEV_POWER_INFOROM_VER FI_DEV_INFOROM_IMAGE_VER FI_DEV_VBIOS_VERSION"
)


def test_the_exporters_own_list_is_known() -> None:
    """The table equals its default fields, plus those for operators to enable."""
    on = {name for name, field in DCGM_FIELDS.items() if field.is_default}

    assert on == {f"DCGM_FI_{name}" for name in DEFAULT.split()}
    assert {f"DCGM_{name}" for name in COMMENTED_OUT.split()} <= DCGM_FIELDS.keys() - on


def test_every_field_is_read_or_says_why_not() -> None:
    """The table has every field."""
    assert {
        name
        for name, field in DCGM_FIELDS.items()
        if bool(field.signal) == bool(field.unused_because)
    } == set()


def test_units_fit_signals() -> None:
    """A field in MHz maps to a signal in hertz, and counters are declared as such."""
    for field in DCGM_FIELDS.values():
        if field.signal is None:
            continue

        assert convert(field.unit)[0] is field.signal.unit, field
        assert field.type is DcgmType.COUNTER or field.signal.export is not Export.COUNTER, field


def test_former_names_lead_to_names_of_today() -> None:
    """No two map to the same name."""
    assert set(FORMER_DCGM_NAMES.values()) <= DCGM_FIELDS.keys()
    assert len(set(FORMER_DCGM_NAMES.values())) == len(FORMER_DCGM_NAMES)


def test_fields_of_one_signal_have_an_order() -> None:
    """The page's order decides only for a signal that is the sum of its parts."""
    for signal in Signal:
        fields = [field for field in DCGM_FIELDS.values() if field.signal is signal]
        ranks = [field.rank for field in fields]
        assert len(set(ranks)) == len(ranks) or all(field.is_part for field in fields)
