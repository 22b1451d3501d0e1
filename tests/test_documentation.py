"""What the pages say can be followed: links lead somewhere, commands can be typed."""

import argparse
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

import cli_reference
from cli_reference import all_commands
from rightsizer.cli.main import COMMANDS
from rightsizer.console.command import Command
from rightsizer.io.yaml import load_yaml
from rightsizer.model.profile import ProfileFormat
from rightsizer.owners.registry import SOURCES

ROOT: Final = Path(__file__).parent.parent
DOCS: Final = ROOT / "docs"
BESIDE_CODE: Final = [
    ROOT / "daemon" / "rightsizer" / "simulator" / "scenarios" / "README.md",
    ROOT / "tests" / "sizing" / "PUBLISHED_DEPLOYMENTS.md",
    ROOT / "tests" / "telemetry" / "KNOWN_PROBLEMS.md",
    ROOT / "evaluation" / "RESULTS.md",
    ROOT / "evaluation" / "hardware" / "DIFFERENCES.md",
    ROOT / "benchmarks" / "RESULTS.md",
    ROOT / "benchmarks" / "SHAPE.md",
    ROOT / "benchmarks" / "reliability" / "RESULTS.md",
]
PAGES: Final = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *BESIDE_CODE])

LINK: Final = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE: Final = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE: Final = re.compile(r"`[^`\n]*`")
SYNOPSIS: Final = re.compile(r"\.\.\.|\[--|<[a-z]")
"""Marks of a line that shows a form and is not to be typed."""
CITATION: Final = re.compile(
    r"((?:docs|evaluation|benchmarks)/[\w-]+\.md)(?:, (\w+(?: \w+)*))?(?:: ([^;\n\"()]+))?"
)
"""Page, section, and what is said of it up to the line's end."""


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", page.read_text("utf-8"))


def _links(page: Path) -> Iterator[str]:
    """Targets within the repository, in the prose of a page."""
    for target in LINK.findall(CODE.sub("`code`", _prose(page))):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def _anchors(page: Path) -> set[str]:
    """What a forge calls each heading: lower case, no punctuation, a number where it repeats."""
    anchors: set[str] = set()
    for title in re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE):
        text = LINK.sub(lambda found: found[0].split("]")[0].lstrip("!["), title)
        base = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        repeats = sum(1 for anchor in anchors if re.fullmatch(rf"{re.escape(base)}(-\d+)?", anchor))
        anchors.add(f"{base}-{repeats}" if repeats else base)
    return anchors


