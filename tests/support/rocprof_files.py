"""Files of rocprofv3: CSV tables of a process, and a rocpd database that tells the same."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "BEGIN",
    "KERNELS",
    "KERNEL_TITLES",
    "database",
    "kernel_row",
    "write_table",
    "write_traces",
]

KERNELS = 60
STEP = 100_000
"""Nanoseconds from one kernel to the next, of which each runs a fifth."""
BEGIN = 172_352_210_000_000

KERNEL_TITLES = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
    '"Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size"'
)
CALL_TITLES = (
    '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp",'
    '"End_Timestamp"'
)
COPY_TITLES = (
    '"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp"'
)


def write_table(folder: Path, name: str, titles: str, rows: Sequence[str]) -> None:
    """A CSV table."""
    (folder / name).write_text("\n".join([titles, *rows]) + "\n", encoding="utf-8")


def kernel_row(number: int, name: str = "gemm(float*, int)") -> str:
    """A dispatch, as rocprofv3 of ROCm 7 writes it."""
    start = BEGIN + number * STEP + 80_000
    ids = f'"Agent 4",1,0,70,{number},16,"{name}",{number}'
    return f'"KERNEL_DISPATCH",{ids},{start},{start + 20_000},0,0'


def launch_row(number: int) -> str:
    """The call that launched it, shortly before it ran."""
    start = BEGIN + number * STEP + 70_000
    return f'"HIP_RUNTIME_API","hipLaunchKernel",70,70,{number},{start},{start + 5_000}'


def write_traces(folder: Path) -> Path:
    """The traces of process 70."""
    write_table(folder, "70_kernel_trace.csv", KERNEL_TITLES, [*map(kernel_row, range(KERNELS))])
    write_table(folder, "70_hip_api_trace.csv", CALL_TITLES, [*map(launch_row, range(KERNELS))])
    copied = (
        f'"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE","Agent 0","Agent 4",99,{BEGIN},{BEGIN + 9}'
    )
    write_table(folder, "70_memory_copy_trace.csv", COPY_TITLES, [copied])
    marker = f'"MARKER_CORE_API","load_batch",70,70,3,{BEGIN},{BEGIN + 50_000}'
    write_table(folder, "70_marker_api_trace.csv", CALL_TITLES, [marker])
    return folder


def database(path: Path, suffix: str = "_0000_70") -> Path:
    """The same as rocpd writes it, in tables with a suffix."""
    made = sqlite3.connect(path)
    tables = {
        "rocpd_string": "id INTEGER PRIMARY KEY, guid TEXT, string TEXT",
        "rocpd_info_agent": "id INTEGER PRIMARY KEY, type TEXT, absolute_index INTEGER,"
        " name TEXT, product_name TEXT",
        "rocpd_info_kernel_symbol": "id INTEGER PRIMARY KEY, kernel_name TEXT, display_name TEXT",
        "rocpd_event": "id INTEGER PRIMARY KEY, category_id INTEGER, stack_id INTEGER",
        "rocpd_region": "id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start BIGINT,"
        ' "end" BIGINT, name_id INTEGER, event_id INTEGER',
        "rocpd_kernel_dispatch": "id INTEGER PRIMARY KEY, agent_id INTEGER, kernel_id INTEGER,"
        ' queue_id INTEGER, stream_id INTEGER, start BIGINT, "end" BIGINT, event_id INTEGER',
        "rocpd_memory_copy": 'id INTEGER PRIMARY KEY, start BIGINT, "end" BIGINT,'
        " name_id INTEGER, src_agent_id INTEGER, dst_agent_id INTEGER, size INTEGER",
    }
    for name, columns in tables.items():
        made.execute(f'CREATE TABLE "{name}{suffix}" ({columns})')
    texts = ("hipLaunchKernel", "load_batch", "MEMORY_COPY_HOST_TO_DEVICE", "HIP_RUNTIME_API",
             "MARKER_CORE_API")  # fmt: skip
    rows: dict[str, list[tuple[object, ...]]] = {
        "rocpd_string": [(at + 1, "g", text) for at, text in enumerate(texts)],
        "rocpd_info_agent": [(1, "CPU", 0, "cpu", ""), (2, "GPU", 4, "gfx942", "MI300X")],
        "rocpd_info_kernel_symbol": [(16, "_Z4gemmPfi", "gemm(float*, int)")],
        "rocpd_memory_copy": [(1, BEGIN, BEGIN + 9, 3, 1, 2, 4096)],
        "rocpd_region": [(1000, 1, 1, BEGIN, BEGIN + 50_000, 2, 999)],
        "rocpd_event": [(999, 5, 999)],
        "rocpd_kernel_dispatch": [],
    }
    for number in range(KERNELS):
        start = BEGIN + number * STEP
        of_call = 2 * number
        rows["rocpd_event"] += [(of_call, 4, number), (of_call + 1, None, number)]
        call = (number, 1, 1, start + 70_000, start + 75_000, 1, of_call)
        rows["rocpd_region"].append(call)
        dispatch = (number, 2, 16, 1, 0, start + 80_000, start + 100_000, of_call + 1)
        rows["rocpd_kernel_dispatch"].append(dispatch)
    for name, row in rows.items():
        marks = ", ".join("?" * len(row[0]))
        made.executemany(f'INSERT INTO "{name}{suffix}" VALUES ({marks})', row)
    made.commit()
    made.close()
    return path
