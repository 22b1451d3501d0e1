"""Makes the pictures of `docs/screenshots/` again, in headless Chromium.

`python tests/support/screenshots.py [NAME...] [--history FILE]`; the month that is
shown is lived first.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from month_history import fill_month
from profile_traces import KinetoTrace
from rightsizer.cli.main import main as rightsizer

__all__ = ["DARK", "FRAME", "LIGHT", "PICTURES", "photograph"]

FOLDER: Final = Path(__file__).parents[2] / "docs" / "screenshots"
_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--allow-file-access-from-files",
)
DARK: Final = "--blink-settings=preferredColorScheme=0"
LIGHT: Final = "--blink-settings=preferredColorScheme=1"
_A4_WIDTH: Final = 703
"""Of what is printed on A4 between the margins, in pixels of a style sheet."""
_A4_HEIGHT: Final = 1010
_PHONE: Final = 390
FRAME: Final = (
    '<body style="margin:0;background:#cbd2d9;text-align:center">'
    '<iframe src="{}" style="border:0;width:{}px;height:{}px">'
)
_PLAN: Final = """\
model: {name: Llama 3.1 8B, parameters: 8e9}
load: {input_tokens: 2000, output_tokens: 300, tokens_per_second: 3000, tpot_ms: 40}
growth: {per_month: 0.1, months: 12}
"""


def photograph(page: Path, picture: Path, size: tuple[int, int], *flags: str) -> None:
    """A picture of a page, as much of it as fits."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not installed")
    with tempfile.TemporaryDirectory() as profile:
        command = [
            chromium,
            *_FLAGS,
            *flags,
            f"--user-data-dir={profile}",
            f"--window-size={size[0]},{size[1]}",
            f"--screenshot={picture}",
            page.as_uri(),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


def report_light(report: Path, picture: Path) -> None:
    """What a manager sees first."""
    photograph(report, picture, (1100, 1500), LIGHT)


def report_dark(report: Path, picture: Path) -> None:
    """The same at night."""
    photograph(report, picture, (1100, 1500), DARK)


def report_print(report: Path, picture: Path) -> None:
    """The first page on A4: what is for print alone is shown on a screen of its width."""
    text = report.read_text(encoding="utf-8").replace("@media print", "@media all")
    paper = report.with_name("paper.html")
    paper.write_text(text.replace("(max-width: 700px)", "(max-width: 1px)"), encoding="utf-8")
    photograph(paper, picture, (_A4_WIDTH, _A4_HEIGHT), LIGHT)


def report_phone(report: Path, picture: Path) -> None:
    """On a phone, in a frame, for no window is so narrow."""
    frame = report.with_name("frame.html")
    frame.write_text(FRAME.format(report.name, _PHONE, 1500), encoding="utf-8")
    photograph(frame, picture, (_PHONE + 110, 1500), LIGHT)


def plan(report: Path, picture: Path) -> None:
    """A plan, which needs no history."""
    asked = report.with_name("plan.yaml")
    page = report.with_name("plan.html")
    asked.write_text(_PLAN, encoding="utf-8")
    rightsizer(["plan", str(asked), "--html", str(page)])
    photograph(page, picture, (1100, 1200), LIGHT)


def profile(report: Path, picture: Path) -> None:
    """A training step by step, as PyTorch's profiler would write it; it needs no history."""
    chance = random.Random(5)
    trace = KinetoTrace()
    launch = 0
    at = 0.0
    for step in range(8):
        begun = at
        loader = chance.uniform(25_000, 45_000)
        trace.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter", at, loader)
        at += loader + 40.0
        for layer in range(15):
            forward = at - 32.0
            for name, length, module, operator, *shapes in _KERNELS:
                launch += 1
                arguments = {"Input Dims": shapes, "Input type": ["c10::BFloat16"] * 2}
                trace.complete("python_function", f"nn.Module: {module}_{layer}", at - 31.0, 9.0)
                trace.complete("cpu_op", operator, at - 31.0, 8.0, **arguments)
                trace.launch(launch, at - 30.0, 6.0)
                trace.kernel(name, at, length, correlation=launch)
                at += length + chance.choice((2.0, 5.0, 40.0))
            block = at - forward - 40.0
            trace.complete("python_function", f"nn.Module: Block_{layer}", forward, block)
            used = {"Device Type": 1, "Device Id": 0, "Total Allocated": (20 + 3 * layer) * 10**9}
            trace.add({"ph": "i", "name": "[memory]", "ts": at, "args": used})
        for _ in range(3):
            launch += 1
            trace.complete("cpu_op", "c10d::allreduce_", at - 31.0, 8.0)
            trace.launch(launch, at - 30.0, 6.0)
            reduced = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
            trace.kernel(reduced, at, 6000.0, correlation=launch, stream=20)
            at += 6200.0
        trace.annotation(f"ProfilerStep#{step}", begun, at - begun)
    page = report.with_name("profile.html")
    trace.top["deviceProperties"] = [
        {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_520_809_984}
    ]
    folder = report.parent / "trace"
    folder.mkdir()
    file = trace.write(folder, "training.pt.trace.json.gz")
    rightsizer(["profile", str(file), "--report", str(page)])
    photograph(page, picture, (1000, 2680), LIGHT)


def profile_serving(report: Path, picture: Path) -> None:
    """A decoding step of vLLM on an MI300X, as it was recorded."""
    _recorded("pytorch/tracelens_vllm_decode_graph.json.gz", report, picture, 1600)


def profile_kernels(report: Path, picture: Path) -> None:
    """Kernels under Nsight Compute, as they were recorded."""
    _recorded("ncu/nsightful_copy_blocked.csv", report, picture, 1000)


def _recorded(file: str, report: Path, picture: Path, height: int) -> None:
    if not (truth := os.environ.get("RIGHTSIZER_TRUTH")):
        raise SystemExit(
            f"{picture.name} is of a recorded file: set RIGHTSIZER_TRUTH, as `make eval`"
        )
    page = report.with_name("profile.html")
    rightsizer(["profile", str(Path(truth) / "profiles" / file), "--report", str(page)])
    photograph(page, picture, (1000, height), LIGHT)


_KERNELS: Final = (
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
        900.0,
        "Linear",
        "aten::mm",
        [8192, 4096],
        [4096, 6144],
    ),
    (
        "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>",
        700.0,
        "Attention",
        "aten::_flash_attention_forward",
    ),
    (
        "void at::native::vectorized_elementwise_kernel<4, at::native::gelu>",
        150.0,
        "GELU",
        "aten::gelu",
    ),
    (
        "void at::native::vectorized_layer_norm_kernel<c10::BFloat16, float>",
        120.0,
        "LayerNorm",
        "aten::native_layer_norm",
    ),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64",
        140.0,
        "Linear",
        "aten::mm",
        [64, 4096],
        [4096, 11008],
    ),
)
"""Name, microseconds, module, operator, and the shapes of its factors."""
PICTURES: Final[Mapping[str, Callable[[Path, Path], None]]] = {
    "report-light": report_light,
    "report-dark": report_dark,
    "report-print": report_print,
    "report-phone": report_phone,
    "plan-light": plan,
    "profile": profile,
    "profile-serving": profile_serving,
    "profile-kernels": profile_kernels,
}
"""Each takes the report of the month and the file of the picture."""


def main() -> None:
    """Make those that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    parser.add_argument("--history", type=Path, metavar="FILE", help="a month made before")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - PICTURES.keys():
        parser.error(f"no such picture: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as name:
        history = arguments.history or Path(name) / "month.db"
        report = Path(name) / "report.html"
        wanted = arguments.names or list(PICTURES)
        if any(each.startswith("report") for each in wanted):
            if arguments.history is None:
                fill_month(history)
            flags = ["--last", "30d", "--output", str(report)]
            if rightsizer(["report", "--history.path", str(history), *flags]):
                sys.exit(1)
        for each in wanted:
            PICTURES[each](report, FOLDER / f"{each}.png")


if __name__ == "__main__":
    main()
