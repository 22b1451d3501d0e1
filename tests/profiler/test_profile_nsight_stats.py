"""Tables of `nsys stats`: all reports, old and new names, any unit, CSV and JSON."""

import csv
import json
from pathlib import Path

import pytest

from rightsizer.model.profile import CopyKind, HostMemory, Profile, SpanKind
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.nsight_stats.reader import NSIGHT_STATS, read
from rightsizer.profiles.nsight_stats.tables import StatsReport, header_of
from rightsizer.profiles.printed_text import printed_number
from rightsizer.profiles.reader import Head

LIMITS = ReadLimits()
FIGURES = "Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns)"
KERNELS = f"""\
Time (%),Total Time (ns),Instances,{FIGURES},Name
60.0,6000000,100,60000.0,60000,50000,70000,1000.0,"void foo<(type)21, 72>(char const*, int)"
30.0,3000000,300,10000.0,10000,9000,11000,100.0,ncclDevKernel_AllReduce
"""
FORMER_CALLS = """\
Time(%),Total Time,Calls,Average,Minimum,Maximum,Name
100.0,7000,100,70.0,50,90,cudaLaunchKernel
"""
FORMER_KERNELS = """\
Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name
100.0,9000,3,3000.0,2000,4000,gemm
"""
COPY_TIMES = f"""\
Time (%),Total Time (ns),Count,{FIGURES},Operation
95.0,380000000,2000,190000.0,1,1,1,1,[CUDA memcpy Host-to-Device]
5.0,20000000,400,50000.0,1,1,1,1,[CUDA memcpy DtoH]
0.1,100,1,100,1,1,1,1,[CUDA memset]
"""
COPY_SIZES = """\
Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation
4000.5,2000,2.0,1.0,0.001,64.0,5.0,[CUDA memcpy Host-to-Device]
12.0,400,0.03,0.01,0.001,1.0,0.1,[CUDA memcpy DtoH]
"""
CALLS = f"""\
Time (%),Total Time (ns),Num Calls,{FIGURES},Name
70.0,7000,100,70.0,70,50,90,1.0,cudaLaunchKernel
20.0,2000,2,1000,1000,1000,1000,0,cudaStreamSynchronize
10.0,1000,5,200,200,200,200,0,cudaMalloc
"""
RANGES = f"""\
Time (%),Total Time (ns),Instances,{FIGURES},Style,Range
60.0,6000000,20,300000,300000,250000,350000,20000,PushPop,:next(dataloader)
40.0,4000000,20,200000,200000,150000,250000,20000,PushPop,forward
"""
TRACE_COLUMNS = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),"
    "DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name"
)
TRACE = f"""\
{TRACE_COLUMNS}
1000,50240,101,,,,,,,,,,8.389,167.0,Pageable,Device,NVIDIA A100 (1),1,,7,[CUDA memcpy HtoD]
60000,40000,102,64,64,1,256,1,1,64,0.001,0.000,,,,,NVIDIA A100 (1),1,,7,"gemm(double *, int)"
200000,40000,103,64,64,1,256,1,1,64,0.001,0.000,,,,,NVIDIA A100 (1),1,,7,"gemm(double *, int)"
300000,100,104,,,,,,,,,,0.1,,Device,,NVIDIA A100 (1),1,,7,[CUDA memset]
"""
CALL_TRACE = """\
Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name
50000,5000,cudaLaunchKernel,0,102,9,9,20,python
150000,5000,cudaLaunchKernel,0,103,9,9,20,python
"""


def profile_of(text: str, tmp_path: Path) -> Profile:
    """Result of the reader."""
    path = tmp_path / "stats.csv"
    path.write_text(text, encoding="utf-8")
    return read(path, LIMITS)


def as_json(table: str) -> str:
    """The same table in `--format json`."""
    head, *rows = (line.split(",") for line in table.splitlines())
    numbers = [
        [float(cell) if printed_number(cell) is not None else cell for cell in row] for row in rows
    ]
    return json.dumps([dict(zip(head, row, strict=True)) for row in numbers], indent=2)


