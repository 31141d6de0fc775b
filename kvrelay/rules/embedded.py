"""RayService objects, and the Serve config that stands as text inside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvrelay.errors import InvalidFileError
from kvrelay.rules.manifests import Manifest, RayCluster, ray_cluster
from kvrelay.rules.serve import ServeConfig
from kvrelay.rules.value import Value
from kvrelay.yaml_source import Origin, parse_documents


@dataclass(frozen=True)
class RayService:
    """A RayService with its cluster and its Serve config, where they can be read."""

    manifest: Manifest
    cluster: RayCluster | None
    serve: ServeConfig | None
    fault: str | None
    """Why the text of `serveConfigV2` is no Serve config; None when it is one, or is missing."""

    @property
    def spec(self) -> Value:
        return self.manifest.spec

    @property
    def serve_text(self) -> Value:
        return self.spec["serveConfigV2"]


MOST_CHARACTERS = 256 * 1024
"""The most text of Serve configs in all manifests together: an object in Kubernetes is smaller than 1.5 MiB."""
_MOST_VALUES = 20_000


def ray_services(manifests: Iterable[Manifest]) -> list[RayService]:
    """The RayServices among manifests, with the Serve configs in them."""
    services, left = [], MOST_CHARACTERS
    for manifest in manifests:
        if manifest.group == "ray.io" and manifest.kind == "RayService":
            left -= len(manifest.spec["serveConfigV2"].text or "")
            services.append(ray_service(manifest, readable=left >= 0))
    return services


def ray_service(manifest: Manifest, readable: bool = True) -> RayService:
    """Reads the Serve config where it stands, so that findings name lines of the manifest."""
    cluster = ray_cluster(manifest)
    value = manifest.spec["serveConfigV2"]
    if not value.exists:
        return RayService(manifest, cluster, None, None)
    node = value.node
    if value.text is None or node is None:
        return RayService(
            manifest, cluster, None, "is not text; write it as a block after `serveConfigV2: |`"
        )
    if not readable:
        return RayService(
            manifest, cluster, None, f"is too long: {MOST_CHARACTERS:,} characters are read at most"
        )
    place = value.place
    origin = node.text_origin or Origin(place.line, place.column, literal=False)
    try:
        documents = parse_documents(value.text, place.file, origin, _MOST_VALUES)
    except InvalidFileError as error:
        return RayService(manifest, cluster, None, _without_file(error.lines[0], place.file))
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        return RayService(manifest, cluster, None, "holds no mapping with the key applications")
    return RayService(manifest, cluster, ServeConfig(Value.root(documents[0]), cluster), None)


def _without_file(line: str, file: str) -> str:
    return line.removeprefix(f"{file}:").partition(": ")[2] or line
