"""One page of a dcgm-exporter, in every historical format."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcgm_exporter import BUSY, OTHER, USUAL, lines, page
from readings import EPOCH, SECOND
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.dcgm_fields import DCGM_FIELDS, FORMER_DCGM_NAMES
from rightsizer.model.errors import DriverError
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.workload import WorkloadClass
from rightsizer.telemetry.dcgm.series import (
    DcgmExpositionParser,
    ExporterPage,
    UnusedSeries,
    interpret,
)

MIG = {"GPU_I_PROFILE": "3g.40gb", "GPU_I_ID": "2"}


def read(text: str) -> ExporterPage:
    """The parsed page."""
    return DcgmExpositionParser(built_in()).read(text)


def test_a_page_of_today() -> None:
    """Values are in base units, the better of two fields is used, and its name is kept."""
    found = read(page(DCGM_FI_DRIVER_VERSION="570.1"))

    assert found.readings[BUSY].values == {
        Signal.SM_CLOCK_HERTZ: 1.41e9,
        Signal.TEMPERATURE_CELSIUS: 55.0,
        Signal.POWER_WATTS: 231.5,
        Signal.ENERGY_JOULES: 7000.0,
        Signal.MEMORY_FREE_BYTES: 61_440 * 2.0**20,
        Signal.MEMORY_USED_BYTES: 20_480 * 2.0**20,
        Signal.GPU_BUSY: 0.875,
        Signal.TENSOR_ACTIVE: 0.25,
        Signal.DRAM_ACTIVE: 0.5,
    }
    assert Signal.GPU_BUSY in found.readings[BUSY].profiled
    assert (found.driver_version, found.devices[0].board) == ("570.1", "A100-SXM4-80GB")


def test_former_names_read_like_those_of_today() -> None:
    """An exporter of 2020 gives the same values."""
    for former in sorted(FORMER_DCGM_NAMES):
        today = FORMER_DCGM_NAMES[former]
        labels = f'{{gpu="0",uuid="{BUSY}"}}'

        assert read(f"{former}{labels} 0.5\n") == read(f"{today}{labels} 0.5\n"), former


@pytest.mark.parametrize(
    ("number", "why"),
    [
        ("9223372036854775792", Missing.NO_SAMPLE),
        ("9223372036854775793", Missing.NOT_SUPPORTED),
        ("9223372036854775794", Missing.NOT_SUPPORTED),
        ("9223372036854775795", Missing.NO_PERMISSION),
        ("140737488355330.000000", Missing.NOT_SUPPORTED),
        ("1.40737488355328e+14", Missing.NO_SAMPLE),
        ("2147483634", Missing.NOT_SUPPORTED),
        ("9.223372036854776e+18", Missing.INVALID),
        ("NaN", Missing.INVALID),
        ("-1", Missing.INVALID),
    ],
)
def test_a_blank_says_why(number: str, why: Missing) -> None:
    """DCGM's own reason is used where the last digits have survived."""
    for name in (
        "DCGM_FI_PROF_SM_ACTIVE",
        "DCGM_FI_DEV_FB_USED",
        "DCGM_FI_DEV_POWER_USAGE",
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "DCGM_FI_DEV_THERMAL_VIOLATION",
    ):
        found = read(lines(BUSY, {name: number}))
        signal = DCGM_FIELDS[name].signal
        assert (found.readings[BUSY].values, found.readings[BUSY].missing) == ({}, {signal: why})
        assert found.devices[0].memory_total_bytes == 80 * 2.0**30


def test_a_blank_does_not_hide_the_weaker_field() -> None:
    """Present values take precedence over missing ones."""
    found = read(
        lines(BUSY, {"DCGM_FI_DEV_GPU_UTIL": 40, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 2**63 - 14})
    )
    assert (found.readings[BUSY].values, found.readings[BUSY].missing) == (
        {Signal.GPU_BUSY: 0.4},
        {},
    )