def as_columns(table: str, titled: str) -> str:
    """The same table as `nsys stats` prints it by default, below its title."""
    rows = [*csv.reader(table.splitlines())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        )
        for row in (rows[0], ["-" * width for width in widths], *rows[1:])
    ]
    return f"\n ** {titled}:\n\n" + "".join(f" {line}\n" for line in lines) + "\n"


@pytest.mark.parametrize(
    "table",
    [KERNELS, COPY_TIMES, COPY_SIZES, CALLS, RANGES, f"{TRACE}", CALL_TRACE, FORMER_CALLS],
)
def test_columns_and_tabs_say_the_same_as_csv(table: str, tmp_path: Path) -> None:
    """Of `nsys stats` and `nsys profile --stats=true`: columns are what most people save."""
    plain = profile_of(f"{KERNELS}\n{table}", tmp_path)
    title = "CUDA GPU Kernel Summary (cuda_gpu_kern_sum)"
    columns = "".join(as_columns(each, title) for each in (KERNELS, table))
    rows = (csv.reader(each.splitlines()) for each in (KERNELS, table))
    tabs = "\n\n".join("\n".join("\t".join(row) for row in each) for each in rows)
    for text in (f"[5/8] Executing 'cuda_gpu_kern_sum' stats report\n{columns}", tabs):
        assert NSIGHT_STATS.recognizes(Head("x", text.encode()))
        assert profile_of(text, tmp_path) == plain


def test_numbers_in_columns_have_groups_of_digits(tmp_path: Path) -> None:
    """Names may hold commas, and end in an ellipsis."""
    table = KERNELS.replace("6000000,100,", '"6,000,000",100,').replace("3000000", '"3,000,000"')
    profile = profile_of(as_columns(table, "CUDA GPU Kernel Summary (cuda_gpu_kern_sum)"), tmp_path)
    assert profile == profile_of(KERNELS, tmp_path)


def test_kernel_sums_have_no_timeline(tmp_path: Path) -> None:
    """Kernels are known, use of time is not, and a note says so."""
    profile = profile_of(KERNELS, tmp_path)

    (device,) = profile.devices
    assert device.time is None
    first, second = device.kernels
    assert (first.name, first.count) == ("void foo<(type)21, 72>(char const*, int)", 100)
    assert first.seconds == pytest.approx(6e-3)
    assert first.shortest_seconds == pytest.approx(50e-6)
    assert first.longest_seconds == pytest.approx(70e-6)
    assert [first.is_collective, second.is_collective] == [False, True]
    assert any("no timeline" in note for note in profile.notes)
    assert (profile.events, dict(profile.unread)) == (2, {})


def test_the_columns_of_former_versions_are_read(tmp_path: Path) -> None:
    """Their averages and extremes have no unit, and are nanoseconds."""
    (kernel,) = profile_of(FORMER_KERNELS, tmp_path).devices[0].kernels

    assert (kernel.name, kernel.count) == ("gemm", 3)
    assert kernel.shortest_seconds == pytest.approx(2e-6)
    launches = profile_of(f"{FORMER_KERNELS}\n{FORMER_CALLS}", tmp_path).devices[0].launches
    assert launches is not None
    assert launches.count == 100


def test_times_and_sizes_of_copies_are_joined(tmp_path: Path) -> None:
    """The key is the kind of copy, with a long or short name."""
    profile = profile_of(f"{COPY_TIMES}\n{COPY_SIZES}", tmp_path)

    down, up = profile.devices[0].copies
    assert (down.kind, down.memory) == (CopyKind.HOST_TO_DEVICE, HostMemory.UNKNOWN)
    assert (down.count, down.bytes) == (2000, 4_000_500_000)
    assert down.seconds == pytest.approx(0.38)
    assert (up.kind, up.count, up.bytes) == (CopyKind.DEVICE_TO_HOST, 400, 12_000_000)
    assert profile.unread == {"row of cuda_gpu_mem_time_sum": 1}


