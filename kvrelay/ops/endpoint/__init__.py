"""Where a model answers: an endpoint's address, and the way to one inside a cluster."""

from kvrelay.ops.endpoint.address import ANNOUNCED, Endpoint, EndpointError, announced_endpoint, endpoint

__all__ = ["ANNOUNCED", "Endpoint", "EndpointError", "announced_endpoint", "endpoint"]
