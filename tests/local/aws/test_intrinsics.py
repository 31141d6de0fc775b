"""Intrinsic functions of the emulated CloudFormation: each with a value, and with what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from kvrelay.local.aws.cloudformation.intrinsics import KNOWN_AFTER_APPLY, Evaluator
from kvrelay.local.aws.cloudformation.template import Template
from kvrelay.local.aws.errors import ValidationError

TEMPLATE = """
Conditions:
  Small: !Equals [!Ref Size, "2"]
  Large: !Not [!Condition Small]
  Both: !And [!Condition Small, !Not [!Condition Large]]
  Any: !Or [!Condition Large, !Equals [a, b]]
Mappings:
  Ports: {web: {http: 80, names: [a, b]}}
Resources:
  Box: {Type: "AWS::SNS::Topic"}
"""


class Known:
    """Resources and the outside world as the tests tell of them."""

    def reference(self, name: str) -> Any:
        return {"Box": "box-1", "Later": KNOWN_AFTER_APPLY}[name]

    def attribute(self, name: str, attribute: str) -> Any:
        return {"Box.Arn": "arn:box", "Box.Outputs.Nested": "n", "Box.List": ["x", "y"]}[
            f"{name}.{attribute}"
        ]

    def import_value(self, export: str) -> str:
        return f"imported {export}"

    def zones(self, region: str) -> list[str]:
        return [f"{region}a", f"{region}b"]

    def dynamic(self, service: str, reference: str) -> str:
        return f"{service} {reference}"


@pytest.fixture
def evaluator() -> Evaluator:
    known = Known()
    parameters = {"Size": "2", "Names": ["a", "b"], "Empty": ""}
    return Evaluator(Template.parse(TEMPLATE), parameters, known, known, "arn:stack", "name", "us-east-2")


@pytest.mark.parametrize(
    ("fragment", "value"),
    [
        ({"Ref": "Size"}, "2"),
        ({"Ref": "Names"}, ["a", "b"]),
        ({"Ref": "Box"}, "box-1"),
        ({"Ref": "AWS::Region"}, "us-east-2"),
        ({"Ref": "AWS::Partition"}, "aws"),
        ({"Ref": "AWS::StackName"}, "name"),
        ({"Ref": "AWS::URLSuffix"}, "amazonaws.com"),
        ({"a": {"Ref": "AWS::NoValue"}, "b": [1, {"Ref": "AWS::NoValue"}]}, {"b": [1]}),
        ({"Fn::GetAtt": ["Box", "Arn"]}, "arn:box"),
        ({"Fn::GetAtt": "Box.Outputs.Nested"}, "n"),
        ({"Fn::Sub": "${Box}-${Box.Arn}-${AWS::Region}-${!Literal}"}, "box-1-arn:box-us-east-2-${Literal}"),
        ({"Fn::Sub": ["${own}${Size}", {"own": {"Ref": "Box"}}]}, "box-12"),
        ({"Fn::Sub": "${Names}"}, "a,b"),
        ({"Fn::Join": ["-", ["a", {"Ref": "Size"}, 3, True]]}, "a-2-3-true"),
        ({"Fn::Join": [",", {"Ref": "Names"}]}, "a,b"),
        ({"Fn::Split": [",", "a,b,,c"]}, ["a", "b", "", "c"]),
        ({"Fn::Select": ["1", {"Fn::Split": [",", "a,b"]}]}, "b"),
        ({"Fn::Select": [0, {"Fn::GetAZs": ""}]}, "us-east-2a"),
        ({"Fn::GetAZs": "eu-west-1"}, ["eu-west-1a", "eu-west-1b"]),
        ({"Fn::Cidr": ["10.0.0.0/16", 3, 8]}, ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24"]),
        ({"Fn::Cidr": ["10.0.0.0/24", 2, "5"]}, ["10.0.0.0/27", "10.0.0.32/27"]),
        ({"Fn::Base64": "hello"}, "aGVsbG8="),
        ({"Fn::FindInMap": ["Ports", "web", "http"]}, 80),
        ({"Fn::FindInMap": ["Ports", "ftp", "http", {"DefaultValue": 21}]}, 21),
        ({"Fn::If": ["Small", "y", "n"]}, "y"),
        ({"Fn::If": ["Large", "y", {"Ref": "Box"}]}, "box-1"),
        ({"Fn::If": ["Both", {"Fn::If": ["Any", 1, 2]}, 3]}, 2),
        ({"Fn::ImportValue": {"Fn::Sub": "${Size}-vpc"}}, "imported 2-vpc"),
        ("{{resolve:ssm:/a/b:1}}", "ssm /a/b:1"),
        ("x{{resolve:secretsmanager:s:SecretString:k}}", "xsecretsmanager s:SecretString:k"),
        ({"Fn::Join": ["", ["{{resolve:ssm:", "a", "}}"]]}, "ssm a"),
        # What an update will make anew is not known yet, and nothing is made up for it.
        ({"Fn::Select": [0, {"Ref": "Later"}]}, KNOWN_AFTER_APPLY),
        ({"Fn::Join": ["-", {"Fn::Split": [",", {"Ref": "Later"}]}]}, KNOWN_AFTER_APPLY),
        # Not functions: keys of a policy's statement, and a mapping of one key.
        ({"Condition": {"StringEquals": {"a": "b"}}}, {"Condition": {"StringEquals": {"a": "b"}}}),
        ({"Name": {"Ref": "Size"}}, {"Name": "2"}),
    ],
    ids=str,
)
def test_a_fragment_has_its_value(evaluator: Evaluator, fragment: Any, value: Any) -> None:
    assert evaluator.value(fragment) == value


@pytest.mark.parametrize(
    ("fragment", "words"),
    [
        ({"Fn::Select": [2, ["a", "b"]]}, "nonexistent value at index 2"),
        ({"Fn::Join": [",", "text"]}, "requires a list"),
        ({"Fn::FindInMap": ["Ports", "ftp", "http"]}, "Unable to get mapping for Ports::ftp::http"),
        ({"Fn::If": ["Maybe", 1, 2]}, "Maybe"),
        ({"Fn::Transform": {"Name": "AWS::Include"}}, "Fn::Transform is not emulated"),
    ],
    ids=str,
)
def test_what_has_no_value_is_refused_in_cloudformations_words(
    evaluator: Evaluator, fragment: Any, words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        evaluator.value(fragment)


def test_an_import_is_remembered_so_that_its_exporter_is_held(evaluator: Evaluator) -> None:
    evaluator.value({"Fn::ImportValue": "vpc"})
    assert evaluator.imports == {"vpc"}


@pytest.mark.parametrize(("condition", "wanted"), [("Small", True), ("Large", False)])
def test_a_block_is_wanted_by_its_condition(evaluator: Evaluator, condition: str, wanted: bool) -> None:
    assert evaluator.is_wanted({"Condition": condition}) is wanted
    assert evaluator.is_wanted({})
