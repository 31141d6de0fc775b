"""Objects that cdk8s has no types for, from plain data."""

from collections.abc import Mapping
from typing import Any

from cdk8s import ApiObject, ApiObjectMetadata, JsonPatch
from constructs import Construct


class RawObject(ApiObject):
    """A Kubernetes object as the YAML would say it: `apiVersion`, `kind`, `metadata`, and the rest."""

    def __init__(self, scope: Construct, id: str, manifest: Mapping[str, Any]) -> None:
        metadata = dict(manifest["metadata"])
        super().__init__(
            scope,
            id,
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            metadata=ApiObjectMetadata(
                name=metadata["name"],
                namespace=metadata.get("namespace"),
                labels=metadata.get("labels"),
                annotations=metadata.get("annotations"),
            ),
        )
        for key, value in manifest.items():
            if key not in ("apiVersion", "kind", "metadata"):
                self.add_json_patch(JsonPatch.add(f"/{key}", value))
