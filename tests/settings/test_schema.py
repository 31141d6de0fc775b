"""The JSON schema that editors complete deployment.yaml by."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from kvrelay.settings.command import described_schema

PROJECT = Path(__file__).parents[2]


def test_the_schema_file_is_what_the_command_prints() -> None:
    """Renew it: kvrelay schema > deployment.schema.json."""
    assert json.loads((PROJECT / "deployment.schema.json").read_text()) == described_schema()


def test_it_accepts_the_reference_deployment_and_refuses_a_misspelled_key() -> None:
    schema = described_schema()
    deployment = yaml.safe_load((PROJECT / "deployment.yaml").read_text())
    jsonschema.validate(deployment, schema)
    with pytest.raises(jsonschema.ValidationError, match="nmae"):
        jsonschema.validate({"nmae": "kvrelay"}, schema)


def test_settings_are_described_where_editors_look() -> None:
    schema = described_schema()
    described = [
        setting
        for model in (schema, *schema["$defs"].values())
        for setting in model.get("properties", {}).values()
        if "description" in setting
    ]
    assert len(described) >= 20
