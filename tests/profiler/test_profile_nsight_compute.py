"""Nsight Compute's pages: metrics of each kernel, never idle time."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profile_nsight import DETAIL_COLUMNS, details_page, raw_page
from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import KernelCounters, KernelUse, Profile
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.nsight_compute.reader import NSIGHT_COMPUTE, read
from rightsizer.profiles.reader import Head

LIMITS = ReadLimits()
SPEED = "GPU Speed Of Light Throughput"
DETAILS = [
    (SPEED, "Duration", "us", "12.50"),
    (SPEED, "Compute (SM) Throughput", "%", "40.00"),
    (SPEED, "Memory Throughput", "%", "70.00"),
    (SPEED, "DRAM Throughput", "%", "60.00"),
    ("Memory Workload Analysis", "Memory Throughput", "Gbyte/second", "2.50"),
    ("Occupancy", "Theoretical Occupancy", "%", "100.00"),
    ("Occupancy", "Achieved Occupancy", "%", "80.00"),
    ("Launch Statistics", "# SMs", "SM", "132"),
    ("Launch Statistics", "Cluster Scheduling Policy", "", "PolicySpread"),
]
TENSOR = "sm__inst_executed_pipe_tensor.sum"
RAW_UNITS = {
    "device__attribute_display_name": "",
    "device__attribute_multiprocessor_count": "",
    "dram__bytes_read.sum": "Mbyte",
    "dram__bytes_write.sum": "Kbyte",
    "gpu__time_duration.sum": "usecond",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "%",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "%",
    TENSOR: "inst",
}
RAW = {
    "device__attribute_display_name": "NVIDIA H100",
    "device__attribute_multiprocessor_count": "132",
    "dram__bytes_read.sum": "1.5",
    "dram__bytes_write.sum": "500",
    "gpu__time_duration.sum": "1,000.00",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "25",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "50",
    TENSOR: "0",
}


def profile_of(text: str, tmp_path: Path) -> Profile:
    """Result of the reader."""
    path = tmp_path / "kernels.csv"
    path.write_text(text, encoding="utf-8")
    return read(path, LIMITS)


def kernel_of(text: str, tmp_path: Path) -> KernelUse:
    """The only kernel of a file."""
    (kernel,) = profile_of(text, tmp_path).devices[0].kernels
    return kernel


def test_the_details_page_is_read_by_section_and_name(tmp_path: Path) -> None:
    """The same name occurs in two sections, in two units."""
    profile = profile_of(details_page(DETAILS), tmp_path)

    (device,) = profile.devices
    assert device.time is None
    assert (device.device.index, device.device.multiprocessors) == (0, 132)
    (kernel,) = device.kernels
    assert (kernel.name, kernel.count) == ("gemm", 1)
    assert kernel.seconds == kernel.shortest_seconds == pytest.approx(12.5e-6)
    assert kernel.compute_ratio == pytest.approx(0.4)
    assert kernel.dram_ratio == pytest.approx(0.6)
    assert kernel.dram_bytes_per_second == pytest.approx(2.5e9)
    assert kernel.occupancy_ratio == pytest.approx(0.8)
    assert kernel.uses_tensor_cores is None
    assert kernel.counters == KernelCounters(memory_ratio=0.7, theoretical_occupancy_ratio=1.0)
    assert profile.unread == {"metric of no use here": 1}
    assert profile.events == len(DETAILS)
    assert any("how long a GPU was idle is not known" in note for note in profile.notes)


def test_launches_of_a_kernel_are_summed_and_weighed(tmp_path: Path) -> None:
    """Longer launches weigh more; kernels are in order of time."""
    pages = [
        details_page(
            [(SPEED, "Duration", "ms", time), (SPEED, "DRAM Throughput", "%", share)],
            number=number,
            kernel=name,
            has_header=number == 0,
        )
        for number, (name, time, share) in enumerate(
            [("small", "1.0", "5"), ("big", "1.0", "10"), ("big", "3.0", "50")]
        )
    ]
    big, small = profile_of("".join(pages), tmp_path).devices[0].kernels

    assert (big.name, big.count, small.count) == ("big", 2, 1)
    assert big.seconds == pytest.approx(4e-3)
    assert (big.shortest_seconds, big.longest_seconds) == (
        pytest.approx(1e-3),
        pytest.approx(3e-3),
    )
    assert big.dram_ratio == pytest.approx(0.4)


def test_chosen_metrics_are_read_by_their_own_names(tmp_path: Path) -> None:
    """`--metrics` puts them into an unnamed section; DRAM's rate is computed from its bytes."""
    section = "Command line profiler metrics"
    page = details_page(
        [
            (section, "dram__bytes_op_read.sum", "byte", "134,221,568"),
            (section, "dram__bytes_op_write.sum", "byte", "43,631,104"),
            (section, "gpu__time_duration.sum", "ns", "292,928"),
            (section, "sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "22.30"),
            (section, "sm__warps_active.avg.pct_of_peak_sustained_active", "%", "n/a"),
        ],
        columns=DETAIL_COLUMNS[:15],
    )
    profile = profile_of(page, tmp_path)

    (kernel,) = profile.devices[0].kernels
    assert kernel.dram_bytes_per_second == pytest.approx(607e9, rel=1e-3)
    assert kernel.compute_ratio == pytest.approx(0.223)
    assert kernel.dram_ratio is None
    assert kernel.occupancy_ratio is None
    assert profile.unread == {"metric without a value": 1}


@pytest.mark.parametrize(
    ("metrics", "rate"),
    [
        ({"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": ("inst", "1,000")}, 2e9),
        (
            {
                "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed": ("", "3"),
                "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed": ("", "2"),
                "smsp__cycles_elapsed.avg.per_second": ("Ghz", "1.5"),
            },
            10.5e9,
        ),
        (
            {
                "sm__ops_path_tensor_src_bf16_dst_fp32.sum": ("", "4,000"),
                "sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum": ("", "4,000"),
            },
            4e9,
        ),
        (
            {"smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed": ("", "3")},
            None,
        ),
    ],
)
def test_operations_are_counted_by_launch_or_by_cycle(
    tmp_path: Path, metrics: dict[str, tuple[str, str]], rate: float | None
) -> None:
    """A fused operation counts twice; rates a cycle need the clock."""
    section = "Command line profiler metrics"
    rows = [(section, name, unit, value) for name, (unit, value) in metrics.items()]
    rows.append((section, "gpu__time_duration.sum", "ns", "1,000"))
    (kernel,) = (
        profile_of(details_page(rows, columns=DETAIL_COLUMNS[:15]), tmp_path).devices[0].kernels
    )
    assert kernel.flops_per_second == (None if rate is None else pytest.approx(rate))


def test_the_wide_page_has_its_units_in_a_row(tmp_path: Path) -> None:
    """A column has the GPU's name."""
    profile = profile_of(raw_page(RAW_UNITS, [("copy", RAW), ("copy", RAW)]), tmp_path)

    (device,) = profile.devices
    assert (device.device.name, device.device.multiprocessors) == ("NVIDIA H100", 132)
    (kernel,) = device.kernels
    assert kernel.count == 2
    assert kernel.seconds == pytest.approx(2e-3)
    assert kernel.dram_bytes_per_second == pytest.approx(2e9)
    assert (kernel.compute_ratio, kernel.occupancy_ratio) == (
        pytest.approx(0.25),
        pytest.approx(0.5),
    )
    assert kernel.uses_tensor_cores is False
    assert profile.events == 2


def test_the_summed_up_page_tells_how_often_kernels_ran(tmp_path: Path) -> None:
    """`--print-summary per-kernel` has averages, and no number of the launch."""
    head = (
        '"Process ID","Process Name","Host Name","Kernel Name","Block Size","Grid Size","Device",'
        '"CC","Invocations","Section Name","Metric Name","Metric Unit","Minimum","Maximum",'
        '"Average"'
    )
    begin = '"9","a","b","saxpy","(256, 1, 1)","(4096, 1, 1)","0","11.0","14"'
    rows = [
        f'{begin},"{SPEED}","Duration","us","10","30","20"',
        f'{begin},"Occupancy","Achieved Occupancy","%","70","90","80"',
    ]
    kernel = kernel_of("\n".join([head, *rows]), tmp_path)

    assert kernel.count == 14
    assert kernel.seconds == pytest.approx(280e-6)
    assert kernel.shortest_seconds == pytest.approx(10e-6)
    assert kernel.longest_seconds == pytest.approx(30e-6)
    assert kernel.occupancy_ratio == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("metrics", "rules", "uses"),
    [
        ({TENSOR: "12"}, [], True),
        ({TENSOR: "0"}, [], False),
        ({"sm__pipe_tensor_op_hmma_cycles_active.sum": "0"}, [], None),
        ({"sm__pipe_tensor_cycles_active.sum.peak_sustained": "4"}, [], None),
        (
            {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": "5", TENSOR: "0"},
            [],
            True,
        ),
        # A layer norm on an H100.
        ({"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": "0.54"}, [], False),
        ({}, ["Tensor is the highest-utilized pipeline (81.7%) based on elapsed cycles."], True),
        ({}, ["Shared is the highest-utilized one. It's dominated by its Tensor (FP) pipe."], True),
        ({}, ["FMA is the highest-utilized pipeline (75.9%)."], None),
    ],
)
def test_tensor_cores_are_recognized_by_counters_and_rules(
    metrics: dict[str, str], rules: list[str], *, uses: bool | None, tmp_path: Path
) -> None:
    """A counter of 0 for one number format does not exclude the others."""
    page = details_page(
        [(SPEED, "Duration", "ns", "5"), *(("any", name, "", v) for name, v in metrics.items())],
        rules=[("HighPipeUtilization", text, "0") for text in rules],
    )

    assert kernel_of(page, tmp_path).uses_tensor_cores is uses


def test_rules_are_notes_those_that_promise_most_first(tmp_path: Path) -> None:
    """They are bounded in number and length, and have no addresses."""
    rules = [("A", f"text {n} (https://docs.nvidia.com/a.html#b) ends", f"{n}") for n in range(40)]
    rules.append(("Long", "x" * 5000, "99"))
    rules.append(("Self", "The optional metric lts__a.pct could not be found. Collect it.", "100"))
    notes = profile_of(details_page(DETAILS, rules=rules), tmp_path).notes[1:]

    assert len(notes) == 12
    assert len(notes[0]) < 2100
    assert notes[1] == "gemm (Occupancy): text 39 ends"


@pytest.mark.parametrize(
    ("unit", "value", "seconds"),
    [("nsecond", "1,500.25", 1500.25e-9), ("msecond", "1.5", 1.5e-3), ("second", "2", 2.0)],
)
def test_older_units_are_known(unit: str, value: str, seconds: float, tmp_path: Path) -> None:
    """Names changed in 2023."""
    page = details_page([("GPU Speed Of Light", "Duration", unit, value)])

    assert kernel_of(page, tmp_path).seconds == pytest.approx(seconds)


def test_numbers_of_other_locales_are_read(tmp_path: Path) -> None:
    """The thousands separator is a point, and the decimal mark a comma."""
    page = details_page(
        [(SPEED, "Duration", "ns", "21.058.944"), (SPEED, "DRAM Throughput", "%", "61,84")]
    )
    kernel = kernel_of(page, tmp_path)

    assert kernel.seconds == pytest.approx(21_058_944e-9)
    assert kernel.dram_ratio == pytest.approx(0.6184)


def test_columns_of_another_locale_tell_their_own_numbers(tmp_path: Path) -> None:
    """Speed-ups have a decimal point where metrics have a comma: 8.5 is less than 12.25."""
    rules = [("A", "The lesser", "8.5"), ("B", "The greater", "12.25")]
    metrics = [(SPEED, "Duration", "ns", "21.058.944"), (SPEED, "DRAM Throughput", "%", "61,84")]
    notes = profile_of(details_page(metrics, rules=rules), tmp_path).notes

    assert [note.rpartition(" ")[2] for note in notes[-2:]] == ["greater", "lesser"]


def test_other_output_of_the_program_is_skipped(tmp_path: Path) -> None:
    """It may precede or follow the table; Windows line ends and a byte order mark are accepted."""
    text = (
        '\ufeff==PROF== Connected to process 4 (/home/SECRET/train)\ntoken="SECRET\n'
        + details_page(DETAILS)
        + "==PROF== Disconnected\nbye SECRET\n"
    ).replace("\n", "\r\n")
    profile = profile_of(text, tmp_path)

    assert profile.devices[0].kernels[0].count == 1
    assert profile.unread["line that is no row of its table"] == 1
    for secret in ("SECRET", "host-17", "train.py", "4711"):
        assert secret not in repr(profile)


def test_rows_that_end_early_are_whole(tmp_path: Path) -> None:
    """Metric rows may have 16 fields where rules have 20."""
    text = details_page(DETAILS)
    assert max(len(line.split('","')) for line in text.splitlines()[1:]) == 16

    assert "line that is no row of its table" not in profile_of(text, tmp_path).unread


def test_launches_without_a_duration_are_said(tmp_path: Path) -> None:
    """A duration of 0 seconds would look measured."""
    profile = profile_of(details_page(DETAILS[6:7]), tmp_path)

    assert profile.devices[0].kernels[0].occupancy_ratio == pytest.approx(0.8)
    assert any(note.startswith("Of 1 launches no duration") for note in profile.notes)


def test_a_run_without_permission_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """This is the most common failure."""
    text = "==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - The user has no permission\n"

    assert NSIGHT_COMPUTE.recognizes(Head("x", text.encode()))
    with pytest.raises(ProfileError, match="NVreg_RestrictProfilingToAdminUsers=0"):
        profile_of(text, tmp_path)


def test_a_run_that_profiled_no_kernel_says_what_to_check(tmp_path: Path) -> None:
    """The output has no kernel in another format either."""
    text = "==PROF== Connected to process 1 (/a)\n==WARNING== No kernels were profiled.\n"
    with pytest.raises(ProfileError, match="profiled none; add --target-processes all"):
        profile_of(text, tmp_path)


def test_an_error_without_a_code_is_told(tmp_path: Path) -> None:
    """What was profiled before is shown."""
    text = "==ERROR== The application returned an error code (11).\n" + details_page(DETAILS)
    assert any(
        note.startswith("The profiler reported: The application returned an error code")
        for note in profile_of(text, tmp_path).notes
    )


PRINTED = """\
==PROF== Connected to process 4711 (/home/SECRET/train)
loss 0.5
[4711] train@127.0.0.1
  void gemm<float, 4>(float *, int) (196, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 1, CC 10.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ------------- ------------
    Metric Name               Metric Unit Metric Value
    ----------------------- ------------- ------------
    Duration                           us         5.50
    Compute (SM) Throughput             %        10.55
    Memory Throughput                   %        20.00
    ----------------------- ------------- ------------

    OPT   Est. Speedup: 95.31%
          This kernel grid is too small to fill the available resources,
          resulting in few waves.

    Section: Launch Statistics
    -------------------------------- --------------- ---------------
    Metric Name                          Metric Unit    Metric Value
    -------------------------------- --------------- ---------------
    Waves Per SM                                                0.30
    -------------------------------- --------------- ---------------

  copy(float *), 2020-Jan-01 12:00:00, Context 1, Stream 7
    Section: GPU Speed Of Light
    ---------------------- ------- ------
    Duration               usecond   2.50
"""


def test_what_is_printed_without_csv_is_read(tmp_path: Path) -> None:
    """Covers two versions: kernels, sections, units and rules with where they apply."""
    assert NSIGHT_COMPUTE.recognizes(Head("x", PRINTED.partition("\n")[2].encode()))
    profile = profile_of(PRINTED, tmp_path)
    one, two = sorted(profile.devices, key=lambda device: device.device.key)
    (copied,) = one.kernels
    (gemm,) = two.kernels
    assert (copied.name, copied.seconds) == ("copy(float *)", pytest.approx(2.5e-6))
    assert gemm.name == "void gemm<float, 4>(float *, int)"
    assert gemm.seconds == pytest.approx(5.5e-6)
    assert gemm.compute_ratio == pytest.approx(0.1055)
    assert gemm.counters == KernelCounters(memory_ratio=pytest.approx(0.2), waves=0.3)
    (rule,) = (note for note in profile.notes if "too small" in note)
    assert "(GPU Speed Of Light Throughput): This kernel grid" in rule
    assert rule.endswith("resulting in few waves.")
    assert "SECRET" not in repr(profile)


@pytest.mark.parametrize("text", ["", "words\n", '"ID","Kernel Name"\n"0","k"\n', "a,b\n1,2\n"])
def test_a_file_without_a_page_is_refused(text: str, tmp_path: Path) -> None:
    """The message has the command that writes one."""
    assert not NSIGHT_COMPUTE.recognizes(Head("x.csv", text.encode()))
    with pytest.raises(ProfileError, match=r"^no table of kernels .*ncu --csv --page raw"):
        profile_of(text, tmp_path)


def test_more_launches_than_allowed_are_refused(tmp_path: Path) -> None:
    """The message names the limit."""
    path = tmp_path / "kernels.csv"
    path.write_text(raw_page(RAW_UNITS, [("copy", RAW)] * 30))

    with pytest.raises(ProfileError, match=r"more than 20 events.*events_maximum"):
        read(path, ReadLimits(events_maximum=20))


@settings(suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_damaged_page_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    """This covers overwritten parts and truncation anywhere."""
    pages = [
        details_page(DETAILS, rules=[("R", "text", "3")]),
        raw_page(RAW_UNITS, [("k", RAW)]),
        PRINTED,
    ]
    content = bytearray("".join(data.draw(st.permutations(pages))).encode())
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(content)))
        content[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=20))
    path = tmp_path / "bad.csv"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])

    try:
        profile = read(path, LIMITS)
    except ProfileError:
        return
    for device in profile.devices:
        assert device.time is None
        assert all(kernel.count >= 1 and kernel.seconds >= 0 for kernel in device.kernels)