@pytest.mark.parametrize(
    ("table", "missing"), [(COPY_TIMES, "The sizes of copies"), (COPY_SIZES, "The times of copies")]
)
def test_half_of_what_copies_need_is_said(table: str, missing: str, tmp_path: Path) -> None:
    """A zero would look measured."""
    assert any(note.startswith(missing) for note in profile_of(table, tmp_path).notes)


def test_calls_and_ranges_become_launches_and_spans(tmp_path: Path) -> None:
    """They are sums over the program's whole run."""
    profile = profile_of(f"{KERNELS}\n{CALLS}\n{RANGES}", tmp_path)

    launches = profile.devices[0].launches
    assert launches
    assert (launches.count, launches.matched) == (100, 0)
    assert launches.host_seconds == pytest.approx(7e-6)
    assert {(span.kind, span.name, span.count) for span in profile.host_spans} == {
        (SpanKind.SYNCHRONIZATION, "cudaStreamSynchronize", 2),
        (SpanKind.SYNCHRONIZATION, "cudaMalloc", 5),
        (SpanKind.LOADER, "next(dataloader)", 20),
        (SpanKind.ANNOTATION, "forward", 20),
    }
    assert not profile.unread


def test_a_trace_has_a_time_line(tmp_path: Path) -> None:
    """It has its device, kinds of copied memory, and idle time of unknown cause."""
    profile = profile_of(TRACE, tmp_path)

    (device,) = profile.devices
    assert (device.device.index, device.device.name) == (1, "NVIDIA A100")
    assert device.time
    assert device.time.span_seconds == pytest.approx(180e-6)
    assert device.time.kernel_seconds == pytest.approx(80e-6)
    assert device.time.other_idle_seconds == pytest.approx(100e-6)
    (copy,) = device.copies
    assert (copy.memory, copy.bytes) == (HostMemory.PAGEABLE, 8_389_000)
    assert any("calls of the host are not in it" in note for note in profile.notes)


def test_a_trace_of_calls_says_why_a_device_was_idle(tmp_path: Path) -> None:
    """Both reports are in one file, joined by correlation numbers."""
    profile = profile_of(f"{TRACE}\n{CALL_TRACE}", tmp_path)

    time = profile.devices[0].time
    assert time
    assert time.host_wait_seconds == pytest.approx(100e-6)
    assert not any("calls of the host" in note for note in profile.notes)


def test_a_trace_of_ranges_lays_steps_on_the_time_line(tmp_path: Path) -> None:
    """Host activity in steps is known too."""
    ranges = (
        "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,"
        "NumChild,RangeId,ParentId,RangeStack,NameTree\n"
        "50000,150000,100000,0,100000,step 1,9,9,0,1,1,,:1,step 1\n"
        "60000,80000,20000,0,20000,next(dataloader),9,9,1,0,2,1,:1:2,next(dataloader)\n"
    )
    profile = profile_of(f"{TRACE}\n{ranges}", tmp_path)

    (step,) = profile.devices[0].steps
    assert (step.name, step.start, step.end) == ("step 1", 50_000, 150_000)
    assert step.time.kernel_seconds == pytest.approx(40e-6)
    assert step.loader_seconds == pytest.approx(20e-6)


def test_a_trace_counts_and_not_the_sums_beside_it(tmp_path: Path) -> None:
    """The sums contain the same kernels."""
    profile = profile_of(f"{KERNELS}\n{TRACE}", tmp_path)

    assert [kernel.count for kernel in profile.devices[0].kernels] == [2]


def test_the_table_of_calls_and_gpus_is_split(tmp_path: Path) -> None:
    """`cuda_api_gpu_sum` mixes calls and kernels; beside `cuda_api_sum` calls count once."""
    both = f"""\
Time (%),Total Time (ns),Instances,{FIGURES},Category,Operation
50.0,7000,100,70,70,50,90,1,CUDA_API,cudaLaunchKernel
40.0,4000,10,400,400,1,9,1,CUDA_KERNEL,gemm
10.0,1000,5,200,200,1,1,1,MEMORY_OPER,[CUDA memcpy Host-to-Device]
"""
    for text in (both, both + "\n" + CALLS, CALLS + "\n" + both):
        (device,) = profile_of(text, tmp_path).devices

        assert [(kernel.name, kernel.count) for kernel in device.kernels] == [("gemm", 10)]
        assert [copy.count for copy in device.copies] == [5]
        assert device.launches is not None
        assert device.launches.count == 100


