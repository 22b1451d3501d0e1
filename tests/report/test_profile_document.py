"""A profile's page: deterministic, complete, bounded, and safe to open."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import asdict, replace

from profile_examples import launch_bound_trace, loader_bound_trace
from profiles_built import copies, device, kernel, profile, step, time_use
from rightsizer.io.codec import plain
from rightsizer.model.profile import (
    BenchmarkResult,
    FrameUse,
    KernelFamily,
    ProductUse,
    ProfiledDevice,
)
from rightsizer.profiler.figures import gain_text, idle_parts, size_text, time_text
from rightsizer.profiler.page import profile_document
from rightsizer.profiler.profile_encoder import answer_document
from rightsizer.profiler.workload import ProfileAnswer, ProfiledWorkload, judged_workloads
from rightsizer.profiles.call_stacks import CallKind
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.registry import read_all
from rightsizer.report.charts import ChartLane, lanes

GoldenFile = Callable[[str | Path, str], None]
HOSTILE: Final = "<script>alert('x')</script>"
LARGEST_BYTES: Final = 400_000
LARGEST_OF_TRACES_BYTES: Final = 3_000_000


class Tags(HTMLParser):
    """Opened tags of a page, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the tag."""
        self.seen.append((tag, dict(attrs)))


def _page(*found: ProfiledWorkload) -> str:
    """The page after a JSON round trip, so that it depends on nothing else."""
    return profile_document(plain(answer_document(ProfileAnswer(found))))


def test_the_page_is_as_it_was(tmp_path: Path, golden: GoldenFile) -> None:
    """It has two workloads, the second compared with an earlier profile."""
    limits = ReadLimits()
    boards = [{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}]
    after_file = launch_bound_trace(tmp_path, deviceProperties=boards)
    after = judged_workloads(read_all([after_file], limits))
    before = judged_workloads(read_all([loader_bound_trace(tmp_path)], limits))

    golden("profile.html", profile_document(plain(answer_document(ProfileAnswer(after, before)))))


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    """It has no external links or images, and one script of its own, which the policy names."""
    page = _page(*judged_workloads(read_all([loader_bound_trace(tmp_path)], ReadLimits())))
    tags = Tags(page)

    assert not {"link", "img", "iframe"} & {tag for tag, _ in tags.seen}
    (script,) = (attributes for tag, attributes in tags.seen if tag == "script")
    assert not script
    (text,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'\">" in page
    assert not re.search(r"(?:src|href)=", page)
    assert "prefers-color-scheme: dark" in page
    drawings = [attributes for tag, attributes in tags.seen if tag == "svg"]
    named = {"aria-label", "aria-hidden"}
    assert all(named & drawing.keys() or drawing["role"] == "treeitem" for drawing in drawings)


def test_hostile_names_are_shown_as_they_are() -> None:
    """Covers names of a kernel, a file, a step, a note and a benchmark."""
    found = profile(
        device(
            kernels=(kernel(HOSTILE),),
            steps=(replace(step(1), name=HOSTILE),),
            frames=(FrameUse(HOSTILE, None, 1.0, 1.0, 1),),
        ),
        source=HOSTILE,
        notes=(HOSTILE,),
        unread={HOSTILE: 3},
        benchmark=BenchmarkResult(HOSTILE, HOSTILE, None, {HOSTILE: 1.0}),
    )
    page = _page(ProfiledWorkload(HOSTILE, (found,), ()))

    assert page.count("<script") == 1
    assert page.count("&lt;script") >= 7


def test_a_page_stays_small_whatever_it_is_given() -> None:
    """It has thousands of kernels and steps and a hundred GPUs; the JSON has the rest."""
    large = device(
        kernels=tuple(kernel(f"kernel {each}") for each in range(2000)),
        steps=tuple(step(each) for each in range(1000)),
        copies=(copies(),),
        frames=tuple(FrameUse(f"frame {each}", None, 1.0, 1.0, 1) for each in range(2000)),
    )
    found = profile(large, *[device()] * 99)
    page = _page(ProfiledWorkload("many", (found,), ()))

    assert len(page) < LARGEST_BYTES
    assert "1,985 more are in the JSON" in page
    assert "800 more steps" in page
    assert "36 more GPUs" in page


def test_a_page_of_many_kernels_stays_small() -> None:
    """It has 64 different GPUs, with streams, threads, memory, deep frames and long names."""
    recorder = Recorder(ReadLimits())
    gpus = 64
    kernels = 64_000
    names = [f"void kernel_{each}<{'float, ' * 60}>" for each in range(50)]
    for number in range(kernels):
        device = number % gpus
        at = 10 * number
        lasts = 100 + 8 * device + number % 50
        name = names[number % 50]
        stream = f"stream {number // gpus % 9}"
        recorder.launch(number, (at, at + 5), device)
        recorder.kernel(
            f"{device}", (at + 20, at + 20 + lasts), name, correlation=number, stream=stream
        )
        if number % 100 < gpus:
            recorder.stacks.add(
                device, CallKind.OPERATOR, f"aten::operator_{number % 997}", (at, at + 5)
            )
            recorder.memory(f"{device}", number, at)
    found = profile(*recorder.devices())
    page = profile_document(
        plain(answer_document(ProfileAnswer((ProfiledWorkload("many", (found,), ()),))))
    )
    assert page.count('class="lanes"') == gpus
    assert page.count('class="flame"') >= gpus // 2
    assert len(page.encode()) < LARGEST_OF_TRACES_BYTES


def test_a_profile_without_anything_is_a_page_too() -> None:
    """It says so, and has no empty table."""
    page = _page(ProfiledWorkload("nothing", (profile(),), ()))

    assert "No rule has a finding" in page
    assert "<table" not in page


def test_page_of_an_incomplete_profile_says_so_before_any_share() -> None:
    """Its shares may be those of what is missing."""
    torn = profile(device(time=time_use(kernel=0.4, host=0.6)), is_whole=False)
    advice = _page(*judged_workloads([torn])).partition("What to change")[2]
    assert re.match(r"</h2>\s*<p>No verdict: trace.json is not whole", advice)
    assert "The GPU computes" not in advice


def test_exposed_copies_come_off_the_idle_causes() -> None:
    """Parts still sum to the span."""
    time = time_use(kernel=0.5, host=0.3, exposed_collective_seconds=0.2, exposed_copy_seconds=0.4)
    document = {**asdict(time), "idle_seconds": time.idle_seconds}
    parts = idle_parts(document)

    assert sum(parts.values()) == pytest.approx(1.0)
    assert parts["copy"] == pytest.approx(0.4)
    assert parts["host_wait"] == 0.0
    assert parts["other_idle"] == pytest.approx(0.1)


def test_figures_have_the_unit_that_suits_them() -> None:
    """Values range from 0 to a second, and from a byte to gigabytes."""
    assert [time_text(each) for each in (None, 0.0, 7.9e-6, 0.0456, 1.234)] == [
        "not known",
        "0 s",
        "7.9 µs",
        "45.6 ms",
        "1.234 s",
    ]
    assert [size_text(each) for each in (None, 12.0, 4096, 1.2e9)] == [
        "not known",
        "12 B",
        "4.1 kB",
        "1.2 GB",
    ]
    assert gain_text({"options": [], "evidence": {}}) == ""


def test_gpus_that_are_alike_are_told_of_once() -> None:
    """The first is shown open; others within two points of its shares are listed below it."""
    one = time_use(kernel=0.8)
    other = time_use(kernel=0.5)
    found = profile(
        *(
            device(device=ProfiledDevice(key, 0, "NVIDIA H100 80GB HBM3"), time=time)
            for key, time in (("0", one), ("1", other), ("2", one))
        )
    )
    page = _page(ProfiledWorkload("ranks", (found,), ()))
    order = re.findall(r"<h3>GPU (\w+)</h3>|<summary>GPU (\w+): like", page)
    assert [first or second for first, second in order] == ["0", "2", "1"]
    assert page.count(": like GPU") == 1


def test_gpus_of_one_name_stand_once_each() -> None:
    """Two nodes may use one name; each GPU is listed with those similar to it."""
    board = ProfiledDevice("0", 0, "NVIDIA H100 80GB HBM3")
    times = (time_use(kernel=share) for share in (0.8, 0.5, 0.8, 0.5))
    nodes = tuple(profile(device(device=board, time=time)) for time in times)
    page = _page(ProfiledWorkload("nodes", nodes, ()))
    assert (page.count("<h3>GPU 0</h3>"), page.count(": like GPU")) == (2, 2)


def _points(**changes: Any) -> list[tuple[float, float, str]]:
    """Place and tooltip of each point in a GPU's roofline."""
    page = _page(ProfiledWorkload("one", (profile(device(**changes)),), ()))
    found = re.findall(r'<circle [^>]*cx="([\d.]+)" cy="([\d.]+)"[^>]*><title>([^<]*)', page)
    return [(float(x), float(y), tip) for x, y, tip in found]


