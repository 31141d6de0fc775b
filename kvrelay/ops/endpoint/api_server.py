"""A cluster's API server as a WebSocket client needs it: its address, whom to trust, who we are."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from kvrelay.ops.cluster import Access, kubeconfig


@dataclass(frozen=True)
class ApiServer:
    """`headers` makes those that say who we are, anew for each connection: tokens grow old."""

    url: str
    tls: ssl.SSLContext | None
    headers: Callable[[], dict[str, str]]


def api_server(access: Access) -> ApiServer:
    """The API server of a way into a cluster. Raises UserError when its kubeconfig can't be used."""
    if access.kubeconfig:
        return _of_kubeconfig(access)
    token = access.token

    def headers() -> dict[str, str]:
        return {"Authorization": f"Bearer {token()}"} if token else {}

    return ApiServer(access.url, ssl.create_default_context(cadata=access.ca_pem), headers)


def _of_kubeconfig(access: Access) -> ApiServer:
    configuration = kubeconfig(access)
    url = str(configuration.host)
    tls = None
    if url.startswith("https:"):
        tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            tls.load_cert_chain(configuration.cert_file, configuration.key_file)

    def headers() -> dict[str, str]:
        # Runs the kubeconfig's own plug-in for a fresh token where the old one has expired.
        key = configuration.get_api_key_with_prefix("BearerToken", "authorization")
        return {"Authorization": key} if key else {}

    return ApiServer(url, tls, headers)
