"""Whether the weights can be had: the hub's model, the token's secret, the bucket's files and their size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import quote

from kvrelay.data import instance_type
from kvrelay.ops.preflight.rows import Row, Status, Subject
from kvrelay.ops.preflight.web import status_of
from kvrelay.settings import HuggingFaceWeights, S3Weights


class ModelAccess:
    """The source of the weights."""

    name = "model"
    limit_s = 15.0

    def run(self, subject: Subject) -> Iterator[Row]:
        """A row for the token, and one for the weights."""
        weights = subject.source.deployment.serving.weights
        if isinstance(weights, S3Weights):
            yield self._bucket(subject, weights)
            return
        if weights.token_secret_name:
            yield self._token(subject, weights.token_secret_name)
        yield self._hub(subject, weights)

    def _token(self, subject: Subject, secret: str) -> Row:
        client = subject.aws.client("secretsmanager")
        try:
            found = client.describe_secret(SecretId=secret)
        except client.exceptions.ResourceNotFoundException:
            mend = f"aws secretsmanager create-secret --name {secret} --region {subject.aws.region}"
            return Row(self.name, secret, Status.FAIL, "Secrets Manager has no such secret", mend)
        if found.get("DeletedDate"):
            mend = f"aws secretsmanager restore-secret --secret-id {secret} --region {subject.aws.region}"
            return Row(self.name, secret, Status.FAIL, "the secret waits for its deletion", mend)
        return Row(self.name, secret, Status.PASS, "the token's secret is there (its value was not read)")

    def _hub(self, subject: Subject, weights: HuggingFaceWeights) -> Row:
        model = subject.model_source
        hub = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
        try:
            status = status_of(f"{hub}/{quote(model)}/resolve/main/config.json", method="HEAD")[0]
        except OSError as error:
            reason = getattr(error, "reason", error)
            return Row(self.name, model, Status.WARN, f"not checked: {hub} does not answer ({reason})", "")
        if status == 200:
            return Row(self.name, model, Status.PASS, "open to everyone on the hub")
        if status in (401, 403):
            if weights.token_secret_name or weights.token_kubernetes_secret:
                return Row(self.name, model, Status.PASS, "gated; the deployment has a token for it")
            mend = "accept its terms on the hub and set serving.weights.token_secret_name"
            return Row(self.name, model, Status.FAIL, "gated or not there, and no token is set", mend)
        if status == 404:
            return Row(self.name, model, Status.FAIL, "is not on the hub", "correct model_source")
        return Row(self.name, model, Status.WARN, f"not checked: the hub answers {status}", "run again")

    def _bucket(self, subject: Subject, weights: S3Weights) -> Row:
        place = f"s3://{weights.bucket}/{weights.prefix}"
        client = subject.aws.client("s3")
        try:
            sizes = [
                row["Size"]
                for row in subject.aws.pages(
                    "s3", "list_objects_v2", "Contents", Bucket=weights.bucket, Prefix=f"{weights.prefix}/"
                )
            ]
        except client.exceptions.NoSuchBucket:
            return Row(self.name, place, Status.FAIL, "there is no such bucket", "correct serving.weights")
        if not sizes:
            mend = f"aws s3 cp --recursive YOUR_FOLDER {place}/"
            return Row(self.name, place, Status.FAIL, "holds no file", mend)
        total = sum(sizes) / 1e9
        for group in subject.source.deployment.gpu_nodes.groups:
            nvme = instance_type(group.instance_type).nvme
            room = nvme.count * nvme.size_gb if nvme else group.root_volume_gib * 1.073
            if total > room:
                found = f"{total:.1f} GB do not fit the {room:.0f} GB of {group.instance_type}'s disk"
                return Row(self.name, place, Status.FAIL, found, "use a type with more NVMe")
        return Row(self.name, place, Status.PASS, f"{len(sizes)} files, {total:.1f} GB")
