"""Every rule is broken by its smallest fault, alone, and kept by everything near it."""

from __future__ import annotations

from typing import Any

import pytest

from kvrelay.rules import RULES, Rule
from tests.rules.case import Case
from tests.rules.cases_engine import CASES as ENGINE
from tests.rules.cases_manifests import CASES as MANIFESTS
from tests.rules.cases_nodes import CASES as NODES
from tests.rules.cases_ray import CASES as RAY
from tests.rules.cases_transfer import CASES as TRANSFER
from tests.rules.scaffolds import SCAFFOLDS, findings_in, patched

CASES = (*TRANSFER, *ENGINE, *RAY, *NODES, *MANIFESTS)


def _names(case: Case) -> str:
    return f"{case.rule}-{next(iter(case.breaks)).rpartition('/')[2]}"


@pytest.mark.parametrize("scaffold", SCAFFOLDS)
def test_good_inputs_break_no_rule(scaffold: str) -> None:
    assert [str(each) for each in findings_in(patched(scaffold, {}))] == []


@pytest.mark.parametrize("case", CASES, ids=_names)
def test_the_smallest_fault_breaks_its_rule_and_no_other(case: Case) -> None:
    found = findings_in(patched(case.on, case.breaks))
    assert {each.rule for each in found} == {case.rule, *case.also}, [str(each) for each in found]


@pytest.mark.parametrize(
    ("case", "patch"),
    [(case, patch) for case in CASES for patch in case.keeps],
    ids=lambda part: part.rule if isinstance(part, Case) else None,
)
def test_what_is_near_a_fault_breaks_no_rule(case: Case, patch: dict[str, object]) -> None:
    assert [str(each) for each in findings_in(patched(case.on, patch))] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.number)
def test_disabling_a_rule_fails_a_row_of_the_tables(rule: Rule[Any]) -> None:
    others = tuple(each for each in RULES if each is not rule)
    failed = [
        case
        for case in CASES
        if case.rule == rule.number
        and {each.rule for each in findings_in(patched(case.on, case.breaks), others)}
        != {case.rule, *case.also}
    ]
    assert failed, f"no row notices that {rule.number} is gone"
