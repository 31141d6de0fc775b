"""kvrelay mirror: copies a deployment's container images into the repositories that its Network stack made."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kvrelay.errors import UserError
from kvrelay.ops.deploy import find_caller
from kvrelay.ops.preflight.aws import Aws
from kvrelay.settings import ImageMirror, read_deployment, split_image
from kvrelay.settings.option import deployment_option


class CopyError(UserError):
    """An image did not get into its repository."""

    exit_code = 1


@dataclass(frozen=True)
class Tool:
    """A program that copies from registry to registry, all platforms, digests unchanged, without a disk between."""

    name: str
    login: tuple[str, ...]
    """Reads the password from standard input; the registry comes last."""
    copy: tuple[str, ...]
    """`{source}` and `{target}` are references."""

    def login_command(self, registry: str) -> list[str]:
        """Signs in as ECR wants it."""
        return [*self.login, "--username", "AWS", "--password-stdin", registry]

    def copy_command(self, source: str, target: str) -> list[str]:
        """Copies one image."""
        return [part.format(source=source, target=target) for part in self.copy]


# In the order in which they are looked for.
TOOLS = (
    Tool("crane", ("crane", "auth", "login"), ("crane", "copy", "{source}", "{target}")),
    Tool(
        "skopeo",
        ("skopeo", "login"),
        ("skopeo", "copy", "--all", "--preserve-digests", "docker://{source}", "docker://{target}"),
    ),
    Tool(
        "docker",
        ("docker", "login"),
        ("docker", "buildx", "imagetools", "create", "--tag", "{target}", "{source}"),
    ),
)


@dataclass(frozen=True)
class Copy:
    """One image: where it comes from, where it goes, and whether it is there."""

    source: str
    target: str
    there: bool

    @classmethod
    def of(cls, image: str, mirror: ImageMirror, aws: Aws) -> Copy:
        """Asks ECR. Raises CopyError when the repository was not made yet."""
        repository, reference = mirror.repository(image), split_image(image).reference
        client = aws.client("ecr")
        key = "imageDigest" if reference.startswith("sha256:") else "imageTag"
        try:
            found = client.describe_images(repositoryName=repository, imageIds=[{key: reference}])[
                "imageDetails"
            ]
        except client.exceptions.ImageNotFoundException:
            found = []
        except client.exceptions.RepositoryNotFoundException:
            raise CopyError(
                f"the repository {repository} is not there; make it with: cdk deploy {mirror.name}-network"
            ) from None
        # Nothing can be pushed under a digest alone; nodes pull by the digest, whatever the tag.
        tag = reference.replace(":", "-")[:19] if key == "imageDigest" else reference
        return cls(image, f"{mirror.registry}/{repository}:{tag}", bool(found))


@click.command()
@deployment_option
@click.option("--show", is_flag=True, help="Only print the commands; copy nothing.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def mirror(path: Path, show: bool, output: str) -> None:
    """Copy the deployment's images into the account's ECR, where images.mirror: ecr makes nodes pull them.

    Run it after `cdk deploy NAME-network`, which makes the repositories, and before the rest. It uses crane, skopeo
    or docker, whichever is on PATH; without any of them it prints what to run where one is.

    Exit codes: 0 every image is there, or --show; 1 one is not; 2 wrong file, credentials or account.
    """
    deployment = read_deployment(path).deployment
    wanted = ImageMirror.of(deployment)
    if wanted.mode == "none":
        raise UserError(
            f"{path}: images.mirror is none: nodes pull from the images' own registries; set it to ecr"
        )
    if wanted.mode == "pull-through":
        click.echo(json.dumps([]) if output == "json" else "ECR itself fetches each image at its first pull")
        return
    find_caller(deployment)
    aws = Aws(deployment.region)
    copies = [Copy.of(image, wanted, aws) for image in wanted.images]
    tool = next((each for each in TOOLS if shutil.which(each.name)), None)
    missing = [each for each in copies if not each.there]
    if tool and not show and missing:
        _sign_in(tool, wanted.registry, aws)
        for each in missing:
            click.echo(f"copying {each.source}", err=True)
            _run(tool.copy_command(each.source, each.target))
        copies = [Copy.of(image, wanted, aws) for image in wanted.images]
        missing = [each for each in copies if not each.there]
    if output == "json":
        click.echo(json.dumps([vars(each) for each in copies], indent=2))
    else:
        for each in copies:
            click.echo(f"{'there' if each.there else 'not there':9}  {each.target}  from {each.source}")
        if missing and (show or tool is None):
            _print_commands(tool or TOOLS[0], wanted.registry, deployment.region, missing)
    if missing and not show:
        raise CopyError(
            f"{len(missing)} of {len(copies)} images are not in {wanted.registry}; "
            + (
                "none of crane, skopeo and docker is on PATH"
                if tool is None
                else f"{tool.name} said why above"
            )
        )


def _sign_in(tool: Tool, registry: str, aws: Aws) -> None:
    (granted,) = aws.client("ecr").get_authorization_token()["authorizationData"]
    password = b64decode(granted["authorizationToken"]).decode().partition(":")[2]
    _run(tool.login_command(registry), password)


def _run(command: Sequence[str], password: str = "") -> None:
    """Runs a tool with its words on stderr. Raises CopyError when it fails; a password goes by standard input."""
    result: Any = subprocess.run(command, input=password, text=True, stdout=2, check=False)
    if result.returncode:
        raise CopyError(
            f"{shlex.join(command[:2])} ended with exit code {result.returncode}; its reason stands above"
        )


def _print_commands(tool: Tool, registry: str, region: str, missing: Sequence[Copy]) -> None:
    click.echo(f"\nWhere {tool.name} and credentials of the account are:")
    login = shlex.join(tool.login_command(registry))
    click.echo(f"  aws ecr get-login-password --region {region} | {login}")
    for each in missing:
        click.echo(f"  {shlex.join(tool.copy_command(each.source, each.target))}")
