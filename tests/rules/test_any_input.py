"""Rules are total: whatever stands at whatever place of an input, they find faults or none, and never fail."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvrelay.rules import Subject, check_all, document_of
from kvrelay.rules.output import as_github, as_json, as_sarif, as_text
from kvrelay.rules.serve import ServeConfig
from kvrelay.rules.value import Value
from tests.rules.cases_engine import CASES as ENGINE
from tests.rules.cases_manifests import CASES as MANIFESTS
from tests.rules.cases_nodes import CASES as NODES
from tests.rules.cases_ray import CASES as RAY
from tests.rules.cases_transfer import CASES as TRANSFER
from tests.rules.scaffolds import findings_in, patched

CASES = [case for case in (*TRANSFER, *ENGINE, *NODES, *RAY, *MANIFESTS) if case.on != "deployment"]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["{", "'{}'", "1Gi", "9" * 40 + "Gi", "1h", "\x1b[0m", "%\r\n", "kv_both", "NixlConnector"]
    )
)
KEYS = st.text(max_size=8) | st.integers(-3, 3) | st.booleans() | st.none() | st.floats(allow_nan=False)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
thorough = settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))


def _places(tree: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every place of a tree as its container and key."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        found.append((tree, key))
        if isinstance(value, dict | list):
            _places(value, found)
    return found


@thorough
@given(st.data())
def test_anything_at_any_place_never_makes_a_rule_fail(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(CASES))
    inputs = patched(case.on, case.breaks)
    for _ in range(data.draw(st.integers(1, 3))):
        places = _places(inputs, [])
        tree, key = data.draw(st.sampled_from(places))
        if tree is inputs:
            continue
        tree[key] = data.draw(ANYTHING)
    findings = findings_in(inputs)
    for written in (as_text(findings), as_json(findings), as_github(findings), as_sarif(findings, "0")):
        written.encode("utf-8", "surrogatepass")
    assert all("\n" not in str(each) for each in findings)


@pytest.mark.parametrize("value", [[], ["cuda"], {}, {"cuda": 1}], ids=str)
def test_no_rule_fails_where_a_list_or_mapping_stands_at_what_it_reads(value: Any) -> None:
    """Every place that a case of ours sets: drawing places at random met only some of them."""
    for case in CASES:
        for place in {place for change in (case.breaks, *case.keeps) for place in change}:
            findings = findings_in(patched(case.on, case.breaks | {place: value}))
            assert all("\n" not in str(each) for each in findings), (case.rule, place)


@thorough
@given(ANYTHING, ANYTHING)
def test_anything_as_a_whole_never_makes_a_rule_fail(serve: Any, manifest: Any) -> None:
    config = ServeConfig(Value.root(document_of(serve, "serve.yaml")))
    check_all(Subject(None, [config], [document_of(manifest, "manifest.yaml")]))
