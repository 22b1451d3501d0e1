"""Pools of connections whose answers arrive in time; apart, since urllib3 takes 10 MB."""

from typing import Any

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


class BoundedPoolManager(urllib3.PoolManager):
    """Pool of connections to each server."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
