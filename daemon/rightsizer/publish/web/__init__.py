"""The agent's own HTTP server: metrics, health, JSON and a page."""

from rightsizer.publish.web.server import WebServer
from rightsizer.publish.web.settings import WebSettings

__all__ = ["WebServer", "WebSettings"]
