"""RayService objects, and the Serve config that stands as text inside them."""

from __future__ import annotations

from dataclasses import dataclass

from kvrelay.errors import InvalidFileError
from kvrelay.rules.manifests import Manifest, RayCluster, ray_cluster
from kvrelay.rules.serve import ServeConfig
from kvrelay.rules.value import Value
from kvrelay.yaml_source import parse_documents


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


def ray_service(manifest: Manifest) -> RayService:
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
    place = value.place
    try:
        documents = (
            parse_documents(value.text, place.file, node.text_origin)
            if node.text_origin
            else parse_documents(value.text, place.file)
        )
    except InvalidFileError as error:
        return RayService(manifest, cluster, None, _without_file(error.lines[0], place.file))
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        return RayService(manifest, cluster, None, "holds no mapping with the key applications")
    return RayService(manifest, cluster, ServeConfig(Value.root(documents[0]), cluster), None)


def _without_file(line: str, file: str) -> str:
    return line.removeprefix(f"{file}:").partition(": ")[2] or line