def test_rows_of_reports_that_are_not_read_are_no_kernels(tmp_path: Path) -> None:
    """Another report may have as many columns as the one before it."""
    others = """\
Processing [r.sqlite] with [/opt/nsys/reports/cuda_kern_exec_sum.py]...
PID,TID,DevId,Count,QCount,AAvg (ns),QAvg (ns),KAvg (ns),Kernel Name
1,2,7,3,3,10,10,10,foo
"""
    for text in (KERNELS + others, KERNELS + "\n" + others.split("\n", 1)[1]):
        profile = profile_of(text, tmp_path)

        assert sum(kernel.count for kernel in profile.devices[0].kernels) == 400
        assert profile.unread == {"table of another report": 1, "line outside of a table": 1}


def test_a_trace_of_2020_has_seconds_and_nanoseconds(tmp_path: Path) -> None:
    """A column has its unit, in the spelling of that version."""
    text = (
        TRACE.replace("Start (ns),Duration (ns)", "Start(sec),Duration(nsec)")
        .replace("60000,40000", "1.00006,40000")
        .replace("200000,40000", "1.0002,40000")
    )
    (device,) = profile_of(text, tmp_path).devices

    assert device.time is not None
    assert device.time.span_seconds == pytest.approx(180e-6)
    assert device.time.kernel_seconds == pytest.approx(80e-6)


def test_a_table_by_grid_is_not_counted_beside_the_plain_one(tmp_path: Path) -> None:
    """Without the plain table, all sizes of a kernel are merged."""
    head = f"Time (%),Total Time (ns),Instances,{FIGURES},GridXYZ,BlockXYZ,Name"
    rows = "\n".join(f'50.0,500,5,100,100,90,110,1,"{n} 1 1","256 1 1",gemm' for n in (64, 128))
    by_grid = f"{head}\n{rows}\n"

    assert profile_of(by_grid, tmp_path).devices[0].kernels[0].count == 10
    assert profile_of(by_grid + KERNELS, tmp_path).devices[0].kernels[0].count == 100


def test_the_table_of_all_that_gpus_did_is_split(tmp_path: Path) -> None:
    """Kernels and copies are in one table."""
    head = f"Time (%),Total Time (ns),Instances,{FIGURES},Category,Operation"
    rows = (
        "9,900,3,300,300,1,1,1,CUDA_KERNEL,gemm\n1,100,2,50,50,1,1,1,MEMORY_OPER,[CUDA memcpy DtoH]"
    )
    (device,) = profile_of(f"{head}\n{rows}\n", tmp_path).devices

    assert [kernel.count for kernel in device.kernels] == [3]
    assert [copy.count for copy in device.copies] == [2]


@pytest.mark.parametrize(("unit", "total"), [("us", "6000"), ("ms", "6"), ("s", "0.006")])
def test_times_are_in_the_unit_of_their_header(unit: str, total: str, tmp_path: Path) -> None:
    """The user chooses it."""
    table = f"Time (%),Total Time ({unit}),Instances,Name\n100.0,{total},3,gemm\n"
    (kernel,) = profile_of(table, tmp_path).devices[0].kernels

    assert kernel.seconds == pytest.approx(6e-3)


@pytest.mark.parametrize(
    ("unit", "size"), [("MB", 10**6), ("MiB", 2**20), ("KB", 1000), ("KiB", 1024), ("B", 1)]
)
def test_sizes_are_in_the_unit_of_their_header(unit: str, size: int, tmp_path: Path) -> None:
    """Units are decimal or binary."""
    table = f"Total ({unit}),Count,Operation\n3,1,[CUDA memcpy DtoD]\n"
    (copy,) = profile_of(table, tmp_path).devices[0].copies

    assert copy.bytes == 3 * size


