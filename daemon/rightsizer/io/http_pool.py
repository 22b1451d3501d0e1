"""Pools of connections whose answers arrive in time; apart, since urllib3 takes 10 MB."""

from typing import Any
from urllib.parse import unquote

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from rightsizer.io.http_connection import BoundedResponse


class _HttpConnection(HTTPConnection):
    response_class = BoundedResponse


class _HttpsConnection(HTTPSConnection):
    response_class = BoundedResponse


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _HttpConnection


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection


def pool_manager(proxy: str | None, **settings: Any) -> urllib3.PoolManager:
    """Pool of connections to each server, through a proxy if there is one."""
    if proxy is None:
        manager = urllib3.PoolManager(**settings)
    else:
        login = urllib3.util.parse_url(proxy).auth
        headers = urllib3.make_headers(proxy_basic_auth=unquote(login)) if login else None
        manager = urllib3.ProxyManager(proxy, proxy_headers=headers, **settings)
    manager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
    return manager