def _command_lines(page: Path) -> Iterator[str]:
    """What follows the command's name in each line of a block that could be typed."""
    names = {command.name for command in all_commands()}
    for block in FENCE.findall(page.read_text("utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.match(r"(.*\s)?(?:\S*/)?rightsizer ([a-z]\S*.*)", line.strip())
            if found is None or SYNOPSIS.search(line):
                continue
            before = found[1]
            after = found[2]
            # What begins with the name is a command; later in a line it may be anything's name.
            if before in {None, "$ ", "sudo "} or after.split()[0] in names:
                yield after


def _arguments(line: str) -> list[str]:
    """The words up to where the shell takes over."""
    words = shlex.split(line, comments=True)
    ends = [n for n, word in enumerate(words) if re.fullmatch(r"[|;&>]+|\d?>.*|\|\|", word)]
    return words[: ends[0]] if ends else words


def _parser(command: Command) -> argparse.ArgumentParser:
    parser = cli_reference.parser_of(command)
    parser.allow_abbrev = False
    return parser


def test_links_lead_somewhere() -> None:
    """Each link within the repository names a file that is there, and a heading that it has."""
    for page in PAGES:
        broken = []
        for target in _links(page):
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            is_page = file.suffix == ".md"
            if not file.exists() or (anchor and is_page and anchor not in _anchors(file)):
                broken.append(target)
        assert not broken, page


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_command_lines_can_be_typed(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each `rightsizer ...` of a block is a command that exists, with options that it has."""
    parsers = {command.name: _parser(command) for command in all_commands()}
    refused = []
    for line in _command_lines(page):
        name, *arguments = _arguments(line)
        try:
            parsers[name].parse_args(arguments)
        except (KeyError, argparse.ArgumentError):
            refused.append(line)
        except SystemExit:
            refused.append(f"{line}: {capsys.readouterr().err}")
    assert not refused


def test_command_lines_are_found() -> None:
    """The test above has something to hold: the first page shows most of the commands."""
    shown = {line.split()[0] for page in PAGES for line in _command_lines(page)}
    assert {"advise", "explain", "replay", "report", "plan", "release", "dismiss"} <= shown


def _uncited(source: str) -> Iterator[str]:
    """Citations of pages whose section, term or row of sources is not there."""
    for found in CITATION.finditer(source):
        page, section, said = found.groups()
        text = (ROOT / page).read_text("utf-8").lower()
        is_there = section is None or re.search(
            rf"(?m)^#+ {section.lower()}$|`{section.lower()}`", text
        )
        # Other sections are cited with the reason behind, in words of its own.
        is_row = section == "sources" and said is not None
        is_open = section is None and page.endswith(("benchmarks.md", "RESULTS.md"))
        if not is_there or is_open or (is_row and said.strip().lower() not in text):
            yield found[0]


def test_pages_cited_as_sources_of_defaults_have_them() -> None:
    """What a default is from is found where it says."""
    package = sorted((ROOT / "daemon").rglob("*.py"))
    missing = [(str(each), gone) for each in package for gone in _uncited(each.read_text("utf-8"))]
    assert not missing


def test_missing_sources_are_noticed() -> None:
    """A section, a term or a row that is gone, and a page of measurements without a section."""
    sources = "docs/definitions.md, sources"
    there = f"{sources}: PSI 20%; docs/definitions.md, hidden_stall). docs/index.md"
    gone = [f"{sources}: u < 0.7", "docs/definitions.md, gone", "docs/benchmarks.md: 300 MB"]
    assert [*_uncited(there)] == []
    assert [*_uncited("\n".join(gone))] == gone


def _section(page: Path, anchor: str) -> str:
    """Text below a heading, up to the next one of its level."""
    text = page.read_text("utf-8")
    heading = next(
        heading
        for heading in re.findall(r"^### .+$", text, re.MULTILINE)
        if re.sub(r"[^\w\- ]", "", heading[4:].lower()).replace(" ", "-") == anchor
    )
    return text.partition(f"{heading}\n")[2].partition("\n### ")[0]


def test_figures_of_benchmarks_are_those_of_the_raw_tables() -> None:
    """Each number of a row stands in a section that the row links to."""
    rows = (DOCS / "benchmarks.md").read_text("utf-8").splitlines()
    checked = [row for row in rows if row.startswith("| [") and "/RESULTS.md#" in row]
    wrong = []
    for row in checked:
        targets = [target.partition("#") for target in LINK.findall(row) if "/RESULTS" in target]
        sections = "".join(_section(DOCS / page, anchor) for page, _, anchor in targets)
        figures = re.findall(r"(?<![\d.,])\d[\d.,]*[.,]?\d+", LINK.sub("", row.split(" | ")[1]))
        wrong += [(row, figure) for figure in figures if figure not in sections]
    assert len(checked) > 20
    assert wrong == []


def test_what_is_above_its_limit_is_listed() -> None:
    """Each FAIL of the raw tables, by its figures; and nothing that no longer fails."""
    page = (DOCS / "benchmarks.md").read_text("utf-8")
    listed = page.partition("**Above the limits we set**")[2].partition("\n")[0]
    costs = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")
    accuracy = (ROOT / "evaluation" / "RESULTS.md").read_text("utf-8")
    failed = re.findall(r"\*\*(\S.*?) FAIL\*\*", costs)
    # A row, of which the list has how many it is of and what nine in ten are within.
    for _, rows, _, worst, *_ in (
        map(str.strip, row.strip("|").split("|"))
        for row in accuracy.splitlines()
        if row.endswith("| FAIL |")
    ):
        failed += [f"{rows} rows", worst]
    assert [figure for figure in failed if figure not in listed] == []
    figures = re.findall(r"\d[\d.]* (?:m?s\b|rows)|x\d[\d.]*\d", listed)
    assert [figure for figure in figures if figure not in failed] == []


def test_figures_of_reliability_are_those_of_the_raw_tables() -> None:
    """Faults, and scrapes without an answer, of each group and of all."""
    page = (DOCS / "reliability.md").read_text("utf-8")
    _, *groups = (
        (ROOT / "benchmarks" / "reliability" / "RESULTS.md").read_text("utf-8").split("### ")
    )
    for group in groups:
        scrapes = [(int(few), int(all_)) for few, all_ in re.findall(r"\| (\d+) of (\d+) ", group)]
        unanswered, total = map(sum, zip(*scrapes, strict=True))
        title = group.partition("\n")[0]
        assert f"| {title} | {len(scrapes)} | {unanswered} of {total} |" in page


def _keys(schema: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """The keys of a schema with their dots, those of lists and of mappings' values too."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{above}{name}"
        yield from _keys(inner, f"{above}{name}.")
    for inner in (
        schema.get("items"),
        schema.get("additionalProperties"),
        *schema.get("anyOf", ()),
    ):
        if isinstance(inner, Mapping):
            yield from _keys(inner, above)


def test_settings_that_pages_name_exist() -> None:
    """By their keys in a configuration, which an operator types at night from a runbook."""
    schema = json.loads((ROOT / "config" / "rightsizer.schema.json").read_text("utf-8"))
    keys = frozenset(_keys(schema))
    roots = "|".join(schema["properties"])
    named = re.compile(rf"`((?:{roots})\.[a-z_.]*[a-z_])[`:=]")
    # Values of the chart are named below it, and a function of another product.
    pages = [page for page in DOCS.rglob("*.md") if page.name != "kubernetes.md"]
    pages += (ROOT / "config" / "kubernetes").rglob("*.yaml")
    found = {(page.name, key) for page in pages for key in named.findall(page.read_text("utf-8"))}
    gone = {
        each
        for each in found
        if each[1] not in keys and not each[1].endswith((".conf", ".db", ".py", ".yml"))
    }
    assert gone == {("recordings.md", "history.get")}


def test_every_command_is_explained_with_all_its_options(
    golden: Callable[[str | Path, str], None],
) -> None:
    """The reference is made from what the commands say of themselves, and is as new as they are."""
    page = cli_reference.cli_reference()
    golden(DOCS / "cli.md", page)
    assert "(default: ``)" not in page, "an empty default says nothing"
    assert "SUPPRESS" not in page, "a flag without a help is hidden"
    overview, _, _ = page.partition("\n## ")
    unexplained = [each.name for each in COMMANDS if f"[`{each.name}`]" not in overview]
    assert not unexplained, f"not in the overview: {unexplained}"
    for command in all_commands():
        section = page.split(f"## `rightsizer {command.name}`\n")[1].split("\n## ")[0]
        flags = [flag for each in cli_reference.options_of(command) for flag in each.option_strings]
        # Those of collectors of metrics are one row.
        named = [re.sub(r"collector\..+", "collector.NAME", flag) for flag in flags]
        missing = [flag for flag in named if flag not in section]
        assert not missing, f"{command.name} has {missing}"


def test_the_first_page_names_every_command() -> None:
    """The one who reads the first page alone knows what there is."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert not [
        command.name
        for command in all_commands()
        if not re.search(rf"`[^`]*\b{command.name}\b", text)
    ]


def test_every_page_is_in_the_site() -> None:
    """`make docs` puts each but the runbooks, which alerts link to, into its navigation."""
    site = load_yaml((ROOT / "mkdocs.yml").read_text("utf-8"), "mkdocs.yml").data
    first, *sections = site["nav"]
    named = [first, *(page for section in sections for pages in section.values() for page in pages)]

    assert sorted(named) == sorted(["settings.md", *(path.name for path in DOCS.glob("*.md"))])


def test_every_page_says_first_who_reads_it() -> None:
    """A reader decides by its first line; the index and runbooks need none."""
    pages = {page.name: page.read_text("utf-8") for page in DOCS.glob("*.md")}
    del pages["index.md"]
    first = re.compile(r"# .+\n\n(?:<!--.*?-->\n\n)?For [^\n]")
    assert [name for name, text in pages.items() if not first.match(text)] == []


def test_every_page_can_be_reached_from_the_index() -> None:
    """The one who begins at the map finds every page."""
    reached: set[Path] = set()
    waiting = [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or not page.exists():
            continue
        reached.add(page)
        targets = (page.parent / link.partition("#")[0] for link in _links(page))
        waiting += [target.resolve() for target in targets if target.suffix == ".md"]
    assert not [_name(page) for page in DOCS.rglob("*.md") if page not in reached]


def test_every_profile_format_is_in_the_table_of_profiles() -> None:
    """What can be read is told, by the name that the JSON gives it."""
    rows = [line for line in (DOCS / "profiles.md").read_text("utf-8").splitlines() if "|" in line]
    assert not [each for each in ProfileFormat if not any(f"`{each}`" in row for row in rows)]


def test_the_table_of_owners_is_their_registry() -> None:
    """Each source by its name, in order of precedence, with settings that can be written."""
    page = (DOCS / "telemetry.md").read_text("utf-8").partition("\n## Owners\n")[2]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.*)\|$", page.partition("\n## ")[0], re.MULTILINE)
    schema = json.loads((ROOT / "config" / "rightsizer.schema.json").read_text("utf-8"))
    keys = schema["properties"]["sources"]["properties"]["owners"]["properties"]
    named = re.findall(r"`(\w+)`", " ".join(settings for _, _, settings in rows))

    assert [(name, "off by default" not in how) for name, how, _ in rows] == [
        (source.name, source.is_default) for source in SOURCES
    ]
    assert set(named) - keys.keys() == set()


def test_every_test_that_a_page_names_is_there() -> None:
    """What holds a promise keeps its name, or the page and its table take the new one."""
    tests = (ROOT / "tests").rglob("test_*.py")
    pages = "".join(map(_prose, PAGES))
    problems = (ROOT / "tests" / "telemetry" / "known_problems.csv").read_text("utf-8")
    known = {
        name for test in tests for name in re.findall(r"def (test_\w+)", test.read_text("utf-8"))
    }
    named = {*re.findall(r"`(test_\w+)`", pages), *re.findall(r"\btest_\w+", problems)}
    assert named
    assert named <= known


def test_no_page_names_a_path_of_the_machine_that_it_was_written_on() -> None:
    """Folders of the one who wrote a page are on no reader's machine."""
    own = re.compile(rf"{re.escape(str(ROOT))}\b|(?<![\w.~-])/(?:root|home|work)/")
    assert not [_name(page) for page in PAGES if own.search(page.read_text("utf-8"))]
