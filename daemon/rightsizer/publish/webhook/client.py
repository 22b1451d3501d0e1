"""How webhooks are posted to: by whom advice is sent, and by whom something is asked for."""

import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from rightsizer.edge.http import HttpClient, HttpSettings, Result
from rightsizer.publish.webhook.settings import read_token

__all__ = ["post_once", "webhook_client"]


def webhook_client(
    base: str,
    http: HttpSettings,
    token_file: str,
    sleep: Callable[[float], object],
    headers: Callable[[], Mapping[str, str]] = dict,
) -> HttpClient:
    """A client that keeps addresses to itself, and is content with an answer in any words.

    Args:
        base: The address without its path.
        http: How patient it is.
        token_file: Holds the bearer token, read at each request; empty for none.
        sleep: Waits between tries; where it returns true there are no more.
        headers: Gives further headers at each request.
    """
    return HttpClient(
        base,
        http,
        token=lambda: read_token(token_file),
        headers=headers,
        parse=lambda _: None,  # Many say `ok`, which is no JSON, and all have taken the message.
        has_secret_paths=True,
        sleep=sleep,
    )


def post_once(
    url: str,
    body: Mapping[str, Any],
    http: HttpSettings,
    *,
    token_file: str = "",
    sleep: Callable[[float], object] = time.sleep,
) -> Result:
    """Post JSON; it is sent again only where nobody can have had it.

    Args:
        url: Where to, without a query.
        body: What `json.dumps` takes.
        http: How patient the client is.
        token_file: Holds the bearer token; empty for none.
        sleep: Waits between tries; where it returns true there are no more.
    """
    parts = urlsplit(url)
    client = webhook_client(f"{parts.scheme}://{parts.netloc}", http, token_file, sleep)
    try:
        return client.request("POST", parts.path or "/", body=body)
    finally:
        client.close()