def test_decimal_commas_are_read(tmp_path: Path) -> None:
    """German and French locales print them; one number decides for all."""
    rows = '"482,333",3,"160,778","0,000",[CUDA memcpy DtoH]\n'
    table = f"Total (MB),Count,Avg (MB),StdDev (MB),Operation\n{rows}"
    (copy,) = profile_of(table, tmp_path).devices[0].copies

    assert copy.bytes == 482_333_000


def test_other_output_of_the_program_is_skipped(tmp_path: Path) -> None:
    """It may be before, between or instead of tables."""
    text = (
        "\ufeffGenerating SQLite file /home/SECRET/run.sqlite from /home/SECRET/run.nsys-rep\r\n"
        "NOTICE: Existing SQLite export found: SECRET.sqlite\r\n"
        "        It is assumed file was previously exported\r\n"
        "Processing [SECRET.sqlite] with [cuda_gpu_kern_sum.py]... \r\n"
        "\r\n ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\r\n\r\n"
        + KERNELS.replace("\n", "\r\n")
        + "\r\nProcessing [SECRET.sqlite] with [cuda_gpu_mem_time_sum.py]...\r\n"
        "SKIPPED: SECRET.sqlite does not contain GPU memory data.\r\n"
    )
    profile = profile_of(text, tmp_path)

    assert len(profile.devices[0].kernels) == 2
    assert dict(profile.unread) == {}
    assert any(note.startswith("1 reports were left out") for note in profile.notes)
    assert "SECRET" not in repr(profile)


def test_a_file_with_nothing_but_skipped_reports_says_so(tmp_path: Path) -> None:
    """A program without GPU use is no error."""
    text = (
        "Processing [a.sqlite] with [b.py]...\n"
        "SKIPPED: a.sqlite does not contain CUDA kernel data.\n"
    )
    profile = profile_of(text, tmp_path)

    assert profile.devices == ()
    assert "Nothing that a GPU did is in it." in profile.notes
    assert NSIGHT_STATS.recognizes(Head("x", text.encode()))


@pytest.mark.parametrize("table", [FORMER_KERNELS, COPY_TIMES, CALLS, RANGES, TRACE_COLUMNS])
def test_json_says_the_same_as_csv(table: str, tmp_path: Path) -> None:
    """Keys have the same names; several arrays, and text between them, are accepted."""
    text = f"Processing [a] with [b]...\n{as_json(table)}\n"
    path = tmp_path / "stats.json"
    path.write_text(text + as_json(FORMER_KERNELS), encoding="utf-8")
    profile = read(path, LIMITS)
    same = profile_of(f"{table}\n{FORMER_KERNELS}", tmp_path)

    assert profile.devices == same.devices
    assert profile.host_spans == same.host_spans
    assert profile.unread == same.unread


def test_names_may_hold_commas_quotes_and_line_ends(tmp_path: Path) -> None:
    """They are quoted, or last in an unquoted line."""
    head = "Time (%),Total Time (ns),Instances,Name\n"
    rows = '50.0,500,1,void k<int, float>\n30.0,300,1,"say ""a"",\nb"\n'
    (device,) = profile_of(head + rows, tmp_path).devices

    assert [kernel.name for kernel in device.kernels] == ["void k<int, float>", 'say "a",\nb']


@pytest.mark.parametrize(
    ("titles", "report"),
    [
        ("Time(%),Total Time (ns),Num Calls,Average,Minimum,Maximum,Name", StatsReport.CALLS),
        ("Total (KiB),Operations,Average,Minimum,Maximum,Operation", StatsReport.COPY_SIZES),
        ("Start (ns),Duration (ns),CorrId,Name", StatsReport.GPU_TRACE),
        ("Total Time (ns),Instances,Avg (ns),Min (ns),Max (ns),Name", StatsReport.KERNELS),
        ("Time (%),Total Time (ns),Instances,Range", StatsReport.RANGES),
        ("Start (ns),End (ns),Duration (ns),DurChild (ns),Name", StatsReport.OTHER),
    ],
)
def test_reports_are_recognized_by_their_columns(titles: str, report: StatsReport) -> None:
    """This holds for every version."""
    header = header_of(tuple(titles.split(",")))

    assert header
    assert header.report is report
