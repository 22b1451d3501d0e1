"""HTTP clients for webhooks: secret addresses, arbitrary answers."""

import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from rightsizer.io.http import HttpClient
from rightsizer.io.http_proxy import proxy_for
from rightsizer.io.http_result import Result
from rightsizer.io.http_settings import HttpSettings
from rightsizer.notify.webhook.settings import read_token


def webhook_client(
    base: str,
    http: HttpSettings,
    token_file: str,
    sleep: Callable[[float], object],
    headers: Callable[[], Mapping[str, str]] = dict,
) -> HttpClient:
    """Create a client that keeps paths out of messages and accepts any body as success."""
    return HttpClient(
        base,
        http,
        token=lambda: read_token(token_file),
        headers=headers,
        proxy=proxy_for(base),
        parse=lambda _: None,  # Many receivers answer `ok`, which is no JSON.
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
    """Post JSON to an address without a query; retry only if no receiver can have got it."""
    parts = urlsplit(url)
    client = webhook_client(f"{parts.scheme}://{parts.netloc}", http, token_file, sleep)
    try:
        return client.request("POST", parts.path or "/", body=body)
    finally:
        client.close()
