"""Reads a deployment file into a Deployment, or says line by line what is wrong with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from kvrelay.errors import InvalidFileError
from kvrelay.settings.deployment import Deployment
from kvrelay.settings.faults import fault_lines
from kvrelay.yaml_source import Document, read_document

# Far more than a deployment needs, and few enough that a message for each wrong one stays readable.
_MOST_VALUES = 2_000
_MOST_BYTES = 256 * 1024


@dataclass(frozen=True)
class DeploymentFile:
    """A deployment with the document it was read from, so that later findings can name a line."""

    deployment: Deployment
    document: Document

    @property
    def serve_config_path(self) -> Path:
        """The serve config; a relative path counts from the deployment file."""
        return Path(self.document.file).parent / self.deployment.serving.serve_config


def read_deployment(path: Path) -> DeploymentFile:
    """Reads and validates. Raises InvalidFileError with one line for each fault."""
    document = read_document(path, _MOST_VALUES, _MOST_BYTES)
    if not isinstance(document.value, dict):
        raise InvalidFileError(
            [f"{document.place()}: is not a mapping of settings; see deployment.yaml of the project"]
        )
    try:
        # JSON mode is strict about types and still turns lists into tuples and words into enums.
        deployment = Deployment.model_validate_json(json.dumps(document.value), strict=True)
    except ValidationError as error:
        raise InvalidFileError(fault_lines(error, Deployment, document)) from None
    return DeploymentFile(deployment, document)