@pytest.mark.parametrize(("profiled", "believed"), [(0, 0.97), (0.02, 0.02)])
def test_a_dead_counter_does_not_hide_work(profiled: float, believed: float) -> None:
    """Dead counters read 0 forever; a small share is a valid reading."""
    found = read(
        page().replace("GR_ENGINE_ACTIVE", "X")
        + lines(BUSY, {"DCGM_FI_PROF_GR_ENGINE_ACTIVE": profiled})
    )
    assert found.readings[BUSY].values[Signal.GPU_BUSY] == believed


def test_errors_of_all_kinds_are_added_up_once() -> None:
    """Each line of a GPU shared by two pods occurs twice."""
    kinds = ("CRC_FLIT", "CRC_DATA", "REPLAY", "RECOVERY")
    counts = {
        f"DCGM_FI_DEV_NVLINK_{kind}_ERROR_COUNT_TOTAL": 10**at for at, kind in enumerate(kinds)
    }
    found = read(lines(BUSY, counts, pod="a") + lines(BUSY, counts, pod="b"))

    assert found.readings[BUSY].values == {Signal.NVLINK_ERRORS: 1111}


def test_value_of_the_card_is_no_reading_of_an_instance() -> None:
    """This holds despite the exporter's label, and in the other direction too."""
    found = read(page() + page(**MIG))
    instance = f"{BUSY}/gi2"

    assert set(found.readings[instance].values) == {
        Signal.SM_CLOCK_HERTZ,
        Signal.GPU_BUSY,
        Signal.TENSOR_ACTIVE,
        Signal.DRAM_ACTIVE,
        Signal.MEMORY_FREE_BYTES,
        Signal.MEMORY_USED_BYTES,
    }
    assert found.instances == {instance: (BUSY, 2)}
    assert found.readings[BUSY].values == read(page()).readings[BUSY].values


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ('DCGM_FI_DEV_PCIE_REPLAY_COUNTER{gpu="0",UUID="G",nvlink="3"}', "one NVLink"),
        ('DCGM_FI_DEV_POWER_USAGE{nvswitch="0",gpu="0"}', "a switch"),
        ('DCGM_FI_DEV_GPU_TEMP{cpu="0"}', "a CPU"),
        ('DCGM_FI_DEV_GPU_TEMP{Hostname="h"}', "name no GPU"),
        ('DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="G",GPU_I_ID="1"}', "the whole card"),
        ('DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{gpu="0"}', "behaves as a rate"),
        ('DCGM_EXP_XID_ERRORS_COUNT{gpu="0",xid="31"}', "window of its own"),
        ('DCGM_FI_DEV_OF_TOMORROW{gpu="0"}', "the field is not known here"),
    ],
)
def test_skipped_line_has_a_reason(text: str, because: str) -> None:
    """Every skipped line is reported."""
    found = interpret(text)

    assert isinstance(found, UnusedSeries)
    assert because in found.because
    assert read(f"{text} 7\n").readings == {}


def test_a_relay_may_add_its_suffix() -> None:
    """OpenMetrics adds a suffix to the same counter."""
    found = read(f'DCGM_FI_DEV_PCIE_REPLAY_COUNTER_total{{UUID="{BUSY}"}} 3 # {{a="}}"}} 1\n')

    assert found.readings.keys() == {BUSY}
    assert found.readings[BUSY].values == {Signal.PCIE_REPLAYS: 3}


def test_holders_are_identified_by_the_name_that_their_owner_has() -> None:
    """Their names equal those of the node's own owners, so that the workload is the same."""
    found = read(page(pod="chat-7d9f8b6c5d-x2v8q", namespace="web", container="vllm"))
    [holding] = found.readings[BUSY].holdings

    assert holding.workload.key == "kubernetes:web/chat"
    assert (holding.workload.workload_class, holding.workload.pod) == (
        WorkloadClass.SERVING,
        "chat-7d9f8b6c5d-x2v8q",
    )


