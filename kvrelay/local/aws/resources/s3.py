"""S3 buckets and their policies."""

import json
from typing import Any

from botocore.exceptions import ClientError

from kvrelay.local.aws.errors import ResourceFailedError
from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles


@handles
class Bucket(Handler):
    """AWS::S3::Bucket."""

    type = "AWS::S3::Bucket"

    def create(self, request: Request) -> Made:
        name = request.properties.get("BucketName") or request.name(63, lower=True)
        arguments: dict[str, Any] = {}
        if request.region != "us-east-1":
            arguments["CreateBucketConfiguration"] = {"LocationConstraint": request.region}
        request.client("s3").create_bucket(Bucket=name, **arguments)
        request.physical_id = name
        return self.update(request)

    def update(self, request: Request) -> Made:
        client, name, wanted = request.client("s3"), request.physical_id, request.properties
        if "VersioningConfiguration" in wanted:
            client.put_bucket_versioning(
                Bucket=name, VersioningConfiguration=wanted["VersioningConfiguration"]
            )
        if "BucketEncryption" in wanted:
            rules = [
                {"ApplyServerSideEncryptionByDefault": dict(rule["ServerSideEncryptionByDefault"])}
                for rule in wanted["BucketEncryption"]["ServerSideEncryptionConfiguration"]
            ]
            client.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration={"Rules": rules})
        if "PublicAccessBlockConfiguration" in wanted:
            client.put_public_access_block(
                Bucket=name, PublicAccessBlockConfiguration=wanted["PublicAccessBlockConfiguration"]
            )
        if request.tags():
            client.put_bucket_tagging(Bucket=name, Tagging={"TagSet": request.tag_list()})
        return Made(
            name,
            {
                "Arn": f"arn:aws:s3:::{name}",
                "DomainName": f"{name}.s3.amazonaws.com",
                "RegionalDomainName": f"{name}.s3.{request.region}.amazonaws.com",
                "DualStackDomainName": f"{name}.s3.dualstack.{request.region}.amazonaws.com",
                "WebsiteURL": f"http://{name}.s3-website.{request.region}.amazonaws.com",
            },
        )

    def delete(self, request: Request) -> None:
        client, name = request.client("s3"), request.physical_id
        try:
            if client.list_object_versions(Bucket=name, MaxKeys=1).get("Versions"):
                raise ResourceFailedError(
                    "The bucket you tried to delete is not empty "
                    "(Service: S3, Status Code: 409, Error Code: BucketNotEmpty)"
                )
            client.delete_bucket(Bucket=name)
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchBucket":
                raise


@handles
class BucketPolicy(Handler):
    """AWS::S3::BucketPolicy."""

    type = "AWS::S3::BucketPolicy"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        # moto reads no conditions: a refusal of plain HTTP would refuse everything on loopback.
        statements = wanted["PolicyDocument"]["Statement"]
        kept = [s for s in statements if not (s["Effect"] == "Deny" and s.get("Condition"))]
        if kept:
            policy = {**wanted["PolicyDocument"], "Statement": kept}
            request.client("s3").put_bucket_policy(Bucket=wanted["Bucket"], Policy=json.dumps(policy))
        return Made(wanted["Bucket"], {})

    def update(self, request: Request) -> Made:
        return self.create(request)

    def delete(self, request: Request) -> None:
        try:
            request.client("s3").delete_bucket_policy(Bucket=request.physical_id)
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchBucket":
                raise
