"""Synthesized templates, from a cdk.out folder or from the stacks that are deployed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvrelay.errors import UserError

Template = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Synthesis:
    """Templates by stack name."""

    templates: Mapping[str, Template]
    region: str | None = None

    def as_deployed(self) -> Synthesis:
        """The same as GetTemplate would return it: characters outside ASCII come back as question marks."""
        text = json.dumps(dict(self.templates), ensure_ascii=False).encode("ascii", "replace")
        return Synthesis(json.loads(text), self.region)


def read_synthesis(folder: Path) -> Synthesis:
    """The templates of `folder`: a cdk.out, or a checkout that holds one."""
    out = folder if (folder / "manifest.json").is_file() else folder / "cdk.out"
    artifacts = _json(out / "manifest.json").get("artifacts")
    if not isinstance(artifacts, dict):
        raise UserError(f"{out / 'manifest.json'}: has no artifacts; run cdk synth again")
    templates: dict[str, Template] = {}
    region = None
    for name, artifact in artifacts.items():
        if not isinstance(artifact, dict) or artifact.get("type") != "aws:cloudformation:stack":
            continue
        properties = artifact.get("properties", {})
        stack = str(properties.get("stackName", name))
        templates[stack] = _json(out / str(properties.get("templateFile")))
        region = str(artifact.get("environment", "")).rpartition("/")[2] or region
    if not templates:
        raise UserError(f"{out}: holds no stack; run cdk synth there")
    return Synthesis(templates, None if region == "unknown-region" else region)


def read_deployed(stacks: Mapping[str, Template], region: str | None) -> Synthesis:
    """The templates of the stacks of these names in the account of your credentials; a missing one is left out."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        cloudformation: Any = boto3.client("cloudformation", region_name=region)
        templates: dict[str, Template] = {}
        for name in stacks:
            try:
                body = cloudformation.get_template(StackName=name, TemplateStage="Original")["TemplateBody"]
            except ClientError as error:
                if "does not exist" in str(error):
                    continue
                raise
            templates[name] = json.loads(body) if isinstance(body, str) else body
    except (BotoCoreError, ClientError) as error:
        raise UserError(f"the deployed stacks can't be read: {error}") from None
    except ValueError:
        raise UserError(f"stack {name}: its template is not JSON; was it deployed by this app?") from None
    return Synthesis(templates, region)


def _json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except OSError as error:
        raise UserError(f"{file}: can't be read: {error.strerror}; run cdk synth there") from None
    except (ValueError, RecursionError):
        raise UserError(f"{file}: is not JSON; run cdk synth again") from None
    if not isinstance(content, dict):
        raise UserError(f"{file}: is not a mapping; run cdk synth again")
    return content
