"""Whether the container image is there and may be pulled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from urllib.parse import urlencode

from kvrelay.ops.preflight.rows import Row, Status, Subject
from kvrelay.ops.preflight.web import status_of

_ECR = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?$")
_MANIFESTS = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in (
        "oci.image.index.v1",
        "oci.image.manifest.v1",
        "docker.distribution.manifest.list.v2",
        "docker.distribution.manifest.v2",
    )
)
_NAME_ANOTHER = "correct serving.image"


class ContainerImage:
    """The image of the Ray pods."""

    name = "image"
    limit_s = 15.0

    def run(self, subject: Subject) -> Iterator[Row]:
        """One row."""
        image = subject.source.deployment.serving.image
        registry, repository, reference = split_image(image)
        private = _ECR.match(registry)
        if private:
            yield from self._in_ecr(subject, private, image, repository, reference)
            return
        try:
            status = _manifest_status(registry, repository, reference)
        except OSError as error:
            reason = getattr(error, "reason", error)
            yield Row(
                self.name, image, Status.WARN, f"not checked: {registry} does not answer ({reason})", ""
            )
            return
        if status == 200:
            yield Row(self.name, image, Status.PASS, "is there and may be pulled")
        elif status in (401, 403):
            yield Row(self.name, image, Status.FAIL, "may not be pulled without signing in", _NAME_ANOTHER)
        elif status == 404:
            yield Row(self.name, image, Status.FAIL, f"is not in {registry}", _NAME_ANOTHER)
        else:
            yield Row(self.name, image, Status.WARN, f"not checked: {registry} answers {status}", "run again")

    def _in_ecr(
        self, subject: Subject, private: re.Match[str], image: str, repository: str, reference: str
    ) -> Iterator[Row]:
        if private["region"] != subject.aws.region:
            yield Row(
                self.name,
                image,
                Status.WARN,
                f"is in {private['region']}, the nodes in {subject.aws.region}: slower, and paid by the GB",
                f"use the registry of {subject.aws.region}",
            )
            return
        client = subject.aws.client("ecr")
        key = "imageDigest" if reference.startswith("sha256:") else "imageTag"
        try:
            found = client.batch_get_image(
                registryId=private["account"], repositoryName=repository, imageIds=[{key: reference}]
            )["images"]
        except client.exceptions.RepositoryNotFoundException:
            found = []
        if found:
            yield Row(self.name, image, Status.PASS, "is there and may be pulled")
        else:
            yield Row(self.name, image, Status.FAIL, "is not in that registry", _NAME_ANOTHER)


def split_image(image: str) -> tuple[str, str, str]:
    """Registry, repository, and tag or digest."""
    registry, _, rest = image.partition("/")
    if "@" in rest:
        repository, _, reference = rest.partition("@")
    else:
        repository, _, reference = rest.rpartition(":")
    return registry, repository, reference


def _manifest_status(registry: str, repository: str, reference: str) -> int:
    """The registry's answer to a client that has not signed in."""
    scheme = "http" if registry.partition(":")[0] in ("localhost", "127.0.0.1") else "https"
    url = f"{scheme}://{registry}/v2/{repository}/manifests/{reference}"
    status, headers, _ = status_of(url, {"Accept": _MANIFESTS}, "HEAD")
    challenge = next((value for key, value in headers.items() if key.lower() == "www-authenticate"), "")
    asked = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if status != 401 or "realm" not in asked:
        return status
    query = urlencode({key: asked[key] for key in ("service", "scope") if key in asked})
    status, _, body = status_of(f"{asked['realm']}?{query}")
    if status != 200:
        return status
    token = json.loads(body).get("token", "")
    return status_of(url, {"Accept": _MANIFESTS, "Authorization": f"Bearer {token}"}, "HEAD")[0]