def test_products_stand_below_the_roofs_of_their_board() -> None:
    """The catalog has the peaks: an H100's 989 TFLOP/s of bf16, 3.35 TB/s."""
    products = (
        ProductUse("aten::mm", "4096 x 4096 by 4096 x 4096", "bf16", 10, 2e-3, 1.2e12, 1e9),
        ProductUse("aten::mm", "1 x 4096 by 4096 x 4096", "fp16", 10, 1e-3, 2e9, 2e9),
        ProductUse("aten::mm", "2 x 2 by 2 x 2", "fp32", 1, 1e-9, 16.0, 48.0),
    )
    large, small = _points(products=products)
    assert "600 TFLOP/s, 61% of what the board reaches at 1.2e+03 FLOP a byte" in large[2]
    assert "2 TFLOP/s, 60% of what the board reaches at 1 FLOP a byte; 10 calls" in small[2]
    assert large[0] > small[0]
    assert large[1] < small[1]


def test_kernels_whose_operations_were_counted_stand_there_too() -> None:
    """The x-axis uses the bytes that they moved."""
    counted = kernel(flops_per_second=1e12, dram_bytes_per_second=1e12)
    ((_, _, tip),) = _points(kernels=(counted,))
    assert "gemm, fp32: 1 TFLOP/s, 30% of what the board reaches at 1 FLOP a byte" in tip


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "no operator has shapes"),
        (
            {
                "device": ProfiledDevice("0", 0, "Voodoo 2"),
                "products": (ProductUse("aten::mm", "", "bf16", 1, 1.0, 1.0, 1.0),),
            },
            "no board of the catalogue is called &#39;Voodoo 2&#39;",
        ),
        (
            {"device": ProfiledDevice("0"), "kernels": (kernel(flops_per_second=1e12),)},
            "the profile does not name the board",
        ),
        (
            {"kernels": (kernel(flops_per_second=1e12),)},
            "the bytes of its kernels were not counted",
        ),
    ],
)
def test_a_page_without_a_roofline_says_why(changes: dict[str, Any], why: str) -> None:
    """Shapes are missing, the board is unknown, or half of the counters are missing."""
    page = _page(ProfiledWorkload("one", (profile(device(**changes)),), ()))
    assert f"No roofline: {why}" in page