def test_a_value_with_an_old_time_of_its_own_is_stale() -> None:
    """A relay may repeat old values; a value without a timestamp is current."""
    now = EPOCH // 1_000_000
    text = lines(BUSY, {"DCGM_FI_DEV_GPU_TEMP": f"55 {now - 61_000}"})
    text += lines(BUSY, {"DCGM_FI_DEV_FB_USED": f"1 {now - 59_000}", "DCGM_FI_DEV_ENC_UTIL": 3})
    found = DcgmExpositionParser(built_in()).read(text, oldest=EPOCH - 60 * SECOND)

    assert found.readings[BUSY].missing == {Signal.TEMPERATURE_CELSIUS: Missing.STALE}
    assert found.readings[BUSY].values == {Signal.MEMORY_USED_BYTES: 2.0**20, Signal.ENCODER: 0.03}


def test_parts_of_pods_are_no_reading_of_the_gpu() -> None:
    """dcgm-exporter 4.6 divides some values among pods, beside the GPU's; others are copies."""
    pods = ({"pod": "a", "namespace": "n"}, {"pod": "b", "namespace": "n"})
    text = lines(BUSY, {"DCGM_FI_DEV_GPU_UTIL": 70, "DCGM_FI_DEV_FB_USED": 9000})
    for pod, busy, used in zip(pods, (70, 0), (8500, 0), strict=True):
        text += lines(BUSY, {"DCGM_FI_DEV_GPU_UTIL": busy, "DCGM_FI_DEV_FB_USED": used}, **pod)
        text += lines(BUSY, {"DCGM_FI_DEV_FB_FREE": 23_768, "DCGM_FI_PROF_SM_ACTIVE": 0.5}, **pod)
    for written in (text, "".join(reversed(text.splitlines(keepends=True)))):
        found = read(written)
        assert found.readings[BUSY].values == {
            Signal.GPU_BUSY: 0.7,
            Signal.MEMORY_USED_BYTES: 9000 * 2.0**20,
            Signal.MEMORY_FREE_BYTES: 23_768 * 2.0**20,
            Signal.SM_ACTIVE: 0.5,
        }
        assert found.devices[0].memory_total_bytes == (9000 + 23_768) * 2.0**20
        assert [holding.workload.pod for holding in found.readings[BUSY].holdings] == ["a", "b"]


def test_page_of_two_nodes_is_refused() -> None:
    """As of a relay; their GPUs are not all of this node."""
    text = page(Hostname="gpu-1") + page(uuid=OTHER, Hostname="gpu-2")
    with pytest.raises(DriverError, match=r"GPUs of 2 nodes \(gpu-1, gpu-2, ...\)"):
        read(text)


def test_number_of_a_page_that_ends_early_is_no_value() -> None:
    """It may lack digits: 4 of 40960 MiB."""
    text = page() + lines(BUSY, {"DCGM_FI_DEV_BAR1_USED": 4})
    assert Signal.BAR1_USED_BYTES in read(text).readings[BUSY].values
    assert Signal.BAR1_USED_BYTES not in read(text[:-1]).readings[BUSY].values


def test_a_torn_line_costs_itself() -> None:
    """The rest of the page is read."""
    found = read(page(uuid=OTHER) + "DCGM_FI_DEV_GPU_TEMP{gpu=\n" + page()[:-4])

    assert found.readings[OTHER].values == read(page(uuid=OTHER)).readings[OTHER].values


@pytest.mark.parametrize("text", ["<html>log in</html>", "up 1\n", 'node_load1{a="b"} 3\n', "{}"])
def test_another_page_is_refused(text: str) -> None:
    """It is not read as a node without GPUs."""
    with pytest.raises(DriverError, match="none of its metrics is in it; check the address"):
        read(text)


def test_an_empty_page_has_no_devices() -> None:
    """An exporter serves it before its first collection."""
    assert read("# HELP x y\n\n").devices == ()


@given(st.text(max_size=200), st.sampled_from(sorted(USUAL)))
def test_no_text_breaks_the_reader(text: str, name: str) -> None:
    """For any text, a page is read or rejected, without impossible values."""
    for written in (text, f"{name}{{{text}}} 1", f'{name}{{gpu="0",UUID="x"}} {text}'):
        try:
            found = read(written)
        except DriverError:
            continue
        assert all(
            value >= 0 for reading in found.readings.values() for value in reading.values.values()
        )


