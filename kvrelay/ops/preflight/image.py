"""Whether the container image is there and may be pulled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlencode

from kvrelay.ops.preflight.rows import Row, Status, Subject
from kvrelay.ops.preflight.web import status_of
from kvrelay.settings import ImageMirror, split_image

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
        """A row for the image where it comes from, and one for each copy of a mirror."""
        deployment = subject.source.deployment
        yield from self._upstream(subject, deployment.serving.image)
        mirror = ImageMirror.of(deployment)
        if mirror.mode == "ecr":
            for image in mirror.images:
                yield self._copy(subject, mirror, image)

    def _upstream(self, subject: Subject, image: str) -> Iterator[Row]:
        registry, repository, reference = split_image(image)
        private = _ECR.match(registry)
        if private:
            yield from self._in_ecr(subject, private, image, repository, reference)
            return
        try:
            status, digest = _manifest(registry, repository, reference)
        except OSError as error:
            reason = getattr(error, "reason", error)
            yield Row(
                self.name, image, Status.WARN, f"not checked: {registry} does not answer ({reason})", ""
            )
            return
        if status == 200:
            # The digest that container/Dockerfile's BASE_DIGEST and a pinned serving.image take.
            pin = f"; today it is {digest}" if digest and digest != reference else ""
            yield Row(self.name, image, Status.PASS, f"is there and may be pulled{pin}")
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
        if _in_repository(subject, private["account"], repository, reference):
            yield Row(self.name, image, Status.PASS, "is there and may be pulled")
        else:
            yield Row(self.name, image, Status.FAIL, "is not in that registry", _NAME_ANOTHER)

    def _copy(self, subject: Subject, mirror: ImageMirror, image: str) -> Row:
        copy = split_image(mirror.reference(image))
        account = subject.source.deployment.account or ""
        if _in_repository(subject, account, copy.repository, copy.reference):
            return Row(self.name, str(copy), Status.PASS, "is copied")
        return Row(
            self.name,
            str(copy),
            Status.WARN,
            "is not copied yet",
            f"cdk deploy {mirror.name}-network, then kvrelay mirror, then the rest",
        )


def _in_repository(subject: Subject, account: str, repository: str, reference: str) -> bool:
    client = subject.aws.client("ecr")
    key = "imageDigest" if reference.startswith("sha256:") else "imageTag"
    try:
        found = client.batch_get_image(
            registryId=account, repositoryName=repository, imageIds=[{key: reference}]
        )["images"]
    except client.exceptions.RepositoryNotFoundException:
        return False
    return bool(found)


def _manifest(registry: str, repository: str, reference: str) -> tuple[int, str]:
    """The registry's answer to a client that has not signed in: its status, and the image's digest if it says it."""
    scheme = "http" if registry.partition(":")[0] in ("localhost", "127.0.0.1") else "https"
    url = f"{scheme}://{registry}/v2/{repository}/manifests/{reference}"
    status, headers, _ = status_of(url, {"Accept": _MANIFESTS}, "HEAD")
    asked = dict(re.findall(r'(\w+)="([^"]*)"', _header(headers, "www-authenticate")))
    if status != 401 or "realm" not in asked:
        return status, _header(headers, "docker-content-digest")
    query = urlencode({key: asked[key] for key in ("service", "scope") if key in asked})
    status, _, body = status_of(f"{asked['realm']}?{query}")
    if status != 200:
        return status, ""
    token = json.loads(body).get("token", "")
    status, headers, _ = status_of(url, {"Accept": _MANIFESTS, "Authorization": f"Bearer {token}"}, "HEAD")
    return status, _header(headers, "docker-content-digest")


def _header(headers: Mapping[str, str], name: str) -> str:
    return next((value for key, value in headers.items() if key.lower() == name), "")
