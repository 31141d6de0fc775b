"""Whose credentials these are, and whether that account is ready for CDK."""

from __future__ import annotations

from collections.abc import Iterator

from kvrelay.ops.preflight.rows import Row, Status, Subject

_BOOTSTRAP_VERSION = "/cdk-bootstrap/hnb659fds/version"


class Credentials:
    """The identity, and the account that the file allows."""

    name = "credentials"
    limit_s = 10.0

    def run(self, subject: Subject) -> Iterator[Row]:
        """One row for the account."""
        identity = subject.aws.client("sts").get_caller_identity()
        allowed, found = subject.source.deployment.account, identity["Account"]
        if allowed and allowed != found:
            mend = f"use credentials of {allowed}, or change account in the deployment file"
            yield Row(
                self.name, found, Status.FAIL, f"the file allows {allowed} only ({identity['Arn']})", mend
            )
            return
        yield Row(self.name, found, Status.PASS, f"{identity['Arn']} in {subject.aws.region}")


class Bootstrap:
    """CDK's own bucket and roles, made once for each account and region."""

    name = "bootstrap"
    limit_s = 10.0

    def run(self, subject: Subject) -> Iterator[Row]:
        """One row for the region."""
        client = subject.aws.client("ssm")
        try:
            version = client.get_parameter(Name=_BOOTSTRAP_VERSION)["Parameter"]["Value"]
        except client.exceptions.ParameterNotFound:
            account = subject.aws.client("sts").get_caller_identity()["Account"]
            yield Row(
                self.name,
                subject.aws.region,
                Status.FAIL,
                "CDK was never bootstrapped here",
                f"cdk bootstrap aws://{account}/{subject.aws.region}",
            )
            return
        yield Row(self.name, subject.aws.region, Status.PASS, f"bootstrap version {version}")
