"""Proxy of an address, from the variables that curl and Go read too."""

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_for(url: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Proxy by `HTTPS_PROXY` or `HTTP_PROXY`; `None` for loopback and hosts of `NO_PROXY`."""
    parts = urlsplit(url)
    proxy = _variable(environment, f"{parts.scheme}_proxy")
    if not proxy or _is_direct(parts.hostname or "", _variable(environment, "no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.upper()) or ""


def _is_direct(host: str, exceptions: str) -> bool:
    """Whether no proxy is for a host; exceptions are domains, addresses and networks."""
    address = _network(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for pattern in exceptions.replace(",", " ").lower().split():
        network = _network(pattern.strip("[]"))
        if address is not None and network is not None:
            if address.version == network.version and address.overlaps(network):
                return True
            continue
        domain = pattern.partition(":")[0].removeprefix("*").removeprefix(".")
        if pattern == "*" or host == domain or (domain and host.endswith(f".{domain}")):
            return True
    return False


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Network, or an address as one; `None` for names."""
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
