"""The account's own copies of container images: repositories, and rules that fetch into them."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_ecr as ecr
from constructs import Construct

from kvrelay.settings import ImageMirror, split_image

_KEPT_IMAGES = 10
"""In each repository: enough to go back some versions, without an end that surprises a running service."""


class ImageRepositories(Construct):
    """One repository for each image that the mirror holds; nothing without a mirror.

    With `pull-through` they are made here too, though ECR could make them at the first pull: so nodes need no right
    to create repositories, images are scanned, and all of it goes with the stack. What nodes need beyond that,
    ecr:BatchImportUpstreamImage, is in AmazonEC2ContainerRegistryPullOnly.
    """

    def __init__(self, scope: Construct, id: str, *, mirror: ImageMirror) -> None:
        super().__init__(scope, id)
        rules = mirror.mode == "pull-through"
        for registry in sorted({split_image(image).registry for image in mirror.images} if rules else ()):
            ecr.CfnPullThroughCacheRule(
                self,
                f"From-{registry}",
                ecr_repository_prefix=mirror.prefix(registry),
                upstream_registry_url=registry,
            )
        for image in mirror.images:
            name = mirror.repository(image)
            ecr.Repository(
                self,
                name.partition("/")[2],
                repository_name=name,
                # ECR itself moves a cached tag when its upstream moves; nobody moves a copied one.
                image_tag_mutability=ecr.TagMutability.MUTABLE if rules else ecr.TagMutability.IMMUTABLE,
                image_scan_on_push=True,
                encryption=ecr.RepositoryEncryption.AES_256,
                lifecycle_rules=[
                    ecr.LifecycleRule(description="The newest stay", max_image_count=_KEPT_IMAGES)
                ],
                removal_policy=RemovalPolicy.DESTROY,
                empty_on_delete=True,
            )
