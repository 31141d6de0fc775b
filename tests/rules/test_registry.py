"""The rules as a whole: all listed, all told why, none heavy, docs/rules.md as they are."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kvrelay.rules
from kvrelay.rules import RULES, Rule
from kvrelay.rules.documentation import rules_markdown
from kvrelay.rules.registry import FAMILIES

ROOT = Path(__file__).parents[2]


def _numbered(kind: type[Any]) -> set[type[Any]]:
    below = {each for direct in kind.__subclasses__() for each in _numbered(direct)}
    return below | ({kind} if "number" in vars(kind) else set())


def test_every_rule_that_is_written_is_listed_once() -> None:
    for module in pkgutil.iter_modules(kvrelay.rules.__path__):
        importlib.import_module(f"kvrelay.rules.{module.name}")
    listed = [type(rule) for rule in RULES]
    assert len(set(listed)) == len(listed)
    assert set(listed) == _numbered(Rule)


def test_numbers_and_names_are_unique_and_belong_to_a_family() -> None:
    assert len({rule.number for rule in RULES}) == len(RULES) >= 50
    assert len({rule.name() for rule in RULES}) == len(RULES)
    assert {rule.number[:2] for rule in RULES} == set(FAMILIES)
    assert all(re.fullmatch(r"[A-Z]{2}\d{3}", rule.number) for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.number)
def test_a_rule_gives_its_reason_its_source_and_what_to_do(rule: Rule[Any]) -> None:
    assert rule.__doc__, "the docstring is the reason"
    assert rule.__doc__ != Rule.__doc__
    assert rule.__doc__.rstrip().endswith(".")
    assert rule.source
    assert rule.mend
    assert not rule.mend.endswith("."), "messages add the full stop"


def test_the_page_of_rules_is_up_to_date() -> None:
    written = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert written == rules_markdown(), "run: python -m kvrelay.rules.documentation > docs/rules.md"


def test_rules_import_no_cdk_no_boto3_and_no_ray() -> None:
    code = "import kvrelay.rules.command, kvrelay.settings, sys; print('\\n'.join(sys.modules))"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    heavy = {"aws_cdk", "boto3", "botocore", "cdk8s", "jsii", "kubernetes", "ray", "rich", "vllm"}
    assert heavy & {name.partition(".")[0] for name in modules.stdout.split()} == set()
