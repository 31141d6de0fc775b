"""A finding can be accepted beside what it is about, with a reason, and nowhere else."""

from __future__ import annotations

from kvrelay.rules import Finding
from tests.rules.scaffolds import findings_in, patched

ENGINE_ID = "engine_kwargs/kv_transfer_config/engine_id"
SERVE_TEXT = """\
# acknowledge KV001: single use, never restarted
applications:
  - import_path: ray.serve.llm:build_pd_openai_app
    args:
      prefill_config: &prefill
        model_loading_config: {model_id: tiny}
        engine_kwargs: {kv_transfer_config: {kv_connector: NixlConnector, kv_role: kv_producer, engine_id: p}}
      decode_config:
        <<: *prefill
        engine_kwargs: {kv_transfer_config: {kv_connector: NixlConnector, kv_role: kv_consumer}}
"""


def _only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_deployment_accepts_for_all_that_is_checked_with_it() -> None:
    inputs = patched(
        "deployment",
        {f"prefill/{ENGINE_ID}": "p", "deployment/acknowledge": {"KV001": "single use, never restarted"}},
    )
    finding = _only(findings_in(inputs))
    assert (finding.rule, finding.acknowledged) == ("KV001", "single use, never restarted")
    assert not finding.counts


def test_annotation_accepts_for_its_object_and_the_serve_config_inside() -> None:
    reason = {"kvrelay.io/acknowledge-KV001": "single use, never restarted"}
    inputs = patched(
        "service", {f"embedded-prefill/{ENGINE_ID}": "p", "service/metadata/annotations": reason}
    )
    assert _only(findings_in(inputs)).acknowledged == "single use, never restarted"


def test_annotation_does_not_accept_for_another_object() -> None:
    other = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"annotations": {"kvrelay.io/acknowledge-KV001": "single use, never restarted"}},
    }
    inputs = patched("service", {f"embedded-prefill/{ENGINE_ID}": "p", "other": other})
    assert _only(findings_in(inputs)).counts


def test_comment_accepts_for_its_serve_config() -> None:
    assert _only(findings_in({"serve": SERVE_TEXT})).acknowledged == "single use, never restarted"


def test_comment_in_an_embedded_serve_config_accepts_for_it() -> None:
    inputs = patched("service", {"embedded": SERVE_TEXT})
    found = {each.rule: each.acknowledged for each in findings_in(inputs)}
    assert found["KV001"] == "single use, never restarted"


def test_one_word_is_no_reason() -> None:
    found = findings_in({"serve": SERVE_TEXT.replace("single use, never restarted", "ok")})
    assert {each.rule for each in found if each.counts} == {"KV001", "AK002"}


def test_another_rule_stays_a_finding() -> None:
    found = findings_in({"serve": SERVE_TEXT.replace("acknowledge KV001", "acknowledge KV003")})
    assert _only(found).counts