def test_a_page_read_twice_reads_the_same() -> None:
    """Cached parts of one page do not affect the next."""
    reader = DcgmExpositionParser(built_in())
    text = page() + page(**MIG) + page(uuid=OTHER, gpu="1")

    assert reader.read(text) == reader.read(text) == read(text)


@pytest.mark.parametrize(
    ("board", "written", "meant"),
    [
        ("NVIDIA H100 NVL", "1g.11gb", "1g.12gb"),
        ("NVIDIA H100 NVL", "1g.22gb", "1g.24gb"),
        ("NVIDIA A100 80GB PCIe", "7g.79gb", "7g.80gb"),
        ("NVIDIA A100-SXM4-80GB", "1g.9gb", "1g.10gb"),
        ("NVIDIA A100-SXM4-80GB", "1g.20gb", "1g.20gb"),
        ("NVIDIA A100-SXM4-40GB", "3g.21gb", "3g.20gb"),
        ("nvidia a100 80gb pcie", "2g.20gb", "2g.20gb"),
    ],
)
def test_profile_of_rounded_memory_is_the_boards_own(board: str, written: str, meant: str) -> None:
    """Exporters compute a profile's name, and the memory in it is a gigabyte off (#544)."""
    labels = f'gpu="0",UUID="GPU-1",modelName="{board}",GPU_I_PROFILE="{written}",GPU_I_ID="7"'
    (device,) = read(f"DCGM_FI_DEV_FB_USED{{{labels}}} 12\n").devices
    assert device.mig is not None
    assert (device.mig.profile, device.mig.gpu_instance_id) == (meant, 7)


@pytest.mark.parametrize("profile", ["<<<NULL>>>", "9g.90gb", "1g.40gb"])
def test_instance_of_an_unknown_profile_has_not_the_memory_of_its_gpu(profile: str) -> None:
    """It is a part of unknown size: a few used megabytes of 80 GB would be waste that is none."""
    labels = 'gpu="0",UUID="GPU-1",modelName="NVIDIA A100-SXM4-80GB"'
    labels += f',GPU_I_PROFILE="{profile}",GPU_I_ID="6"'
    found = read(f"DCGM_FI_DEV_FB_USED{{{labels}}} 12\nDCGM_FI_DEV_SM_CLOCK{{{labels}}} 1095\n")
    (device,) = found.devices
    assert (device.mig, device.memory_total_bytes) == (None, None)


def test_names_and_labels_in_lower_case_are_read() -> None:
    """Some clouds' relays fold them, those of the model and of the profile too."""
    labels = 'gpu="0",gpu_i_id="3",gpu_i_profile="1g.10gb",modelname="nvidia a100 80gb pcie"'
    labels += ',uuid="gpu-1"'
    found = read(f"dcgm_fi_prof_gr_engine_active{{{labels}}} 0.25\n")
    (device,) = found.devices
    assert device.mig is not None
    assert (device.uuid, device.mig.profile) == ("gpu-1/gi3", "1g.10gb")
    assert found.readings["gpu-1/gi3"].values == {Signal.GPU_BUSY: 0.25}
    assert Signal.GPU_BUSY in found.readings["gpu-1/gi3"].profiled


def test_board_without_memory_of_its_own_has_no_size() -> None:
    """On GB10 the memory is the host's, and some releases say that there are 0 bytes."""
    labels = 'gpu="0",UUID="GPU-1",modelName="NVIDIA GB10"'
    parts = ("FB_TOTAL", "FB_FREE", "FB_USED")
    found = read("".join(f"DCGM_FI_DEV_{part}{{{labels}}} 0\n" for part in parts))
    assert found.devices[0].memory_total_bytes is None
    assert found.readings["GPU-1"].missing == {Signal.MEMORY_TOTAL_BYTES: Missing.NOT_SUPPORTED}