def test_frames_are_drawn_within_each_other() -> None:
    """Chains of single children are one frame, and tiny frames are omitted."""
    frames = (
        FrameUse("Layer", None, 0.8, 0.0, 8, 2),
        FrameUse("aten::linear", 0, 0.8, 0.2, 8, 4),
        FrameUse("aten::mm", 1, 0.6, 0.6, 6, 3),
        FrameUse("(in no frame)", None, 0.1999, 0.1999, 2),
        FrameUse("tiny", None, 0.0001, 0.0001, 1),
    )
    page = _page(ProfiledWorkload("one", (profile(device(frames=frames)),), ()))
    boxes = re.findall(
        r'aria-level="(\d)" x="([\d.]+)%" y="\d+" width="([\d.]+)%"[^>]*><title>([^<]*)', page
    )
    assert boxes == [
        ("1", "0", "100", "All 11 kernels: 1 s"),
        (
            "2",
            "0",
            "80",
            "Layer &gt; aten::linear: 800 ms, 80.0%, of that 200 ms itself; 8 kernels in 4 calls",
        ),
        ("3", "0", "60", "aten::mm: 600 ms, 60.0%, of that 600 ms itself; 6 kernels in 3 calls"),
        ("2", "80", "19.99", "(in no frame): 199.9 ms, 20.0%, of that 199.9 ms itself; 2 kernels"),
    ]


def test_kernels_are_summed_by_what_they_are_for() -> None:
    """Each has a row, in a table that can be sorted by its numbers."""
    families = (KernelFamily.MATRIX_PRODUCT, KernelFamily.ELEMENTWISE, KernelFamily.ELEMENTWISE)
    found = profile(device(kernels=tuple(kernel(family=family) for family in families)))
    page = _page(ProfiledWorkload("one", (found,), ()))
    table = page.partition("kernels, by what they are for</th>")[2].partition("</table>")[0]
    assert len(re.findall('<th scope="row"', table)) == 2
    assert page.count('<table class="sortable"') == 1
    assert re.search(r'<td class="n" data-sort="[\d.e-]+">', page)


def test_share_a_hair_beyond_all_is_drawn_as_all() -> None:
    """Sums of times may be slightly above 1, which a base 36 digit cannot encode."""
    row = ChartLane("kernels", "working", (0.0, 0.5, 1.0, 1.0 + 1e-9))
    chart = lanes("Timeline", "What went on.", [row], ["0 s", "1 s"], 0.25)
    (encoded,) = re.findall(r'data-lanes="([^"]*)"', chart)
    assert json.loads(unescape(encoded))[0][-1] == "0izz"
