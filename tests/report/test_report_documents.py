"""The report's documents: deterministic, complete, small, and safe to open."""

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from msgspec import Struct
from msgspec.structs import fields

from readings import DAY, EPOCH, HOUR, gpu
from report_samples import HOSTILE, device_facts, finding, report_facts
from rightsizer.agent.report_document import rendered_report
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.finding import Savings
from rightsizer.model.state import State
from rightsizer.report.builder import report_model
from rightsizer.report.model import ReportModel

GoldenFile = Callable[[str | Path, str], None]
SUFFIXES: Final = {"text": "txt", "html": "html", "markdown": "md", "json": "json"}
"""Of the formats that tell the story; the bill has tests of its own."""
DOCUMENTATION: Final = Path(__file__).parent.parent.parent / "docs" / "report.md"
IDLE: Final = [{State.IDLE_HELD: 2.0}]


def document(name: str, timezone: dt.tzinfo = dt.UTC, **facts: Any) -> str:
    """The story in a format."""
    model = report_model(report_facts(timezone=timezone, **facts))
    return rendered_report(name, model, timezone)


class Tags(HTMLParser):
    """Opened tags of a document, and whether they are closed in order."""

    VOID: Final = frozenset({"meta", "br", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the tag."""
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record a self-closing tag."""
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Close the last one, which must be this."""
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", SUFFIXES)
def test_a_document_is_as_it_was(name: str, golden: GoldenFile) -> None:
    """Every format equals its golden file, and a repeated rendering."""
    text = document(name)
    golden(f"report.{SUFFIXES[name]}", text)
    assert document(name) == text


def test_documents_say_which_recommendation_is_an_alternative() -> None:
    """Its savings are not in the sum."""
    pieces = [
        finding(id=name, exclusive_group="g", savings=Savings(1.0, 1.0, dollars, dollars))
        for name, dollars in (("a", 2.0), ("b", 1.0))
    ]
    advice = tuple(Advice(piece, AdviceState.ACTIVE, EPOCH, EPOCH) for piece in pieces)
    text = document("text", advice=advice)
    assert text.index("explain a") < text.index("    Instead of 1: ") < text.index("explain b")
    assert text.count("Instead of") == 1
    assert document("html", advice=advice).count("<h3>2. Instead of 1: ") == 1
    assert document("markdown", advice=advice).count("### 2. Instead of 1: ") == 1


def test_a_row_says_on_how_many_gpus_its_advice_saves() -> None:
    """The sum is of all of them, so that nobody adds the rows up."""
    devices = (device_facts(gpu(0), IDLE), device_facts(gpu(1), IDLE))
    saves = Savings(2.0, 2.0, 5.0, 5.0)
    piece = finding(id="a", devices=(gpu(0).uuid, gpu(1).uuid), savings=saves)
    advice = (Advice(piece, AdviceState.ACTIVE, EPOCH, EPOCH),)
    text = document("markdown", devices=devices, workloads=(), advice=advice)
    rows = [line for line in text.splitlines() if "$120, on 2 GPUs" in line]
    assert len(rows) == 2


def test_what_nobody_recommends_is_not_to_be_changed() -> None:
    """Other findings have a heading of their own."""
    other = finding(id="weak", confidence=0.11, summary="GPU 1 waits for the CPU.")
    text = document("text", advice=(), findings=(other,))
    assert "Nothing to change is known." in text
    after = text.partition("Findings over the whole span without an open recommendation:")[2]
    assert "GPU 1 waits for the CPU." in after
    assert "11% sure (weak)" in " ".join(after.split())


def test_html_is_well_formed_and_needs_nothing_else() -> None:
    """It has no script, no address, closed tags, and a text for every drawing."""
    text = document("html")
    tags = Tags(text)

    assert tags.open == []
    names = [name for name, _ in tags.seen]
    assert not {"script", "link", "img", "iframe"} & set(names)
    assert not re.search(r"https?://|url\(|@import| on[a-z]+=", text)
    drawings = [attributes for name, attributes in tags.seen if name == "svg"]
    assert drawings
    for attributes in drawings:
        assert attributes.get("aria-label") or attributes.get("aria-hidden") == "true"
    heads = [attributes for name, attributes in tags.seen if name == "th"]
    assert all(attributes.get("scope") in ("col", "row") for attributes in heads)


def test_names_are_only_text() -> None:
    """A workload named like a script runs nowhere and breaks no table."""
    html = document("html")
    markdown = document("markdown")

    assert "<script" not in html
    assert "&lt;script&gt;alert(" in html
    prose = re.sub(r"^```.*?^```", "", markdown, flags=re.DOTALL | re.MULTILINE)
    assert "<script" not in prose.replace("\\<script", "")
    columns = [line.replace("\\|", "").count("|") for line in table_of(markdown, "workload")]
    assert len(set(columns)) == 1
    assert HOSTILE in json.loads(document("json"))["workloads"][0]["workload"]


def table_of(markdown: str, first: str) -> list[str]:
    """Lines of the table whose first column has a name."""
    parts = markdown.split("\n\n")
    (found,) = [part for part in parts if re.match(rf"\| {first} ", part)]
    return found.splitlines()


@pytest.mark.parametrize("name", SUFFIXES)
def test_a_span_without_data_says_so(name: str) -> None:
    """The text states the history's time range."""
    empty = device_facts(gpu(0), [])
    text = document(name, devices=(empty,), workloads=(), advice=(), rules=(), gaps=())

    assert "Nothing is known of this span" in text
    assert name == "json" or "2025-12-30 00:00" in text


def test_a_node_without_devices_is_no_fault() -> None:
    """A history without devices has a report too."""
    for name in SUFFIXES:
        assert "Nothing is known" in document(name, devices=(), workloads=(), advice=())


def test_thirty_days_of_eight_gpus_stay_small() -> None:
    """It is below 300 KB, with another state every hour."""
    states = (State.PRODUCTIVE, State.IDLE_HELD, State.HOST_BOUND, State.IDLE_EMPTY)
    day = dict.fromkeys(states, 1.0)
    devices = [device_facts(gpu(index), [day] * 30) for index in range(8)]
    text = document("html", devices=tuple(devices), until=EPOCH + 30 * DAY)

    assert len(text.encode()) < 300_000


def test_times_are_reported_in_the_time_zone() -> None:
    """An hour before midnight in UTC is the next day in Berlin."""
    berlin = ZoneInfo("Europe/Berlin")
    late = device_facts(gpu(0), [])
    late = type(late)(
        late.device,
        late.window,
        late.provisioning,
        late.slices + report_facts().devices[0].slices[23:24],
    )
    model = report_model(report_facts(timezone=berlin, devices=(late,), since=EPOCH - HOUR))

    assert [day.date for day in model.days][:2] == ["2026-01-01", "2026-01-02"]
    assert [sum(day.states.values()) for day in model.days[:2]] == [0, 1]
    assert "2025-12-30 01:00" in rendered_report("html", model, berlin)


def keys_of(kind: Any) -> Iterator[str]:
    """All keys of a value class and of nested ones."""
    for field in fields(kind):
        yield field.name
        for inside in re.findall(r"\w+", str(field.type)):
            found = getattr(__import__(kind.__module__, fromlist=["x"]), inside, None)
            if isinstance(found, type) and issubclass(found, Struct):
                yield from keys_of(found)


def test_every_key_of_the_json_is_documented() -> None:
    """docs/report.md lists it by its name."""
    text = DOCUMENTATION.read_text(encoding="utf-8")
    missing = {key for key in keys_of(ReportModel) if f"`{key}`" not in text}

    assert not missing


def test_json_holds_the_model() -> None:
    """It has the same numbers, and only JSON types."""
    decoded: Mapping[str, Any] = json.loads(document("json"))
    model = report_model(report_facts())

    assert decoded["summary"]["wasted"]["gpu_hours"] == model.summary.wasted.gpu_hours
    assert [row["label"] for row in decoded["devices"]] == ["GPU 0", "GPU 1", "MIG 2:7 (1g.10gb)"]
    assert decoded["schema_version"] == 2
