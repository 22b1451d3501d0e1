"""What `ncu` prints without `--csv`, as the rows of a long page."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from rightsizer.profiles.printed_text import quoted_record

_TITLES: Final = (
    "ID",
    "Kernel Name",
    "Device",
    "Section Name",
    "Metric Name",
    "Metric Unit",
    "Metric Value",
    "Rule Description",
    "Estimated Speedup",
)
_LAUNCH: Final = re.compile(
    r" {2}(?P<kernel>\S.*?)(?: \(\d+, \d+, \d+\)x\(\d+, \d+, \d+\))?"
    r"(?:, \d{4}-\w{3}-\d\d [\d:]+)?, Context \d+, Stream \d+"
    r"(?:, Device (?P<device>\d+))?(?:, CC [\d.]+)?\s*"
)
_SECTION: Final = re.compile(r" {4}Section: (\S.*?)\s*")
_RULE_LINE: Final = re.compile(r" {4}-+ -+ -+\s*")
_ADVICE: Final = re.compile(
    r" {4}(?:OPT|WRN|INF) +(?:Est\. (?:Local )?Speedup: (?P<speedup>[\d.]+)% *)?(?P<text>.*)"
)
_MORE: Final = re.compile(r" {8,}(\S.*)")


def begins_launch(line: str) -> bool:
    """Whether a line names a kernel as `ncu` prints it above its sections."""
    return _LAUNCH.fullmatch(line) is not None


def as_pages(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines as CSV where `ncu` printed sections, and others as they are."""
    launches = 0
    launch: tuple[str, ...] = ()
    section = ""
    columns: list[slice] = []
    for line in _joined(lines):
        if match := _LAUNCH.fullmatch(line):
            launch = (str(launches), match["kernel"], match["device"] or "0")
            launches += 1
            columns = []
            yield quoted_record(_TITLES)
        elif not launch or line.startswith("=="):
            yield line
        elif match := _SECTION.fullmatch(line):
            section = match[1]
            columns = []
        elif _RULE_LINE.fullmatch(line):
            columns = [slice(*match.span()) for match in re.finditer("-+", line)]
        elif match := _ADVICE.fullmatch(line):
            said = match["text"], match["speedup"] or ""
            yield quoted_record((*launch, section, "", "", "", *said))
        elif columns and line.startswith("    "):
            cells = [line[column].strip() for column in columns]
            if cells[0] and cells[0] != "Metric Name":
                yield quoted_record((*launch, section, *cells, "", ""))


def _joined(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines, advice as one."""
    advice: list[str] = []
    for line in chain(lines, ("",)):
        if advice and (more := _MORE.fullmatch(line)):
            advice.append(more[1].strip())
            continue
        if advice:
            yield " ".join(advice)
        is_advice = _ADVICE.match(line) is not None
        advice = [line.rstrip()] if is_advice else []
        if not is_advice:
            yield line
