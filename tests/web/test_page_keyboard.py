"""The page by keyboard and screen reader: everything is reachable, in reading order."""

from html.parser import HTMLParser

from msgspec.structs import replace

from publish_reports import node_report
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.web.page import WebPage
from rightsizer.web.settings import FitSettings
from sample_devices import NOW


class Stops(HTMLParser):
    """Stops of the tab key, and the tables between."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.stops: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[tuple[str, dict[str, str | None]]] = []
        self.regions: list[dict[str, str | None]] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record focusable elements."""
        found = dict(attrs)
        if tag in {"a", "button", "summary"} and found.get("tabindex") != "-1":
            self.stops.append((tag, found))
        if tag == "th":
            self.cells.append((tag, found))
        if found.get("role") == "region":
            self.regions.append(found)
        assert int(found.get("tabindex") or 0) <= 0, "no order but the document's"


def stops_of() -> Stops:
    """Tab stops of a whole node's page."""
    page = WebPage(FreshnessSettings(), FitSettings(), 60.0)
    return Stops(page.render(node_report(), NOW).decode())


def test_the_first_stop_skips_to_the_report() -> None:
    """Then follow the links, the color scheme, the spans, and the actions."""
    stops = stops_of().stops
    assert stops[0][1]["href"] == "#main"
    places = [found.get("href") or found.get("id") or tag for tag, found in stops]
    order = ["#main", "metrics", "api/v1/openapi.json", "api/v1/report"]
    assert places[: len(order)] == order
    rest = ["theme", "pause", "?span=1h", "?span=30d", "summary"]
    assert [places.index(place) for place in rest] == sorted(map(places.index, rest))


def test_link_to_the_report_document_needs_a_history() -> None:
    """A browser gets the document, not its JSON; without a history none can be made."""
    page = WebPage(FreshnessSettings(), FitSettings(), 60.0)
    report = node_report()
    bare = replace(report, agent=replace(report.agent, metrics={}))
    assert "rightsizer_history_size_bytes" in report.agent.metrics
    href = 'href="api/v1/report/document"'
    assert href in page.render(report, NOW).decode()
    assert href not in page.render(bare, NOW).decode()


def test_links_stay_below_the_prefix() -> None:
    """Behind a proxy that serves the agent below a path, every link keeps the path."""
    hrefs = [str(found["href"]) for tag, found in stops_of().stops if tag == "a"]
    assert len(hrefs) > 10
    assert not [href for href in hrefs if href.startswith("/") or ":" in href.split("?")[0]]


def test_tables_say_what_their_cells_are_of() -> None:
    """Each heading has its scope; scrollable areas are focusable and have a name."""
    stops = stops_of()
    assert stops.cells
    assert {found.get("scope") for _, found in stops.cells} == {"col", "row"}
    assert stops.regions
    assert all(
        region.get("aria-label") and region.get("tabindex") == "0" for region in stops.regions
    )
